"""Packing of containers of several kinds on few servers: exact for few servers, else the largest first."""

from itertools import product
from typing import NamedTuple

from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.kind import Kind

EXACT_ROWS_MAX = 8
"""With more servers than these the fewest are not searched for: what the first way finds is taken."""

EXACT_KINDS_MAX = 8
"""With more kinds of containers than these neither."""

EXACT_STEPS_MAX = 20_000
"""Most choices that the exact search looks at in one place."""


class Effort:
    """What one search may still look at, in all places together; with nothing left, nothing more is found.

    Gangs come from anybody: one of a thousand sizes must not hold everybody else up.
    """

    __slots__ = ("choices", "tries")

    def __init__(self, tries: int = 200_000, choices: int = 50_000) -> None:
        self.tries = tries
        self.choices = choices


UNLIMITED = 1 << 40
"""Where only what is free decides how many containers a server may get."""


class Row(NamedTuple):
    """What a server has free, and the share of memory and vcores that each of its free GPUs keeps.

    ``most``: containers that may be put there, whatever would fit.
    """

    gpus: int
    memory_mb: int
    vcores: int
    share_mb: int
    share_vcores: int
    most: int = UNLIMITED

    @classmethod
    def free_of(cls, use: ServerUse) -> "Row":
        """Describe what is free on a server now."""
        return cls(use.gpus_free, use.memory_free_mb, use.vcores_free, use.share_mb, use.share_vcores)

    @classmethod
    def empty_of(cls, use: ServerUse) -> "Row":
        """Describe a server as if it were empty; its GPUs that are not healthy do not count."""
        capacity = use.server.capacity
        return cls(use.gpus_healthy, capacity.memory_mb, capacity.vcores, use.share_mb, use.share_vcores)

    def room(self, kind: Kind) -> int:
        """Count the containers of a kind that fit, whatever the share."""
        rooms = [kind.containers, self.most]
        if kind.gpus:
            rooms.append(self.gpus // kind.gpus)
        if kind.memory_mb:
            rooms.append(self.memory_mb // kind.memory_mb)
        if kind.vcores:
            rooms.append(self.vcores // kind.vcores)
        return max(0, min(rooms))

    def spare_holds(self, kind: Kind) -> bool:
        """Tell whether one container of a kind fits beside the share of the free GPUs."""
        return self.less(kind, 1).keeps_share() and self.room(kind) > 0

    def keeps_share(self) -> bool:
        """Tell whether every free GPU has its share."""
        return self.memory_mb >= self.gpus * self.share_mb and self.vcores >= self.gpus * self.share_vcores

    def less(self, kind: Kind, count: int) -> "Row":
        """Give what is left after so many of a kind; it may be less than nothing."""
        return self._replace(
            gpus=self.gpus - count * kind.gpus,
            memory_mb=self.memory_mb - count * kind.memory_mb,
            vcores=self.vcores - count * kind.vcores,
            most=self.most - count,
        )

    def left_by(self, kinds: tuple[Kind, ...], counts: tuple[int, ...], *, strict: bool) -> "Row | None":
        """Give what is left after so many of each kind; None if they do not fit (``strict``: or take from the share)."""
        row = self
        plain = False
        for kind, count in zip(kinds, counts, strict=True):
            row = row.less(kind, count)
            plain = plain or bool(count and not kind.gpus)
        if row.gpus < 0 or row.memory_mb < 0 or row.vcores < 0 or row.most < 0:
            return None
        return None if strict and plain and not row.keeps_share() else row


Packed = list[tuple[int, tuple[int, ...]]]
"""(number of a row, containers of each kind)."""


def pack(rows: list[Row], kinds: tuple[Kind, ...], effort: Effort, *, strict: bool) -> Packed | None:
    """Place all containers on few of the rows, or None. ``strict``: containers without GPUs leave the share alone."""
    found = _largest_first(rows, kinds, effort, strict=strict)
    if len(rows) > EXACT_ROWS_MAX or len(kinds) > EXACT_KINDS_MAX:
        return found
    return _Exact(rows, kinds, found, effort, strict=strict).best()


def fewest_rows(rows: list[Row], kinds: tuple[Kind, ...], effort: Effort, *, strict: bool) -> int | None:
    """Count the rows that hold all containers, or None."""
    found = pack(rows, kinds, effort, strict=strict)
    return None if found is None else len(found)


def _largest_first(rows: list[Row], kinds: tuple[Kind, ...], effort: Effort, *, strict: bool) -> Packed | None:
    """Fill the emptiest rows with the largest kinds; containers without GPUs go on used rows first."""
    fillings = [_Filling(row) for row in rows]
    emptiest = sorted(range(len(rows)), key=lambda number: (-rows[number].gpus, -rows[number].memory_mb, number))
    for place in sorted(range(len(kinds)), key=lambda place: (-kinds[place].gpus, -kinds[place].memory_mb, place)):
        kind, left = kinds[place], kinds[place].containers
        order = emptiest if kind.gpus else sorted(emptiest, key=lambda number: not fillings[number].counts)
        for number in order:
            effort.tries -= 1
            if effort.tries < 0:
                return None
            left -= fillings[number].fill(kind, place, left, strict=strict)
            if not left:
                break
        if left:
            return None
    places = range(len(kinds))
    return [
        (number, tuple(filling.counts.get(place, 0) for place in places))
        for number, filling in enumerate(fillings)
        if filling.counts
    ]


class _Filling:
    """A row that is being filled: what is left of it, and how many containers of each kind it got."""

    __slots__ = ("_plain", "_row", "counts")

    def __init__(self, row: Row) -> None:
        self._row = row
        self._plain = False
        self.counts: dict[int, int] = {}

    def fill(self, kind: Kind, place: int, count: int, *, strict: bool) -> int:
        """Put as many of a kind on the row as fit, at most so many; return how many did."""
        row = self._row
        if row.memory_mb < 0 or row.vcores < 0:
            return 0
        most = min(count, row.room(kind))
        fitting = self._up_to(kind, most) if strict and (self._plain or not kind.gpus) else most
        if fitting > 0:
            self._row = row.less(kind, fitting)
            self._plain = self._plain or not kind.gpus
            self.counts[place] = fitting
        return fitting

    def _up_to(self, kind: Kind, most: int) -> int:
        """Count how many leave the share alone, one by one, as each may free the share of the GPUs that it takes."""
        for count in range(1, most + 1):
            if not self._row.less(kind, count).keeps_share():
                return count - 1
        return most


class _Exact:
    """Tries every way, row by row, that could need fewer rows than the best so far; bounded by its steps and the effort."""

    def __init__(
        self, rows: list[Row], kinds: tuple[Kind, ...], found: Packed | None, effort: Effort, *, strict: bool
    ) -> None:
        self._rows = rows
        self._kinds = kinds
        self._strict = strict
        self._best = found
        self._effort = effort
        self._steps_left = min(EXACT_STEPS_MAX, effort.choices)

    def best(self) -> Packed | None:
        """Give the best way there is."""
        self._try(0, tuple(kind.containers for kind in self._kinds), [])
        return self._best

    def _try(self, number: int, left: tuple[int, ...], chosen: Packed) -> None:
        if not any(left):
            self._best = list(chosen)
            return
        rows_max = len(self._rows) if self._best is None else len(self._best) - 1
        if number == len(self._rows) or len(chosen) >= rows_max or self._steps_left <= 0:
            return
        row = self._rows[number]
        ways = product(
            *(range(min(row.room(kind), more), -1, -1) for kind, more in zip(self._kinds, left, strict=True))
        )
        for counts in ways:
            # Also here: a row alone may have more ways than anybody can look at.
            if self._steps_left <= 0:
                return
            self._steps_left -= 1
            self._effort.choices -= 1
            if not any(counts):
                self._try(number + 1, left, chosen)
            elif row.left_by(self._kinds, counts, strict=self._strict) is not None:
                rest = tuple(more - count for more, count in zip(left, counts, strict=True))
                self._try(number + 1, rest, [*chosen, (number, counts)])
