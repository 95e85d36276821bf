package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import com.google.protobuf.Timestamp;
import io.github.yarn_gpu_sched.protocol.v1.*;
import io.github.yarn_gpu_sched.protocol.v1.Container;
import io.github.yarn_gpu_sched.shim.*;
import java.util.*;
import java.util.function.BiConsumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.VersionInfo;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.*;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** Reads the resource manager's own state, in the protocol's words. It keeps nothing. */
final class ResourceManagerView implements ClusterView<NodeId, ApplicationId> {
  private static final int NAME_CHARS_MAX = 1024;
  static final int DIAGNOSTICS_CHARS_MAX = 4096;
  /** Keys of one job: more would not fit into a message. */
  private static final int ASKS_MAX = 16_384;
  /** That of the package; `ygs doctor` compares it with the service's. */
  private static final String VERSION = "0.1.0";
  private static final int ASK_COUNT_MAX = 1_000_000;
  private static final int PLACES_MAX = 4096;
  /** Settings of a queue, and partitions of which it has something. */
  private static final int QUEUE_PARTS_MAX = 64;
  private static final int SETTING_CHARS_MAX = 256;
  private final GangCapacityScheduler scheduler;
  private final RMContext context;
  private final GangCommit commit;

  ResourceManagerView(GangCapacityScheduler scheduler) {
    this.scheduler = scheduler;
    this.context = scheduler.getRMContext();
    this.commit = new GangCommit(scheduler);
  }

  @Override public Outcome decide(Decision decision, BiConsumer<NodeId, Container> made) {
    return commit.decide(decision, one -> made.accept(one.getNodeId(), say(one, false)));
  }

  /** In place of what YARN says of a launch under way; YARN's own words of an end, and of an attempt's failure, go before it. */
  @Override public void explain(Explanation one) {
    try {
      RMApp app = context.getRMApps().get(ApplicationId.fromString(one.getJobId()));
      RMAppAttempt attempt = app == null ? null : app.getCurrentAppAttempt();
      if (attempt == null || attempt.getAppAttemptId().getAttemptId() != one.getAttempt()) return;
      attempt.updateAMLaunchDiagnostics(one.getSentence().isEmpty() ? null : Words.cut(one.getSentence(), DIAGNOSTICS_CHARS_MAX));
    } catch (RuntimeException e) {
      scheduler.counters.add(Counters.Of.DROPPED, 1);
    }
  }

  @Override public Register.Builder register() {
    scheduler.lost.clear();
    return Register.newBuilder().setProtocolVersion(1).setEpoch(context.getEpoch()).setStartTimeMs(ResourceManager.getClusterTimeStamp())
        .setAgent("ygs-rm-shim " + VERSION + " on Hadoop " + VersionInfo.getVersion());
  }

  @Override public Collection<NodeId> servers() { return new ArrayList<>(context.getRMNodes().keySet()); }
  @Override public Collection<ApplicationId> jobs() { return new ArrayList<>(scheduler.getSchedulerApplications().keySet()); }
  @Override public ApplicationId jobOf(Container container) { return ApplicationId.fromString(container.getJobId()); }

  @Override public Map<String, VirtualCluster> virtualClusters() {
    Map<String, VirtualCluster> all = new TreeMap<>();
    Collection<String> labels = context.getNodeLabelManager().getClusterNodeLabelNames();
    for (CSQueue queue : List.copyOf(scheduler.getCapacitySchedulerQueueManager().getQueues().values())) {
      all.put(queue.getQueuePath(), configured(queue.getQueuePath(), scheduler.getConfiguration(), labels)
          .setRunning(queue.getState() == QueueState.RUNNING).setParent(!(queue instanceof AbstractLeafQueue)).build());
    }
    return all;
  }

  /** A queue as it is configured: its settings for the service, and what it has of each partition, cut to what a message may hold. */
  static VirtualCluster.Builder configured(String path, Configuration configuration, Collection<String> labels) {
    String key = CapacitySchedulerConfiguration.PREFIX + path + ".";
    VirtualCluster.Builder one = VirtualCluster.newBuilder().setPath(path);
    new TreeMap<>(configuration.getPropsWithPrefix(key + "ygs.")).forEach((name, value) -> {
      if (!name.isEmpty() && one.getSettingsCount() < QUEUE_PARTS_MAX) one.putSettings(Words.cut(name, SETTING_CHARS_MAX), Words.cut(value, DIAGNOSTICS_CHARS_MAX));
    });
    tell(one, "", key, configuration);
    for (String label : labels) tell(one, label, key + CapacitySchedulerConfiguration.ACCESSIBLE_NODE_LABELS + "." + label + ".", configuration);
    return one;
  }

  /** A queue's capacities of a partition, in the words of its configuration. */
  private static void tell(VirtualCluster.Builder one, String partition, String key, Configuration configuration) {
    String capacity = configuration.getTrimmed(key + CapacitySchedulerConfiguration.CAPACITY, "");
    String maximum = configuration.getTrimmed(key + CapacitySchedulerConfiguration.MAXIMUM_CAPACITY, "");
    if (!(capacity + maximum).isEmpty() && one.getCapacitiesCount() < QUEUE_PARTS_MAX) one.addCapacities(QueueCapacity.newBuilder().setPartition(partition)
        .setCapacity(Words.cut(capacity, DIAGNOSTICS_CHARS_MAX)).setMaximumCapacity(Words.cut(maximum, DIAGNOSTICS_CHARS_MAX)));
  }

  /** A node that fell ill leaves the scheduler but not the resource manager; a lost one leaves both. */
  @Override public Server server(NodeId id) {
    FiCaSchedulerNode node = scheduler.getNode(id);
    RMNode known = node == null ? context.getRMNodes().get(id) : node.getRMNode();
    if (known == null || node == null && known.getState() != NodeState.UNHEALTHY) return null;
    Resource capacity = node == null ? known.getTotalCapability() : node.getTotalResource();
    Resource original = known instanceof RMNodeImpl ? ((RMNodeImpl) known).getOriginalTotalCapability() : null;
    return Server.newBuilder().setServerId(id.toString()).setHost(id.getHost().toLowerCase(Locale.ROOT))
        .setRack(Words.cut(known.getRackName(), NAME_CHARS_MAX)).setPartition(node == null ? "" : node.getPartition())
        .setPartitionShared(node != null && commit.shared(node.getPartition()))
        .setCapacity(Words.resource(original == null ? capacity : original))  // YARN shrinks a draining node to what runs on it
        .setState(known.getState() == NodeState.DECOMMISSIONING ? ServerState.SERVER_STATE_DRAINING
            : node != null && known.getState() == NodeState.RUNNING ? ServerState.SERVER_STATE_RUNNING : ServerState.SERVER_STATE_UNHEALTHY).build();
  }

  @Override public Map<String, Container> containers(NodeId id, Map<String, Container> known) {
    Map<String, Container> all = new HashMap<>();
    FiCaSchedulerNode node = scheduler.getNode(id);
    if (node != null) node.getCopiedListOfRunningContainers().forEach(one -> say(one, one.completed(), known, all));
    if (node == null && !context.getRMNodes().containsKey(id)) scheduler.departing.lost(id);  // YARN tells of no loss of a server that was ill
    scheduler.departing.on(id).forEach(one -> say(one, true, known, all));
    return all;
  }

  private void say(RMContainer one, boolean ending, Map<String, Container> known, Map<String, Container> all) {
    Container before = known.get(one.getContainerId().toString());
    boolean same = before != null && before.getEnding() == ending && (ending || before.getApplicationMaster() == Words.master(context, one))
        && before.getResource().equals(Words.resource(one.getContainer().getResource()));
    all.put(one.getContainerId().toString(), same ? before : say(one, ending));
  }

  private Container say(RMContainer one, boolean ending) {
    ApplicationAttemptId attempt = one.getApplicationAttemptId();
    return Container.newBuilder().setContainerId(one.getContainerId().toString()).setJobId(attempt.getApplicationId().toString())
        .setAttempt(attempt.getAttemptId()).setServerId(one.getNodeId().toString())
        .setResource(Words.resource(one.getContainer().getResource())).addAllGpuIndices(Words.gpuIndices(one))
        .setApplicationMaster(Words.master(context, one)).setKey(Words.key(one.getAllocatedSchedulerKey())).setEnding(ending).build();
  }

  @Override public ContainerReleased released(Container one) {
    return ContainerReleased.newBuilder().setContainerId(one.getContainerId()).setLost(scheduler.lost.remove(one.getContainerId())).build();
  }

  @Override public Job job(ApplicationId id) {
    RMApp app = context.getRMApps().get(id);
    if (app == null) return null;
    SchedulerApplication<FiCaSchedulerApp> known = scheduler.getSchedulerApplications().get(id);
    FiCaSchedulerApp attempt = Words.attempt(scheduler, id);
    Job.Builder job = Job.newBuilder().setJobId(id.toString()).setUser(app.getUser()).setName(Words.cut(app.getName(), NAME_CHARS_MAX))
        .setVirtualCluster(known == null ? app.getQueue() : ((CSQueue) known.getQueue()).getQueuePath())
        .addAllTags(new TreeSet<>(app.getApplicationTags() == null ? Set.of() : app.getApplicationTags()))
        .setSubmitTime(timestamp(app.getSubmitTime()))
        .setAttempt(attempt == null ? 0 : attempt.getApplicationAttemptId().getAttemptId())
        .setActive(attempt != null && active(attempt)).setRecovered(scheduler.recovered(id))
        .setUnmanaged(app.getApplicationSubmissionContext().getUnmanagedAM()).setOneAttempt(!Words.startsAnew(app))
        .setKeepsContainers(app.getApplicationSubmissionContext().getKeepContainersAcrossApplicationAttempts())
        .setPriority(attempt == null || attempt.getPriority() == null ? 0 : attempt.getPriority().getPriority());
    Long expiresMs = app.getApplicationTimeouts().get(ApplicationTimeoutType.LIFETIME);
    return (expiresMs == null ? job : job.setExpireTime(timestamp(expiresMs))).build();
  }

  private static Timestamp timestamp(long ms) {
    return Timestamp.newBuilder().setSeconds(Math.floorDiv(ms, 1000L)).setNanos((int) Math.floorMod(ms, 1000L) * 1_000_000).build();
  }

  /** True once YARN's own limits, on masters and on applications at once, let the attempt ask. */
  static boolean active(FiCaSchedulerApp attempt) {
    return !attempt.isStopped() && attempt.isRunnable() && !attempt.getCSLeafQueue().getPendingApplications().contains(attempt);
  }

  @Override public JobAsks asks(ApplicationId id) {
    FiCaSchedulerApp attempt = Words.attempt(scheduler, id);
    if (attempt == null || attempt.isStopped()) return null;
    JobAsks.Builder asks = JobAsks.newBuilder().setJobId(id.toString()).setAttempt(attempt.getApplicationAttemptId().getAttemptId());
    boolean master = attempt.isWaitingForAMContainer();
    attempt.getBlacklistedNodes().stream().limit(PLACES_MAX).forEach(place -> asks.addBlacklist(Words.place(place)));
    for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
      Ask ask = ask(attempt, key, master);
      if (ask != null && asks.getAsksCount() < ASKS_MAX) asks.addAsks(ask);
      else if (ask != null) scheduler.counters.add(Counters.Of.DROPPED, 1);
    }
    return asks.build();
  }

  /** Null for what stays with stock handling: changes of a running container, and asks with placement constraints. */
  private static Ask ask(FiCaSchedulerApp attempt, SchedulerRequestKey key, boolean master) {
    AppPlacementAllocator<FiCaSchedulerNode> allocator = attempt.getAppSchedulingInfo().getAppPlacementAllocator(key);
    if (allocator == null || key.getContainerToUpdate() != null || allocator.getSchedulingRequest() != null) return null;
    PendingAsk pending = allocator.getPendingAsk(ResourceRequest.ANY);
    if (pending.getCount() <= 0) return null;
    Ask.Builder ask = Ask.newBuilder().setKey(Words.key(key)).setApplicationMaster(master)
        .setCount(Math.min(ASK_COUNT_MAX, pending.getCount())).setResource(Words.resource(pending.getPerAllocationResource()))
        .setPartition(Words.cut(allocator.getPrimaryRequestedNodePartition(), NAME_CHARS_MAX));
    places(allocator.getResourceRequests(), ask);
    return ask.build();
  }

  /** Named hosts and racks. Racks that only lead to a host are left out, and of what is merely preferred the racks beside hosts. */
  private static void places(Map<String, ResourceRequest> requests, Ask.Builder ask) {
    ResourceRequest any = requests.get(ResourceRequest.ANY);
    boolean strict = any != null && !any.getRelaxLocality();
    boolean hosts = requests.values().stream().anyMatch(one -> Words.isHost(one.getResourceName()) && one.getNumContainers() > 0);
    for (ResourceRequest one : requests.values()) {
      boolean named = Words.isHost(one.getResourceName()) || one != any && (strict ? one.getRelaxLocality() : !hosts);
      if (!named || one.getNumContainers() <= 0 || ask.getPlacesCount() >= PLACES_MAX) continue;
      ask.addPlaces(PlaceAsk.newBuilder().setPlace(Words.place(one.getResourceName())).setCount(Math.min(ASK_COUNT_MAX, one.getNumContainers())));
    }
    ask.setStrict(strict && ask.getPlacesCount() > 0);
  }

  @Override public JobEnded ended(ApplicationId id) {
    if (scheduler.getSchedulerApplications().containsKey(id)) return null;
    RMApp app = context.getRMApps().get(id);
    FinalApplicationStatus status = app == null ? FinalApplicationStatus.FAILED : app.getFinalApplicationStatus();
    return JobEnded.newBuilder().setJobId(id.toString())
        .setEnd(status == FinalApplicationStatus.SUCCEEDED ? JobEnd.JOB_END_SUCCEEDED
            : status == FinalApplicationStatus.KILLED ? JobEnd.JOB_END_KILLED : JobEnd.JOB_END_FAILED)
        .setDiagnostics(app == null ? "" : Words.cut(app.getDiagnostics().toString(), DIAGNOSTICS_CHARS_MAX)).build();
  }
}
