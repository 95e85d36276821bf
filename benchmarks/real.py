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

SHIM = "Hadoop:service=ResourceManager,name=YarnGpuSched"
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
        "service": "ygs serve, defaults, no recorder" if arena.service else _NO_SERVICE,
        "gc_freeze": "no",
    }


@dataclass(slots=True)
class Took:
    """What processes took between two moments: processor seconds by name, over `seconds` of wall clock."""

    seconds: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)


@contextmanager
def took(arena: Arena) -> Iterator[Took]:
    """Measure what ResourceManager and service take inside the block."""
    names = ("rm", "service") if arena.service else ("rm",)
    processes = {name: psutil.Process(arena.pid(name)) for name in names}
    result = Took()
    begun_s, before = time.monotonic(), {name: _cpu_s(process) for name, process in processes.items()}
    yield result
    result.seconds = time.monotonic() - begun_s
    result.cpu_s = {name: _cpu_s(process) - before[name] for name, process in processes.items()}


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def memory_mb(arena: Arena, name: str) -> float:
    """Return the resident memory of "rm" or "service"."""
    return float(psutil.Process(arena.pid(name)).memory_info().rss) / (1 << 20)


def heap_mb(arena: Arena) -> float:
    """Return the heap that the ResourceManager uses, garbage included."""
    return float(arena.bean(_MEMORY)["HeapMemoryUsage"]["used"]) / (1 << 20)
