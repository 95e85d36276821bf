"""Numbers on which the reasons of lines depend, and which lines are to be looked at when they change."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.causes import code_of, headroom
from yarn_gpu_sched.engine.finding import free_gpus
from yarn_gpu_sched.model.shares import lineage

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.queue import Line


def turn(core: Core, line: Line) -> None:
    """Look why a line waits from now on."""
    line.clock.turn(code_of(core, line), core.waits.now_us)


class Threshold:
    """Lines by the GPUs that they want, and a number that is above or below each size; ``value`` is the last one that was told."""

    __slots__ = ("_by_size", "_sizes", "value")

    def __init__(self, value: float) -> None:
        self.value = value
        self._sizes: list[int] = []
        self._by_size: dict[int, dict[int, Line]] = {}

    def __bool__(self) -> bool:
        """Whether there is any line."""
        return bool(self._sizes)

    def add(self, size: int, number: int, line: Line) -> None:
        """Add a line under a number of its own."""
        lines = self._by_size.get(size)
        if lines is None:
            lines = self._by_size[size] = {}
            insort(self._sizes, size)
        lines[number] = line

    def remove(self, size: int, number: int) -> None:
        """Take a line out."""
        lines = self._by_size[size]
        del lines[number]
        if not lines:
            del self._by_size[size]
            self._sizes.remove(size)

    def move(self, value: float) -> Iterator[Line]:
        """Take the number's new value; give the lines whose size it has passed, upwards or downwards."""
        low, high = sorted((self.value, value))
        self.value = value
        for size in self._sizes[bisect_right(self._sizes, low) : bisect_right(self._sizes, high)]:
            yield from self._by_size[size].values()


class Thresholds:
    """The numbers on which reasons depend, with the lines by what they want.

    ``stale``: something else changed on which a reason may depend, so that all lines are to be looked at. ``used`` are the virtual
    clusters whose use changed, ``judged`` the lines that a limit forbids since then, or does so no more.
    """

    def __init__(self) -> None:
        self.stale = False
        self.used: dict[str, bool] = {}
        self.judged: dict[int, Line] = {}
        self._free: dict[str, Threshold] = {}
        self._left: dict[str, dict[str, Threshold]] = {}
        self._masters: dict[int, Line] = {}
        self._barred: dict[int, Line] = {}
        self._masters_seen = 0

    def clear(self) -> None:
        """Forget all lines."""
        self._free.clear()
        self._left.clear()
        self._masters.clear()
        self._barred.clear()
        self.judged.clear()

    def add(self, core: Core, line: Line) -> None:
        """Watch the numbers of a line."""
        number, demand = line.number, line.demand
        if demand.application_master:
            self._masters[number] = line
        if not demand.gpus:
            return
        partition = demand.partition
        free = self._free.get(partition)
        if free is None:
            free = self._free[partition] = Threshold(free_gpus(core, partition))
        free.add(demand.gpus, number, line)
        for path in line.group.path:
            by_partition = self._left.setdefault(path, {})
            left = by_partition.get(partition)
            if left is None:
                left = by_partition[partition] = Threshold(headroom(core, path, partition))
            left.add(demand.gpus, number, line)

    def remove(self, line: Line) -> None:
        """Watch them no more."""
        number, demand = line.number, line.demand
        self._masters.pop(number, None)
        self._barred.pop(number, None)
        if not demand.gpus or demand.partition not in self._free:
            return
        _remove(self._free, demand.partition, demand.gpus, number)
        for path in line.group.path:
            by_partition = self._left[path]
            _remove(by_partition, demand.partition, demand.gpus, number)
            if not by_partition:
                del self._left[path]

    def follow(self, core: Core) -> None:
        """Look at the lines whose wants a number has passed."""
        for partition, threshold in self._free.items():
            free = free_gpus(core, partition)
            if free != threshold.value:
                for line in threshold.move(free):
                    turn(core, line)
        if self.used:
            self._follow_use(core)
        if self.judged or self._barred:
            self._follow_limits(core)
        if self._masters and core.state.masters_changes != self._masters_seen:
            self._masters_seen = core.state.masters_changes
            for line in self._masters.values():
                turn(core, line)

    def _follow_limits(self, core: Core) -> None:
        judged = [line for line in self.judged.values() if line.jobs]
        self._note_barred()
        for line in (*judged, *self._barred.values()):
            turn(core, line)

    def _note_barred(self) -> None:
        """Watch the lines that are kept from a partition that lends: their reasons go by what is free elsewhere."""
        for number, line in self.judged.items():
            self._barred.pop(number, None)
            if line.jobs and line.barred:
                self._barred[number] = line
        self.judged.clear()

    def _follow_use(self, core: Core) -> None:
        for path in {path: None for vc in self.used for path in lineage(vc)}:
            by_partition = self._left.get(path)
            if by_partition is not None:
                for partition, threshold in by_partition.items():
                    for line in threshold.move(headroom(core, path, partition)):
                        turn(core, line)
        self.used.clear()

    def look_again(self, core: Core) -> None:
        """Take all numbers as they are now; the lines are looked at elsewhere."""
        for partition, threshold in self._free.items():
            threshold.value = free_gpus(core, partition)
        for path, by_partition in self._left.items():
            for partition, threshold in by_partition.items():
                threshold.value = headroom(core, path, partition)
        self.used.clear()
        self._note_barred()


def _remove(thresholds: dict[str, Threshold], key: str, size: int, number: int) -> None:
    threshold = thresholds[key]
    threshold.remove(size, number)
    if not threshold:
        del thresholds[key]
