"""From values of the model to messages."""

from google.protobuf.timestamp_pb2 import Timestamp

from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.delay import Delays
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.reason import WaitingReason
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.protocol.enums import REASON_NUMBERS, SERVER_STATE_NUMBERS, UNTAGGED_JOBS_NUMBERS
from yarn_gpu_sched.protocol.v1 import (
    ask_pb2,
    container_pb2,
    job_pb2,
    reason_pb2,
    resource_pb2,
    server_pb2,
    virtual_cluster_pb2,
)

_NANOS_PER_MICROSECOND = 1_000


def resource_message(resource: Resource) -> resource_pb2.Resource:
    """Convert an amount."""
    return resource_pb2.Resource(memory_mb=resource.memory_mb, vcores=resource.vcores, gpus=resource.gpus)


def timestamp_message(time_s: float) -> Timestamp:
    """Convert a time, to the microsecond: that is what a float of today's date still holds."""
    microseconds = round(time_s * 1_000_000)
    seconds, rest = divmod(microseconds, 1_000_000)
    return Timestamp(seconds=seconds, nanos=rest * _NANOS_PER_MICROSECOND)


def server_message(server: Server) -> server_pb2.Server:
    """Convert a server."""
    return server_pb2.Server(
        server_id=server.server_id,
        host=server.host,
        rack=server.rack,
        partition=server.partition,
        capacity=resource_message(server.capacity),
        state=SERVER_STATE_NUMBERS[server.state],
        partition_shared=server.partition_shared,
    )


def virtual_cluster_message(vc: VirtualCluster) -> virtual_cluster_pb2.VirtualCluster:
    """Convert a virtual cluster; a quota or maximum of None stays absent."""
    return virtual_cluster_pb2.VirtualCluster(
        path=vc.path,
        quota_gpus=vc.quota_gpus,
        maximum_gpus=vc.maximum_gpus,
        running=vc.running,
        untagged_jobs=UNTAGGED_JOBS_NUMBERS[vc.debounce],
        parent=vc.parent,
        capacities=[
            virtual_cluster_pb2.QueueCapacity(
                partition=one.partition, capacity=one.capacity, maximum_capacity=one.maximum
            )
            for one in vc.capacities
        ],
        settings=dict(vc.settings),
    )


def job_message(job: Job) -> job_pb2.Job:
    """Convert a job."""
    return job_pb2.Job(
        job_id=job.job_id,
        virtual_cluster=job.vc,
        user=job.user,
        name=job.name,
        tags=job.tags,
        submit_time=timestamp_message(job.submit_time_s),
        attempt=job.attempt,
        active=job.active,
        recovered=job.recovered,
        unmanaged=job.unmanaged,
        priority=job.priority,
        keeps_containers=job.keeps_containers,
        expire_time=None if job.expire_time_s is None else timestamp_message(job.expire_time_s),
        one_attempt=job.one_attempt,
    )


def container_message(container: Container) -> container_pb2.Container:
    """Convert a live container."""
    key = container.key
    return container_pb2.Container(
        container_id=container.container_id,
        job_id=container.job_id,
        attempt=container.attempt,
        server_id=container.server_id,
        resource=resource_message(container.resource),
        gpu_indices=container.gpu_indices,
        application_master=container.application_master,
        key=ask_pb2.RequestKey(priority=key.priority, allocation_request_id=key.allocation_request_id),
        ending=container.ending,
    )


def waiting_message(waiting: WaitingReason) -> reason_pb2.WaitingReason:
    """Convert a reason. Its sentence may quote what came from outside: one printable line."""
    return reason_pb2.WaitingReason(
        code=REASON_NUMBERS[waiting.code],
        sentence=one_line(waiting.sentence),
        gpus_asked=waiting.gpus_asked,
        containers_asked=waiting.containers_asked,
        gpus_free=waiting.gpus_free,
        servers_free=waiting.servers_free,
    )


def delays_message(delays: Delays) -> reason_pb2.Delays:
    """Convert what was waited, to seconds."""
    return reason_pb2.Delays(
        fair_share_s=delays.fair_share_us / 1e6,
        capacity_s=delays.capacity_us / 1e6,
        fragmentation_s=delays.fragmentation_us / 1e6,
        other_s=delays.other_us / 1e6,
    )
