"""What jobs make of the GPUs that they hold, from the readings of servers. What nobody can tell counts for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yarn_gpu_sched.cli.gpu_documents import GpuHealthDocument, GpuReadingDocument, ServerHealthDocument


@dataclass
class JobUse:
    """A job's GPUs: ``unread`` of them nobody can tell whether they are used, ``out`` are not healthy, ``idle`` not used now."""

    job_id: str
    virtual_cluster: str
    gpus: int = 0
    unread: int = 0
    out: int = 0
    idle: int = 0
    idle_s: float = 0.0
    hosts: dict[str, None] = field(default_factory=dict)
    readings: list[GpuReadingDocument] = field(default_factory=list)

    def add(self, gpu: GpuHealthDocument, host: str) -> None:
        """Count a GPU that it holds."""
        self.gpus += 1
        self.hosts[host] = None
        self.out += gpu.health != "ok"
        self.unread += gpu.reading is None or gpu.reading.sm_percent is None
        if gpu.reading is not None:
            self.readings.append(gpu.reading)
        if gpu.idle_s is not None:
            self.idle += 1
            self.idle_s = max(self.idle_s, gpu.idle_s)

    @property
    def sm_percent(self) -> int | None:
        """Utilisation, the mean of those GPUs that say it; None if none does."""
        said = [one.sm_percent for one in self.readings if one.sm_percent is not None]
        return round(sum(said) / len(said)) if said else None

    @property
    def memory_used_mb(self) -> int | None:
        """Memory in use on all GPUs that say it; None if none does."""
        said = [one.memory_used_mb for one in self.readings if one.memory_used_mb is not None]
        return sum(said) if said else None

    @property
    def memory_total_mb(self) -> int | None:
        """Memory of all GPUs that say it; None if none does."""
        said = [one.memory_total_mb for one in self.readings if one.memory_total_mb is not None]
        return sum(said) if said else None


def jobs_of(servers: Sequence[ServerHealthDocument]) -> list[JobUse]:
    """List the jobs that hold GPUs, in order of their ids."""
    jobs: dict[str, JobUse] = {}
    for server in servers:
        for gpu in server.gpus:
            if gpu.job_id is not None:
                job = jobs.setdefault(gpu.job_id, JobUse(gpu.job_id, gpu.virtual_cluster or ""))
                job.add(gpu, server.host)
    return [job for _, job in sorted(jobs.items())]
