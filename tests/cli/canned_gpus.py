"""What is answered of GPUs, and to operators; a test may change all of it."""

# ruff: noqa: N802, ARG002 - names and parameters of the methods are those of the protocol

from dataclasses import dataclass, field

import grpc

from yarn_gpu_sched.protocol.v1 import gpu_pb2, gpu_pb2_grpc, monitor_pb2

GPU_COMMANDS = (
    ("top", "--once"),
    ("top", "--once", "--by", "job"),
    ("idle",),
    ("drain", "gpu-a1", "--dry-run"),
    ("quarantine", "gpu-a1", "0", "--reason", "why", "--by", "ada"),
    ("ack", "gpu-a1", "--reason", "why"),
)


def mark(text: str = "") -> gpu_pb2.Mark:
    one = gpu_pb2.Mark(reason=f"new fan{text}", by=f"ada{text}")
    one.time.FromJsonString("2026-09-22T10:00:00.25Z")
    return one


def server_health(text: str = "", **fields: object) -> gpu_pb2.ServerHealth:
    """Return a server with a GPU that is used, one that is broken and one that nobody has read; every name holds ``text``."""
    sample = monitor_pb2.GpuSample(
        sm_percent=97, memory_used_mb=12_288, memory_total_mb=16_384, temperature_c=64, power_w=250
    )
    process = monitor_pb2.GpuProcess(pid=4_711, container_id=f"c{text}", user=f"ada{text}", command=f"python{text}")
    sample.processes.append(process)
    sample.throttle_reasons.append(f"sw_power_cap{text}")
    one = gpu_pb2.ServerHealth(
        host=f"gpu-a1{text}",
        server_id=f"gpu-a1:45454{text}",
        telemetry=gpu_pb2.TELEMETRY_STATE_LIVE,
        age_s=1.5,
        failure=text,
        gpus_counted=3,
        gpus_healthy=2,
        gpus=[
            gpu_pb2.GpuStatus(
                slot=0,
                card=monitor_pb2.Card(slot=0, uuid=f"GPU-0{text}", index=0, model=f"V100{text}"),
                health=gpu_pb2.GPU_HEALTH_OK,
                job_id=f"job{text}",
                container_id=f"c{text}",
                virtual_cluster=f"root.research{text}",
                sample=sample,
                sample_age_s=1.5,
            ),
            gpu_pb2.GpuStatus(
                slot=1,
                health=gpu_pb2.GPU_HEALTH_QUARANTINED,
                faults=[f"xid_79{text}", "operator"],
                since_s=120.0,
                needs_ack=True,
                quarantined=mark(text),
            ),
            gpu_pb2.GpuStatus(slot=2, health=gpu_pb2.GPU_HEALTH_OK),
        ],
    )
    one.MergeFrom(gpu_pb2.ServerHealth(**fields))  # type: ignore[arg-type] # checked by protobuf
    return one


def idle_job(text: str = "", **fields: object) -> gpu_pb2.IdleJob:
    """Return a job with a GPU that it does not use; every name holds ``text``."""
    one = gpu_pb2.IdleJob(
        job_id=f"application_1764450000000_0001{text}",
        user=f"ada{text}",
        virtual_cluster=f"root.research{text}",
        gpus=4,
        idle_gpus=3,
        idle_s=7_500.0,
        unknown_gpus=1,
        hosts=[f"gpu-a1{text}", f"gpu-a2{text}"],
    )
    one.MergeFrom(gpu_pb2.IdleJob(**fields))  # type: ignore[arg-type] # checked by protobuf
    return one


@dataclass
class CannedGpus(gpu_pb2_grpc.GpuServiceServicer):
    """`GpuService` with the same answers always."""

    health: list[gpu_pb2.ServerHealth] = field(default_factory=list)
    idle_jobs: list[gpu_pb2.IdleJob] = field(default_factory=list)
    idle_left_out: int = 0
    looks_left: int = 1_000
    marked: gpu_pb2.MarkResponse = field(default_factory=lambda: gpu_pb2.MarkResponse(kept=True))
    marks: list[gpu_pb2.MarkRequest] = field(default_factory=list)

    def be_hostile(self, text: str) -> None:
        """Put a text wherever one may come from outside."""
        self.health = [server_health(text, drained=mark(text))]
        self.idle_jobs = [idle_job(text, warned=True)]
        self.marked = gpu_pb2.MarkResponse(changes=[text], not_kept_because=text, job_ids=[text])

    def ListGpus(self, request: gpu_pb2.ListGpusRequest, context: grpc.ServicerContext) -> gpu_pb2.ListGpusResponse:
        self.looks_left -= 1
        if self.looks_left < 0:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        return gpu_pb2.ListGpusResponse(servers=self.health, total_size=len(self.health))

    def ListIdle(self, request: gpu_pb2.ListIdleRequest, context: grpc.ServicerContext) -> gpu_pb2.ListIdleResponse:
        return gpu_pb2.ListIdleResponse(
            jobs=self.idle_jobs, left_out=self.idle_left_out, idle_after_s=1_800, idle_below_percent=5
        )

    def Mark(self, request: gpu_pb2.MarkRequest, context: grpc.ServicerContext) -> gpu_pb2.MarkResponse:
        self.marks.append(request)
        return self.marked
