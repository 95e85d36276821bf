package io.github.yarn_gpu_sched.load;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.api.protocolrecords.NMContainerStatus;

/**
 * The containers of one simulated NodeManager, as its heartbeats tell them.
 *
 * <p>A container is reported as running from its launch, and once as complete after its time is over or the
 * ResourceManager ordered its end; only that report makes the ResourceManager give its resources back.
 */
final class FakeServer {
  private static final class Running {
    final Container container;
    final long since_ms;
    final long ends_ns;
    int exit_status = ContainerExitStatus.SUCCESS;
    boolean stopped;

    Running(Container container, long since_ms, long ends_ns) {
      this.container = container;
      this.since_ms = since_ms;
      this.ends_ns = ends_ns;
    }

    boolean complete(long now_ns) {
      return stopped || now_ns - ends_ns >= 0;
    }
  }

  private final NodeId node_id;
  private final Map<ContainerId, Running> containers = new LinkedHashMap<>();

  FakeServer(NodeId node_id) {
    this.node_id = node_id;
  }

  NodeId nodeId() {
    return node_id;
  }

  synchronized void launch(Container container, long runs_ms) {
    long ends_ns = System.nanoTime() + runs_ms * 1_000_000;
    containers.put(container.getId(), new Running(container, System.currentTimeMillis(), ends_ns));
  }

  synchronized int containers() {
    return containers.size();
  }

  /** What the next heartbeat says; complete ones leave the list when {@link #delivered} confirms it. */
  synchronized List<ContainerStatus> statuses(long now_ns) {
    List<ContainerStatus> statuses = new ArrayList<>(containers.size());
    for (Map.Entry<ContainerId, Running> entry : containers.entrySet()) {
      Running running = entry.getValue();
      boolean complete = running.complete(now_ns);
      statuses.add(ContainerStatus.newInstance(
          entry.getKey(), complete ? ContainerState.COMPLETE : ContainerState.RUNNING, "",
          complete ? running.exit_status : ContainerExitStatus.INVALID));
    }
    return statuses;
  }

  /** The ResourceManager has answered a heartbeat with these statuses: it knows now which ones are complete. */
  synchronized void delivered(List<ContainerStatus> statuses) {
    for (ContainerStatus status : statuses) {
      if (status.getState() == ContainerState.COMPLETE) {
        containers.remove(status.getContainerId());
      }
    }
  }

  /** The ResourceManager orders the end of these containers; unknown ones were never launched here. */
  synchronized void stop(Collection<ContainerId> ids) {
    for (ContainerId id : ids) {
      Running running = containers.get(id);
      if (running != null) {
        running.stopped = true;
        running.exit_status = ContainerExitStatus.KILLED_BY_RESOURCEMANAGER;
      }
    }
  }

  /** What a registration tells of containers that outlived the ResourceManager, with the tags that name their GPUs. */
  synchronized List<NMContainerStatus> recovered(long now_ns) {
    List<NMContainerStatus> statuses = new ArrayList<>(containers.size());
    for (Running running : containers.values()) {
      Container container = running.container;
      boolean complete = running.complete(now_ns);
      NMContainerStatus status = NMContainerStatus.newInstance(
          container.getId(), container.getVersion(), complete ? ContainerState.COMPLETE : ContainerState.RUNNING,
          container.getResource(), "", complete ? running.exit_status : ContainerExitStatus.INVALID,
          container.getPriority(), running.since_ms, "", ExecutionType.GUARANTEED,
          container.getAllocationRequestId());
      status.setAllocationTags(container.getAllocationTags());
      statuses.add(status);
    }
    return statuses;
  }
}
