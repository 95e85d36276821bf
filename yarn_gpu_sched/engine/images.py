"""Jobs and decisions as they are written down."""

import msgspec

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.waits import Waits
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.assignment import Assignment, Level
from yarn_gpu_sched.model.decision import AskKey, Decision
from yarn_gpu_sched.model.delay import Delays
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.job_record import Backoff, JobRecord
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.preemption import Tenure
from yarn_gpu_sched.model.reason import ReasonSince
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.resync import Counts, Resync
from yarn_gpu_sched.model.server_use import Part
from yarn_gpu_sched.model.wait import NO_TIME, Clocks


class BackoffImage(msgspec.Struct, frozen=True):
    """A pause, see `yarn_gpu_sched.model.job_record.Backoff`."""

    code: OutcomeCode
    delay_s: float
    until_s: float
    first_decision_id: int
    detail: str


Counted = list[tuple[AskKey, int]]


class ResyncImage(msgspec.Struct, frozen=True):
    """What a job had before its resource manager began anew, see `yarn_gpu_sched.model.resync.Resync`."""

    before: Counted
    until_s: float
    surplus: Counted


class WaitImage(msgspec.Struct, frozen=True):
    """What is known of a wait, see `yarn_gpu_sched.model.wait.Wait`; ``waited`` in all lines until now."""

    since_us: int | None = None
    waited: Clocks = NO_TIME
    delays: Delays = Delays()
    history: tuple[ReasonSince, ...] = ()
    in_all: Delays = Delays()


class JobImage(msgspec.Struct, frozen=True):
    """A job, see `yarn_gpu_sched.model.job_record.JobRecord`."""

    job: Job
    order: tuple[float, str]
    first_seen_s: float
    known: bool
    gang: GangTag | None
    asks: tuple[Ask, ...]
    gang_placed: bool
    gang_under_way: bool
    served: int
    level: int | None
    backoff: BackoffImage | None
    refusal: str
    end: JobEnd | None
    diagnostics: str
    ended_s: float | None
    presumed_ended: bool = False
    blacklist: tuple[str, ...] = ()
    ceiling: int = int(Level.ANYWHERE)
    relax_after_s: int | None = None
    missing: int = 0
    degraded_since_s: float | None = None
    requeued: bool = False
    gather_until_s: float | None = None
    members_since: int = 0
    resync: ResyncImage | None = None
    had: Counted = []
    was_placed: bool | None = None
    runtime_s: int | None = None
    started_s: float | None = None
    attained_gpu_s: float = 0.0
    ladder_us: int = 0
    ladder_begun_us: int | None = None
    overdue: bool = False
    wait: WaitImage = WaitImage()
    tenure: Tenure = msgspec.field(default_factory=Tenure)


class DecisionImage(msgspec.Struct, frozen=True):
    """A decision under way, see `yarn_gpu_sched.model.decision.Decision`; ``parts`` are those that still hold something."""

    decision_id: int
    job_id: str
    attempt: int
    assignments: tuple[Assignment, ...]
    level: int
    lost: list[str]
    gang: bool
    application_master: bool
    members: tuple[tuple[AskKey, int], ...]
    total: Resource
    parts: list[tuple[str, int, int, int, int]]
    hold_until_s: float | None = None
    requeue: bool = False
    warning: bool = False
    stops: bool = False


def job_image(waits: Waits, record: JobRecord) -> JobImage:
    """Write a job down, with what it has waited until now."""
    return JobImage(
        job=record.job,
        order=record.order,
        first_seen_s=record.first_seen_s,
        known=record.known,
        gang=record.gang,
        asks=record.asks,
        gang_placed=record.gang_placed,
        gang_under_way=record.gang_under_way,
        served=record.served,
        level=record.level,
        backoff=_backoff_image(record.backoff),
        refusal=record.refusal,
        end=record.end,
        diagnostics=record.diagnostics,
        ended_s=record.ended_s,
        presumed_ended=record.presumed_ended,
        blacklist=record.blacklist,
        ceiling=int(record.ceiling),
        relax_after_s=record.relax_after_s,
        missing=record.missing,
        degraded_since_s=record.degraded_since_s,
        requeued=record.requeued,
        gather_until_s=record.gather_until_s,
        members_since=record.members_since,
        resync=None if record.resync is None else _resync_image(record.resync),
        had=_counted(record.had),
        was_placed=record.was_placed,
        runtime_s=record.runtime_s,
        started_s=record.started_s,
        attained_gpu_s=record.attained_gpu_s,
        ladder_us=record.ladder_us,
        ladder_begun_us=record.ladder_begun_us,
        overdue=record.overdue,
        wait=_wait_image(waits, record),
        tenure=record.tenure,
    )


def _backoff_image(backoff: Backoff | None) -> BackoffImage | None:
    if backoff is None:
        return None
    return BackoffImage(backoff.code, backoff.delay_s, backoff.until_s, backoff.first_decision_id, backoff.detail)


def _wait_image(waits: Waits, record: JobRecord) -> WaitImage:
    waited = waits.waited_by(record, waits.now_us)
    wait = record.wait
    return WaitImage(wait.since_us, waited, wait.delays, waits.history_of(record), wait.in_all)


def _resync_image(resync: Resync) -> ResyncImage:
    return ResyncImage(_counted(resync.before), resync.until_s, _counted(resync.surplus))


def _counted(counts: Counts) -> Counted:
    """List counts in one order: it must not tell in which order containers came."""
    return sorted(counts.items(), key=lambda one: (one[0][0], msgspec.structs.astuple(one[0][1]), one[0][2]))


def _restore_resync(image: ResyncImage) -> Resync:
    return Resync(dict(image.before), image.until_s, dict(image.surplus))


def restore_job(image: JobImage) -> JobRecord:
    """Make a job of what was written down; its containers and decisions come after it."""
    record = JobRecord(image.job, image.first_seen_s)
    record.order = image.order
    record.known = image.known
    record.gang = image.gang
    record.asks = image.asks
    record.gang_placed, record.gang_under_way = image.gang_placed, image.gang_under_way
    record.served = image.served
    record.level = image.level
    if image.backoff is not None:
        backoff = image.backoff
        record.backoff = Backoff(backoff.code, backoff.delay_s, backoff.until_s, backoff.first_decision_id)
        record.backoff.detail = backoff.detail
    record.refusal = image.refusal
    record.end = image.end
    record.diagnostics = image.diagnostics
    record.ended_s = image.ended_s
    record.presumed_ended = image.presumed_ended
    record.blacklist = image.blacklist
    record.ceiling = Level(image.ceiling)
    record.relax_after_s = image.relax_after_s
    record.missing = image.missing
    record.degraded_since_s = image.degraded_since_s
    record.requeued = image.requeued
    record.gather_until_s = image.gather_until_s
    record.members_since = image.members_since
    if image.resync is not None:
        record.resync = _restore_resync(image.resync)
    record.had = dict(image.had)
    record.was_placed = image.was_placed
    record.runtime_s = image.runtime_s
    record.started_s = image.started_s
    record.attained_gpu_s = image.attained_gpu_s
    record.ladder_us = image.ladder_us
    record.ladder_begun_us = image.ladder_begun_us
    record.overdue = image.overdue
    record.tenure = image.tenure
    wait = record.wait
    wait.since_us, wait.waited, wait.delays, wait.history, wait.in_all = msgspec.structs.astuple(image.wait)
    return record


def decision_image(decision: Decision) -> DecisionImage:
    """Write a decision down."""
    return DecisionImage(
        decision_id=decision.decision_id,
        job_id=decision.job_id,
        attempt=decision.attempt,
        assignments=decision.assignments,
        level=int(decision.level),
        lost=sorted(decision.lost),
        gang=decision.gang,
        application_master=decision.application_master,
        members=decision.members,
        total=decision.total,
        parts=[
            (part.use.server_id, part.memory_mb, part.vcores, part.mask, part.gpus)
            for part in decision.parts
            if decision.decision_id in part.use.in_flight
        ],
        hold_until_s=decision.hold_until_s,
        requeue=decision.requeue,
        warning=decision.warning,
        stops=decision.stops,
    )


def restore_decision(core: Core, image: DecisionImage) -> None:
    """Take up a decision that was written down, and what it still holds."""
    decision = Decision(image.decision_id, image.job_id, image.attempt, image.assignments, Level(image.level))
    decision.lost = set(image.lost)
    decision.gang = image.gang
    decision.application_master = image.application_master
    decision.members = image.members
    decision.total = image.total
    decision.hold_until_s = image.hold_until_s
    decision.requeue = image.requeue
    decision.warning, decision.stops = image.warning, image.stops
    for server_id, memory_mb, vcores, mask, gpus in image.parts:
        use = core.state.servers[server_id]
        part = Part(use, memory_mb, vcores, mask, gpus)
        use.in_flight[image.decision_id] = part
        use.recount()
        core.index.update(use)
        decision.parts.append(part)
    core.state.begin(decision)
