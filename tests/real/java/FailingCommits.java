package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * The scheduler under test, whose commits fail when a test wants it. The file named by -Dtest.commits holds a line
 * "HOW K": the K-th commit of a container with GPUs, counted from when the line was written, fails. HOW is "refuse" (as
 * if the ResourceManager did not accept it) or "throw". The file is emptied by the failure.
 */
public class FailingCommits extends GangCapacityScheduler {
  private static final Path PLAN = Path.of(System.getProperty("test.commits"));

  private int commits;

  @Override
  public boolean tryCommit(Resource cluster, ResourceCommitRequest request, boolean updatePending) {
    String plan = plan();
    if (plan.isEmpty() || !hasGpus(request)) {
      commits = 0;
      return super.tryCommit(cluster, request, updatePending);
    }
    String[] words = plan.split(" ");
    commits++;
    if (commits < Integer.parseInt(words[1])) {
      return super.tryCommit(cluster, request, updatePending);
    }
    commits = 0;
    write("");
    if (words[0].equals("throw")) {
      throw new IllegalStateException("a commit that throws, as the test asked");
    }
    application(request).decUnconfirmedRes(request.getTotalAllocatedResource()); // as a commit that is not accepted
    return false;
  }

  @SuppressWarnings("unchecked") // the scheduler only ever makes requests of this type
  private static FiCaSchedulerApp application(ResourceCommitRequest request) {
    return ((ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode>) request).getFirstAllocatedOrReservedContainer()
        .getAllocatedOrReservedContainer().getSchedulerApplicationAttempt();
  }

  private static boolean hasGpus(ResourceCommitRequest request) {
    return request.getTotalAllocatedResource().getResourceValue("yarn.io/gpu") > 0;
  }

  private static String plan() {
    try {
      return Files.exists(PLAN) ? Files.readString(PLAN).trim() : "";
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void write(String plan) {
    try {
      Files.writeString(PLAN, plan);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
