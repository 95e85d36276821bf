"""What queues and users hold and may hold, counted anew from what was told: it knows nothing of how the engine does it.

Configurations are made here of amounts that are known beforehand, so nothing of what a queue's text means is read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity, VirtualCluster

Amounts = tuple[object, object, object]
"""GPUs, memory in MB and vcores: a number is absolute, ("%", n) is percent, None is no limit."""

NONE: Amounts = (None, None, None)
KINDS = ("gpus", "memory_mb", "vcores")

MAXIMA: dict[str, Amounts] = {
    "": NONE,
    "100": NONE,
    "50": (("%", 50), ("%", 50), ("%", 50)),
    "[yarn.io/gpu=2]": (2, None, None),
    "[yarn.io/gpu=4]": (4, None, None),
    "[yarn.io/gpu=0]": (0, None, None),
    "[yarn.io/gpu=75%]": (("%", 75), None, None),
    "[memory=3Gi]": (None, 3_072, None),
    "[vcores=3,yarn.io/gpu=6]": (6, None, 3),
    "[yarn.io/gpu=many]": NONE,
    "[YARN.IO/GPU=1]": NONE,
    "[yarn.io/gpu=1.5]": NONE,
    "3w": NONE,
}
"""Every maximum that is configured here, with what it means; what cannot be read is no limit."""

QUOTAS = [
    "",
    "",
    "0",
    "25",
    "60",
    "1w",
    "3w",
    "[yarn.io/gpu=0]",
    "[yarn.io/gpu=2]",
    "[yarn.io/gpu=8]",
    "[gpu",
    "[yarn.io/gpu=2w]",
]
SETTINGS = [
    ("max-gpus-per-user", "2"),
    ("max-gpus-per-user", "4"),
    ("max-gpus-per-user", "-4"),
    ("user-fairness", "true"),
    ("user-fairness", "maybe"),
    ("relax-after-s", "0"),
    ("relax-after-s", "3"),
    ("relax-after-s", "soon"),
    ("relax-after-max-s", "5"),
    ("gang", "debounce"),
    ("gang", "sometimes"),
    ("max-runtime-s", "100"),
    ("default-runtime-s", "60"),
    ("default-runtime-s", "1.5"),
    ("colour", "red"),
]
READABLE = {
    "user-fairness": {"true", "false"},
    "max-gpus-per-user": {"2", "4"},
    "relax-after-s": {"0", "3"},
    "relax-after-max-s": {"5"},
}


class Limit(NamedTuple):
    """A queue's limit on one kind of resource of a partition."""

    path: str
    partition: str
    kind: str
    most: int


def above(path: str) -> str | None:
    """Name the queue above."""
    return path.rpartition(".")[0] or None


def up(path: str) -> Iterator[str]:
    """Give a queue and all above it."""
    at: str | None = path
    while at is not None:
        yield at
        at = above(at)


class Ledger:
    """What is held at this moment, by queue and partition, all above included, and by user."""

    def __init__(self, engine: Engine, told: dict[str, VirtualCluster]) -> None:
        self._core = engine._core
        self._told = told
        self.held: Counter[tuple[str, str, str]] = Counter()
        self.user_gpus: Counter[tuple[str, str]] = Counter()
        self.user_gpus_of: Counter[tuple[str, str, str]] = Counter()
        state = self._core.state
        for container in state.containers.values():
            self.add(container.job_id, state.servers[container.server_id].server.partition, container.resource)
        for decision in state.decisions.values():
            for part in decision.parts:
                amount = Resource(part.memory_mb, part.vcores, part.gpus)
                self.add(decision.job_id, part.use.server.partition, amount)

    def add(self, job_id: str, partition: str, amount: Resource) -> None:
        """Count what a job holds of a partition."""
        job = self._core.state.jobs[job_id].job
        self.user_gpus[job.vc, job.user] += amount.gpus
        self.user_gpus_of[job.vc, job.user, partition] += amount.gpus
        for path in up(job.vc):
            for kind in KINDS:
                self.held[path, partition, kind] += getattr(amount, kind)

    # What may be held

    def most(self, path: str, partition: str, place: int) -> int | None:
        """Give a queue's own maximum; percentages are of the nearest maximum above, else of all that was ever there."""
        vc = self._told.get(path)
        if vc is None or path == "root":
            return None
        texts = [one.maximum for one in vc.capacities if one.partition == partition]
        amount = MAXIMA[texts[0]][place] if texts else None
        if (not texts or not texts[0]) and not partition and not place:
            amount = vc.maximum_gpus
        if not isinstance(amount, tuple):
            return amount  # type: ignore[return-value] # a number or None
        limits = (self.most(one, partition, place) for one in up(path) if one != path)
        of = next((one for one in limits if one is not None), None)
        whole = self._core.seen.total(partition)[place] if of is None else of
        return int(Fraction(whole) * amount[1] / 100)

    def limits(self, vc: str, partition: str) -> list[Limit]:
        """List all limits that a virtual cluster is under in a partition."""
        found = []
        for path in up(vc):
            for place, kind in enumerate(KINDS):
                most = self.most(path, partition, place)
                if most is not None:
                    found.append(Limit(path, partition, kind, most))
        return found

    def setting(self, path: str, name: str) -> int | None:
        """Give the nearest number that can be read."""
        said = self.said(path, name)
        return None if said is None else int(said)

    def said(self, path: str, name: str) -> str | None:
        """Give the nearest setting that can be read."""
        for at in up(path):
            vc = self._told.get(at)
            values = [value for key, value in vc.settings if key == name] if vc is not None else []
            readable = [value for value in values if value in READABLE[name]]
            if readable:
                return readable[-1]
        return None

    def forbids(self, want: JobWant) -> bool:
        """Tell whether some limit would be exceeded by a want."""
        most = self.setting(want.vc, "max-gpus-per-user")
        user = want.record.job.user
        if most is not None and want.gpus and self.user_gpus[want.vc, user] + want.gpus > most:
            return True
        return self.exceeds(want, want.partition)

    def exceeds(self, want: JobWant, partition: str) -> bool:
        """Tell whether some maximum would be exceeded by a want that were placed in a partition."""
        for limit in self.limits(want.vc, partition):
            asked = getattr(want.total, limit.kind)
            if asked and self.held[limit.path, limit.partition, limit.kind] + asked > limit.most:
                return True
        return False


def queue(
    path: str,
    quota: str,
    maximum: str,
    *,
    settings: tuple[tuple[str, str], ...] = (),
    elsewhere: tuple[str, str] = ("", ""),
    most_gpus: int | None = None,
) -> VirtualCluster:
    """Configure a queue; ``elsewhere``: quota and maximum in partition p, ``most_gpus``: a maximum as an integrator says it."""
    capacities = (QueueCapacity("", quota, maximum), QueueCapacity("p", *elsewhere))
    return VirtualCluster(path, maximum_gpus=most_gpus, capacities=capacities, settings=settings)
