"""The NVML reader over libraries that answer anything: nothing escapes it, and nothing impossible passes."""

from __future__ import annotations

import math
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.monitor.any_library import AnyLibrary
from yarn_gpu_sched.monitor import frames
from yarn_gpu_sched.monitor.nvml import NvmlSource
from yarn_gpu_sched.monitor.plausible import RULES, cleaned
from yarn_gpu_sched.monitor.reader import completed
from yarn_gpu_sched.monitor.reading import GPUS_MAX, PROCESSES_MAX, XIDS_MAX, GpuReading, GpusReading
from yarn_gpu_sched.monitor.simulated.library import put_under_pynvml

LOOKS = 6
MEMORY_BYTES = 256 << 20


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Bound what may be taken, as the child does: a library may ask for room for a thousand million processes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    taken = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (taken + MEMORY_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@fuzzed(150, 5_000)
@given(seed=st.integers(0, 1 << 62), good=st.sampled_from([0, 50, 90, 99, 100]), kept=st.sampled_from([0, 50, 95, 100]))
def test_c19_whatever_a_library_answers_a_reading_is_possible(seed: int, good: int, kept: int) -> None:
    put_under_pynvml(AnyLibrary(seed, good, kept))
    now_s = 0.0
    source = NvmlSource(clock=lambda: now_s)
    numbers: list[int] = []
    with bounded_memory():
        for _ in range(LOOKS):
            reading = source.read()
            check(completed(reading))
            numbers += [xid.number for xid in reading.xids]
            now_s += 2
        source.close()
    assert numbers == list(range(1, len(numbers) + 1))


def check(reading: GpusReading) -> None:
    """Assert what holds of any reading that the monitor gets."""
    assert frames.decode(frames.encode(reading)[frames.HEADER_BYTES :]) == reading
    assert len(reading.xids) <= XIDS_MAX
    assert all(0 < xid.xid < 1 << 16 for xid in reading.xids)
    if reading.gpus is None:
        assert reading.failure is not None
        assert len(reading.failure.detail) <= 256
        return
    assert len(reading.gpus) <= GPUS_MAX
    uuids = [gpu.uuid for gpu in reading.gpus]
    assert len(set(uuids)) == len(uuids)
    assert [gpu.index for gpu in reading.gpus] == sorted({gpu.index for gpu in reading.gpus})
    for gpu in reading.gpus:
        check_gpu(gpu)


def check_gpu(gpu: GpuReading) -> None:
    assert gpu.uuid.isprintable()
    assert 0 < len(gpu.uuid) <= 96
    for percent in (gpu.sm_percent, gpu.memory_percent):
        assert percent is None or 0 <= percent <= 100
    assert gpu.temperature_c is None or 0 <= gpu.temperature_c <= 150
    assert gpu.power_w is None or (math.isfinite(gpu.power_w) and 0 <= gpu.power_w <= 5000)
    assert gpu.memory_used_mb is None or gpu.memory_used_mb <= (gpu.memory_total_mb or 1 << 22)
    assert gpu.ecc_corrected is None or gpu.ecc_corrected <= 10**12
    assert gpu.mig_devices <= 64
    assert all(name in {*RULES, "mig_devices", "processes.pid", "processes.memory_mb"} for name in gpu.bad_fields)
    assert gpu.processes is None or len(gpu.processes) <= PROCESSES_MAX
    assert all(0 < process.pid <= 1 << 22 for process in gpu.processes or ())
    assert gpu.uuid not in {link.uuid for link in gpu.links or ()}
    assert cleaned(gpu) is gpu
