"""Views of an engine's state: copies for whoever shows them."""

from bisect import bisect_right
from itertools import islice

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.views import ClusterView, GpuUse, JobView, ServerView, VirtualClusterUse
from yarn_gpu_sched.engine.waiting import waiting_reason
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.model.tenants import VirtualClusterRecord
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster


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


def job_view(core: Core, record: JobRecord, *, with_containers: bool) -> JobView:
    """Show a job."""
    containers = tuple(record.containers[key] for key in sorted(record.containers)) if with_containers else ()
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
    )


def job_views(core: Core, state: JobState | None, vc: str, after: str, limit: int) -> tuple[list[JobView], int]:
    """Show a page of jobs in order of submission, and how many there are in all."""
    jobs, order = core.state.jobs, core.order
    if state is not None or vc:
        order = [place for place in order if _chosen(jobs[place[1]], state, vc)]
    start = 0
    if after:
        known = jobs.get(after)
        start = bisect_right(order, known.order) if known is not None else len(order)
    page = order[start : start + max(0, limit)]
    return [job_view(core, jobs[job_id], with_containers=False) for _, job_id in page], len(order)


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
    paths = sorted(path for path, record in core.state.virtual_clusters.items() if path and record.told)
    start = bisect_right(paths, after) if after else 0
    page = islice(paths, start, start + max(0, limit))
    return [_virtual_cluster_view(core.state.virtual_clusters[path]) for path in page], len(paths)


def _virtual_cluster_view(record: VirtualClusterRecord) -> VirtualClusterUse:
    virtual_cluster = record.virtual_cluster or VirtualCluster(record.path)
    return VirtualClusterUse(virtual_cluster, record.used, record.jobs_running, record.jobs_pending)
