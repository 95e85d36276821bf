package io.github.yarn_gpu_sched.timed;

import java.util.List;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;

/** CapacityScheduler, each of whose allocate calls is timed. */
public final class TimedStock extends CapacityScheduler {
  private final Timed timed = new Timed();

  @Override
  public Allocation allocate(ApplicationAttemptId attempt, List<ResourceRequest> asks, List<SchedulingRequest> constrained,
      List<ContainerId> release, List<String> blacklist, List<String> unblacklist, ContainerUpdates updates) {
    return timed.time(!asks.isEmpty(),
        () -> super.allocate(attempt, asks, constrained, release, blacklist, unblacklist, updates));
  }
}
