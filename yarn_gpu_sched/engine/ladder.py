"""The locality ladder (law 8): a gang starts at the tightest level that the empty cluster allows, and relaxes by timer.

How long a level lasts is the job's, its virtual cluster's or everybody's, in this order; 0: no timer, what there is at once. The
timer runs while the gang is complete and no maximum or limit forbids it; else it pauses, and it never resets within an attempt.
Whenever it runs out, the gang may go a level further.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.assignment import ANYWHERE, FEWEST_SERVERS, Level
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.placement import FreeIndex, Kind

LEVELS = tuple(Level)

US_PER_S = 1_000_000
"""Timers count whole microseconds: one that pauses and runs on at once is as it was, whoever looked meanwhile."""


class Ladder:
    """The timers of all gangs that wait, ``step_s`` of a job's seconds a level.

    What it adds to a job's record is all that there is to remember; the times to wake follow from that. ``timers`` may still hold
    times of jobs that no longer wait for them. ``climbing`` are the jobs whose timers run.
    """

    def __init__(self, index: FreeIndex, step_s: Callable[[JobRecord], float]) -> None:
        self.step_s = step_s
        self._index = index
        self._due_s: dict[str, float] = {}
        self.climbing: dict[str, None] = {}
        self.timers: list[tuple[float, str]] = []

    def hold(self, record: JobRecord, want: JobWant | None, now_s: float) -> None:
        """Let a gang's timer run or pause, and hold its want to the level of the moment."""
        if want is None or not want.gang or want.containers == 1 or not self.step_s(record):
            if record.ladder_begun_us is not None:
                self.pause(record, now_s)
            return
        if record.ladder_begun_us is None:
            record.ladder_begun_us, record.ladder_us = _us(now_s) - record.ladder_us, 0
        self.climbing[record.job.job_id] = None
        want.fits = self.fits(want.partition, want.kinds)
        level = self._level(record, want, now_s, fits=want.fits)
        if level is not want.demand.ceiling:
            want.demand = want.demand._replace(ceiling=level)
        self._wake(record, level, now_s)

    def pause(self, record: JobRecord, now_s: float) -> None:
        """Stop a gang's timer; what it has spent stays."""
        if record.ladder_begun_us is not None:
            record.ladder_us, record.ladder_begun_us = _us(now_s) - record.ladder_begun_us, None
            self._due_s.pop(record.job.job_id, None)
            self.climbing.pop(record.job.job_id, None)

    def restart(self, record: JobRecord) -> None:
        """Begin anew: nothing is spent, and nothing runs."""
        record.ladder_us, record.ladder_begun_us = 0, None
        self._due_s.pop(record.job.job_id, None)
        self.climbing.pop(record.job.job_id, None)

    def relaxes_at_s(self, job_id: str) -> float | None:
        """Say when a gang may go to the next level; None: nothing will let it."""
        return self._due_s.get(job_id)

    def level(self, record: JobRecord, want: JobWant, now_s: float) -> Level:
        """Say how loose a gang may be placed by now."""
        return self._level(record, want, now_s, fits=self.fits(want.partition, want.kinds))

    def _level(self, record: JobRecord, want: JobWant, now_s: float, *, fits: bool) -> Level:
        together = fits and not (want.demand.reach and self._named_apart(want))
        tightest = FEWEST_SERVERS if together else ANYWHERE
        return LEVELS[min(record.ceiling, tightest + self._steps(record, now_s))]

    def stays(self, record: JobRecord, now_s: float) -> bool:
        """Tell whether a gang that waits is held to the level that it should be held to by now."""
        want = record.want
        return isinstance(want, JobWant) and self.level(record, want, now_s) is want.demand.ceiling

    def fits(self, partition: str, kinds: tuple[Kind, ...]) -> bool:
        """Tell whether some domain would hold a gang if it were empty."""
        index = self._index
        if index.fewest_servers(partition, kinds) is not None:
            return True
        return not partition and any(index.fewest_servers(name, kinds) is not None for name in index.lending)

    def _named_apart(self, want: JobWant) -> bool:
        """Tell whether a gang names places itself, and no others, in several domains, none of which is to hold all of it."""
        named: dict[str, int] = {}
        containers = 0
        for kind, reach in zip(want.kinds, want.demand.reach, strict=True):
            containers += kind.containers if reach.strict else 0
            for place, count in reach.places if reach.strict else ():
                for domain in {use.server.domain for use in self._index.at(place, want.partition)}:
                    named[domain] = named.get(domain, 0) + count
        return bool(named) and max(named.values()) < containers

    def _steps(self, record: JobRecord, now_s: float) -> int:
        spent_us = record.ladder_us if record.ladder_begun_us is None else _us(now_s) - record.ladder_begun_us
        return spent_us // _us(self.step_s(record))

    def _wake(self, record: JobRecord, level: Level, now_s: float) -> None:
        job_id = record.job.job_id
        if level >= record.ceiling or record.ladder_begun_us is None:
            self._due_s.pop(job_id, None)
            return
        step_us = _us(self.step_s(record))
        due_s = (record.ladder_begun_us + (self._steps(record, now_s) + 1) * step_us) / US_PER_S
        if self._due_s.get(job_id) != due_s:
            self._due_s[job_id] = due_s
            heappush(self.timers, (due_s, job_id))

    def next_s(self) -> float | None:
        """Say when the next gang may go to a looser level."""
        heap = self.timers
        while heap and self._due_s.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now_s: float) -> list[str]:
        """Take out the jobs whose gangs may go to a looser level now."""
        due: list[str] = []
        while self.timers and (due_s := self.next_s()) is not None and due_s <= now_s:
            due.append(heappop(self.timers)[1])
            del self._due_s[due[-1]]
        return due

    def strays(self, jobs: dict[str, JobRecord]) -> list[str]:
        """List whose timer is said to run, or to wake somebody, and does not, or is not known; and the reverse."""
        running = {job_id for job_id, record in jobs.items() if record.ladder_begun_us is not None}
        return sorted((running ^ self.climbing.keys()) | (self._due_s.keys() - running))

    def faults(self, record: JobRecord, now_s: float, *, settled: bool) -> Iterator[str]:
        """Say what is wrong with a job's timer; until it is ``settled`` what the empty cluster allows, not with its level."""
        want = record.want
        waits = isinstance(want, JobWant) and want.gang and want.containers > 1 and self.step_s(record) > 0
        waits = waits and isinstance(want, JobWant) and want.line.forbidden is None
        if waits != (record.ladder_begun_us is not None):
            yield f"its timer runs since {record.ladder_begun_us} us, and it {'waits' if waits else 'does not wait'}"
        if not waits:
            return
        assert isinstance(want, JobWant)
        level = self.level(record, want, now_s)
        if want.demand.ceiling > level and settled:
            yield f"it may go to level {want.demand.ceiling}, and its timer has run for level {level}"
        if want.demand.ceiling < record.ceiling and record.job.job_id not in self._due_s:
            yield f"it waits at level {want.demand.ceiling}, and nothing wakes it"


def _us(seconds: float) -> int:
    return round(seconds * US_PER_S)
