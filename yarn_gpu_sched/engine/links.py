"""A resource manager registers, tells all it knows, and goes away."""

from yarn_gpu_sched.engine.commands import Unbind
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.events import ResourceManagerLost, ResourceManagerRegistered, SnapshotEnded
from yarn_gpu_sched.engine.jobs import start_anew_within_attempt
from yarn_gpu_sched.engine.preempting import watch_all
from yarn_gpu_sched.model.job import JobEnd, JobState
from yarn_gpu_sched.model.job_record import JobRecord

GONE = "the resource manager no longer knew the job when it registered again"


def on_registered(core: Core, event: ResourceManagerRegistered) -> None:
    """Void what was known of the cluster; remember what the snapshot is to be compared with."""
    session = core.session
    same_cluster = session.cluster_id == event.cluster_id
    same_manager = same_cluster and (session.epoch, session.start_time_ms) == (event.epoch, event.start_time_ms)
    _note(core)
    _void_decisions(core)
    _remember(core)
    if not same_manager:
        for record in (*session.previous.values(), *[one for one in core.state.jobs.values() if one.presumed_ended]):
            record.begin_anew(core.now_s)
    _clear(core)
    if not same_cluster:
        core.seen.forget_all()
        session.missing.clear()
    core.preemption.quiet_until_s = core.now_s + core.settings.preempt_pause_s
    if not core.preemption.off:
        core.preemption.agenda.note(core.preemption.quiet_until_s, "")
    core.limits_changed()
    session.knew_servers = bool(session.missing)
    session.cluster_id = event.cluster_id
    session.epoch = event.epoch
    session.start_time_ms = event.start_time_ms
    session.connected = True
    session.snapshot_ended = False
    session.settled = False
    session.settles_at_s = core.now_s + event.settle_left_s


def _note(core: Core) -> None:
    """Note what the jobs had, if all was told; what a snapshot left open says less than what was noted before."""
    if core.session.snapshot_ended:
        for record in core.state.jobs.values():
            if record.known and record.end is None:
                record.note()


def _remember(core: Core) -> None:
    session, state = core.session, core.state
    for server_id in state.servers:
        session.missing[server_id] = None
    for container in state.containers.values():
        if state.servers[container.server_id].gpus:
            session.bound[container.container_id] = container.server_id
    for job_id, record in state.jobs.items():
        if record.known and record.end is None:
            session.previous[job_id] = record


def _clear(core: Core) -> None:
    """Drop servers, containers, virtual clusters and live jobs; ended jobs stay to be looked at."""
    state = core.state
    for server_id in list(state.servers):
        state.remove_server(server_id)
    for record in list(state.jobs.values()):
        if record.end is None:
            core.forget(record)
    for virtual_cluster in list(state.virtual_clusters.values()):
        virtual_cluster.virtual_cluster = None
        state.forget_unused(virtual_cluster)
    core.index.clear()
    core.seen.forget_present()
    core.queue.clear()
    core.thresholds.clear()
    core.limits_stale.clear()
    core.resting.clear()
    core.to_check.clear()
    core.to_refuse.clear()
    core.verdicts.clear()
    core.changed_partitions.clear()
    core.health.lost.clear()


def on_snapshot_ended(core: Core, _event: SnapshotEnded) -> None:
    """From here on a pass may decide. What the snapshot did not speak of is gone."""
    session = core.session
    if not session.connected or session.snapshot_ended:
        return
    session.snapshot_ended = True
    core.thresholds.stale = True
    for container_id, server_id in sorted(session.bound.items()):
        core.commands.append(Unbind(container_id=container_id, server_id=server_id))
    session.bound.clear()
    for record in sorted(session.previous.values(), key=lambda record: record.order):
        _end_missing(core, record)
    session.previous.clear()
    for record in core.state.jobs.values():
        if record.was_placed is None:
            record.was_placed = record.gang_placed
        if record.end is None and (record.resync is not None or record.requeued):
            _look_again(core, record)
        if record.counted is JobState.PENDING and record.wait.since_us is None:
            core.waits.begin(record)
    core.forget_old_jobs()


def _look_again(core: Core, record: JobRecord) -> None:
    """Make of a job that the snapshot told of what only the whole of it shows: what its asks mean, and that its gang has gone."""
    record.hear_again(record.asks, core.now_s)
    start_anew_within_attempt(core, record)
    core.changed(record)


def _end_missing(core: Core, before: JobRecord) -> None:
    """End a job that the resource manager has forgotten. Containers that still speak of it stay with it."""
    job_id = before.job.job_id
    record = core.state.jobs.get(job_id)
    if record is None:
        record = core.state.add_job(before.job, before.first_seen_s)
    else:
        core.state.move_job(record, before.job)
        record.order, record.known = before.order, True
    record.take_over(before)
    core.add_to_order(record)
    record.end = JobEnd.KILLED
    record.presumed_ended = True
    record.diagnostics = GONE
    record.ended_s = core.now_s
    core.ended[job_id] = None
    core.changed(record)


def on_lost(core: Core, _event: ResourceManagerLost) -> None:
    """Decide nothing more; what was under way is void. What was known stays to be looked at."""
    _note(core)
    core.session.connected = False
    core.session.snapshot_ended = False
    core.thresholds.stale = True
    core.waits.unsettled.update(dict.fromkeys(core.state.jobs))
    _void_decisions(core)


def _void_decisions(core: Core) -> None:
    core.ahead.clear()
    core.preemption.clear()
    core.reservations.clear()
    for decision in core.state.void_decisions():
        record = core.state.jobs[decision.job_id]
        if decision.gang and decision.attempt == record.job.attempt:
            record.gang_under_way = False
        if decision.requeue and decision.attempt == record.job.attempt:
            record.requeued = False
        core.settle_job(record)
    watch_all(core)  # who waits still does, and has for as long as before
