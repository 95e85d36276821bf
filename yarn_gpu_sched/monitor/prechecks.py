"""Whether GPUs are really free when a container is given them, and which processes hold GPUs that are not theirs.

Only what was read decides: what is not available accuses nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from yarn_gpu_sched.monitor.reading import GpuProcess, GpuReading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SHOWN_MAX = 3


class NotFree(msgspec.Struct, frozen=True):
    """GPUs that cannot be given to a container, and what is the matter with them."""

    slots: tuple[int, ...]
    detail: str


class Stray(msgspec.Struct, frozen=True):
    """A process on a GPU that is not its container's."""

    slot: int
    process: GpuProcess


def not_free(
    container_id: str, slots: Sequence[int], now: Mapping[int, GpuReading], free_memory_mb_max: int
) -> NotFree | None:
    """Say which of a container's GPUs are not free for it, None if all are; ``now`` are the GPUs by slot as they were read.

    A container whose own processes hold one of them has been let start before: nothing is said of it.
    """
    gpus = {slot: now[slot] for slot in slots if slot in now}
    if any(process.container_id == container_id for gpu in gpus.values() for process in gpu.processes or ()):
        return None
    found = {slot: why for slot in slots if (why := _why_not(now.get(slot), free_memory_mb_max))}
    if not found:
        return None
    return NotFree(tuple(found), "; ".join(f"GPU {slot}: {why}" for slot, why in found.items()))


def _why_not(gpu: GpuReading | None, free_memory_mb_max: int) -> str:
    if gpu is None:
        return "its card has vanished"
    if gpu.processes:
        more = f" and {len(gpu.processes) - SHOWN_MAX} more" if len(gpu.processes) > SHOWN_MAX else ""
        return "held by " + ", ".join(map(described, gpu.processes[:SHOWN_MAX])) + more
    if gpu.memory_used_mb is not None and gpu.memory_used_mb > free_memory_mb_max:
        return f"{gpu.memory_used_mb} MiB in use, at most {free_memory_mb_max} count as free"
    return ""


def described(process: GpuProcess) -> str:
    """Describe a process in a few words."""
    whose = process.container_id or "no container"
    return f"process {process.pid} ({process.command or '?'}) of {process.user or '?'}, {whose}"


def strays(now: Mapping[int, GpuReading], held: Mapping[str, frozenset[int]]) -> Iterator[Stray]:
    """Yield the processes that hold GPUs which are not theirs; ``held`` are the slots of each container of this server.

    A process of no container is one too: it was started past YARN.
    """
    for slot, gpu in now.items():
        for process in gpu.processes or ():
            if slot not in held.get(process.container_id, frozenset()):
                yield Stray(slot, process)
