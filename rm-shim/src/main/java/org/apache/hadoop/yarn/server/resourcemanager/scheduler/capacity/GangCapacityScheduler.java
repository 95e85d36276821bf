package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.github.yarn_gpu_sched.protocol.v1.Register;
import io.github.yarn_gpu_sched.shim.*;
import java.io.IOException;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.VersionInfo;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.*;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.CandidateNodeSet;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.CandidateNodeSetUtils;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * CapacityScheduler whose placement on servers with GPUs is the scheduling service's. All else stays Hadoop's. What runs on
 * the resource manager's threads here marks what changed and returns; it never waits for the service and never throws.
 */
public class GangCapacityScheduler extends CapacityScheduler {
  static final Logger LOG = LoggerFactory.getLogger(GangCapacityScheduler.class);

  private final Counters counters = new Counters();
  private final Marks<NodeId, ApplicationId> marks = new Marks<>(counters);
  private final Departing departing = new Departing();
  private final Map<ApplicationAttemptId, Gate> gates = new ConcurrentHashMap<>();
  private final Set<ApplicationId> recovered = ConcurrentHashMap.newKeySet();
  private final StockAsks stockAsks = new StockAsks(this);
  private final AtomicLong completions = new AtomicLong();
  private Settings settings;
  private Exchange<NodeId, ApplicationId> exchange;

  @Override
  public void serviceInit(Configuration conf) throws Exception {
    settings = Settings.read(conf);
    super.serviceInit(conf);
    Settings.refuse(conf, getConfiguration());
  }

  @Override
  public void serviceStart() throws Exception {
    super.serviceStart();
    QuietLogs.install();
    counters.register();
    ResourceManagerView view = new ResourceManagerView(this, departing, recovered, counters);
    exchange = new Exchange<>(settings, this::register, view, new GangCommit(this, view, departing, counters), marks, counters);
    exchange.start();
  }

  @Override
  public void serviceStop() throws Exception {
    if (exchange != null) {
      exchange.stop();
      counters.unregister();
    }
    super.serviceStop();
  }

  private Register.Builder register() {
    return Register.newBuilder().setProtocolVersion(1).setClusterId(settings.clusterId).setEpoch(rmContext.getEpoch())
        .setStartTimeMs(ResourceManager.getClusterTimeStamp()).setAgent("ygs-rm-shim on Hadoop " + VersionInfo.getVersion());
  }

  @Override
  public void reinitialize(Configuration conf, RMContext context) throws IOException {
    super.reinitialize(conf, context);
    marks.queues();
    getSchedulerApplications().keySet().forEach(marks::job);
    marks.hurry();
  }

  Gate gate(ApplicationAttemptId attempt) {
    return gates.get(attempt);
  }

  void lock() {
    writeLock.lock();
  }

  void unlock() {
    writeLock.unlock();
  }

  void asksChanged(ApplicationId job) {
    marks.job(job);
    marks.hurry();
  }

  /** Servers without GPUs stay with stock placement, which is asked only while it could place something there. */
  @Override
  CSAssignment allocateContainersToNode(CandidateNodeSet<FiCaSchedulerNode> candidates, boolean withNodeHeartbeat) {
    FiCaSchedulerNode node = CandidateNodeSetUtils.getSingleNode(candidates);
    if (node == null || Words.gpus(node.getTotalResource()) > 0 || node.getReservedContainer() == null && !stockAsks.any()) {
      return null;
    }
    int before = node.getNumContainers();
    CSAssignment assignment = super.allocateContainersToNode(candidates, withNodeHeartbeat);
    if (node.getNumContainers() != before) {
      marks.server(node.getNodeID());
      marks.hurry();
    }
    return assignment;
  }

  @Override
  public boolean attemptAllocationOnNode(SchedulerApplicationAttempt attempt, SchedulingRequest request, SchedulerNode node) {
    return Words.gpus(node.getTotalResource()) == 0 && super.attemptAllocationOnNode(attempt, request, node);
  }

  @Override
  public void handle(SchedulerEvent event) {
    switch (event.getType()) {
      case NODE_ADDED:
        if (((NodeAddedSchedulerEvent) event).getContainerReports() != null) {
          departing.gone(((NodeAddedSchedulerEvent) event).getAddedRMNode().getNodeID());
        }
        break;
      case APP_ATTEMPT_ADDED:
        gates.put(((AppAttemptAddedSchedulerEvent) event).getApplicationAttemptId(), new Gate());
        break;
      case APP_ADDED:
        if (((AppAddedSchedulerEvent) event).getIsAppRecovering()) {
          recovered.add(((AppAddedSchedulerEvent) event).getApplicationId());
        }
        break;
      default:
        break;
    }
    super.handle(event);
    mark(event);
  }

  private void mark(SchedulerEvent event) {
    switch (event.getType()) {
      case NODE_ADDED:
        marks.server(((NodeAddedSchedulerEvent) event).getAddedRMNode().getNodeID());
        break;
      case NODE_REMOVED:
        marks.server(((NodeRemovedSchedulerEvent) event).getRemovedRMNode().getNodeID());
        stockAsks.allMayAsk();
        break;
      case NODE_RESOURCE_UPDATE:
        marks.server(((NodeResourceUpdateSchedulerEvent) event).getRMNode().getNodeID());
        break;
      case NODE_LABELS_UPDATE:
        ((NodeLabelsUpdateSchedulerEvent) event).getUpdatedNodeToLabels().keySet().forEach(marks::server);
        break;
      case APP_ADDED:
        marks.job(((AppAddedSchedulerEvent) event).getApplicationId());
        break;
      case APP_REMOVED:
        recovered.remove(((AppRemovedSchedulerEvent) event).getApplicationID());
        marks.job(((AppRemovedSchedulerEvent) event).getApplicationID());
        break;
      case APP_ATTEMPT_ADDED:
        marks.job(((AppAttemptAddedSchedulerEvent) event).getApplicationAttemptId().getApplicationId());
        break;
      case APP_ATTEMPT_REMOVED:
        ApplicationAttemptId attempt = ((AppAttemptRemovedSchedulerEvent) event).getApplicationAttemptID();
        gates.remove(attempt);
        marks.job(attempt.getApplicationId());
        break;
      default:
        return;
    }
    marks.hurry();
  }

  @Override
  public String moveApplication(ApplicationId job, String queue) throws org.apache.hadoop.yarn.exceptions.YarnException {
    String moved = super.moveApplication(job, queue);
    marks.job(job);
    marks.hurry();
    return moved;
  }

  @Override
  protected void nodeUpdate(RMNode node) {
    long before = completions.get();
    super.nodeUpdate(node);
    NodeId id = node.getNodeID();
    boolean departed = departing.any(id) && departing.reported(id, node.getContainersToCleanUp());
    if (departed || completions.get() != before || node.getState() != NodeState.RUNNING) {
      marks.server(id);
    }
    if (departed || completions.get() != before) {
      marks.hurry();
    }
  }

  @Override
  protected void containerLaunchedOnNode(ContainerId container, SchedulerNode node) {
    if (node != null) {
      departing.runs(node.getNodeID(), container);
    }
    super.containerLaunchedOnNode(container, node);
  }

  /** Called for each end of a container, also where Hadoop bypasses completedContainer. */
  @Override
  protected void completedContainerInternal(RMContainer container, ContainerStatus status, RMContainerEventType event) {
    if (event != RMContainerEventType.FINISHED && mayStillRun(container, status)) {
      departing.add(container, container.getState() == RMContainerState.RUNNING);
    }
    super.completedContainerInternal(container, status, event);
    completions.incrementAndGet();
    marks.server(container.getNodeId());
    marks.job(container.getApplicationAttemptId().getApplicationId());
    marks.hurry();
  }

  /** True for a container that is struck off its server's list at once, whether the server runs it or not. */
  private boolean mayStillRun(RMContainer container, ContainerStatus status) {
    return container.getState() == RMContainerState.ACQUIRED || container.getState() == RMContainerState.RUNNING
        && SchedulerUtils.LOST_CONTAINER.equals(status.getDiagnostics()) && rmContext.getRMNodes().containsKey(container.getNodeId());
  }

  @Override
  public void completedContainer(RMContainer container, ContainerStatus status, RMContainerEventType event) {
    super.completedContainer(container, status, event);
    if (event == RMContainerEventType.FINISHED && departing.ended(status.getContainerId())) {
      completions.incrementAndGet();
    }
    if (container != null) {  // a killed container that nobody had pulled has brought its ask back by now
      stockAsks.mayAsk(container.getApplicationAttemptId());
      marks.job(container.getApplicationAttemptId().getApplicationId());
    }
  }

  @Override
  public Allocation allocate(ApplicationAttemptId id, List<ResourceRequest> asks, List<SchedulingRequest> constrained,
      List<ContainerId> release, List<String> blacklist, List<String> unblacklist, ContainerUpdates updates) {
    Allocation reply = allocateGated(id, asks, constrained, release, blacklist, unblacklist, updates);
    if (!asks.isEmpty() || constrained != null && !constrained.isEmpty()) {
      stockAsks.mayAsk(id);
      marks.job(id.getApplicationId());
      marks.hurry();
    }
    return reply;
  }

  private Allocation allocateGated(ApplicationAttemptId id, List<ResourceRequest> asks, List<SchedulingRequest> constrained,
      List<ContainerId> release, List<String> blacklist, List<String> unblacklist, ContainerUpdates updates) {
    Gate gate = gates.get(id);
    FiCaSchedulerApp attempt = gate == null ? null : getApplicationAttempt(id);
    if (attempt == null || attempt.isWaitingForAMContainer()) {  // the resource manager itself pulls a master, one container
      return super.allocate(id, asks, constrained, release, blacklist, unblacklist, updates);
    }
    if (!gate.tryEnter()) {
      gate.keepAsks(asks);
      Allocation pulled = super.allocate(id, new ArrayList<>(), constrained, release, blacklist, unblacklist, updates);
      counters.withheld.add(gate.keep(pulled));
      return Gate.without(pulled);
    }
    try {
      List<ResourceRequest> all = gate.asks(asks, container -> getRMContainer(container) != null);
      Allocation pulled = super.allocate(id, all, constrained, release, blacklist, unblacklist, updates);
      return gate.handOut(pulled, container -> getRMContainer(container) != null);
    } finally {
      gate.leave();
    }
  }
}
