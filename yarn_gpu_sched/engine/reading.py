"""Views of an engine's state: copies for whoever shows them."""

from bisect import bisect_right
from itertools import islice

import msgspec

from yarn_gpu_sched.engine.borrowing import Holding, by_queue, charge, holdings
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.foretelling import stopping
from yarn_gpu_sched.engine.views import (
    ClusterView,
    GpuUse,
    JobView,
    PartitionShare,
    ServerView,
    VirtualClusterUse,
)
from yarn_gpu_sched.engine.waiting import waiting_reason
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

Held = dict[tuple[str, str], list[Holding]]
"""What is held, by queue and partition."""


def cluster_view(core: Core) -> ClusterView:
    """Show the cluster as a whole."""
    session, state = core.session, core.state
    return ClusterView(
        cluster_id=session.cluster_id,
        connected=session.deciding,
        epoch=session.epoch,
        capacity=state.capacity,
        used=state.used,
        servers=len(state.servers),
        settled=session.settled,
        jobs_pending=core.jobs_pending,
        jobs_running=core.jobs_running,
    )


def job_view(core: Core, record: JobRecord, now_us: int, *, with_containers: bool) -> JobView:
    """Show a job."""
    containers = tuple(record.containers[key] for key in sorted(record.containers)) if with_containers else ()
    plan = stopping(core, record)
    return JobView(
        job=record.job,
        state=record.state,
        gang_containers=0 if record.gang is None else record.gang.containers,
        gpus_pending=sum(ask.count * ask.resource.gpus for ask in record.asks),
        used=record.used,
        first_seen_s=record.first_seen_s,
        containers=containers,
        waiting=waiting_reason(core, record),
        end=record.end,
        diagnostics=record.diagnostics,
        ended_s=record.ended_s,
        level=record.level,
        delays=core.waits.delays_of(record, now_us),
        delays_in_all=core.waits.delays_in_all(record, now_us),
        history=core.waits.history_of(record) if with_containers else (),
        preempted=record.tenure.preempted,
        stopped_for="" if plan is None else plan.job_id,
        stopped_at_s=None if plan is None else (plan.grace_until_s if plan.stopped_s is None else plan.stopped_s),
    )


def job_views(
    core: Core, state: JobState | None, vc: str, after: str, limit: int, now_us: int
) -> tuple[list[JobView], int]:
    """Show a page of jobs in order of submission, and how many there are in all."""
    jobs, order = core.state.jobs, core.order
    if state is not None or vc:
        order = [place for place in order if _chosen(jobs[place[1]], state, vc)]
    start = 0
    if after:
        known = jobs.get(after)
        start = bisect_right(order, known.order) if known is not None else len(order)
    page = order[start : start + max(0, limit)]
    return [job_view(core, jobs[job_id], now_us, with_containers=False) for _, job_id in page], len(order)


def _chosen(record: JobRecord, state: JobState | None, vc: str) -> bool:
    return (not vc or record.job.vc == vc) and (state is None or record.state is state)


def server_views(core: Core, after: str, limit: int) -> tuple[list[ServerView], int]:
    """Show a page of servers in order of their ids, and how many there are in all."""
    ids = sorted(core.state.servers)
    start = bisect_right(ids, after) if after else 0
    page = islice(ids, start, start + max(0, limit))
    return [_server_view(core, core.state.servers[server_id]) for server_id in page], len(ids)


def _server_view(core: Core, use: ServerUse) -> ServerView:
    gpus = {index: GpuUse(index) for index in range(use.gpus)}
    for decision_id, part in use.in_flight.items():
        for index in range(part.mask.bit_length()):
            if part.mask >> index & 1:
                gpus[index] = GpuUse(index, core.state.decisions[decision_id].job_id)
    for container in use.containers.values():
        for index in container.gpu_indices:
            gpus[index] = GpuUse(index, container.job_id, container.container_id)
    return ServerView(use.server, use.used, tuple(gpus[index] for index in sorted(gpus)), len(use.containers))


def virtual_cluster_views(core: Core, after: str, limit: int) -> tuple[list[VirtualClusterUse], int]:
    """Show a page of virtual clusters in order of their paths, and how many there are in all."""
    warnings = _warnings(core)
    known = {path for path, record in core.state.virtual_clusters.items() if path and record.told}
    paths = sorted(known | warnings.keys())
    start = bisect_right(paths, after) if after else 0
    page = list(islice(paths, start, start + max(0, limit)))
    held = by_queue(holdings(core)) if page else {}
    return [_virtual_cluster_view(core, path, held, warnings.get(path, [])) for path in page], len(paths)


def _warnings(core: Core) -> dict[str, list[str]]:
    """Say what is wrong with the queues; that they are more than the cluster only once its capacity has settled."""
    warnings, more = core.in_force.warnings, core.in_force.oversubscribed
    if not more or not core.session.settled:
        return warnings
    return {path: warnings.get(path, []) + more.get(path, []) for path in warnings | more}


def _virtual_cluster_view(core: Core, path: str, held: Held, warnings: list[str]) -> VirtualClusterUse:
    record = core.state.virtual_clusters.get(path)
    told = None if record is None else record.virtual_cluster
    told = told or VirtualCluster(path, parent=record is None or bool(record.below))
    return VirtualClusterUse(
        msgspec.structs.replace(told, debounce=core.in_force.settings(path).debounce),
        core.state.used if record is None else record.used,  # nobody speaks of the root where no path begins with it
        0 if record is None else record.jobs_running,
        0 if record is None else record.jobs_pending,
        _shares(core, path, held),
        tuple(warnings),
    )


def _shares(core: Core, path: str, held: Held) -> tuple[PartitionShare, ...]:
    """Show what a queue has and uses of each partition that it has anything to do with."""
    used = {partition for at, partition in held if at == path}
    partitions = sorted(used | set(core.in_force.partitions(path))) or [""]
    return tuple(_share(core, path, partition, held.get((path, partition), [])) for partition in partitions)


def _share(core: Core, path: str, partition: str, held: list[Holding]) -> PartitionShare:
    limits = core.in_force.limits(path, partition)
    return PartitionShare(
        partition,
        limits.quota_gpus,
        limits.maximum_gpus,
        sum(one.gpus for one in held),
        sum(one.borrowed_gpus for one in charge(held, limits.quota_gpus)),
        limits.translated,
    )
