package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static io.github.yarn_gpu_sched.protocol.v1.OutcomeCode.*;
import static org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.Refusal.*;

import io.github.yarn_gpu_sched.protocol.v1.*;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.*;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerUtils;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.slf4j.*;

/** What jobs are told or made to end. All of an order is checked first; what ends by itself meanwhile has ended all the same. */
final class Orders {
  private static final Logger LOG = LoggerFactory.getLogger(Orders.class);
  private static final int CONTAINERS_MAX = 16_384;
  private final GangCapacityScheduler scheduler;
  private final RMContext context;

  Orders(GangCapacityScheduler scheduler) {
    this.scheduler = scheduler;
    this.context = scheduler.getRMContext();
  }

  void carryOut(Decision decision) throws Refusal {
    switch (decision.getActionCase()) {
      case REFUSE_JOB: refuse(decision.getRefuseJob()); break;
      case REQUEUE_JOB: requeue(decision.getRequeueJob()); break;
      case WARN_JOB: warn(decision.getWarnJob()); break;
      case STOP_CONTAINERS: stop(decision.getStopContainers()); break;
      // A gang is no order.
    }
  }

  private void refuse(RefuseJob job) throws Refusal {
    ApplicationId id = parsed(job.getJobId(), "application", ApplicationId::fromString);
    require(context.getRMApps().containsKey(id), OUTCOME_CODE_INVALID, "job %s is not known", id);
    context.getDispatcher().getEventHandler().handle(new RMAppEvent(id, RMAppEventType.KILL, said(job.getDiagnostics())));
  }

  /**
   * As stock preemption does: an attempt whose master was preempted does not count as failed, and what it ran ends with it, after
   * the master can ask no more. No master ever sees its workers end, which it might take for their failure, but one that YARN does
   * not run: that goes on.
   */
  private void requeue(RequeueJob job) throws Refusal {
    FiCaSchedulerApp attempt = current(job.getJobId(), job.getAttempt());
    requireAnew(attempt.getApplicationId());
    LOG.info("{} starts anew: {}", attempt.getApplicationId(), said(job.getDiagnostics()));
    List<RMContainer> live = new ArrayList<>(attempt.getLiveContainers());
    List<RMContainer> masters = live.stream().filter(one -> Words.master(context, one)).collect(Collectors.toList());
    if (!masters.isEmpty()) scheduler.anew.add(attempt.getApplicationAttemptId());
    for (RMContainer one : masters.isEmpty() ? live : masters) preempt(one, job.getDiagnostics());
  }

  private void requireAnew(ApplicationId id) throws Refusal {
    RMApp app = context.getRMApps().get(id);
    require(app != null && Words.startsAnew(app), OUTCOME_CODE_INVALID, "%s has one attempt only: its end would be the application's", id);
  }

  /** The master reads it in the reply to its next heartbeat. Who names no container means all: what can't start anew is not warned of that. */
  private void warn(WarnJob job) throws Refusal {
    FiCaSchedulerApp attempt = current(job.getJobId(), job.getAttempt());
    require(!attempt.isWaitingForAMContainer(), OUTCOME_CODE_NO_ATTEMPT, "%s has no master yet that could be told", attempt.getApplicationAttemptId());
    Collection<RMContainer> named = named(attempt, job.getContainerIdsList());
    if (named.isEmpty()) {
      requireAnew(attempt.getApplicationId());
      named = attempt.getLiveContainers();
    }
    require(!named.isEmpty(), OUTCOME_CODE_INVALID, "%s runs nothing", attempt.getApplicationAttemptId());
    LOG.info("{} is warned of the end of {} containers: {}", attempt.getApplicationId(), named.size(), said(job.getDiagnostics()));
    for (RMContainer one : named) attempt.markContainerForPreemption(one.getContainerId());
  }

  private void stop(StopContainers order) throws Refusal {
    FiCaSchedulerApp attempt = current(order.getJobId(), order.getAttempt());
    Collection<RMContainer> named = named(attempt, order.getContainerIdsList());
    require(!named.isEmpty(), OUTCOME_CODE_INVALID, "0 containers, 1 to %d would be right", CONTAINERS_MAX);
    for (RMContainer one : named) {
      require(!Words.master(context, one), OUTCOME_CODE_INVALID, "container %s is the master of %s", one.getContainerId(), attempt.getApplicationId());
    }
    LOG.info("{} containers of {} are stopped: {}", named.size(), attempt.getApplicationId(), said(order.getDiagnostics()));
    for (RMContainer one : named) preempt(one, order.getDiagnostics());
  }

  private FiCaSchedulerApp current(String job, int number) throws Refusal {
    ApplicationId id = parsed(job, "application", ApplicationId::fromString);
    FiCaSchedulerApp attempt = Words.attempt(scheduler, id);
    boolean current = attempt != null && !attempt.isStopped() && attempt.getApplicationAttemptId().getAttemptId() == number;
    require(current, OUTCOME_CODE_NO_ATTEMPT, "attempt %d of %s is ended or replaced", number, id);
    return attempt;
  }

  /** Live containers of an attempt, those among them that it has kept from the one before, each once. */
  private static Collection<RMContainer> named(FiCaSchedulerApp attempt, List<String> ids) throws Refusal {
    require(ids.size() <= CONTAINERS_MAX, OUTCOME_CODE_INVALID, "%d containers, at most %d would be right", ids.size(), CONTAINERS_MAX);
    Map<ContainerId, RMContainer> named = new LinkedHashMap<>();
    for (String text : ids) {
      ContainerId id = parsed(text, "container", ContainerId::fromString);
      named.put(id, attempt.getRMContainer(id));
      require(named.get(id) != null, OUTCOME_CODE_INVALID, "container %s is not live in %s", id, attempt.getApplicationAttemptId());
    }
    return named.values();
  }

  /** What stock preemption does in the end, with the reason in the container's diagnostics. */
  private void preempt(RMContainer one, String why) {
    scheduler.lock().lock();
    try {
      scheduler.completedContainer(one, SchedulerUtils.createPreemptedContainerStatus(one.getContainerId(),
          SchedulerUtils.PREEMPTED_CONTAINER + (why.isEmpty() ? "" : ": " + said(why))), RMContainerEventType.KILL);
    } finally {
      scheduler.lock().unlock();
    }
  }

  private static String said(String why) { return Words.cut(why, ResourceManagerView.DIAGNOSTICS_CHARS_MAX); }
}
