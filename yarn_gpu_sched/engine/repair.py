"""Gangs that lost a member (law 4): its place is held for the replacement; where none can be had the job starts anew as a whole.

A master that asks for no replacement has taken the loss: the gang is smaller from then on. What a hold keeps is in use by the job.
"""

from collections.abc import Callable, Iterator

from yarn_gpu_sched.engine.commands import RequeueJob
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.assignment import Assignment, Level
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server_use import Part, mask_of
from yarn_gpu_sched.placement import Placement, Portion

Place = Callable[[Core, JobWant, Placement], int]


def member_lost(core: Core, container: Container) -> None:
    """Hold the place of a container that its gang has lost, now that its server has lost it too."""
    record = core.state.jobs[container.job_id]
    if not _misses(record, container):
        return
    record.missing += 1
    if record.degraded_since_s is None:
        record.degraded_since_s = core.now_s
        core.degraded[container.job_id] = None
    _hold(core, container)


def _misses(record: JobRecord, container: Container) -> bool:
    if record.gang is None or not record.gang_placed or record.requeued or record.end is not None:
        return False
    return record.is_member(container) and record.members + record.missing < record.gang.containers


def _hold(core: Core, container: Container) -> None:
    use = core.state.servers.get(container.server_id)
    resource = container.resource
    if use is None or not resource.gpus:
        return
    part = Part(use, resource.memory_mb, resource.vcores, mask_of(container.gpu_indices), resource.gpus)
    where = Assignment(container.key, container.server_id, resource, container.gpu_indices)
    hold = Decision(0, container.job_id, container.attempt, (where,), parts=[part])
    if not begin_hold(core, hold, core.settings.repair_hold_s) and part.mask & use.fitness.busy:
        core.health.lost[container.container_id] = container  # its place is held once it is seen free


def hold_again(core: Core, container: Container) -> None:
    """Hold the place of a lost member that has become free only now, if it is still missed."""
    record = core.state.jobs.get(container.job_id)
    if record is not None and record.job.attempt == container.attempt and container.job_id in core.degraded:
        _hold(core, container)


def begin_hold(core: Core, decision: Decision, for_s: float) -> bool:
    """Keep the place of a decision that is not sent, for so long; False, and nothing is held, if it is not free."""
    parts = decision.parts
    with core.state.transaction() as plan:
        if not all(plan.take(part) for part in parts):
            return False
        plan.commit()
    decision.decision_id = core.next_decision_id
    core.next_decision_id += 1
    decision.total = Resource(
        sum(part.memory_mb for part in parts), sum(part.vcores for part in parts), sum(part.gpus for part in parts)
    )
    decision.hold_until_s = core.now_s + for_s
    core.state.begin(decision)
    return True


def holds_of(core: Core, record: JobRecord) -> list[Decision]:
    """List what is held for a job's replacements, in order."""
    if not record.decisions:
        return []
    decisions = [core.state.decisions[decision_id] for decision_id in sorted(record.decisions)]
    return [decision for decision in decisions if decision.hold_until_s is not None]


def is_occupied(part: Part) -> bool:
    """Tell whether somebody who should not be is on GPUs that are held: they are not given out before that goes."""
    return bool(part.mask & part.use.fitness.busy)


def replaced(core: Core, record: JobRecord, containers: int) -> None:
    """Count replacements that were committed; the last one makes the gang whole again."""
    record.missing = max(0, record.missing - containers)
    if not record.missing:
        made_whole(core, record)


def made_whole(core: Core, record: JobRecord) -> None:
    """Forget that members were lost, and free what is held."""
    for hold in holds_of(core, record):
        free_hold(core, hold)
    core.ahead.pop(record.job.job_id, None)
    record.missing = 0
    record.degraded_since_s = None
    core.degraded.pop(record.job.job_id, None)
    core.waits.unsettled[record.job.job_id] = None


def free_hold(core: Core, hold: Decision) -> None:
    """Free what is held, and wake whom that serves."""
    partitions = {part.use.server.partition: None for part in hold.parts}
    core.state.end(hold, ())
    for partition in partitions:
        core.freed(partition, by_master=False)


def tend(core: Core, place: Place) -> int:
    """Let holds end, place replacements on what is held, start anew who waited too long; return the decisions made."""
    decided = 0
    for job_id in sorted(core.degraded):
        record = core.state.jobs[job_id]
        if record.gang is None or not record.gang_placed or record.members >= record.gang.containers:
            made_whole(core, record)
            continue
        if record.requeued:
            continue
        for hold in holds_of(core, record):
            if hold.hold_until_s is not None and hold.hold_until_s <= core.now_s:
                free_hold(core, hold)
        decided += _fill(core, record, place)
        since_s = record.degraded_since_s
        assert since_s is not None
        asks = asks_replacement(record)
        if not asks and not record.decisions and core.now_s >= since_s + core.settings.repair_hold_s:
            made_whole(core, record)
        elif asks and core.now_s >= record.requeue_at_s(core.settings.requeue_after_s):
            decided += _requeue(core, record)
        core.changed(record)
    return decided


def asks_replacement(record: JobRecord) -> bool:
    """Tell whether a job's master asks for a replacement, also while a refusal makes the job pause."""
    return any(record.pending(ask) > 0 for ask in record.asks if not ask.application_master)


def _fill(core: Core, record: JobRecord, place: Place) -> int:
    decided = 0
    for hold in holds_of(core, record):
        want = record.want
        if not isinstance(want, JobWant) or want.gang or want.application_master:
            break
        part = hold.parts[0] if hold.parts else None
        fits = (
            part is not None and want.members[0][0].resource == hold.total and part.use.usable and not is_occupied(part)
        )
        if part is not None and fits and all(reach.admits(part.use) for reach in want.demand.reach):
            free_hold(core, hold)
            decided += place(core, want, Placement(Level.FEWEST_SERVERS, [Portion(part.use, 0, 1)]))
    return decided


def _requeue(core: Core, record: JobRecord) -> int:
    for hold in holds_of(core, record):
        free_hold(core, hold)
    lost = f"{record.missing} of its containers were lost and could not be replaced"
    order_anew(core, record, f"{lost} for {core.settings.requeue_after_s:g} s: it starts anew as a whole")
    return 1


def order_anew(core: Core, record: JobRecord, text: str, preempted_by: str = "") -> None:
    """Order a job to start anew as a whole."""
    record.requeued = True
    decision = Decision(core.next_decision_id, record.job.job_id, record.job.attempt)
    decision.requeue = True
    core.next_decision_id += 1
    core.state.begin(decision)
    core.commands.append(
        RequeueJob(
            decision_id=decision.decision_id,
            job_id=decision.job_id,
            attempt=decision.attempt,
            diagnostics=text,
            preempted_by=preempted_by,
        )
    )


def requeue_refused(core: Core, record: JobRecord) -> None:
    """Give the order again after the longest pause, if the gang is not whole by then."""
    record.requeued = False
    record.degraded_since_s = core.now_s + core.settings.backoff_max_s - core.settings.requeue_after_s


def wakes_s(core: Core) -> Iterator[float]:
    """Give the times at which holds end or somebody has waited too long."""
    for job_id in core.degraded:
        record = core.state.jobs[job_id]
        yield from (hold.hold_until_s for hold in holds_of(core, record) if hold.hold_until_s is not None)
        if record.requeued:
            continue
        if asks_replacement(record):
            yield record.requeue_at_s(core.settings.requeue_after_s)
        elif record.degraded_since_s is not None and not record.decisions:
            yield record.degraded_since_s + core.settings.repair_hold_s
