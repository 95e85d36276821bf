"""GPUs for tests of the monitor."""

from __future__ import annotations

from typing import Any

from yarn_gpu_sched.monitor.reading import GpuProcess, GpuReading


def uuid(number: int) -> str:
    return f"GPU-{number:08d}-0000-0000-0000-000000000000"


def gpu(number: int, index: int | None = None, **fields: Any) -> GpuReading:  # noqa: ANN401 - whatever a reading has
    """Return a healthy idle GPU."""
    known: dict[str, Any] = {
        "model": "Tesla V100-SXM2-32GB",
        "pci_bus_id": f"00000000:{number + 16:02X}:00.0",
        "memory_used_mb": 4,
        "memory_total_mb": 32_768,
        "sm_percent": 0,
        "memory_percent": 0,
        "temperature_c": 35,
        "power_w": 55.5,
        "throttle_reasons": (),
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "mig_enabled": False,
        "processes": (),
        "links": (),
    }
    return GpuReading(uuid=uuid(number), index=number if index is None else index, **(known | fields))


def gpus(count: int) -> list[GpuReading]:
    return [gpu(number) for number in range(count)]


def process(pid: int, container_id: str = "", memory_mb: int | None = 100) -> GpuProcess:
    return GpuProcess(pid, memory_mb, container_id, "ada", "python")
