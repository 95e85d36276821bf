"""What no hardware can mean: such a value is dropped and its field named; nothing else of the reading is touched.

Drivers do tell 4,294,967,295 % and a temperature below zero; a value of this kind must neither be shown nor be judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from yarn_gpu_sched.monitor.reading import GpuLink, GpuProcess, GpuReading

PID_MAX: Final = 1 << 22
"""The largest that Linux lets pid_max be."""
_TEXT_MAX: Final = 96
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
_BITS_MAX: Final = 32
_NVLINKS_MAX: Final = 64

Rule = Callable[[Any, GpuReading], bool]


def _between(least: float, most: float) -> Rule:
    return lambda value, _gpu: least <= value <= most  # neither holds for what is no number


def _at_most_total(value: int, gpu: GpuReading) -> bool:
    total = gpu.memory_total_mb
    return 0 <= value <= (total if total is not None and RULES["memory_total_mb"](total, gpu) else _MEMORY_MB_MAX)


def _text(value: str, _gpu: GpuReading) -> bool:
    return 0 < len(value) <= _TEXT_MAX and value.isprintable() and _REPLACED not in value


def _reasons(value: tuple[str, ...], _gpu: GpuReading) -> bool:
    """Newer drivers may know reasons that we do not; one with all bits set knows none."""
    return len(value) < _BITS_MAX and all(_text(reason, _gpu) for reason in value)


def _links(value: tuple[GpuLink, ...], _gpu: GpuReading) -> bool:
    return all(0 <= link.lanes <= _NVLINKS_MAX for link in value)


_MEMORY_MB_MAX: Final = 1 << 22

RULES: Final[dict[str, Rule]] = {
    "model": _text,
    "minor": _between(0, 1023),
    "pci_bus_id": _text,
    "memory_total_mb": _between(1, _MEMORY_MB_MAX),
    "memory_used_mb": _at_most_total,
    "sm_percent": _between(0, 100),
    "memory_percent": _between(0, 100),
    "temperature_c": _between(0, 150),
    "power_w": _between(0, 5000),
    "throttle_reasons": _reasons,
    "ecc_corrected": _between(0, 10**12),
    "ecc_uncorrected": _between(0, 10**12),
    "links": _links,
}
"""What is right, field by field. A value that is not available is always right."""


def cleaned(gpu: GpuReading) -> GpuReading:
    """Return a reading without impossible values; the fields that had one are named in ``bad_fields``."""
    bad = [name for name, right in RULES.items() if (value := getattr(gpu, name)) is not None and not right(value, gpu)]
    changes: dict[str, Any] = dict.fromkeys(bad)
    if not _between(0, 64)(gpu.mig_devices, gpu):
        bad.append("mig_devices")
        changes["mig_devices"] = 0
    if gpu.processes is not None:
        named = list(_processes(gpu))
        kept = tuple(process for process, _name in named if process is not None)
        bad += sorted({name for _process, name in named if name})
        if kept != gpu.processes:
            changes["processes"] = kept
    if not bad:
        return gpu
    return msgspec.structs.replace(gpu, **changes, bad_fields=(*gpu.bad_fields, *bad))


def _processes(gpu: GpuReading) -> Iterator[tuple[GpuProcess | None, str]]:
    """Yield each process as it may stay, None if not at all, and the name of what was wrong with it."""
    for process in gpu.processes or ():
        if not 0 < process.pid <= PID_MAX:
            yield None, "processes.pid"
        elif process.memory_mb is not None and not _at_most_total(process.memory_mb, gpu):
            yield msgspec.structs.replace(process, memory_mb=None), "processes.memory_mb"
        else:
            yield process, ""
