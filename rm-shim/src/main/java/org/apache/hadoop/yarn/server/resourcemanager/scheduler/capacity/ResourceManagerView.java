package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import com.google.protobuf.Timestamp;
import io.github.yarn_gpu_sched.protocol.v1.Ask;
import io.github.yarn_gpu_sched.protocol.v1.Container;
import io.github.yarn_gpu_sched.protocol.v1.Job;
import io.github.yarn_gpu_sched.protocol.v1.JobAsks;
import io.github.yarn_gpu_sched.protocol.v1.JobEnd;
import io.github.yarn_gpu_sched.protocol.v1.JobEnded;
import io.github.yarn_gpu_sched.protocol.v1.Server;
import io.github.yarn_gpu_sched.protocol.v1.ServerState;
import io.github.yarn_gpu_sched.protocol.v1.VirtualCluster;
import io.github.yarn_gpu_sched.shim.ClusterView;
import io.github.yarn_gpu_sched.shim.Counters;
import io.github.yarn_gpu_sched.shim.LiveContainer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.QueueState;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeImpl;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** Reads the resource manager's own state, in the protocol's words. It keeps nothing. */
final class ResourceManagerView implements ClusterView<NodeId, ApplicationId> {
  private static final int NAME_CHARS_MAX = 1024;
  private static final int DIAGNOSTICS_CHARS_MAX = 4096;
  /** Keys of one job: more would not fit into a message. */
  private static final int ASKS_MAX = 16_384;
  private static final int ASK_COUNT_MAX = 1_000_000;

  private final CapacityScheduler scheduler;
  private final RMContext context;
  private final Departing departing;
  private final Set<ApplicationId> recovered;
  private final Counters counters;

  ResourceManagerView(CapacityScheduler scheduler, Departing departing, Set<ApplicationId> recovered, Counters counters) {
    this.scheduler = scheduler;
    this.context = scheduler.getRMContext();
    this.departing = departing;
    this.recovered = recovered;
    this.counters = counters;
  }

  @Override
  public Collection<NodeId> servers() {
    Set<NodeId> all = new HashSet<>(context.getRMNodes().keySet());
    scheduler.getAllNodes().forEach(node -> all.add(node.getNodeID()));
    return all;
  }

  @Override
  public Collection<ApplicationId> jobs() {
    return new ArrayList<>(scheduler.getSchedulerApplications().keySet());
  }

  @Override
  public ApplicationId jobOf(Container container) {
    return ApplicationId.fromString(container.getJobId());
  }

  @Override
  public Map<String, VirtualCluster> virtualClusters() {
    Map<String, VirtualCluster> all = new TreeMap<>();
    CapacitySchedulerConfiguration conf = scheduler.getConfiguration();
    for (CSQueue queue : List.copyOf(scheduler.getCapacitySchedulerQueueManager().getQueues().values())) {
      if (queue instanceof AbstractLeafQueue) {
        String path = queue.getQueuePath();
        VirtualCluster.Builder one = VirtualCluster.newBuilder().setPath(path).setRunning(queue.getState() == QueueState.RUNNING);
        String key = CapacitySchedulerConfiguration.PREFIX + path + ".";
        Integer quota = Words.absoluteGpus(conf.get(key + CapacitySchedulerConfiguration.CAPACITY));
        Integer maximum = Words.absoluteGpus(conf.get(key + CapacitySchedulerConfiguration.MAXIMUM_CAPACITY));
        if (quota != null) {
          one.setQuotaGpus(quota);
        }
        if (maximum != null) {
          one.setMaximumGpus(maximum);
        }
        all.put(path, one.build());
      }
    }
    return all;
  }

  /** A node that fell ill leaves the scheduler but not the resource manager; a lost one leaves both. */
  @Override
  public Server server(NodeId id) {
    FiCaSchedulerNode node = scheduler.getNode(id);
    RMNode known = node == null ? context.getRMNodes().get(id) : node.getRMNode();
    if (known == null || node == null && known.getState() != NodeState.UNHEALTHY) {
      return null;
    }
    Resource capacity = node == null ? known.getTotalCapability() : node.getTotalResource();
    if (known instanceof RMNodeImpl && ((RMNodeImpl) known).getOriginalTotalCapability() != null) {
      capacity = ((RMNodeImpl) known).getOriginalTotalCapability();  // YARN shrinks a draining node to what runs on it
    }
    return Server.newBuilder().setServerId(id.toString()).setHost(id.getHost().toLowerCase(Locale.ROOT))
        .setRack(Words.cut(known.getRackName(), NAME_CHARS_MAX)).setPartition(node == null ? "" : node.getPartition())
        .setCapacity(Words.resource(capacity)).setState(state(node, known.getState())).build();
  }

  private static ServerState state(FiCaSchedulerNode node, NodeState state) {
    if (state == NodeState.DECOMMISSIONING) {
      return ServerState.SERVER_STATE_DRAINING;
    }
    return node != null && state == NodeState.RUNNING ? ServerState.SERVER_STATE_RUNNING : ServerState.SERVER_STATE_UNHEALTHY;
  }

  @Override
  public Collection<LiveContainer<ApplicationId>> containers(NodeId id) {
    List<LiveContainer<ApplicationId>> all = new ArrayList<>();
    FiCaSchedulerNode node = scheduler.getNode(id);
    if (node != null) {
      node.getCopiedListOfRunningContainers().forEach(one -> all.add(new Live(one, one.completed())));
    }
    if (node != null || context.getRMNodes().containsKey(id)) {
      departing.on(id).forEach(one -> all.add(new Live(one, true)));
    }
    return all;
  }

  @Override
  public Job job(ApplicationId id) {
    RMApp app = context.getRMApps().get(id);
    if (app == null) {
      return null;
    }
    SchedulerApplication<FiCaSchedulerApp> known = scheduler.getSchedulerApplications().get(id);
    FiCaSchedulerApp attempt = known == null ? null : known.getCurrentAppAttempt();
    Job.Builder job = Job.newBuilder().setJobId(id.toString()).setUser(app.getUser())
        .setVirtualCluster(known == null ? app.getQueue() : ((CSQueue) known.getQueue()).getQueuePath())
        .setName(Words.cut(app.getName(), NAME_CHARS_MAX))
        .setSubmitTime(Timestamp.newBuilder().setSeconds(Math.floorDiv(app.getSubmitTime(), 1000L))
            .setNanos((int) Math.floorMod(app.getSubmitTime(), 1000L) * 1_000_000))
        .setAttempt(attempt == null ? 0 : attempt.getApplicationAttemptId().getAttemptId())
        .setActive(attempt != null && active(attempt)).setRecovered(recovered.contains(id))
        .setUnmanaged(app.getApplicationSubmissionContext().getUnmanagedAM());
    if (app.getApplicationTags() != null) {
      app.getApplicationTags().stream().sorted().forEach(job::addTags);
    }
    return job.build();
  }

  /** True once YARN's own limits let the attempt ask: applications' masters, and applications that run at once. */
  static boolean active(FiCaSchedulerApp attempt) {
    return !attempt.isStopped() && attempt.isRunnable() && !attempt.getCSLeafQueue().getPendingApplications().contains(attempt);
  }

  @Override
  public JobAsks asks(ApplicationId id) {
    SchedulerApplication<FiCaSchedulerApp> known = scheduler.getSchedulerApplications().get(id);
    FiCaSchedulerApp attempt = known == null ? null : known.getCurrentAppAttempt();
    if (attempt == null || attempt.isStopped()) {
      return null;
    }
    JobAsks.Builder asks = JobAsks.newBuilder().setJobId(id.toString())
        .setAttempt(attempt.getApplicationAttemptId().getAttemptId());
    boolean master = attempt.isWaitingForAMContainer();
    for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
      Ask ask = ask(attempt, key, master);
      if (ask != null && asks.getAsksCount() < ASKS_MAX) {
        asks.addAsks(ask);
      } else if (ask != null) {
        counters.dropped.increment();
      }
    }
    return asks.build();
  }

  /** Null for what stays with stock handling: changes of a running container, and asks with placement constraints. */
  private static Ask ask(FiCaSchedulerApp attempt, SchedulerRequestKey key, boolean master) {
    AppPlacementAllocator<FiCaSchedulerNode> allocator = attempt.getAppSchedulingInfo().getAppPlacementAllocator(key);
    if (allocator == null || key.getContainerToUpdate() != null || allocator.getSchedulingRequest() != null) {
      return null;
    }
    PendingAsk pending = allocator.getPendingAsk(ResourceRequest.ANY);
    return pending.getCount() <= 0 ? null : Ask.newBuilder().setKey(Words.key(key))
        .setCount(Math.min(ASK_COUNT_MAX, pending.getCount())).setResource(Words.resource(pending.getPerAllocationResource()))
        .setApplicationMaster(master).setPartition(Words.cut(allocator.getPrimaryRequestedNodePartition(), NAME_CHARS_MAX)).build();
  }

  @Override
  public JobEnded ended(ApplicationId id) {
    if (scheduler.getSchedulerApplications().containsKey(id)) {
      return null;
    }
    RMApp app = context.getRMApps().get(id);
    FinalApplicationStatus status = app == null ? null : app.getFinalApplicationStatus();
    JobEnd end = status == FinalApplicationStatus.SUCCEEDED ? JobEnd.JOB_END_SUCCEEDED
        : status == FinalApplicationStatus.KILLED ? JobEnd.JOB_END_KILLED : JobEnd.JOB_END_FAILED;
    return JobEnded.newBuilder().setJobId(id.toString()).setEnd(end)
        .setDiagnostics(app == null ? "" : Words.cut(app.getDiagnostics().toString(), DIAGNOSTICS_CHARS_MAX)).build();
  }

  /** True for the application master's container, also while its attempt has only just got it. */
  private boolean master(RMContainer container) {
    RMApp app = context.getRMApps().get(container.getApplicationAttemptId().getApplicationId());
    RMAppAttempt attempt = app == null ? null : app.getCurrentAppAttempt();
    if (container.isAMContainer() || attempt == null || app.getApplicationSubmissionContext().getUnmanagedAM()
        || !attempt.getAppAttemptId().equals(container.getApplicationAttemptId())) {
      return container.isAMContainer();
    }
    return attempt.getMasterContainer() == null || attempt.getMasterContainer().getId().equals(container.getContainerId());
  }

  Container say(RMContainer container, boolean ending) {
    return new Live(container, ending).say();
  }

  private final class Live implements LiveContainer<ApplicationId> {
    private final RMContainer container;
    private final boolean ending;

    Live(RMContainer container, boolean ending) {
      this.container = container;
      this.ending = ending;
    }

    @Override
    public String containerId() {
      return container.getContainerId().toString();
    }

    @Override
    public ApplicationId job() {
      return container.getApplicationAttemptId().getApplicationId();
    }

    @Override
    public boolean saidBy(Container known) {
      return known.getEnding() == ending && Words.same(known.getResource(), container.getContainer().getResource())
          && (ending || known.getApplicationMaster() == master(container));
    }

    @Override
    public Container say() {
      return Container.newBuilder().setContainerId(containerId()).setJobId(job().toString())
          .setAttempt(container.getContainerId().getApplicationAttemptId().getAttemptId())
          .setServerId(container.getNodeId().toString())
          .setResource(Words.resource(container.getContainer().getResource()))
          .addAllGpuIndices(Words.gpuIndices(container)).setApplicationMaster(master(container))
          .setKey(Words.key(container.getAllocatedSchedulerKey())).setEnding(ending).build();
    }
  }
}
