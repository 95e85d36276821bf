package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static io.github.yarn_gpu_sched.protocol.v1.OutcomeCode.*;
import static org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.Refusal.*;

import io.github.yarn_gpu_sched.protocol.v1.*;
import io.github.yarn_gpu_sched.shim.Counters;
import java.io.IOException;
import java.util.*;
import java.util.function.*;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.server.utils.BuilderUtils;
import org.apache.hadoop.yarn.util.resource.Resources;
import org.slf4j.*;

/** Commits gangs, all of their containers or none, each under one hold of the scheduler's lock. */
final class GangCommit {
  private static final Logger LOG = LoggerFactory.getLogger(GangCommit.class);
  private static final int ASSIGNMENTS_MAX = 16_384;
  private final GangCapacityScheduler scheduler;
  private final RMContext context;
  private final Orders orders;
  private boolean rehearsed;

  GangCommit(GangCapacityScheduler scheduler) {
    this.scheduler = scheduler;
    this.context = scheduler.getRMContext();
    this.orders = new Orders(scheduler);
  }

  Outcome decide(Decision decision, Consumer<GangContainer> made) {
    Outcome.Builder outcome = Outcome.newBuilder().setDecisionId(decision.getDecisionId());
    try {
      require(decision.getEpoch() == context.getEpoch(), OUTCOME_CODE_STALE_EPOCH, "the epoch is %d", context.getEpoch());
      require(decision.getActionCase() != Decision.ActionCase.ACTION_NOT_SET, OUTCOME_CODE_INVALID, "the decision names no action");
      orders.carryOut(decision);
      for (GangContainer one : decision.hasPlaceGang() ? place(decision.getPlaceGang()) : List.<GangContainer>of()) {
        outcome.addContainerIds(one.getContainerId().toString());
        made.accept(one);
      }
      return outcome.setCode(OUTCOME_CODE_COMMITTED).build();
    } catch (Refusal refusal) {
      return outcome.setCode(refusal.code).setDetail(refusal.getMessage()).build();
    }
  }

  private List<GangContainer> place(PlaceGang gang) throws Refusal {
    boolean ready = !context.isWorkPreservingRecoveryEnabled() || context.isSchedulerReadyForAllocatingContainers();
    require(ready, OUTCOME_CODE_NOT_READY, "after its restart the resource manager waits for what the servers run");
    int size = gang.getAssignmentsCount();
    require(size >= 1 && size <= ASSIGNMENTS_MAX, OUTCOME_CODE_INVALID, "%d assignments, 1 to %d would be right", size, ASSIGNMENTS_MAX);
    ApplicationId job = parsed(gang.getJobId(), "application", ApplicationId::fromString);
    ApplicationAttemptId id = ApplicationAttemptId.newInstance(job, gang.getAttempt());
    Gate gate = scheduler.gate(id);
    require(gate != null, OUTCOME_CODE_NO_ATTEMPT, "attempt %s is not there", id);
    rehearse(id, gang);
    gate.close();
    scheduler.lock().lock();
    long sinceNs = System.nanoTime();
    try {
      return commit(id, gang, gate);
    } finally {
      scheduler.lock().unlock();
      scheduler.counters.lockHeld(System.nanoTime() - sinceNs);
      gate.open();
      scheduler.changed(job);
    }
  }

  /** All of the first gang's commit that changes nothing, so that its classes are not loaded under the scheduler's lock. */
  private void rehearse(ApplicationAttemptId id, PlaceGang gang) {
    if (rehearsed) return;
    try {
      FiCaSchedulerApp attempt = scheduler.getApplicationAttempt(id);
      for (GangContainer one : check(attempt, gang)) attempt.accept(scheduler.getClusterResource(), request(attempt, one), true);
      CapacitySchedulerMetrics.getMetrics();
      rehearsed = true;
    } catch (Refusal | RuntimeException e) {
      LOG.debug("The rehearsal ended early", e);  // whatever is wrong, the commit says so
    }
  }

  private List<GangContainer> commit(ApplicationAttemptId id, PlaceGang gang, Gate gate) throws Refusal {
    FiCaSchedulerApp attempt = scheduler.getApplicationAttempt(id);
    boolean current = attempt != null && attempt.getApplicationAttemptId().equals(id) && ResourceManagerView.active(attempt);
    require(current, OUTCOME_CODE_NO_ATTEMPT, "attempt %s is ended, replaced or not active", id);
    boolean master = attempt.isWaitingForAMContainer();
    List<GangContainer> gangContainers = check(attempt, gang);
    for (int made = 0; made < gangContainers.size(); made++) {
      Refusal fault = commit(attempt, gangContainers.get(made));
      if (fault == null) continue;
      rollBack(gangContainers.subList(0, made));
      throw fault;
    }
    for (GangContainer one : master ? List.<GangContainer>of() : gangContainers) gate.placed(one);
    for (GangContainer one : gangContainers) one.becomeWhole();
    scheduler.counters.add(Counters.Of.CONTAINERS_COMMITTED, gangContainers.size());
    return gangContainers;
  }

  /** Whatever is thrown, the others are taken back as well. */
  private void rollBack(List<GangContainer> made) {
    for (GangContainer one : made) {
      if (takenBack(one) || takenBack(one)) {
        scheduler.counters.add(Counters.Of.CONTAINERS_ROLLED_BACK, 1);
      } else {
        one.becomeWhole();  // it stays, as a container like any other: its master gets it, and the service hears of it
        scheduler.changed(one.getNodeId());
      }
    }
  }

  private boolean takenBack(GangContainer one) {
    try {
      scheduler.completedContainer(one, SchedulerUtils.createAbnormalContainerStatus(one.getContainerId(),
          "Taken back: the gang could not be committed as a whole"), RMContainerEventType.KILL);
      scheduler.lost.remove(one.getContainerId().toString());  // nobody was told that it was there
      return true;
    } catch (RuntimeException e) {
      LOG.error("Taking back container {} failed", one.getContainerId(), e);
      return false;
    }
  }

  /** All that the resource manager's own acceptance leaves out, and all that would make it refuse half-way. */
  private List<GangContainer> check(FiCaSchedulerApp attempt, PlaceGang gang) throws Refusal {
    Map<SchedulerRequestKey, Integer> answered = new HashMap<>();
    Map<FiCaSchedulerNode, Resource> free = new HashMap<>();
    Map<FiCaSchedulerNode, Set<Integer>> taken = new HashMap<>();
    List<GangContainer> containers = new ArrayList<>(gang.getAssignmentsCount());
    for (Assignment each : gang.getAssignmentsList()) {
      SchedulerRequestKey key = Words.key(each.getKey());
      AppPlacementAllocator<FiCaSchedulerNode> allocator = attempt.getAppSchedulingInfo().getAppPlacementAllocator(key);
      require(allocator != null && allocator.getSchedulingRequest() == null, OUTCOME_CODE_NO_ASK, "nothing is asked for at %s", key);
      int count = allocator.getPendingAsk(ResourceRequest.ANY).getCount();
      Resource resource = allocator.getPendingAsk(ResourceRequest.ANY).getPerAllocationResource();
      require(answered.merge(key, 1, Integer::sum) <= count, OUTCOME_CODE_NO_ASK, "%d containers are asked for at %s", count, key);
      require(Words.resource(resource).equals(each.getResource()), OUTCOME_CODE_NO_ASK, "the ask at %s is for %s", key, resource);
      FiCaSchedulerNode node = node(attempt, each.getServerId(), allocator.getPrimaryRequestedNodePartition());
      takeGpus(each, node, taken.computeIfAbsent(node, this::gpusHeld));
      Resource left = free.computeIfAbsent(node, n -> Resources.clone(n.getUnallocatedResource()));
      require(Resources.fitsIn(resource, left), OUTCOME_CODE_NO_FIT, "server %s has only %s left", each.getServerId(), left);
      Resources.subtractFrom(left, resource);
      containers.add(container(attempt, key, node, resource, each.getGpuIndicesList()));
    }
    return containers;
  }

  private FiCaSchedulerNode node(FiCaSchedulerApp attempt, String server, String partition) throws Refusal {
    FiCaSchedulerNode node = scheduler.getNode(parsed(server, "server", NodeId::fromString));
    boolean running = node != null && node.getRMNode().getState() == NodeState.RUNNING;
    require(running, OUTCOME_CODE_SERVER_GONE, "server %s is gone or takes no containers", server);
    String asked = partition == null ? "" : partition;
    boolean labelled = node.getPartition().equals(asked) || asked.isEmpty() && shared(node.getPartition());
    require(labelled, OUTCOME_CODE_LABEL, "server %s has label \"%s\", asked for is \"%s\"", server, node.getPartition(), asked);
    boolean blacklisted = attempt.isPlaceBlacklisted(node.getNodeName()) || attempt.isPlaceBlacklisted(node.getRackName());
    require(!blacklisted, OUTCOME_CODE_BLACKLISTED, "the application blacklisted server %s or its rack", server);
    require(node.getReservedContainer() == null, OUTCOME_CODE_NO_FIT, "server %s is reserved by stock placement", server);
    return node;
  }

  /** Whether a partition lends what it does not use to asks without a label. */
  boolean shared(String partition) {
    try {
      return !partition.isEmpty() && !context.getNodeLabelManager().isExclusiveNodeLabel(partition);
    } catch (IOException e) {
      return false;  // the label is just being removed
    }
  }

  private Set<Integer> gpusHeld(FiCaSchedulerNode node) {
    Set<Integer> held = new HashSet<>();
    node.getCopiedListOfRunningContainers().forEach(one -> held.addAll(Words.gpuIndices(one)));
    scheduler.departing.on(node.getNodeID()).forEach(one -> held.addAll(Words.gpuIndices(one)));
    return held;
  }

  private static void takeGpus(Assignment each, FiCaSchedulerNode node, Set<Integer> taken) throws Refusal {
    List<Integer> indices = each.getGpuIndicesList();
    boolean valid = indices.size() == each.getResource().getGpus() && indices.equals(new ArrayList<>(new TreeSet<>(indices)))
        && (indices.isEmpty() || indices.get(0) >= 0 && indices.get(indices.size() - 1) < 64);  // a slot: YARN may count fewer cards than there are slots
    require(valid, OUTCOME_CODE_INVALID, "GPU indices %s don't ascend from 0 to 63, or are not as many as %d GPUs of server %s", indices,
        each.getResource().getGpus(), each.getServerId());
    for (int index : indices) require(taken.add(index), OUTCOME_CODE_NO_FIT, "GPU %d of server %s is held", index, each.getServerId());
  }

  private GangContainer container(FiCaSchedulerApp attempt, SchedulerRequestKey key, FiCaSchedulerNode node,
      Resource resource, List<Integer> gpuIndices) {
    Container one = BuilderUtils.newContainer(null, node.getNodeID(), node.getRMNode().getHttpAddress(), resource,
        key.getPriority(), null, key.getAllocationRequestId());
    if (!gpuIndices.isEmpty()) one.setAllocationTags(Words.tags(gpuIndices));  // else what ends unseen would leave its tags with YARN
    String partition = attempt.getAppSchedulingInfo().getAppPlacementAllocator(key).getPrimaryRequestedNodePartition();
    return new GangContainer(one, key, attempt, node, context, partition == null ? "" : partition);
  }

  /** Null when it is committed. */
  private Refusal commit(FiCaSchedulerApp attempt, GangContainer one) {
    ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request = request(attempt, one);
    AbstractLeafQueue queue = attempt.getCSLeafQueue();
    Resource used = Resources.clone(queue.getQueueResourceUsage().getUsed(one.node.getPartition()));
    attempt.incUnconfirmedRes(one.getContainer().getResource());
    try {
      if (scheduler.tryCommit(scheduler.getClusterResource(), request, true)) return null;
    } catch (RuntimeException e) {
      attempt.decUnconfirmedRes(one.getContainer().getResource());  // as tryCommit does unless it throws
      if (attempt.getLiveContainers().contains(one)) finishAndTakeBack(one, queue, request, used);
      return new Refusal(OUTCOME_CODE_COMMIT_FAILED, "the commit on server %s failed: %s", one.getNodeId(), e);
    }
    return queue.accept(scheduler.getClusterResource(), request)
        ? new Refusal(OUTCOME_CODE_COMMIT_FAILED, "the commit on server %s was refused", one.getNodeId())
        : new Refusal(OUTCOME_CODE_QUEUE_LIMIT, "queue %s, or its limit for user %s, is full", queue.getQueuePath(), attempt.getUser());
  }

  /** Does what a commit that threw half-way has left undone: server and queue must not lose by the end what they never got. */
  private void finishAndTakeBack(GangContainer one, AbstractLeafQueue queue,
      ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request, Resource used) {
    try {
      if (!one.node.getCopiedListOfRunningContainers().contains(one)) one.node.allocateContainer(one);
      if (used.equals(queue.getQueueResourceUsage().getUsed(one.node.getPartition()))) queue.apply(scheduler.getClusterResource(), request);
    } catch (RuntimeException e) {
      LOG.error("Container {} was committed by halves, and could not be finished either", one.getContainerId(), e);
    }
    rollBack(List.of(one));
  }

  private static ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request(FiCaSchedulerApp attempt, GangContainer one) {
    AppSchedulingInfo asks = attempt.getAppSchedulingInfo();
    SchedulerRequestKey key = one.getAllocatedSchedulerKey();
    NodeType type = asks.checkAllocation(NodeType.NODE_LOCAL, one.node, key) ? NodeType.NODE_LOCAL
        : asks.checkAllocation(NodeType.RACK_LOCAL, one.node, key) ? NodeType.RACK_LOCAL : NodeType.OFF_SWITCH;
    SchedulingMode mode = one.node.getPartition().equals(one.getNodeLabelExpression()) ? SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY
        : SchedulingMode.IGNORE_PARTITION_EXCLUSIVITY;
    return new ResourceCommitRequest<>(List.of(new ContainerAllocationProposal<>(
        new SchedulerContainer<>(attempt, one.node, one, one.node.getPartition(), true), null, null, type, type,
        mode, one.getContainer().getResource())), null, null);
  }
}
