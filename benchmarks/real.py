"""What the benchmarks on a real ResourceManager share: its configuration, and what its processes take."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.arena import RM_FLAGS, RM_SETTINGS, Arena
from benchmarks.figures import Figure
from benchmarks.service import configured
from benchmarks.tenant_queues import FULL, LEAVES, PARENTS, WAITING
from yarn_gpu_sched.client import Client

SHIM = "Hadoop:service=ResourceManager,name=YarnGpuSched"
_QUANTILES_S_MAX = 130.0
_MEMORY = "java.lang:type=Memory"
_NO_SERVICE = "none: stock placement on each server's heartbeat"


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is removed after the block, but kept, logs and all, when the block fails."""
    folder = Path(tempfile.mkdtemp(prefix="ygs-bench-"))
    try:
        yield folder
    except BaseException as error:
        error.add_note(f"logs: {folder}")
        raise
    shutil.rmtree(folder)


def configuration(arena: Arena) -> dict[str, Any]:
    """Return the configuration that is printed beside figures."""
    spec = arena.cluster.spec
    return {
        "hadoop": spec.hadoop,
        "scheduler": spec.scheduler_class,
        "resource_manager_flags": " ".join(RM_FLAGS),
        "resource_manager_settings": dict(RM_SETTINGS),
        "tenants": {"parents": PARENTS, "leaves": LEAVES, "waiting_for_a_maximum": WAITING},
        **(configured() if arena.service else {"service": _NO_SERVICE}),
        "gc": "gc.freeze after each snapshot" if arena.service else "none: no service",
    }


def waiting(arena: Arena) -> Figure:
    """Count who waits for the queue that is at its maximum: the service works out why, and tells the ResourceManager."""
    with Client(arena.service) as client:
        use = next(use for use in client.virtual_clusters() if use.virtual_cluster.path == FULL)
    name = "jobs that wait for a maximum meanwhile"
    return Figure(name, use.jobs_pending, "jobs", WAITING - 1, at_least=True)


@dataclass(slots=True)
class Took:
    """What processes took between two moments: processor seconds by name, over `seconds` of wall clock."""

    seconds: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)


@contextmanager
def took(arena: Arena) -> Iterator[Took]:
    """Measure what ResourceManager and service take inside the block."""
    names = ("rm", "service") if arena.service else ("rm",)
    result = Took()
    begun_s, before = time.monotonic(), {name: cpu_s(arena, name) for name in names}
    yield result
    result.seconds = time.monotonic() - begun_s
    result.cpu_s = {name: cpu_s(arena, name) - before[name] for name in names}


def cpu_s(arena: Arena, name: str) -> float:
    """Return the processor seconds that "rm" or "service" has taken since it was started."""
    times = psutil.Process(arena.pid(name)).cpu_times()
    return float(times.user + times.system)


def shim_quantiles(arena: Arena, name: str) -> dict[str, float]:
    """Return p50 and p99 in milliseconds, and how many there were, of one of the shim's durations.

    The shim publishes quantiles once a minute, of that minute alone: this waits for the minute under way to end.
    Raises TimeoutError if it does not.
    """
    before = _of(arena, name)
    deadline_s = time.monotonic() + _QUANTILES_S_MAX
    while (now := _of(arena, name)) == before:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{name} has not changed at the ResourceManager's /jmx for {_QUANTILES_S_MAX} s")
        time.sleep(1)
    return {
        "p50_ms": now[f"{name}50thPercentileUs"] / 1000,
        "p99_ms": now[f"{name}99thPercentileUs"] / 1000,
        "count": now[f"{name}NumOps"],
    }


def _of(arena: Arena, name: str) -> dict[str, float]:
    return {key: value for key, value in arena.bean(SHIM).items() if key.startswith(name)}


def memory_mb(arena: Arena, name: str) -> float:
    """Return the resident memory of "rm" or "service"."""
    return float(psutil.Process(arena.pid(name)).memory_info().rss) / (1 << 20)


def heap_mb(arena: Arena) -> float:
    """Return the heap that the ResourceManager uses, garbage included."""
    return float(arena.bean(_MEMORY)["HeapMemoryUsage"]["used"]) / (1 << 20)
