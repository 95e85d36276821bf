package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerAllocationProposal;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * The scheduler under test, whose commits fail when a test wants it. The file named by -Dtest.commits holds a line
 * "HOW K TAKE_BACK": the K-th commit of a container with GPUs, counted from when the line was written, fails. HOW is
 * "refuse" (as if the ResourceManager did not accept it), "throw" (before it has done anything), "half" (where the
 * server is told) or "done" (after all of it was done). TAKE_BACK may be missing, or "late" (the first end of a
 * container afterwards throws when it is done) or "twice" (the first two throw before anything is done). The file is
 * emptied by the failure.
 */
public class FailingCommits extends GangCapacityScheduler {
  private static final Path PLAN = Path.of(System.getProperty("test.commits"));
  private static final Field UNCONFIRMED = unconfirmedField();

  private int commits;
  private String takeBack = "";
  private int endsToFail;

  @Override
  @SuppressWarnings("unchecked") // the scheduler only ever makes requests of this type
  public boolean tryCommit(Resource cluster, ResourceCommitRequest raw, boolean updatePending) {
    ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request = raw;
    String plan = plan();
    if (hasGpus(request)) {
      checkUnconfirmed(request);
    }
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
    takeBack = words.length > 2 ? words[2] : "";
    endsToFail = takeBack.isEmpty() ? 0 : takeBack.equals("late") ? 1 : 2;
    fail(words[0], cluster, request, updatePending);
    return false;
  }

  private static void fail(String how, Resource cluster, ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request,
      boolean updatePending) {
    FiCaSchedulerApp attempt = container(request).getSchedulerApplicationAttempt();
    if (how.equals("refuse")) {
      attempt.decUnconfirmedRes(request.getTotalAllocatedResource()); // as a commit that is not accepted
      return;
    }
    if (how.equals("half")) {
      attempt.apply(cluster, onAServerThatThrows(request), updatePending);
    } else if (how.equals("done")) {
      attempt.apply(cluster, request, updatePending);
    }
    throw new IllegalStateException("a commit that throws, as the test asked");
  }

  @Override
  protected void completedContainerInternal(RMContainer container, ContainerStatus status, RMContainerEventType event) {
    boolean fails = endsToFail > 0 && event == RMContainerEventType.KILL;
    if (fails) {
      endsToFail--;
    }
    if (!fails || takeBack.equals("late")) {
      super.completedContainerInternal(container, status, event);
    }
    if (fails) {
      throw new IllegalStateException("a container's end that throws, as the test asked");
    }
  }

  private static ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> onAServerThatThrows(
      ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request) {
    SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> one = container(request);
    FiCaSchedulerNode server = new FiCaSchedulerNode(one.getSchedulerNode().getRMNode(), false) {
      @Override
      protected synchronized void allocateContainer(RMContainer container, boolean launched) {
        throw new IllegalStateException("a server that throws, as the test asked");
      }
    };
    ContainerAllocationProposal<FiCaSchedulerApp, FiCaSchedulerNode> asked = request.getFirstAllocatedOrReservedContainer();
    return new ResourceCommitRequest<>(List.of(new ContainerAllocationProposal<>(
        new SchedulerContainer<>(one.getSchedulerApplicationAttempt(), server, one.getRmContainer(), one.getNodePartition(), true),
        null, null, asked.getAllocationLocalityType(), asked.getRequestLocalityType(), asked.getSchedulingMode(),
        asked.getAllocatedOrReservedResource())), null, null);
  }

  private static SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> container(
      ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request) {
    return request.getFirstAllocatedOrReservedContainer().getAllocatedOrReservedContainer();
  }

  private static boolean hasGpus(ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request) {
    return request.getTotalAllocatedResource().getResourceValue("yarn.io/gpu") > 0;
  }

  /** What is being committed is all that an application may have unconfirmed: anything else was left by a failure. */
  private static void checkUnconfirmed(ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request) {
    try {
      long memoryMb = ((AtomicLong) UNCONFIRMED.get(container(request).getSchedulerApplicationAttempt())).get();
      if (memoryMb != request.getTotalAllocatedResource().getMemorySize()) {
        throw new AssertionError("unconfirmed is " + memoryMb + " MB at a commit of " + request);
      }
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Field unconfirmedField() {
    try {
      Field field = SchedulerApplicationAttempt.class.getDeclaredField("unconfirmedAllocatedMem");
      field.setAccessible(true);
      return field;
    } catch (NoSuchFieldException e) {
      throw new IllegalStateException(e);
    }
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
