"""What became of decisions."""

from yarn_gpu_sched.engine import ahead
from yarn_gpu_sched.engine.containers import bind
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.events import OutcomeReported
from yarn_gpu_sched.engine.jobs import count_member, start_anew_within_attempt
from yarn_gpu_sched.engine.preempting import stop_refused, warning_refused
from yarn_gpu_sched.engine.repair import replaced, requeue_refused
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.job_record import Backoff, JobRecord
from yarn_gpu_sched.model.outcome import COMMITTED, OutcomeCode


def on_outcome_reported(core: Core, event: OutcomeReported) -> None:
    """Let the containers of a committed decision live; give back what a refused one held."""
    decision = core.state.decisions.get(event.decision_id)
    if decision is None or decision.hold_until_s is not None:
        return
    record = core.state.jobs[decision.job_id]
    code = _code(decision, event)
    if record.gang_placed:
        core.preemption.changed_everywhere()  # nothing is under way for it any more: it may be stopped
    if decision.warning or decision.stops:
        core.state.end(decision, ())
        if code is not COMMITTED and decision.stops:
            stop_refused(record)
        elif code is not COMMITTED:
            warning_refused(core, record)
    elif code is not COMMITTED:
        _refused(core, decision, record, code, event.detail)
    elif decision.refusal:
        core.state.end(decision, ())
        start_anew_within_attempt(core, record)
    else:
        _committed(core, decision, record, event.container_ids)
        _may_borrow(core, decision, record)
        if decision.job_id in core.preemption.plans:
            core.preemption.agenda.note(core.now_s, decision.job_id)  # what was promised to it holds nobody back now
    core.settle_job(record)
    if record.end is not None:
        core.forget_old_jobs()


def _code(decision: Decision, event: OutcomeReported) -> OutcomeCode:
    """Believe a commit only if it names a container for each assignment."""
    ids = event.container_ids
    complete = len(ids) == len(decision.assignments) == len(set(ids))
    return OutcomeCode.INVALID if event.code is COMMITTED and not complete else event.code


def _committed(core: Core, decision: Decision, record: JobRecord, container_ids: tuple[str, ...]) -> None:
    for container_id in container_ids:
        if container_id in core.state.containers:
            seen = core.state.remove_container(container_id)  # before its outcome: it is this decision's container
            core.freed(core.state.servers[seen.server_id].server.partition, by_master=seen.application_master)
            if record.resync is not None:
                record.resync.was_made((seen.key, seen.resource, seen.application_master))
    live = core.state.end(decision, container_ids)
    for container in live:
        if core.state.servers[container.server_id].gpus:
            core.commands.append(bind(container))
    if record.end is not None:
        return
    if decision.attempt != record.job.attempt:
        if record.missing:  # the new attempt took over the gang, and gets the member that was on its way
            replaced(core, record, sum(record.is_member(container) for container in live))
        return
    record.backoff = None
    _reduce_asks(decision, record)
    _count(core, decision, record, live)
    if not decision.application_master and (decision.gang or record.level is None):
        record.level = int(decision.level)


def _may_borrow(core: Core, decision: Decision, record: JobRecord) -> None:
    """Let it be looked again whom to stop: what came to live, which nothing that was held tells, may be."""
    core.preemption.use_changed(record.job.vc)
    for partition in {part.use.server.partition: None for part in decision.parts if part.gpus}:
        core.preemption.changed(partition)


def _count(core: Core, decision: Decision, record: JobRecord, live: list[Container]) -> None:
    """Count new containers for the gang of their job."""
    if decision.gang:
        record.gang_placed = True
        record.gang_under_way = False
    elif record.missing and not decision.application_master:
        replaced(core, record, len(live))
    elif record.gang is not None and not record.gang_placed:
        for container in live:  # decided before the job was said to be a gang
            count_member(record, container)


def _reduce_asks(decision: Decision, record: JobRecord) -> None:
    """Take what was committed off the asks, until the resource manager tells what is really left."""
    asks = []
    answered = dict(decision.members)
    for ask in record.asks:
        left = ask.count - answered.pop((ask.key, ask.resource, ask.application_master), 0)
        if left > 0:
            asks.append(ask if left == ask.count else ask.with_count(left))
    record.asks = tuple(asks)


def _refused(core: Core, decision: Decision, record: JobRecord, code: OutcomeCode, detail: str) -> None:
    partitions = {part.use.server.partition: None for part in decision.parts}
    core.state.end(decision, ())
    for partition in partitions:
        core.freed(partition, by_master=decision.application_master)
    if decision.attempt != record.job.attempt or record.end is not None:
        return
    if decision.gang:
        record.gang_under_way = False
    if decision.application_master:
        ahead.release(core, record)
    if decision.requeue and record.tenure.preempted and not record.missing:
        stop_refused(record)
    if decision.requeue and record.missing:
        requeue_refused(core, record)
        return
    record.requeued = record.requeued and not decision.requeue
    _back_off(core, decision, record, code)
    if record.backoff is not None:
        record.backoff.detail = detail
    if record.refusal:
        core.to_refuse[record.job.job_id] = None


def _back_off(core: Core, decision: Decision, record: JobRecord, code: OutcomeCode) -> None:
    """Pause, twice as long as before, until something is committed or the job asks otherwise; whatever the causes are."""
    before = record.backoff
    if before is not None and decision.decision_id < before.first_decision_id:
        return
    delay_s = core.settings.backoff_min_s if before is None else min(core.settings.backoff_max_s, 2 * before.delay_s)
    record.backoff = Backoff(code, delay_s, core.now_s + delay_s, core.next_decision_id)
    core.rest(record)
