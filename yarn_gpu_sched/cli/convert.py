"""From the protocol's messages to the documents of `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from yarn_gpu_sched.cli import documents
from yarn_gpu_sched.cli.preemption_convert import preempted_documents
from yarn_gpu_sched.protocol.v1 import job_pb2, reason_pb2, server_pb2

if TYPE_CHECKING:
    from yarn_gpu_sched.protocol.v1 import cluster_pb2, container_pb2, jobs_pb2, resource_pb2, virtual_cluster_pb2


def job_document(view: job_pb2.JobView) -> documents.JobDocument:
    """Return a job without its containers."""
    job = view.job
    return documents.JobDocument(
        job_id=job.job_id,
        state=state_name(view.state),
        virtual_cluster=job.virtual_cluster,
        user=job.user,
        name=job.name,
        tags=tuple(job.tags),
        submit_time=job.submit_time.ToJsonString(),
        expire_time=job.expire_time.ToJsonString() if job.HasField("expire_time") else None,
        attempt=job.attempt,
        active=job.active,
        recovered=job.recovered,
        unmanaged=job.unmanaged,
        gang_containers=view.gang_containers,
        gpus_pending=view.gpus_pending,
        used=_resource(view.used),
        waiting=waiting_document(view.waiting) if view.HasField("waiting") else None,
        end=end_name(view.end) if view.state == job_pb2.JOB_STATE_ENDED else None,
        diagnostics=view.diagnostics,
        age_s=view.age_s,
        level=view.level if view.HasField("level") else None,
        delays=waited_document(view.delays),
        delays_in_all=waited_document(view.delays_in_all),
        preempted=preempted_documents(view.preempted),
        preempted_times=view.preempted_times,
        stopped_for=view.stopped_for or None,
        stops_in_s=view.stops_in_s if view.HasField("stops_in_s") else None,
    )


def job_with_containers_document(view: job_pb2.JobView) -> documents.JobWithContainersDocument:
    """Return a job with its containers."""
    job = job_document(view)
    fields = {name: getattr(job, name) for name in job.__struct_fields__}
    return documents.JobWithContainersDocument(
        **fields,
        containers=tuple(map(_container, view.containers)),
        history=tuple(documents.ReasonSinceDocument(reason_name(one.code), one.age_s) for one in view.history),
    )


def waited_document(delays: reason_pb2.Delays) -> documents.WaitedDocument:
    """Return how long was waited by cause."""
    return documents.WaitedDocument(delays.fair_share_s, delays.capacity_s, delays.fragmentation_s, delays.other_s)


def delay_row_document(row: jobs_pb2.DelayRow) -> documents.DelayRowDocument:
    """Return the waits of a virtual cluster's jobs of one size."""
    mostly = row.mostly
    return documents.DelayRowDocument(
        virtual_cluster=row.virtual_cluster,
        size=row.size,
        waits=row.waits,
        delays=waited_document(row.delays),
        mostly=documents.DelayCountsDocument(mostly.fair_share, mostly.capacity, mostly.fragmentation, mostly.other),
        waiting=row.waiting,
        waiting_delays=waited_document(row.waiting_delays),
    )


def waiting_document(waiting: reason_pb2.WaitingReason) -> documents.WaitingDocument:
    """Return why a job waits."""
    return documents.WaitingDocument(
        code=reason_name(waiting.code),
        sentence=waiting.sentence,
        gpus_asked=waiting.gpus_asked,
        containers_asked=waiting.containers_asked,
        gpus_free=waiting.gpus_free,
        servers_free=waiting.servers_free,
    )


def outlook_document(outlook: reason_pb2.Outlook) -> documents.OutlookDocument:
    """Return what would change a wait."""
    return documents.OutlookDocument(
        changes=tuple(outlook.changes),
        when=outlook.when,
        starts_in_s=outlook.starts_in_s if outlook.HasField("starts_in_s") else None,
        next_level=outlook.next_level if outlook.HasField("next_level") else None,
        relaxes_in_s=outlook.relaxes_in_s if outlook.HasField("relaxes_in_s") else None,
        gpus_lacking=outlook.gpus_lacking,
        limit_gpus_lacking=outlook.limit_gpus_lacking,
        job_ids=tuple(outlook.job_ids),
        server_ids=tuple(outlook.server_ids),
    )


def server_document(view: cluster_pb2.ServerView) -> documents.ServerDocument:
    """Return a server with its use."""
    server = view.server
    return documents.ServerDocument(
        server_id=server.server_id,
        host=server.host,
        rack=server.rack,
        partition=server.partition,
        state=server_state_name(server.state),
        capacity=_resource(server.capacity),
        used=_resource(view.used),
        gpus=tuple(documents.GpuDocument(gpu.index, gpu.job_id or None, gpu.container_id or None) for gpu in view.gpus),
        containers=view.containers,
    )


def virtual_cluster_document(use: virtual_cluster_pb2.VirtualClusterUse) -> documents.VirtualClusterDocument:
    """Return a virtual cluster with its use."""
    vc = use.virtual_cluster
    return documents.VirtualClusterDocument(
        path=vc.path,
        quota_gpus=vc.quota_gpus if vc.HasField("quota_gpus") else None,
        maximum_gpus=vc.maximum_gpus if vc.HasField("maximum_gpus") else None,
        running=vc.running,
        used=_resource(use.used),
        jobs_running=use.jobs_running,
        jobs_pending=use.jobs_pending,
        parent=vc.parent,
        shares=tuple(map(_share, use.shares)),
        warnings=tuple(use.warnings),
    )


def _share(share: virtual_cluster_pb2.PartitionShare) -> documents.PartitionShareDocument:
    return documents.PartitionShareDocument(
        partition=share.partition,
        quota_gpus=share.quota_gpus if share.HasField("quota_gpus") else None,
        maximum_gpus=share.maximum_gpus if share.HasField("maximum_gpus") else None,
        used_gpus=share.used_gpus,
        borrowed_gpus=share.borrowed_gpus,
        translated=share.translated,
    )


def state_name(state: job_pb2.JobState.ValueType) -> documents.State:
    """Return where a job stands; what a newer service may add is unknown."""
    return cast("documents.State", _NAMES_OF_STATES.get(state, "unknown"))


def reason_name(code: reason_pb2.WaitingReasonCode.ValueType) -> str:
    """Return why a job waits as one word."""
    return _NAMES_OF_REASONS.get(code, "unknown")


def server_state_name(state: server_pb2.ServerState.ValueType) -> documents.ServerStateName:
    """Return what may be done with a server."""
    return cast("documents.ServerStateName", _NAMES_OF_SERVER_STATES.get(state, "unknown"))


def end_name(end: job_pb2.JobEnd.ValueType) -> documents.EndName:
    """Return how a job ended."""
    return cast("documents.EndName", _NAMES_OF_ENDS.get(end, "unknown"))


def _names(items: list[tuple[str, int]], prefix: str) -> dict[int, str]:
    return {number: name.removeprefix(prefix).lower() for name, number in items if number}


_NAMES_OF_STATES = _names([*job_pb2.JobState.items()], "JOB_STATE_")
_NAMES_OF_ENDS = _names([*job_pb2.JobEnd.items()], "JOB_END_")
_NAMES_OF_REASONS = _names([*reason_pb2.WaitingReasonCode.items()], "WAITING_REASON_CODE_")
_NAMES_OF_SERVER_STATES = _names([*server_pb2.ServerState.items()], "SERVER_STATE_")


def _resource(resource: resource_pb2.Resource) -> documents.ResourceDocument:
    return documents.ResourceDocument(resource.memory_mb, resource.vcores, resource.gpus)


def _container(container: container_pb2.Container) -> documents.ContainerDocument:
    return documents.ContainerDocument(
        container_id=container.container_id,
        attempt=container.attempt,
        server_id=container.server_id,
        resource=_resource(container.resource),
        gpu_indices=tuple(container.gpu_indices),
        application_master=container.application_master,
        priority=container.key.priority,
        allocation_request_id=container.key.allocation_request_id,
        ending=container.ending,
    )
