"""What is kept of jobs until their rows are written; all of it survives a restart. Times are seconds since 1970."""

from __future__ import annotations

import msgspec

from yarn_gpu_sched.archive import hour_of
from yarn_gpu_sched.archive.names import HOUR_S


class Seconds(msgspec.Struct):
    """GPU-seconds: held, and of these beyond the quota, read as not used, not read; and done in vain before a preemption."""

    gpu_s: float = 0.0
    borrowed_gpu_s: float = 0.0
    idle_gpu_s: float = 0.0
    unread_gpu_s: float = 0.0
    lost_gpu_s: float = 0.0

    def add(self, other: Seconds) -> None:
        """Add."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def cells(self) -> tuple[float, ...]:
        """The figures in order."""
        return tuple(getattr(self, name) for name in self.__struct_fields__)


AWAY_MAX_S = 7 * 86_400.0
"""Longest stretch that is counted at once: that of a service which was away."""
BACK_MAX_S = 86_400.0


class Held(msgspec.Struct):
    """GPUs of a live container, counted until ``counted_s``. ``seen``: told of since the resource manager last registered."""

    server: str
    gpus: tuple[int, ...]
    counted_s: float
    seen: bool = True


class Account(msgspec.Struct, kw_only=True):
    """A job's present attempt. ``places`` are those of its ``gpus_most`` GPUs at once. ``hours``: what no row tells of yet.

    ``preempted``: how many of its preemptions the engine tells of have been counted. ``ended``: its last row is written; GPUs that
    are not given back yet still count. ``seen`` as with `Held`, and ``told_s``: when it was last known to be there.
    ``gang``: whether it is charged as a whole; None: not known yet.
    """

    job_id: str
    attempt: int = 1
    user: str = ""
    vc: str = ""
    name: str = ""
    submitted_s: float = 0.0
    started_s: float | None = None
    held: dict[str, Held] = {}
    gpus_most: int = 0
    places: tuple[tuple[str, tuple[int, ...]], ...] = ()
    sums: Seconds = msgspec.field(default_factory=Seconds)
    hours: dict[int, Seconds] = {}
    preempted: int = 0
    preempted_by: list[str] = []
    ended: bool = False
    seen: bool = True
    told_s: float = 0.0
    gang: bool | None = None

    @property
    def gpus(self) -> int:
        """GPUs that it holds."""
        return sum(len(one.gpus) for one in self.held.values())

    def count(self, until_s: float) -> None:
        """Count what it holds until then."""
        for one in self.held.values():
            self.count_one(one, until_s)

    def count_one(self, one: Held, until_s: float) -> None:
        """Count what a container holds until then, hour by hour; a clock that was put back counts nothing for up to a day.

        A clock that was wrong by years is not believed: no more than `AWAY_MAX_S` count at once, and from a time that is further
        ahead than `BACK_MAX_S` it is begun anew.
        """
        if one.counted_s > until_s + BACK_MAX_S:
            one.counted_s = until_s
        one.counted_s = max(one.counted_s, until_s - AWAY_MAX_S)
        while one.counted_s < until_s:
            hour_s = hour_of(one.counted_s)
            upto_s = min(until_s, hour_s + HOUR_S)
            self.add(hour_s, Seconds(gpu_s=len(one.gpus) * (upto_s - one.counted_s)))
            one.counted_s = upto_s

    def add(self, hour_s: int, seconds: Seconds) -> None:
        """Add to an hour, and to the attempt."""
        self.hours.setdefault(hour_s, Seconds()).add(seconds)
        self.sums.add(seconds)

    def hold(self, container_id: str, server: str, gpus: tuple[int, ...], now_s: float) -> None:
        """Take note of a container that lives; what is known already goes on."""
        known = self.held.get(container_id)
        if known is not None:
            known.seen = True
            return
        self.held[container_id] = Held(server, gpus, now_s)
        self.started_s = now_s if self.started_s is None else self.started_s
        if self.gpus > self.gpus_most:
            self.gpus_most, self.places = self.gpus, self._places()

    def _places(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        places: dict[str, set[int]] = {}
        for one in self.held.values():
            places.setdefault(one.server, set()).update(one.gpus)
        return tuple((server, tuple(sorted(gpus))) for server, gpus in sorted(places.items()))

    def begin_anew(self, attempt: int, now_s: float) -> None:
        """Go on with another attempt; what still lives counts for it."""
        self.count(now_s)
        self.attempt, self.sums, self.preempted_by, self.gang = attempt, Seconds(), [], None
        self.started_s = now_s if self.held else None
        self.gpus_most, self.places = self.gpus, self._places()


class Kept(msgspec.Struct):
    """What survives a restart: the accounts, as they were at ``at_s`` after batch ``number`` was handed to the spool."""

    at_s: float = 0.0
    number: int = 0
    accounts: list[Account] = []
