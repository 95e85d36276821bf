package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static io.github.yarn_gpu_sched.protocol.v1.OutcomeCode.*;

import io.github.yarn_gpu_sched.protocol.v1.*;
import io.github.yarn_gpu_sched.shim.Committer;
import io.github.yarn_gpu_sched.shim.Counters;
import java.util.*;
import java.util.function.BiConsumer;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppEvent;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppEventType;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.server.utils.BuilderUtils;
import org.apache.hadoop.yarn.util.resource.Resources;

/** Commits gangs, all of their containers or none, each under one hold of the scheduler's lock. */
final class GangCommit implements Committer<NodeId> {
  private static final int ASSIGNMENTS_MAX = 16_384;
  private static final int DIAGNOSTICS_CHARS_MAX = 4096;

  private final GangCapacityScheduler scheduler;
  private final RMContext context;
  private final ResourceManagerView view;
  private final Departing departing;
  private final Counters counters;

  GangCommit(GangCapacityScheduler scheduler, ResourceManagerView view, Departing departing, Counters counters) {
    this.scheduler = scheduler;
    this.context = scheduler.getRMContext();
    this.view = view;
    this.departing = departing;
    this.counters = counters;
  }

  /** Why a decision is not carried out. */
  private static final class Refusal extends Exception {
    private final OutcomeCode code;

    Refusal(OutcomeCode code, String detail) {
      super(detail, null, false, false);
      this.code = code;
    }
  }

  /** What an ask of the gang still wants. */
  private static final class Wanted {
    SchedulerRequestKey key;
    org.apache.hadoop.yarn.api.records.Resource resource;
    String partition;
    int left;
  }

  /** What a server of the gang still has. */
  private static final class Room {
    FiCaSchedulerNode node;
    org.apache.hadoop.yarn.api.records.Resource free;
    Set<Integer> taken;
  }

  private static final class Seat {
    final Wanted ask;
    final FiCaSchedulerNode node;
    final List<Integer> gpuIndices;

    Seat(Wanted ask, FiCaSchedulerNode node, List<Integer> gpuIndices) {
      this.ask = ask;
      this.node = node;
      this.gpuIndices = gpuIndices;
    }
  }

  @Override
  public Outcome decide(Decision decision, BiConsumer<NodeId, Container> made) {
    Outcome.Builder outcome = Outcome.newBuilder().setDecisionId(decision.getDecisionId());
    try {
      if (decision.getEpoch() != context.getEpoch()) {
        throw new Refusal(OUTCOME_CODE_STALE_EPOCH, "epoch is " + context.getEpoch() + ", not " + decision.getEpoch());
      }
      if (decision.hasRefuseJob()) {
        refuse(decision.getRefuseJob());
      } else if (decision.hasPlaceGang()) {
        for (GangContainer one : place(decision.getPlaceGang())) {
          outcome.addContainerIds(one.getContainerId().toString());
          made.accept(one.getNodeId(), view.say(one, false));
        }
      } else {
        throw new Refusal(OUTCOME_CODE_INVALID, "the decision names no action");
      }
      return outcome.setCode(OUTCOME_CODE_COMMITTED).build();
    } catch (Refusal refusal) {
      return outcome.clearContainerIds().setCode(refusal.code).setDetail(refusal.getMessage()).build();
    }
  }

  private void refuse(RefuseJob job) throws Refusal {
    ApplicationId id = applicationId(job.getJobId());
    if (!context.getRMApps().containsKey(id)) {
      throw new Refusal(OUTCOME_CODE_INVALID, "job " + id + " is not known");
    }
    context.getDispatcher().getEventHandler()
        .handle(new RMAppEvent(id, RMAppEventType.KILL, Words.cut(job.getDiagnostics(), DIAGNOSTICS_CHARS_MAX)));
  }

  private static ApplicationId applicationId(String text) throws Refusal {
    try {
      return ApplicationId.fromString(text);
    } catch (IllegalArgumentException e) {
      throw new Refusal(OUTCOME_CODE_INVALID, "\"" + Words.cut(text, 64) + "\" is no application id");
    }
  }

  private List<GangContainer> place(PlaceGang gang) throws Refusal {
    if (context.isWorkPreservingRecoveryEnabled() && !context.isSchedulerReadyForAllocatingContainers()) {
      throw new Refusal(OUTCOME_CODE_NOT_READY, "servers still report what they run after the restart");
    }
    if (gang.getAssignmentsCount() < 1 || gang.getAssignmentsCount() > ASSIGNMENTS_MAX) {
      throw new Refusal(OUTCOME_CODE_INVALID, gang.getAssignmentsCount() + " assignments; 1 to " + ASSIGNMENTS_MAX + " would be right");
    }
    ApplicationAttemptId id = ApplicationAttemptId.newInstance(applicationId(gang.getJobId()), gang.getAttempt());
    Gate gate = scheduler.gate(id);
    if (gate == null) {
      throw new Refusal(OUTCOME_CODE_NO_ATTEMPT, "attempt " + id + " is not there");
    }
    gate.close();
    try {
      scheduler.lock();
      long sinceNs = System.nanoTime();
      try {
        return commit(id, gang, gate);
      } finally {
        scheduler.unlock();
        counters.lockHeld.add(System.nanoTime() - sinceNs);
      }
    } finally {
      gate.open();
      scheduler.asksChanged(id.getApplicationId());
    }
  }

  private List<GangContainer> commit(ApplicationAttemptId id, PlaceGang gang, Gate gate) throws Refusal {
    FiCaSchedulerApp attempt = scheduler.getApplicationAttempt(id);
    if (attempt == null || !attempt.getApplicationAttemptId().equals(id) || !ResourceManagerView.active(attempt)) {
      throw new Refusal(OUTCOME_CODE_NO_ATTEMPT, "attempt " + id + " is ended, replaced or not active");
    }
    boolean master = attempt.isWaitingForAMContainer();
    List<Seat> seats = check(attempt, gang);
    List<GangContainer> made = new ArrayList<>(seats.size());
    for (Seat seat : seats) {
      String fault = null;
      try {
        GangContainer one = container(attempt, seat);
        if (scheduler.tryCommit(scheduler.getClusterResource(), request(attempt, seat, one), true)) {
          made.add(one);
          continue;
        }
      } catch (RuntimeException e) {
        fault = e.toString();
      }
      Refusal why = why(attempt, seat, fault);
      rollBack(made);
      throw why;
    }
    for (GangContainer one : made) {
      if (!master) {
        gate.placed(one.getContainerId(), one.getAllocatedSchedulerKey());
      }
      one.becomeWhole();
    }
    counters.containersCommitted.add(made.size());
    return made;
  }

  private void rollBack(List<GangContainer> made) {
    Collections.reverse(made);
    for (GangContainer one : made) {
      scheduler.completedContainer(one, SchedulerUtils.createAbnormalContainerStatus(one.getContainerId(),
          "Taken back: the gang could not be committed as a whole"), RMContainerEventType.KILL);
    }
    counters.containersRolledBack.add(made.size());
  }

  /** All that the resource manager's own acceptance leaves out, and all that would make it refuse later. */
  private List<Seat> check(FiCaSchedulerApp attempt, PlaceGang gang) throws Refusal {
    Map<RequestKey, Wanted> asks = new HashMap<>();
    Map<String, Room> rooms = new HashMap<>();
    List<Seat> seats = new ArrayList<>(gang.getAssignmentsCount());
    for (Assignment each : gang.getAssignmentsList()) {
      Wanted ask = asks.get(each.getKey());
      if (ask == null) {
        asks.put(each.getKey(), ask = wanted(attempt, each.getKey()));
      }
      if (--ask.left < 0) {
        throw new Refusal(OUTCOME_CODE_NO_ASK, "fewer containers are asked for at " + ask.key);
      }
      if (!Words.same(each.getResource(), ask.resource)) {
        throw new Refusal(OUTCOME_CODE_NO_ASK, "the ask at " + ask.key + " is for " + ask.resource);
      }
      Room room = rooms.get(each.getServerId());
      if (room == null) {
        rooms.put(each.getServerId(), room = room(attempt, each.getServerId()));
      }
      fit(each, ask, room);
      seats.add(new Seat(ask, room.node, each.getGpuIndicesList()));
    }
    return seats;
  }

  private static Wanted wanted(FiCaSchedulerApp attempt, RequestKey key) throws Refusal {
    Wanted wanted = new Wanted();
    wanted.key = Words.key(key);
    AppPlacementAllocator<FiCaSchedulerNode> allocator = attempt.getAppSchedulingInfo().getAppPlacementAllocator(wanted.key);
    if (allocator == null || allocator.getSchedulingRequest() != null) {
      throw new Refusal(OUTCOME_CODE_NO_ASK, "nothing is asked for at " + wanted.key);
    }
    PendingAsk pending = allocator.getPendingAsk(org.apache.hadoop.yarn.api.records.ResourceRequest.ANY);
    wanted.left = pending.getCount();
    wanted.resource = pending.getPerAllocationResource();
    wanted.partition = allocator.getPrimaryRequestedNodePartition();
    return wanted;
  }

  private Room room(FiCaSchedulerApp attempt, String server) throws Refusal {
    Room room = new Room();
    try {
      room.node = scheduler.getNode(NodeId.fromString(server));
    } catch (IllegalArgumentException e) {
      throw new Refusal(OUTCOME_CODE_INVALID, "\"" + Words.cut(server, 256) + "\" is no server id");
    }
    if (room.node == null || room.node.getRMNode().getState() != NodeState.RUNNING) {
      throw new Refusal(OUTCOME_CODE_SERVER_GONE, "server " + server + " is gone or takes no containers");
    }
    if (SchedulerAppUtils.isPlaceBlacklisted(attempt, room.node, GangCapacityScheduler.LOG)) {
      throw new Refusal(OUTCOME_CODE_BLACKLISTED, "the application blacklisted server " + server + " or its rack");
    }
    if (room.node.getReservedContainer() != null) {
      throw new Refusal(OUTCOME_CODE_NO_FIT, "server " + server + " is reserved by stock placement");
    }
    room.free = Resources.clone(room.node.getUnallocatedResource());
    room.taken = new HashSet<>();
    for (RMContainer one : room.node.getCopiedListOfRunningContainers()) {
      room.taken.addAll(Words.gpuIndices(one));
    }
    departing.on(room.node.getNodeID()).forEach(one -> room.taken.addAll(Words.gpuIndices(one)));
    return room;
  }

  private static void fit(Assignment each, Wanted ask, Room room) throws Refusal {
    if (!room.node.getPartition().equals(ask.partition == null ? "" : ask.partition)) {
      throw new Refusal(OUTCOME_CODE_LABEL, "server " + each.getServerId() + " has label \"" + room.node.getPartition()
          + "\", the ask wants \"" + ask.partition + "\"");
    }
    int gpus = each.getResource().getGpus();
    if (each.getGpuIndicesCount() != gpus) {
      throw new Refusal(OUTCOME_CODE_INVALID, each.getGpuIndicesCount() + " GPU indices for " + gpus + " GPUs");
    }
    int last = -1;
    for (int index : each.getGpuIndicesList()) {
      if (index <= last || index >= Words.gpus(room.node.getTotalResource())) {
        throw new Refusal(OUTCOME_CODE_INVALID, "GPU indices " + each.getGpuIndicesList() + " on server " + each.getServerId()
            + " do not ascend or are not there");
      }
      last = index;
      if (!room.taken.add(index)) {
        throw new Refusal(OUTCOME_CODE_NO_FIT, "GPU " + index + " of server " + each.getServerId() + " is held");
      }
    }
    if (!Resources.fitsIn(ask.resource, room.free)) {
      throw new Refusal(OUTCOME_CODE_NO_FIT, "server " + each.getServerId() + " has " + room.free + " left");
    }
    Resources.subtractFrom(room.free, ask.resource);
  }

  private GangContainer container(FiCaSchedulerApp attempt, Seat seat) {
    SchedulerRequestKey key = seat.ask.key;
    GangContainer one = new GangContainer(BuilderUtils.newContainer(null, seat.node.getNodeID(),
        seat.node.getRMNode().getHttpAddress(), seat.ask.resource, key.getPriority(), null, key.getAllocationRequestId()),
        key, attempt.getApplicationAttemptId(), attempt.getUser(), context, seat.ask.partition);
    one.setQueueName(attempt.getCSLeafQueue().getQueuePath());
    if (!seat.gpuIndices.isEmpty()) {
      one.setAllocationTags(Words.tags(seat.gpuIndices));
    }
    attempt.incUnconfirmedRes(seat.ask.resource);
    return one;
  }

  private ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request(FiCaSchedulerApp attempt, Seat seat, RMContainer one) {
    AppSchedulingInfo asks = attempt.getAppSchedulingInfo();
    NodeType type = asks.checkAllocation(NodeType.NODE_LOCAL, seat.node, seat.ask.key) ? NodeType.NODE_LOCAL
        : asks.checkAllocation(NodeType.RACK_LOCAL, seat.node, seat.ask.key) ? NodeType.RACK_LOCAL : NodeType.OFF_SWITCH;
    SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> container =
        new SchedulerContainer<>(attempt, seat.node, one, seat.node.getPartition(), true);
    return new ResourceCommitRequest<>(Collections.singletonList(new ContainerAllocationProposal<>(container, null, null, type, type,
        SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY, seat.ask.resource)), null, null);
  }

  /** Finds out why a single commit failed, as long as what was made before it is still there. */
  private Refusal why(FiCaSchedulerApp attempt, Seat seat, String fault) {
    String server = seat.node.getNodeID().toString();
    if (fault != null) {
      return new Refusal(OUTCOME_CODE_COMMIT_FAILED, "the commit on server " + server + " failed: " + fault);
    }
    if (attempt.getOutstandingAsksCount(seat.ask.key) <= 0) {
      return new Refusal(OUTCOME_CODE_NO_ASK, "the ask at " + seat.ask.key + " was withdrawn");
    }
    if (seat.node.getRMNode().getState() != NodeState.RUNNING) {
      return new Refusal(OUTCOME_CODE_SERVER_GONE, "server " + server + " is gone or takes no containers");
    }
    GangContainer again = container(attempt, seat);
    attempt.decUnconfirmedRes(seat.ask.resource);
    if (!attempt.getCSLeafQueue().accept(scheduler.getClusterResource(), request(attempt, seat, again))) {
      return new Refusal(OUTCOME_CODE_QUEUE_LIMIT, "queue " + attempt.getCSLeafQueue().getQueuePath() + " or a limit of user "
          + attempt.getUser() + " forbids it");
    }
    return new Refusal(OUTCOME_CODE_COMMIT_FAILED, "the commit on server " + server + " was refused");
  }
}
