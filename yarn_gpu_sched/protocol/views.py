"""From the engine's views to messages."""

from yarn_gpu_sched.engine import views
from yarn_gpu_sched.protocol.enums import JOB_END_NUMBERS, JOB_STATE_NUMBERS
from yarn_gpu_sched.protocol.messages import (
    container_message,
    job_message,
    resource_message,
    server_message,
    virtual_cluster_message,
    waiting_message,
)
from yarn_gpu_sched.protocol.v1 import cluster_pb2, job_pb2, virtual_cluster_pb2


def job_view_message(view: views.JobView, now_s: float) -> job_pb2.JobView:
    """Convert a job as listed; its age ends with it."""
    until_s = now_s if view.ended_s is None else view.ended_s
    message = job_pb2.JobView(
        job=job_message(view.job),
        state=JOB_STATE_NUMBERS[view.state],
        gang_containers=view.gang_containers,
        gpus_pending=view.gpus_pending,
        used=resource_message(view.used),
        containers=[container_message(container) for container in view.containers],
        diagnostics=view.diagnostics,
        age_s=max(0.0, until_s - view.first_seen_s),
        level=view.level,
    )
    if view.waiting is not None:
        message.waiting.CopyFrom(waiting_message(view.waiting))
    if view.end is not None:
        message.end = JOB_END_NUMBERS[view.end]
    return message


def server_view_message(view: views.ServerView) -> cluster_pb2.ServerView:
    """Convert a server with its use."""
    return cluster_pb2.ServerView(
        server=server_message(view.server),
        used=resource_message(view.used),
        gpus=[
            cluster_pb2.GpuUse(index=gpu.index, job_id=gpu.job_id, container_id=gpu.container_id) for gpu in view.gpus
        ],
        containers=view.containers,
    )


def virtual_cluster_use_message(
    view: views.VirtualClusterUse,
) -> virtual_cluster_pb2.VirtualClusterUse:
    """Convert a virtual cluster with its use."""
    return virtual_cluster_pb2.VirtualClusterUse(
        virtual_cluster=virtual_cluster_message(view.virtual_cluster),
        used=resource_message(view.used),
        jobs_running=view.jobs_running,
        jobs_pending=view.jobs_pending,
    )


def cluster_message(view: views.ClusterView) -> cluster_pb2.GetClusterResponse:
    """Convert the totals."""
    return cluster_pb2.GetClusterResponse(
        cluster_id=view.cluster_id,
        connected=view.connected,
        epoch=view.epoch,
        capacity=resource_message(view.capacity),
        used=resource_message(view.used),
        servers=view.servers,
        settled=view.settled,
        jobs_pending=view.jobs_pending,
        jobs_running=view.jobs_running,
    )
