"""What containers say of the GPUs that they see, in files that shown.sh writes."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

WORKER = Path(__file__).parent / "shown.sh"


@dataclass(frozen=True)
class Shown:
    """What one container saw, from when to when; ``values`` are its variables, those that it did not have are missing."""

    container_id: str
    values: Mapping[str, str]
    start_s: float
    end_s: float

    @property
    def uuids(self) -> tuple[str, ...]:
        """The GPUs that it sees; a container without the variable would see all."""
        return tuple(self.values["CUDA_VISIBLE_DEVICES"].split(",")) if self.values["CUDA_VISIBLE_DEVICES"] else ()

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self.end_s == math.inf


def read(folder: Path) -> dict[str, Shown]:
    """Read what containers wrote below a folder, by container id; of those that have written all."""
    found = {}
    for log in sorted(folder.rglob("container_*.env")):
        values = dict(line.split("=", 1) for line in log.read_text().splitlines() if "=" in line)
        if "start" in values:
            start_s, end_s = float(values.pop("start")), float(values.pop("end", "inf"))
            found[log.stem] = Shown(log.stem, values, start_s, end_s)
    return found


def held_twice(seen: Mapping[str, Shown]) -> list[str]:
    """Return every GPU that two containers saw at the same time."""
    by_gpu: dict[str, list[Shown]] = defaultdict(list)
    for one in seen.values():
        for uuid in one.uuids:
            by_gpu[uuid].append(one)
    return [
        f"{uuid}: {first} and {second}"
        for uuid, holders in sorted(by_gpu.items())
        for first, second in itertools.pairwise(sorted(holders, key=lambda one: one.start_s))
        if second.start_s < first.end_s
    ]
