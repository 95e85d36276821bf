"""From the engine's views to messages."""

from collections.abc import Iterable

from yarn_gpu_sched.engine import views
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.protocol.enums import JOB_END_NUMBERS, JOB_STATE_NUMBERS, REASON_NUMBERS
from yarn_gpu_sched.protocol.fitting import fitting
from yarn_gpu_sched.protocol.messages import (
    container_message,
    delays_message,
    job_message,
    resource_message,
    server_message,
    virtual_cluster_message,
    waiting_message,
)
from yarn_gpu_sched.protocol.preemptions import PREEMPTED_MAX, preempted_message
from yarn_gpu_sched.protocol.v1 import cluster_pb2, job_pb2, jobs_pb2, reason_pb2, virtual_cluster_pb2


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
        delays=delays_message(view.delays),
        delays_in_all=delays_message(view.delays_in_all),
        history=[
            reason_pb2.ReasonSince(code=REASON_NUMBERS[one.code], age_s=max(0.0, now_s - one.since_s))
            for one in view.history
        ],
        preempted=[preempted_message(one, now_s) for one in view.preempted[-PREEMPTED_MAX:]],
        preempted_times=len(view.preempted),
        stopped_for=view.stopped_for,
    )
    if view.stopped_at_s is not None and view.stopped_at_s > now_s:
        message.stops_in_s = view.stopped_at_s - now_s
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
        shares=[
            virtual_cluster_pb2.PartitionShare(
                partition=one.partition,
                quota_gpus=one.quota_gpus,
                maximum_gpus=one.maximum_gpus,
                used_gpus=one.used_gpus,
                borrowed_gpus=one.borrowed_gpus,
                translated=one.translated,
            )
            for one in view.shares
        ],
        warnings=view.warnings,
    )


def delay_row_message(row: views.DelayRow) -> jobs_pb2.DelayRow:
    """Convert the waits of a virtual cluster's jobs of one size."""
    fair_share, capacity, fragmentation, other = row.mostly
    return jobs_pb2.DelayRow(
        virtual_cluster=row.vc,
        size=row.size,
        waits=row.waits,
        delays=delays_message(row.delays),
        mostly=jobs_pb2.DelayCounts(fair_share=fair_share, capacity=capacity, fragmentation=fragmentation, other=other),
        waiting=row.waiting,
        waiting_delays=delays_message(row.waiting_delays),
    )


def outlook_message(outlook: views.Outlook) -> reason_pb2.Outlook:
    """Convert what would let a job go on. Its sentences may quote what came from outside: printable lines."""
    return reason_pb2.Outlook(
        changes=[one_line(change) for change in outlook.changes],
        when=one_line(outlook.when),
        starts_in_s=outlook.starts_in_s,
        next_level=outlook.next_level,
        relaxes_in_s=outlook.relaxes_in_s,
        gpus_lacking=outlook.gpus_lacking,
        limit_gpus_lacking=outlook.limit_gpus_lacking,
        job_ids=outlook.job_ids,
        server_ids=outlook.server_ids,
    )


def cluster_message(
    view: views.ClusterView, reservations: Iterable[views.ReservationView], now_s: float
) -> cluster_pb2.GetClusterResponse:
    """Convert the totals, and as many reservations as fit."""
    listed, left_out = fitting(reservation_message(one, now_s) for one in reservations)
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
        reservations=listed,
        reservations_left_out=left_out,
    )


def reservation_message(view: views.ReservationView, now_s: float) -> cluster_pb2.Reservation:
    """Convert what is kept for a gang that has waited too long."""
    return cluster_pb2.Reservation(
        job_id=view.job_id,
        virtual_cluster=view.vc,
        partition=view.partition,
        gpus=view.gpus,
        kept_gpus=view.kept_gpus,
        level=view.level,
        servers=[
            cluster_pb2.ReservedServer(server_id=server_id, gpus=gpus, kept_gpus=kept_gpus)
            for server_id, gpus, kept_gpus in view.servers
        ],
        age_s=max(0.0, now_s - view.since_s),
        ready_in_s=None if view.ready_s is None else max(0.0, view.ready_s - now_s),
        awaited_job_ids=view.awaited,
        over_quota=view.over_quota,
    )
