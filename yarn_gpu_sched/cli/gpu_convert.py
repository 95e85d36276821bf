"""From the protocol's messages on GPUs to the documents of `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from yarn_gpu_sched.cli import gpu_documents as documents
from yarn_gpu_sched.protocol.v1 import gpu_pb2

if TYPE_CHECKING:
    from yarn_gpu_sched.protocol.v1 import monitor_pb2

HEALTHS = {
    gpu_pb2.GPU_HEALTH_OK: "ok",
    gpu_pb2.GPU_HEALTH_SUSPECT: "suspect",
    gpu_pb2.GPU_HEALTH_QUARANTINED: "quarantined",
    gpu_pb2.GPU_HEALTH_RECOVERING: "recovering",
}
TELEMETRY = {
    gpu_pb2.TELEMETRY_STATE_NONE: "none",
    gpu_pb2.TELEMETRY_STATE_LIVE: "live",
    gpu_pb2.TELEMETRY_STATE_SILENT: "silent",
    gpu_pb2.TELEMETRY_STATE_UNREADABLE: "unreadable",
}
ACTIONS = {
    "drain": gpu_pb2.MARK_ACTION_DRAIN,
    "undrain": gpu_pb2.MARK_ACTION_UNDRAIN,
    "quarantine": gpu_pb2.MARK_ACTION_QUARANTINE,
    "ack": gpu_pb2.MARK_ACTION_ACK,
}


def health_name(health: gpu_pb2.GpuHealth.ValueType) -> documents.HealthName:
    """Return the state of a GPU; what a newer service may add is unknown."""
    return cast("documents.HealthName", HEALTHS.get(health, "unknown"))


def telemetry_name(telemetry: gpu_pb2.TelemetryState.ValueType) -> documents.TelemetryName:
    """Return the state of a server's telemetry; what a newer service may add is unknown."""
    return cast("documents.TelemetryName", TELEMETRY.get(telemetry, "unknown"))


def is_well(gpu: gpu_pb2.GpuStatus) -> bool:
    """Tell whether a GPU is given out when nobody holds it: it is healthy, and nobody else is on it."""
    return gpu.health == gpu_pb2.GPU_HEALTH_OK and not gpu.clearing


def gpus_out(server: gpu_pb2.ServerHealth) -> int:
    """Count the GPUs that are not given out, those that YARN counts and nobody has seen among them."""
    out = sum(not is_well(gpu) for gpu in server.gpus)
    return max(out, server.gpus_counted - server.gpus_healthy)


def server_in_short(server: gpu_pb2.ServerHealth) -> documents.ServerInShortDocument:
    """Return the health of a server without its GPUs."""
    return documents.ServerInShortDocument(
        host=server.host,
        telemetry=telemetry_name(server.telemetry),
        failure=server.failure,
        drained=_said(server.drained) if server.HasField("drained") else None,
        gpus_counted=server.gpus_counted,
        gpus_healthy=server.gpus_healthy,
        gpus_over_committed=server.gpus_over_committed,
        gpus_out=gpus_out(server),
    )


def server_health_document(server: gpu_pb2.ServerHealth) -> documents.ServerHealthDocument:
    """Return a server with its GPUs."""
    sample = server.host_sample
    return documents.ServerHealthDocument(
        host=server.host,
        server_id=server.server_id or None,
        telemetry=telemetry_name(server.telemetry),
        age_s=server.age_s if server.HasField("age_s") else None,
        failure=server.failure,
        drained=_said(server.drained) if server.HasField("drained") else None,
        gpus_counted=server.gpus_counted,
        gpus_healthy=server.gpus_healthy,
        gpus_over_committed=server.gpus_over_committed,
        simulated=server.simulated,
        cpu_percent=sample.cpu_percent if sample.HasField("cpu_percent") else None,
        memory_used_mb=sample.memory_used_mb if sample.HasField("memory_used_mb") else None,
        memory_total_mb=sample.memory_total_mb if sample.HasField("memory_total_mb") else None,
        gpus=tuple(map(_gpu, server.gpus)),
    )


def _gpu(gpu: gpu_pb2.GpuStatus) -> documents.GpuHealthDocument:
    card = gpu.card
    return documents.GpuHealthDocument(
        slot=gpu.slot,
        uuid=card.uuid or None,
        nvidia_smi_index=card.index if card.HasField("index") else None,
        model=card.model or None,
        mig=card.mig,
        health=health_name(gpu.health),
        faults=tuple(gpu.faults),
        since_s=gpu.since_s,
        needs_ack=gpu.needs_ack,
        clearing=gpu.clearing,
        quarantined=_said(gpu.quarantined) if gpu.HasField("quarantined") else None,
        job_id=gpu.job_id or None,
        container_id=gpu.container_id or None,
        virtual_cluster=gpu.virtual_cluster or None,
        idle_s=gpu.idle_s if gpu.HasField("idle_s") else None,
        reading=_reading(gpu.sample, gpu.sample_age_s) if gpu.HasField("sample") else None,
    )


def _reading(sample: monitor_pb2.GpuSample, age_s: float) -> documents.GpuReadingDocument:
    return documents.GpuReadingDocument(
        age_s=age_s,
        sm_percent=sample.sm_percent if sample.HasField("sm_percent") else None,
        memory_percent=sample.memory_percent if sample.HasField("memory_percent") else None,
        memory_used_mb=sample.memory_used_mb if sample.HasField("memory_used_mb") else None,
        memory_total_mb=sample.memory_total_mb if sample.HasField("memory_total_mb") else None,
        temperature_c=sample.temperature_c if sample.HasField("temperature_c") else None,
        power_w=sample.power_w if sample.HasField("power_w") else None,
        ecc_corrected=sample.ecc_corrected if sample.HasField("ecc_corrected") else None,
        ecc_uncorrected=sample.ecc_uncorrected if sample.HasField("ecc_uncorrected") else None,
        throttle_reasons=tuple(sample.throttle_reasons),
        processes=None if sample.processes_unknown else tuple(map(_process, sample.processes)),
    )


def _process(process: monitor_pb2.GpuProcess) -> documents.GpuProcessDocument:
    return documents.GpuProcessDocument(
        pid=process.pid,
        memory_mb=process.memory_mb if process.HasField("memory_mb") else None,
        container_id=process.container_id or None,
        user=process.user or None,
        command=process.command or None,
    )


def _said(mark: gpu_pb2.Mark) -> documents.SaidDocument:
    return documents.SaidDocument(mark.reason, mark.by, mark.time.ToJsonString())


def idle_document(answer: gpu_pb2.ListIdleResponse) -> documents.IdleDocument:
    """Return who holds GPUs without using them."""
    return documents.IdleDocument(
        jobs=tuple(map(_idle_job, answer.jobs)),
        left_out=answer.left_out,
        idle_after_s=answer.idle_after_s,
        idle_below_percent=answer.idle_below_percent,
    )


def _idle_job(job: gpu_pb2.IdleJob) -> documents.IdleJobDocument:
    return documents.IdleJobDocument(
        job_id=job.job_id,
        user=job.user,
        virtual_cluster=job.virtual_cluster,
        gpus=job.gpus,
        idle_gpus=job.idle_gpus,
        unknown_gpus=job.unknown_gpus,
        idle_s=job.idle_s,
        hosts=tuple(job.hosts),
        warned=job.warned,
        preemptable=job.preemptable,
    )


def mark_document(
    action: documents.ActionName, server: str, gpu: str, answer: gpu_pb2.MarkResponse, *, dry_run: bool
) -> documents.MarkDocument:
    """Return what an operator's word changed, or would change."""
    return documents.MarkDocument(
        action=action,
        server=server,
        gpu=gpu or None,
        dry_run=dry_run,
        changes=tuple(answer.changes),
        kept=answer.kept,
        not_kept_because=answer.not_kept_because,
        job_ids=tuple(answer.job_ids),
    )
