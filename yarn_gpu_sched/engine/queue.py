"""Wants that wait, by what they demand: equal ones stand in one line, and only its first is examined.

A line is ready, or blocked: then it says what it waits for, and it is ready again as soon as that was freed. Work goes with the
lines that wake, not with the jobs that wait.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from yarn_gpu_sched.engine.limits import Forbidden
from yarn_gpu_sched.engine.line_clock import LineClock
from yarn_gpu_sched.engine.waits import Waits
from yarn_gpu_sched.engine.want import Demand, JobWant
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.model.shares import ROOT
from yarn_gpu_sched.placement import TOUCHED_MAX, FreeIndex
from yarn_gpu_sched.policy.group import TOGETHER, Group, together

Order = tuple[bool, int, float, float, str]
STALE_MIN = 64


class Line:
    """The jobs of a group that demand the same, in order of their ranks.

    ``heap`` may hold ranks of jobs that have gone elsewhere meanwhile: a rank that counts is the very one that its job has.
    ``barred``: partitions that lend, and where a limit forbids what the jobs demand. ``fits``: whether a domain would hold it if it
    were empty, where all of them stand here for that; None: nobody knows that of all. ``fruitless``: what had changed
    (`Preemption.stamp`) when it was found that stopping others would not help, and until when that holds.
    """

    __slots__ = (
        "barred",
        "blocked",
        "clock",
        "demand",
        "fits",
        "forbidden",
        "fruitless",
        "gpus",
        "group",
        "heap",
        "jobs",
        "number",
        "offered",
    )

    def __init__(self, group: Group, demand: Demand, number: int) -> None:
        self.group = group
        self.demand = demand
        self.gpus = demand.gpus
        self.number = number
        self.jobs: dict[str, JobRecord] = {}
        self.heap: list[Order] = []
        self.blocked = False
        self.offered: Order | None = None
        self.forbidden: Forbidden | None = None
        self.barred: tuple[str, ...] = ()
        self.clock = LineClock()
        self.fits: bool | None = None
        self.fruitless: tuple[tuple[int, int], float] | None = None

    @property
    def alone(self) -> bool:
        """Whether it has one job."""
        return len(self.jobs) == 1

    def any_want(self) -> JobWant:
        """Give the want of any job of it: as far as limits go they are equal."""
        want = next(iter(self.jobs.values())).want
        assert isinstance(want, JobWant)
        return want

    def first(self) -> JobRecord | None:
        """Give the first job."""
        while self.heap:
            record = self.jobs.get(self.heap[0][-1])
            if record is not None and record.rank is self.heap[0]:
                return record
            heappop(self.heap)
        return None

    def put(self, record: JobRecord) -> None:
        """Add a job that wants what all here do."""
        self.jobs[record.job.job_id] = record
        fits = record.want.fits  # type: ignore[attr-defined] # who stands in a line wants something; a check costs time here
        if fits is not self.fits and fits is not None:
            self.fits = fits if self.alone else None
        heappush(self.heap, record.rank)
        if len(self.heap) > 2 * len(self.jobs) + STALE_MIN:
            self.heap = [job.rank for job in self.jobs.values()]
            heapify(self.heap)


class Queue:
    """All wants that wait, in groups that each have an order of their own. ``group_of`` says where a want stands.

    ``standing``: the lines of each virtual cluster, by its path, and partition.
    """

    def __init__(
        self,
        index: FreeIndex,
        key: Callable[[JobRecord], float],
        waits: Waits,
        group_of: Callable[[JobRecord, str], Group] = together,
    ) -> None:
        self._index = index
        self._key = key
        self._waits = waits
        self._group_of = group_of
        self._lines: dict[tuple[Group, Demand], Line] = {}
        self._lines_made = 0
        self._below: dict[str, dict[int, Line]] = {}
        self.standing: dict[tuple[tuple[str, ...], str], dict[int, Line]] = {}
        self._ready: dict[Group, list[tuple[Order, int, Line]]] = {}
        self._for_slots: dict[str, dict[int, list[tuple[int, int, Line]]]] = {}
        self._for_gpus: dict[str, dict[int, Line]] = {}
        self._for_spare: dict[str, dict[int, Line]] = {}
        self._for_masters: dict[int, Line] = {}

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._lines)

    def put(self, record: JobRecord, want: JobWant | None) -> None:
        """Let a job stand where its want belongs; None: nowhere."""
        old = record.want
        if want is None:
            record.want = None
            if isinstance(old, JobWant):
                self._leave(record, old)
            return
        rank = self._rank(record)
        group = self._group_of(record, want.partition)
        if isinstance(old, JobWant):
            if want.demand == old.demand and rank == record.rank and group == old.line.group:
                want.line = old.line
                record.want = want
                return
            self._leave(record, old)
        record.want, record.rank = want, rank
        line = self._lines.get((group, want.demand))
        if line is None:
            line = self._make(group, want.demand)
        want.line = line
        line.put(record)
        self._waits.joined(record, line.clock)
        self._offer(line)

    def _make(self, group: Group, demand: Demand) -> Line:
        self._lines_made += 1
        line = self._lines[group, demand] = Line(group, demand, self._lines_made)
        for path in group.path:
            self._below.setdefault(path, {})[line.number] = line
        self.standing.setdefault((group.path, demand.partition), {})[line.number] = line
        self._waits.line_made(line)
        return line

    def _drop(self, line: Line) -> None:
        del self._lines[line.group, line.demand]
        for path in line.group.path:
            _take_out(self._below, path, line)
        _take_out(self.standing, (line.group.path, line.demand.partition), line)
        self._waits.line_gone(line)
        if line.blocked:
            self._forget_blocked(line)

    def _rank(self, record: JobRecord) -> Order:
        """Say when a turn comes: first what completes or extends a placed gang, then by priority, policy and submission."""
        return (not record.gang_placed, -record.job.priority, self._key(record), *record.order)

    def _leave(self, record: JobRecord, want: JobWant) -> None:
        line: Line = want.line
        del line.jobs[record.job.job_id]
        self._waits.left(record, line.clock)
        if line.jobs:
            self._offer(line)
        else:
            self._drop(line)

    def _forget_blocked(self, line: Line) -> None:
        partition = line.demand.partition
        for lines in (self._for_gpus.get(partition), self._for_spare.get(partition), self._for_masters):
            if lines is not None:
                lines.pop(line.number, None)
        for waiting in self._for_slots.get(partition, {}).values():
            waiting[:] = [entry for entry in waiting if entry[2] is not line]

    def _offer(self, line: Line) -> None:
        first = None if line.blocked else line.first()
        if first is not None and first.rank is not line.offered:
            line.offered = first.rank
            heappush(self._ready.setdefault(line.group, []), (first.rank, line.number, line))

    def groups(self) -> list[Group]:
        """List the groups in which somebody may be ready."""
        return list(self._ready)

    def first(self, group: Group = TOGETHER) -> JobWant | None:
        """Give the first want of a group's lines that are ready."""
        ready = self._ready.get(group)
        if ready is None:
            return None
        while ready:
            order, _, line = ready[0]
            if line.jobs and not line.blocked:
                record = line.first()
                if record is not None and record.rank is order:
                    return record.want  # type: ignore[return-value] # who stands in a line wants something; a check costs time here
            heappop(ready)
            if line.offered is order:
                line.offered = None
            if line.jobs:
                self._offer(line)
        del self._ready[group]
        return None

    def anybody(self) -> bool:
        """Tell whether any want is ready."""
        return any(self.first(group) is not None for group in self.groups())

    def next_in_order(self) -> JobWant | None:
        """Give the first want of all; None if its line is blocked."""
        ready = self.first()
        if ready is None:
            return None
        firsts = [line.first() for line in self._blocked()]
        return None if any(first.rank < ready.record.rank for first in firsts if first is not None) else ready

    def wants(self) -> list[JobWant]:
        """List all wants, in no order."""
        wants = [record.want for line in self._lines.values() for record in line.jobs.values()]
        return [want for want in wants if isinstance(want, JobWant)]

    def is_blocked(self, want: JobWant) -> bool:
        """Tell whether a want's line waits for something."""
        line: Line = want.line
        return line.blocked

    def clear(self) -> None:
        """Forget all lines; no job stands in any."""
        self._lines.clear()
        self._below.clear()
        self.standing.clear()
        self._waits.clear()
        self._ready.clear()
        self._for_slots.clear()
        self._for_gpus.clear()
        self._for_spare.clear()
        self._for_masters.clear()

    def listed(self) -> list[tuple[Demand, str]]:
        """List who stands in which line, in order."""
        return sorted((line.demand, job_id) for line in self._lines.values() for job_id in line.jobs)

    def faults(self) -> Iterator[str]:
        """Say which line is neither ready nor waiting for anything, or both."""
        numbers = Counter(line.number for line in self._blocked())
        ready = {line.number for lines in self._ready.values() for _, _, line in lines}
        for line in self._lines.values():
            waits = line.blocked and line.forbidden is None
            if numbers[line.number] != int(waits) or (not line.blocked and line.number not in ready):
                yield f"the line of {line.demand} is neither ready nor blocked, or twice"

    def _blocked(self) -> Iterator[Line]:
        """Give the lines that wait for something."""
        for lines in self._for_slots.values():
            yield from (line for group in lines.values() for _, _, line in group)
        for groups in (*self._for_gpus.values(), *self._for_spare.values(), self._for_masters):
            yield from groups.values()

    # Blocking and waking

    def lines(self) -> list[Line]:
        """List all lines."""
        return list(self._lines.values())

    def lines_below(self, path: str) -> list[Line]:
        """List the lines of a queue and of those below it; of the root they are all."""
        return self.lines() if path == ROOT else list(self._below.get(path, {}).values())

    def forbid(self, line: Line, forbidden: Forbidden | None) -> None:
        """Let a line wait because a limit forbids what it wants; None: it does so no more."""
        if line.blocked:
            self._forget_blocked(line)
        line.forbidden = forbidden
        line.blocked = forbidden is not None
        if forbidden is None:
            self._offer(line)

    def block(self, want: JobWant, *, for_masters: bool) -> None:
        """Let a want's line wait until something that it lacks is freed."""
        line: Line = want.line
        if line.blocked:
            return
        line.blocked = True
        demand = line.demand
        kind = demand.kinds[0]
        lent = [] if demand.partition else self._index.lending
        if for_masters:
            self._for_masters[line.number] = line
        elif any(not kind.gpus for kind in demand.kinds):
            for name in ("", *lent) if lent else (demand.partition,):
                self._index.watch(name)
            self._for_spare.setdefault(demand.partition, {})[line.number] = line
        elif not lent and len(demand.kinds) == 1 and self._index.slots(demand.partition, kind.gpus) < kind.containers:
            waiting = self._for_slots.setdefault(demand.partition, {}).setdefault(kind.gpus, [])
            insort(waiting, (kind.containers, line.number, line))
        else:
            self._for_gpus.setdefault(demand.partition, {})[line.number] = line

    def wake_freed(self, partition: str) -> None:
        """Wake the lines that may be served by what was freed on a server of this partition."""
        for gpus_each, waiting in self._for_slots.get(partition, {}).items():
            if waiting:
                self._wake_slots(waiting, self._index.slots(partition, gpus_each))
        self._wake_all(self._for_gpus.get(partition))
        if self._for_spare:
            self.wake_spare(partition)

    def _wake_slots(self, waiting: list[tuple[int, int, Line]], slots: int) -> None:
        count = 0
        while count < len(waiting) and waiting[count][0] <= slots:
            self._wake(waiting[count][2])
            count += 1
        del waiting[:count]

    @property
    def waits_for_spare(self) -> bool:
        """Whether any line wants spare memory or vcores."""
        return any(self._for_spare.values())

    def wake_spare(self, partition_name: str) -> bool:
        """Wake the lines that want spare memory or vcores and may be served by the servers that were touched; tell if any.

        Placing GPUs touches servers too: what a container leaves of its GPUs' share becomes spare.
        """
        partition = self._index.partitions.get(partition_name)
        if partition is None:
            return False
        partition.refresh()
        if not partition.touched:
            return False
        touched, partition.touched = partition.touched, []
        woken = False
        partition.watched = False
        for lines in self._spare_lines(partition_name):
            served = [line for line in lines.values() if self._may_serve(partition_name, line, touched)]
            for line in served:
                del lines[line.number]
                self._wake(line)
            woken = woken or bool(served)
            partition.watched = partition.watched or bool(lines)
        return woken

    def _spare_lines(self, partition_name: str) -> list[dict[int, Line]]:
        """Give the lines that a partition's spare may serve: its own, and of the default one if it lends."""
        names = ["", partition_name] if partition_name and partition_name in self._index.lending else [partition_name]
        return [lines for name in names if (lines := self._for_spare.get(name))]

    def _may_serve(self, partition_name: str, line: Line, touched: list[ServerUse]) -> bool:
        kinds = line.demand.kinds
        if len(kinds) > 1 or kinds[0].containers > 1 or len(touched) >= TOUCHED_MAX:
            return True
        return self._index.may_hold_plain(partition_name, kinds[0], touched)

    def wake_masters(self) -> None:
        """Wake the masters that wait, because masters hold less than before, or may hold more."""
        self._wake_all(self._for_masters)

    def wake_partition(self, partition: str) -> None:
        """Wake all lines of a partition, because its servers changed."""
        for waiting in self._for_slots.pop(partition, {}).values():
            for _, _, line in waiting:
                self._wake(line)
        self._wake_all(self._for_gpus.get(partition))
        self._wake_all(self._for_spare.get(partition))
        self.wake_masters()

    def _wake_all(self, lines: dict[int, Line] | None) -> None:
        if lines:
            for line in lines.values():
                self._wake(line)
            lines.clear()

    def _wake(self, line: Line) -> None:
        line.blocked = False
        self._offer(line)


def _take_out(lines: dict[Any, dict[int, Line]], key: object, line: Line) -> None:
    """Take a line out of those that are found by a key."""
    del lines[key][line.number]
    if not lines[key]:
        del lines[key]
