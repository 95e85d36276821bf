"""Who held which GPU from when to when, by the workers' own logs."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Spell:
    """A worker's time on its GPUs. `gpus` is None if it ran unbound; `end_s` is infinite while it runs."""

    container_id: str
    server: str
    gpus: tuple[int, ...] | None
    start_s: float
    end_s: float


def read(folder: Path) -> dict[str, Spell]:
    """Read the logs that worker.sh wrote below a folder, by container id."""
    found = {}
    for log in sorted(folder.rglob("container_*.log")):
        lines = [line.split() for line in log.read_text().splitlines()]
        if lines:
            found[log.stem] = _spell(log.stem, lines)
    return found


def _spell(container_id: str, lines: list[list[str]]) -> Spell:
    _, start, server, seen = lines[0]
    value = seen.removeprefix("gpus=")
    gpus = None if value == "unbound" else tuple(int(index) for index in value.split(",") if index)
    ends = [float(line[1]) for line in lines if line[0] == "end"]
    return Spell(container_id, server, gpus, float(start), ends[0] if ends else math.inf)


def held_twice(spells: dict[str, Spell]) -> list[str]:
    """Return every GPU that two workers held at the same time."""
    by_gpu: dict[tuple[str, int], list[Spell]] = defaultdict(list)
    for spell in spells.values():
        for index in spell.gpus or ():
            by_gpu[spell.server, index].append(spell)
    return [
        f"GPU {index} of {server}: {first} and {second}"
        for (server, index), holders in sorted(by_gpu.items())
        for first, second in itertools.pairwise(sorted(holders, key=lambda spell: spell.start_s))
        if second.start_s < first.end_s
    ]
