"""From views of the health of GPUs to messages."""

from yarn_gpu_sched.engine.views import GpuView, HostView
from yarn_gpu_sched.model.health import Mark, Telemetry
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.protocol.enums import GPU_HEALTH_NUMBERS, TELEMETRY_NUMBERS
from yarn_gpu_sched.protocol.v1 import gpu_pb2

READABLE_AGAIN = "they can be read again; nothing new is placed until that has lasted"


def host_message(view: HostView, now_s: float) -> gpu_pb2.ServerHealth:
    """Convert the health of a server."""
    record = view.record
    again = record.unreadable and record.telemetry is Telemetry.LIVE
    message = gpu_pb2.ServerHealth(
        host=view.host,
        server_id=view.server_id,
        telemetry=TELEMETRY_NUMBERS[Telemetry.UNREADABLE if again else record.telemetry],
        failure=READABLE_AGAIN if again else one_line(record.detail),
        gpus_counted=view.gpus_counted,
        gpus_healthy=view.gpus_healthy,
        gpus_over_committed=view.gpus_over_committed,
        gpus=[_gpu_message(gpu, now_s) for gpu in view.gpus],
    )
    if record.drained is not None:
        message.drained.CopyFrom(_mark_message(record.drained))
    return message


def _gpu_message(view: GpuView, now_s: float) -> gpu_pb2.GpuStatus:
    gpu = view.gpu
    message = gpu_pb2.GpuStatus(
        slot=gpu.slot,
        health=GPU_HEALTH_NUMBERS[gpu.health],
        faults=[fault.value for fault in gpu.faults],
        since_s=max(0.0, now_s - gpu.since_s),
        needs_ack=view.needs_ack,
        clearing=gpu.out,
        job_id=view.job_id,
        container_id=view.container_id,
        virtual_cluster=view.vc,
    )
    if gpu.mark is not None:
        message.quarantined.CopyFrom(_mark_message(gpu.mark))
    return message


def _mark_message(mark: Mark) -> gpu_pb2.Mark:
    message = gpu_pb2.Mark(reason=mark.why, by=mark.by)
    message.time.FromNanoseconds(int(mark.at_s * 1e9))
    return message
