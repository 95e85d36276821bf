package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacitySchedulerConfiguration.SCHEDULE_ASYNCHRONOUSLY_ENABLE;

import io.github.yarn_gpu_sched.shim.*;
import java.io.IOException;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.thirdparty.com.google.common.util.concurrent.SettableFuture;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.*;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.*;

/**
 * CapacityScheduler whose placement on servers with GPUs is the scheduling service's. All else stays Hadoop's. What runs on the
 * resource manager's threads here only marks what may have changed; it never waits for the service and never throws.
 */
public class GangCapacityScheduler extends CapacityScheduler {
  private static final int LOST_MAX = 16_384;
  final Counters counters = new Counters();
  final Departing departing = new Departing();
  private final Marks<NodeId, ApplicationId> marks = new Marks<>(counters);
  private final Map<ApplicationAttemptId, Gate> gates = new ConcurrentHashMap<>();
  /** Containers that did not end well, until the service is told; what is beyond the bound is told as if it had ended well. */
  final Set<String> lost = ConcurrentHashMap.newKeySet();
  /** Attempts whose end is ordered: what they run ends with them, also where their applications keep containers. */
  final Set<ApplicationAttemptId> anew = ConcurrentHashMap.newKeySet();
  private final Set<ApplicationId> recovered = ConcurrentHashMap.newKeySet();
  private final AtomicLong completions = new AtomicLong();
  private Settings settings;
  private Exchange<NodeId, ApplicationId> exchange;

  @Override public void serviceInit(Configuration conf) throws Exception {
    settings = new Settings(conf);
    // Hadoop 3.5 takes true for unset.
    conf.set(SCHEDULE_ASYNCHRONOUSLY_ENABLE, new CapacitySchedulerConfiguration(conf).get(SCHEDULE_ASYNCHRONOUSLY_ENABLE, "false"));
    super.serviceInit(conf);
    Settings.refuse(getConfiguration());  // yarn-site.xml's are among them
    rmContext.getYarnConfiguration().setIfUnset(YarnConfiguration.APPLICATION_PLACEMENT_TYPE_CLASS, GpuAskAllocator.class.getName());
  }

  @Override public void serviceStart() throws Exception {
    super.serviceStart();
    counters.register();
    exchange = new Exchange<>(settings, new ResourceManagerView(this), marks, counters);
  }

  @Override public void serviceStop() throws Exception {
    if (exchange != null) {
      exchange.stop();
      counters.unregister();
    }
    super.serviceStop();
  }

  @Override public void reinitialize(Configuration conf, RMContext context) throws IOException {
    super.reinitialize(conf, context);
    marks.queues();
    getSchedulerApplications().keySet().forEach(marks::job);
    marks.hurry();
  }

  @Override public Priority updateApplicationPriority(Priority priority, ApplicationId job, SettableFuture<Object> done,
      UserGroupInformation user) throws YarnException {
    Priority updated = super.updateApplicationPriority(priority, job, done, user);
    changed(job);
    return updated;
  }

  @Override public String moveApplication(ApplicationId job, String queue) throws YarnException {
    String moved = super.moveApplication(job, queue);
    changed(job);
    return moved;
  }

  Lock lock() { return writeLock; }

  /** Null for an attempt that is not there. */
  Gate gate(ApplicationAttemptId attempt) { return gates.get(attempt); }
  boolean recovered(ApplicationId job) { return recovered.contains(job); }

  void changed(ApplicationId job) { marks.job(job); marks.hurry(); }
  void changed(NodeId server) { marks.server(server); marks.hurry(); }

  /** Servers without GPUs stay with stock placement, where no ask for GPUs can land: it fits on no such server. */
  @Override CSAssignment allocateContainersToNode(CandidateNodeSet<FiCaSchedulerNode> candidates, boolean withNodeHeartbeat) {
    FiCaSchedulerNode node = CandidateNodeSetUtils.getSingleNode(candidates);
    if (node == null || Words.gpus(node.getTotalResource()) > 0) return null;
    int before = node.getNumContainers();
    GpuAskAllocator.placing = Thread.currentThread();  // under the scheduler's lock; what is thrown here ends the process
    CSAssignment assignment = super.allocateContainersToNode(candidates, withNodeHeartbeat);
    GpuAskAllocator.placing = null;
    if (node.getNumContainers() != before) changed(node.getNodeID());
    return assignment;
  }

  @Override public boolean attemptAllocationOnNode(SchedulerApplicationAttempt attempt, SchedulingRequest request, SchedulerNode node) {
    return Words.gpus(node.getTotalResource()) == 0 && super.attemptAllocationOnNode(attempt, request, node);
  }

  @Override public void handle(SchedulerEvent event) {
    if (event instanceof NodeAddedSchedulerEvent) {
      NodeId server = ((NodeAddedSchedulerEvent) event).getAddedRMNode().getNodeID();
      if (((NodeAddedSchedulerEvent) event).getContainerReports() == null) departing.back(server);
      else departing.forget(server);
    } else if (event instanceof AppAttemptAddedSchedulerEvent) {
      gates.put(((AppAttemptAddedSchedulerEvent) event).getApplicationAttemptId(), new Gate());
    } else if (event instanceof AppAddedSchedulerEvent && ((AppAddedSchedulerEvent) event).getIsAppRecovering()) {
      recovered.add(((AppAddedSchedulerEvent) event).getApplicationId());
    } else if (event instanceof AppAttemptRemovedSchedulerEvent) {
      AppAttemptRemovedSchedulerEvent end = (AppAttemptRemovedSchedulerEvent) event;
      if (anew.remove(end.getApplicationAttemptID()))
        event = new AppAttemptRemovedSchedulerEvent(end.getApplicationAttemptID(), end.getFinalAttemptState(), false);
    }
    super.handle(event);
    mark(event);
  }

  private void mark(SchedulerEvent event) {
    switch (event.getType()) {
      case NODE_ADDED: changed(((NodeAddedSchedulerEvent) event).getAddedRMNode().getNodeID()); break;
      case NODE_REMOVED:
        RMNode node = ((NodeRemovedSchedulerEvent) event).getRemovedRMNode();
        if (node.getState() == NodeState.LOST || node.getState() == NodeState.REBOOTED) departing.lost(node.getNodeID());
        else if (node.getState().isUnusable() && node.getState() != NodeState.UNHEALTHY) departing.forget(node.getNodeID());
        changed(node.getNodeID());
        break;
      case NODE_RESOURCE_UPDATE: changed(((NodeResourceUpdateSchedulerEvent) event).getRMNode().getNodeID()); break;
      case NODE_LABELS_UPDATE: ((NodeLabelsUpdateSchedulerEvent) event).getUpdatedNodeToLabels().keySet().forEach(this::changed); break;
      case APP_ADDED: changed(((AppAddedSchedulerEvent) event).getApplicationId()); break;
      case APP_ATTEMPT_ADDED: changed(((AppAttemptAddedSchedulerEvent) event).getApplicationAttemptId().getApplicationId()); break;
      case APP_ATTEMPT_REMOVED:
        gates.remove(((AppAttemptRemovedSchedulerEvent) event).getApplicationAttemptID());
        changed(((AppAttemptRemovedSchedulerEvent) event).getApplicationAttemptID().getApplicationId());
        break;
      case APP_REMOVED:
        recovered.remove(((AppRemovedSchedulerEvent) event).getApplicationID());
        changed(((AppRemovedSchedulerEvent) event).getApplicationID());
        break;
      // All else is told of by the methods below.
    }
  }

  @Override protected void nodeUpdate(RMNode node) {
    long before = completions.get();
    super.nodeUpdate(node);
    if (departing.reported(node) || completions.get() != before) changed(node.getNodeID());
    else if (node.getState() != NodeState.RUNNING) marks.server(node.getNodeID());
  }

  @Override protected void containerLaunchedOnNode(ContainerId container, SchedulerNode node) {
    departing.runs(container);
    super.containerLaunchedOnNode(container, node);
  }

  /** Called for each end of a container, also where Hadoop bypasses completedContainer. */
  @Override protected void completedContainerInternal(RMContainer container, ContainerStatus status, RMContainerEventType event) {
    boolean runs = container.getState() == RMContainerState.RUNNING && SchedulerUtils.LOST_CONTAINER.equals(status.getDiagnostics());
    boolean mayRun = container.getState() == RMContainerState.ACQUIRED && event != RMContainerEventType.FINISHED;
    if ((runs || mayRun) && Words.gpus(container.getContainer().getResource()) > 0) departing.add(container);
    if (runs) departing.runs(container.getContainerId());
    boolean well = event == RMContainerEventType.RELEASED || event == RMContainerEventType.FINISHED && status.getExitStatus() == 0;
    if (!well && Words.gpus(container.getContainer().getResource()) > 0 && lost.size() < LOST_MAX) lost.add(container.getContainerId().toString());
    super.completedContainerInternal(container, status, event);
    completions.incrementAndGet();
    changed(container.getNodeId());
  }

  @Override public void completedContainer(RMContainer container, ContainerStatus status, RMContainerEventType event) {
    super.completedContainer(container, status, event);
    // Null: ended by the resource manager, now by its server too.
    if (event == RMContainerEventType.FINISHED && departing.ended(status.getContainerId()) || container == null) completions.incrementAndGet();
    if (container != null) changed(container.getApplicationAttemptId().getApplicationId());  // its ask may be back by now
  }

  @Override public Allocation allocate(ApplicationAttemptId id, List<ResourceRequest> asks, List<SchedulingRequest> constrained,
      List<ContainerId> release, List<String> blacklist, List<String> unblacklist, ContainerUpdates updates) {
    Unserved.refuse(this, constrained, updates);
    Gate gate = gates.get(id);
    FiCaSchedulerApp attempt = gate == null ? null : getApplicationAttempt(id);
    boolean gated = attempt != null && !attempt.isWaitingForAMContainer();  // the resource manager pulls a master, which is no gang
    Function<List<ResourceRequest>, Allocation> pull = now -> {
      try {
        return super.allocate(id, now, constrained, release, blacklist, unblacklist, updates);
      } finally {
        boolean places = blacklist != null && !blacklist.isEmpty() || unblacklist != null && !unblacklist.isEmpty();
        if (places || !now.isEmpty()) changed(id.getApplicationId());
      }
    };
    return gated ? gate.pass(asks, pull, one -> getRMContainer(one) != null, counters) : pull.apply(asks);
  }
}
