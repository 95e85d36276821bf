"""Jobs are submitted, start anew, ask and end."""

import msgspec

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.events import AsksChanged, JobChanged, JobEnded
from yarn_gpu_sched.engine.gathering import asks_changed, forget
from yarn_gpu_sched.engine.overdue import watch
from yarn_gpu_sched.engine.repair import made_whole
from yarn_gpu_sched.engine.reserving import asks_changed as reservation_asks_changed
from yarn_gpu_sched.engine.reserving import end as end_reservation
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.assignment import ANYWHERE
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.job_tags import JobTags, job_tags
from yarn_gpu_sched.model.tag import TagError


def on_job_changed(core: Core, event: JobChanged) -> None:
    """Take a job as submitted, or its new attempt, virtual cluster or activity."""
    record = core.state.jobs.get(event.job.job_id)
    job = _with_attempt(core, event.job, record)
    if record is None:
        record = _submit(core, job)
    elif not record.known:
        _make_known(core, record, job)
    elif record.presumed_ended:
        _revive(core, record, job)
    elif record.end is not None or job.attempt < record.job.attempt or job == record.job:
        return
    else:
        _change(core, record, job)
    core.to_check[job.job_id] = None
    core.changed(record)


def _with_attempt(core: Core, job: Job, record: JobRecord | None) -> Job:
    """Read a job that has no attempt yet as having the one that it had when the link was lost: so it begins after a restart."""
    before = core.session.previous.get(job.job_id)
    if before is None and record is not None and record.presumed_ended:
        before = record
    if job.attempt or before is None:
        return job
    return msgspec.structs.replace(job, attempt=before.job.attempt, active=False)


def _submit(core: Core, job: Job) -> JobRecord:
    record = core.state.add_job(job, core.now_s)
    _introduce(core, record)
    return record


def _make_known(core: Core, record: JobRecord, job: Job) -> None:
    core.state.move_job(record, job)
    record.order = (job.submit_time_s, job.job_id)
    record.known = True
    _introduce(core, record)


def _revive(core: Core, record: JobRecord, job: Job) -> None:
    """Take up a job that a snapshot had left out: it came before its resource manager had recovered all of its jobs."""
    core.ended.pop(job.job_id, None)
    core.remove_from_order(record)
    record.presumed_ended = False
    record.end = record.ended_s = None
    record.diagnostics = ""
    record.refusal = ""
    if job.attempt != record.job.attempt:
        _start_anew(core, record)
    _make_known(core, record, job)


def _introduce(core: Core, record: JobRecord) -> None:
    core.add_to_order(record)
    before = core.session.previous.pop(record.job.job_id, None)
    if before is not None:
        record.take_over(before)
    if record.missing:
        core.degraded[record.job.job_id] = None
    _read_tags(core, record)
    if record.gang is None:
        made_whole(core, record)
    count_members(record)


def _change(core: Core, record: JobRecord, job: Job) -> None:
    before = record.job
    moves = job.vc != before.vc
    if moves:
        if job.job_id in core.reservations.by_job:
            end_reservation(core, job.job_id)  # where it goes another may have one
        core.move(record, job.vc)
        core.thresholds.stale = True  # its masters count for another one
        core.preemption.changed_everywhere()  # what it holds too: others borrow
        record.backoff = None  # the limit that it ran into may have been its virtual cluster's
    core.state.move_job(record, job)
    if moves:
        watch(core, record)
        core.queue.wake_masters()  # where it was, masters hold less
    if job.recovered and record.refusal and not record.overdue:
        record.refusal = ""
        core.to_refuse.pop(job.job_id, None)
    if job.attempt > before.attempt:
        _next_attempt(core, record)
    if job.tags != before.tags:
        made_whole(core, record)
        _read_tags(core, record)
    if job.attempt > before.attempt or job.tags != before.tags or job.keeps_containers != before.keeps_containers:
        count_members(record)


def _next_attempt(core: Core, record: JobRecord) -> None:
    """Begin a new attempt: anew, unless it takes over members of its gang that run on."""
    record.asks = record.blacklist = ()
    record.in_flight = {}
    record.backoff = None
    record.resync = None  # a new master repeats nothing
    if record.requeued or not (record.gang_placed and record.members):
        _start_anew(core, record)


def start_anew_within_attempt(core: Core, record: JobRecord) -> None:
    """Let a gang that was to start anew wait again once it has gone, where no new attempt will say so: its master goes on.

    What the master asks stays asked.
    """
    if record.requeued and record.job.unmanaged and not record.has_gpu_workers:
        _start_anew(core, record)
        count_members(record)
        asks_changed(core, record, ())


def _start_anew(core: Core, record: JobRecord) -> None:
    """Let the gang be placed again."""
    made_whole(core, record)
    forget(core, record)
    core.waits.begin_anew(record)
    if record.requeued:
        record.members_since = record.job.attempt
    record.requeued = record.was_placed = record.overdue = False
    record.resync = None
    record.gang_placed = record.gang_under_way = False
    record.served = 0
    core.ladder.restart(record)
    record.level = None
    record.backoff = None
    record.tenure.begin_anew()


def _read_tags(core: Core, record: JobRecord) -> None:
    try:
        tags = job_tags(record.job.tags)
    except TagError as problem:
        tags = JobTags()
        core.refuse(record, str(problem))
    forget(core, record)
    record.gang = tags.gang
    record.runtime_s = tags.runtime_s
    record.tenure.checkpoint_every_s = tags.checkpoint_every_s
    record.ceiling = ANYWHERE if tags.locality is None else tags.locality.ceiling
    record.relax_after_s = None if tags.locality is None else tags.locality.relax_after_s


def came_back(core: Core, record: JobRecord, container: Container) -> None:
    """Count a container that outlived its resource manager for what the job's master asked again."""
    told_anew = core.session.snapshot_ended and not container.ending
    if record.resync is not None and told_anew and record.is_member(container):
        record.resync.comes_back((container.key, container.resource, False))


def count_members(record: JobRecord) -> None:
    """Count anew: what was said of a container, or what the gang is, has changed."""
    record.served = 0
    if record.gang is not None and not record.gang_placed:
        for container in record.containers.values():
            count_member(record, container)


def count_member(record: JobRecord, container: Container) -> None:
    """Count a container that no decision made for the gang of its job.

    One with GPUs shows that the gang was placed before. One without may be a member that the resource manager placed by itself;
    where the tag names no GPUs it shows the same if the gang is known to have been placed, or nothing is known of a recovered job.
    """
    if record.gang is None or record.gang_placed or container.ending or not record.is_member(container):
        return
    known = record.job.recovered if record.was_placed is None else record.was_placed
    if container.resource.gpus or (known and record.gang.gpus_each is None):
        record.gang_placed = True
        return
    record.served += 1
    if record.gang.gpus_each is None and record.served >= record.gang.containers:
        record.gang_placed = True


def on_asks_changed(core: Core, event: AsksChanged) -> None:
    """Replace the asks of a job's attempt."""
    record = core.state.jobs.get(event.job_id)
    if record is None or not record.known or record.end is not None or event.attempt < record.job.attempt:
        return
    if event.attempt > record.job.attempt:  # the attempt began after the job was looked at, and before its asks were
        _change(core, record, msgspec.structs.replace(record.job, attempt=event.attempt))
    before, blacklist_before = record.asks, record.blacklist
    record.blacklist = event.blacklist
    asks = [ask for ask in event.asks if ask.count > 0]
    if len(asks) > 1:
        asks.sort(key=_in_order)
    record.asks = tuple(asks)
    if record.backoff is not None and (record.asks != before or record.blacklist != blacklist_before):
        record.backoff.lift(core.now_s)
    if record.asks != before or record.blacklist != blacklist_before:
        reservation_asks_changed(core, event.job_id)
    if core.session.snapshot_ended:
        record.hear_again(before, core.now_s)
    asks_changed(core, record, before)
    if record.gang is not None:
        _check_gang(core, record)
    core.to_check[event.job_id] = None
    core.changed(record)


def _in_order(ask: Ask) -> tuple[int, int, int, int, int, bool, str]:
    resource = ask.resource
    return (
        ask.key.priority,
        ask.key.allocation_request_id,
        -resource.gpus,
        resource.memory_mb,
        resource.vcores,
        ask.application_master,
        ask.partition,
    )


def _check_gang(core: Core, record: JobRecord) -> None:
    """Refuse what contradicts the gang's tag."""
    tag = record.gang
    assert tag is not None
    workers = [ask for ask in record.asks if not ask.application_master]
    if len(workers) > 1 and not record.gang_placed:
        partitions = list({ask.partition: None for ask in workers})
        if len(partitions) > 1:
            core.refuse(
                record, f'tag "{tag}": the asks name partitions "{partitions[0]}" and "{partitions[1]}"; a gang has one'
            )
    if tag.gpus_each is None:
        return
    allowed = (tag.gpus_each, 0) if tag.plain else (tag.gpus_each,)
    for ask in workers:
        if ask.resource.gpus not in allowed:
            said = f"{tag.gpus_each} GPUs" + (" or none" if tag.plain else "")
            core.refuse(record, f'tag "{tag}" says {said} a container, an ask has {ask.resource.gpus}')
            return


def on_job_ended(core: Core, event: JobEnded) -> None:
    """End a job; what it holds stays in use until each container is released."""
    record = core.state.jobs.get(event.job_id)
    if record is None or not record.known or (record.end is not None and not record.presumed_ended):
        return
    core.waits.end(record)
    record.presumed_ended = False
    record.end = event.end
    record.diagnostics = event.diagnostics
    record.ended_s = core.now_s
    made_whole(core, record)
    forget(core, record)
    record.asks = ()
    record.backoff = None
    core.to_check.pop(event.job_id, None)
    core.to_refuse.pop(event.job_id, None)
    core.ended[event.job_id] = None
    core.changed(record)
    if not record.containers:
        core.forget_old_jobs()
