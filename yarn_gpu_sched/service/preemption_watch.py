"""Follows what the engine does about preemption, for log and metrics: who is warned, stopped or spared, and who does not die.

It looks when an order is given and once a second; how many victims and jobs it looks at then is bounded.
"""

from collections.abc import Iterable
from itertools import islice

import msgspec
import structlog

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.commands import AnyDecision, RequeueJob, StopContainers, WarnJob
from yarn_gpu_sched.engine.views import PlanView, PreemptionView
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.metrics import Metrics

LOOK_S = 1.0
LATE_S = 10.0
VICTIMS_LOOKED_AT_MAX = 200
OBSERVED_LOOKED_AT_MAX = 2
NAMED_MAX = 16

_log = structlog.get_logger(__name__)


class _Ordered(msgspec.Struct, gc=False):
    """A victim that is to stop: which of its containers are to end, since when; ``told``: that it takes long was told."""

    job_id: str
    by_job_id: str
    container_ids: frozenset[str]
    ordered_s: float
    told: bool = False


class PreemptionWatch:
    """See the module."""

    def __init__(self, engine: Engine, clock: Clock, metrics: Metrics) -> None:
        self._engine = engine
        self._clock = clock
        self._metrics = metrics
        self._plans: dict[str, PlanView] = {}
        self._ordered: dict[int, _Ordered] = {}
        self._observed_s: dict[str, float] = {}
        self._stopped = self._observed = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look now and once a second until `stop`."""
        self._timer = self._clock.call_at(self._clock.now_s() + LOOK_S, self.start)
        self.look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    # What is told of at once

    def sent(self, decision: AnyDecision) -> None:
        """Follow a decision that was sent, if it warns or stops somebody."""
        if isinstance(decision, WarnJob):
            self._follow_plan(decision.job_id, "warned")
        elif isinstance(decision, StopContainers) or (isinstance(decision, RequeueJob) and decision.preempted_by):
            self._follow_order(decision, self._follow_plan(decision.job_id, "stopping"))

    def _follow_plan(self, victim_id: str, stage: str) -> str:
        """Take note of the plan by which a victim is ordered something; return for whom that is."""
        view = self._engine.job(victim_id)
        by = "" if view is None else view.stopped_for
        known = self._plans.get(by)
        if known is None or known.stage != stage:
            self._follow_plans(self._engine.preemption())
        return by

    def _follow_order(self, order: StopContainers | RequeueJob, by: str) -> None:
        view = self._engine.job(order.job_id)
        live = () if view is None else [one.container_id for one in view.containers]
        named = order.container_ids if isinstance(order, StopContainers) else live
        self._ordered[order.decision_id] = _Ordered(order.job_id, by, frozenset(named), self._clock.now_s())
        _log.info("preemption_stopping", job_id=order.job_id, by_job_id=by, containers=len(named))

    def refused(self, decision_id: int) -> None:
        """Take note that a decision was not carried out: nobody ends by it."""
        self._ordered.pop(decision_id, None)

    def begin(self) -> None:
        """Begin anew with a resource manager: what was ordered is void, and who was warned is spared."""
        self._ordered.clear()

    # What is looked at now and then

    def look(self) -> None:
        """Bring log and metrics up to date."""
        view = self._engine.preemption()
        self._follow_plans(view)
        self._follow_victims()
        self._follow_observed(dict(view.observed))
        metrics, counters, mode = self._metrics, self._engine.counters, view.mode
        metrics.preemptions.inc(counters.preempted - self._stopped)
        metrics.preemptions_observed.inc(counters.observed - self._observed)
        self._stopped, self._observed = counters.preempted, counters.observed
        metrics.preemption_victims_late.set(sum(one.told for one in self._ordered.values()))
        metrics.preemption_mode.labels("off").set(mode is Mode.OFF)
        metrics.preemption_mode.labels("observe").set(mode is Mode.OBSERVE)
        metrics.preemption_mode.labels("on").set(mode is Mode.ON)

    def _follow_plans(self, view: PreemptionView) -> None:
        plans = {plan.job_id: plan for plan in view.plans}
        for job_id, plan in plans.items():
            before = self._plans.get(job_id)
            if before is None or before.decided_s != plan.decided_s:
                _log.info("preemption_decided", **_described(plan))
        for job_id, before in self._plans.items():
            now = plans.get(job_id)
            if before.stage == "warned":
                _tell_spared(before, now if now is not None and now.decided_s == before.decided_s else None)
        self._plans = plans

    def _follow_victims(self) -> None:
        """Look at those that were ordered to stop, in turn: who has ended is forgotten, who takes long is told of once."""
        now_s = self._clock.now_s()
        for decision_id in list(islice(self._ordered, VICTIMS_LOOKED_AT_MAX)):
            one = self._ordered.pop(decision_id)
            view = self._engine.job(one.job_id)
            left = 0 if view is None else sum(held.container_id in one.container_ids for held in view.containers)
            if not left:
                continue
            self._ordered[decision_id] = one
            if not one.told and now_s - one.ordered_s > LATE_S:
                one.told = True
                since_s = round(now_s - one.ordered_s, 1)
                _log.warning(
                    "preemption_victim_late",
                    job_id=one.job_id,
                    by_job_id=one.by_job_id,
                    containers=left,
                    since_s=since_s,
                )

    def _follow_observed(self, observed: dict[str, float]) -> None:
        """Say who would have been stopped, for as many gangs as may be looked at; the next ones the next time."""
        news = (job_id for job_id, at_s in observed.items() if self._observed_s.get(job_id) != at_s)
        for job_id in list(islice(news, OBSERVED_LOOKED_AT_MAX)):
            self._observed_s[job_id] = observed[job_id]
            preview = self._engine.preempt_preview(job_id)
            if preview is not None and preview.plan is not None:
                _log.info("preemption_observed", **_described(preview.plan))
        self._observed_s = {job_id: at_s for job_id, at_s in self._observed_s.items() if job_id in observed}


def _described(plan: PlanView) -> dict[str, object]:
    return {
        "job_id": plan.job_id,
        "virtual_cluster": plan.vc,
        "gpus": plan.gpus,
        "victims": _names(victim.job_id for victim in plan.victims),
        "victims_count": len(plan.victims),
        "stage": plan.stage,
    }


def _tell_spared(before: PlanView, now: PlanView | None) -> None:
    """Say who was warned and is not stopped."""
    kept = set() if now is None else {(victim.job_id, victim.container_ids) for victim in now.victims}
    spared = [victim.job_id for victim in before.victims if (victim.job_id, victim.container_ids) not in kept]
    if spared:
        _log.info("preemption_spared", job_id=before.job_id, victims=_names(spared), victims_count=len(spared))


def _names(job_ids: Iterable[str]) -> list[str]:
    return list(islice(dict.fromkeys(job_ids), NAMED_MAX))
