"""Where the engine's commands go, and what else must know of its events.

Nothing here changes scheduling state, and nothing here may fail a scheduling step: what can fail
(files, recording) counts its failures and goes on.
"""

from collections.abc import Callable, Iterable

import structlog

from yarn_gpu_sched.engine import commands, events
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.service.archive import Archiving
from yarn_gpu_sched.service.bindings import Bindings
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.fleet import Fleet
from yarn_gpu_sched.service.preemption_watch import PreemptionWatch
from yarn_gpu_sched.service.recording import Recording
from yarn_gpu_sched.service.session import Session
from yarn_gpu_sched.service.watch import Watchers

_log = structlog.get_logger(__name__)

# What the engine is told of a decision that cannot be sent.
Made = Callable[[float], events.AnyEvent]


class Outlets:
    """Decisions to the link, bindings to files, touched jobs to watchers; all of it to the archive, where there is one."""

    def __init__(
        self,
        metrics: Metrics,
        watchers: Watchers,
        bindings: Bindings | None = None,
        recording: Recording | None = None,
        preemption_watch: PreemptionWatch | None = None,
        fleet: Fleet | None = None,
        health_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.metrics = metrics
        self.archiving: Archiving | None = None
        self._watchers = watchers
        self._bindings = bindings
        self._recording = recording
        self._preemption_watch = preemption_watch
        self._fleet = fleet
        self._health_changed = health_changed
        self._decisions = {
            commands.PlaceGang: metrics.decisions.labels("place_gang"),
            commands.RefuseJob: metrics.decisions.labels("refuse_job"),
            commands.RequeueJob: metrics.decisions.labels("requeue_job"),
            commands.WarnJob: metrics.decisions.labels("warn_job"),
            commands.StopContainers: metrics.decisions.labels("stop_containers"),
        }
        # Bound once, so that a line that is not written costs nothing.
        self._log = _log.bind()
        self._outcomes = {code: metrics.outcomes.labels(code.value) for code in OutcomeCode}

    def before(self, event: events.AnyEvent, session: Session | None) -> None:
        """Take note of an event that is about to be applied."""
        if self._recording is not None:
            self._recording.record(event)
        if self.archiving is not None:
            self.archiving.before(event)
        if isinstance(event, events.ResourceManagerRegistered) and self._preemption_watch is not None:
            self._preemption_watch.begin()
        if isinstance(event, events.OutcomeReported):
            self._answered(event, session)
        elif isinstance(event, events.ResourceManagerRegistered | events.SnapshotEnded):
            self._snapshot(event)

    def _snapshot(self, event: events.ResourceManagerRegistered | events.SnapshotEnded) -> None:
        for binder in (self._bindings, self._fleet):
            if binder is None:
                continue
            if isinstance(event, events.ResourceManagerRegistered):
                binder.begin(event.settle_left_s)
            else:
                binder.end()

    def _answered(self, event: events.OutcomeReported, session: Session | None) -> None:
        asked = session.answered(event.decision_id) if session is not None else None
        if asked is None or session is None:
            return
        self._outcomes[event.code].inc()
        self.metrics.outcome_s.observe(max(0.0, event.now_s - asked.decided_s))
        if event.code is not OutcomeCode.COMMITTED:
            if self._preemption_watch is not None:
                self._preemption_watch.refused(event.decision_id)
            _log.warning(
                "decision_refused",
                decision_id=event.decision_id,
                job_id=asked.job_id,
                epoch=session.registration.epoch,
                code=event.code.value,
                detail=event.detail,
            )

    def carry_out(self, todo: Iterable[commands.AnyCommand], session: Session | None, now_s: float) -> list[Made]:
        """Carry commands out in order. Returns what became at once of those that cannot be sent."""
        undeliverable: list[Made] = []
        for command in todo:
            if self.archiving is not None:
                self.archiving.hear(command)
            if isinstance(command, commands.JobTouched):
                self._watchers.touched(command.job_id)
            elif isinstance(command, commands.AnyDecision):
                if session is not None and not self._send(command, session, now_s):
                    undeliverable.append(_too_large(command.decision_id))
            elif isinstance(command, commands.HealthChanged):
                self._health_changed()
            else:
                self._bind(command)
        if self._fleet is not None:
            self._fleet.flush()
        return undeliverable

    def _send(self, decision: commands.AnyDecision, session: Session, now_s: float) -> bool:
        if not session.send(decision, now_s):
            _log.error("decision_too_large", decision_id=decision.decision_id, job_id=decision.job_id)
            return False
        self._decisions[type(decision)].inc()
        if self._preemption_watch is not None and not isinstance(decision, commands.PlaceGang):
            self._preemption_watch.sent(decision)
        self._log.debug(
            "decision_sent",
            decision_id=decision.decision_id,
            job_id=decision.job_id,
            epoch=session.registration.epoch,
        )
        return True

    def _bind(self, command: commands.Bind | commands.Unbind) -> None:
        bindings, fleet = self._bindings, self._fleet
        if isinstance(command, commands.Bind):
            if bindings is not None:
                bindings.bind(command.container_id, command.gpu_indices, command.job_id)
            if fleet is not None:
                fleet.bind(command)
            return
        if bindings is not None:
            bindings.unbind(command.container_id)
        if fleet is not None:
            fleet.unbind(command)

    def broken(self, law: int, evidence: str) -> None:
        """Tell that an audit found a law broken."""
        self.metrics.broken_laws.labels(str(law)).inc()
        _log.error("law_broken", law=law, evidence=evidence)


def _too_large(decision_id: int) -> Made:
    return lambda now_s: events.OutcomeReported(
        now_s=now_s,
        decision_id=decision_id,
        code=OutcomeCode.INVALID,
        detail="the decision is larger than a message may be (1 MiB)",
    )
