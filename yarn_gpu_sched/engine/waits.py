"""How long each attempt of a job waits, by cause, and for which reasons.

All jobs of a line wait for the same, so a clock is kept by line: a job that joins notes how it stands, and takes the difference
when it leaves. A job that stands in no line waits for nothing that the cluster could give (see `yarn_gpu_sched.model.delay`).
When a line's reason changes is found out elsewhere (see `yarn_gpu_sched.engine.settling`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.line_clock import HISTORY_MAX, LineClock, note
from yarn_gpu_sched.model.delay import NO_DELAYS, Delays, Totals, size_of
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.reason import ReasonSince
from yarn_gpu_sched.model.wait import NO_TIME, Clocks

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.queue import Line

ROWS_MAX = 20_000
"""Rows of totals, one a virtual cluster and size; what comes beyond is counted for the virtual cluster "", of no name."""


class Waits:
    """The waits of all jobs; see the module.

    ``now_us`` is the engine's time in microseconds. ``fresh`` are the lines that nobody has looked at yet, ``gone`` those in which
    nobody stands any more, ``unsettled`` the jobs that stand in no line and whose reason may be another one now. ``totals``: the
    waits that have ended, by virtual cluster and size.
    """

    def __init__(self) -> None:
        self.now_us = 0
        self.fresh: dict[int, Line] = {}
        self.gone: dict[int, Line] = {}
        self.unsettled: dict[str, None] = {}
        self.totals: dict[tuple[str, str], Totals] = {}

    # Lines

    def line_made(self, line: Line) -> None:
        """Follow a new line."""
        self.fresh[line.number] = line

    def line_gone(self, line: Line) -> None:
        """Follow a line that nobody stands in any more."""
        if self.fresh.pop(line.number, None) is None:
            self.gone[line.number] = line

    def clear(self) -> None:
        """Forget all lines; no job stands in any."""
        self.fresh.clear()
        self.gone.clear()

    # Jobs

    def joined(self, record: JobRecord, clock: LineClock) -> None:
        """Let a job stand in a line from now on."""
        record.wait.joined = (self.now_us, clock.at(self.now_us))

    def left(self, record: JobRecord, clock: LineClock) -> None:
        """Let a job stand in that line no more; what it has waited there is its own."""
        wait = record.wait
        if wait.since_us is not None and wait.joined is not None and wait.joined[0] != self.now_us:
            wait.waited = _waited(record, clock, self.now_us)
            wait.history = self._history(record, clock, until_us=self.now_us)
        wait.joined = None

    def begin(self, record: JobRecord) -> None:
        """Let a wait begin."""
        record.wait.since_us = self.now_us
        record.wait.waited = NO_TIME
        record.wait.history = ()
        self.unsettled[record.job.job_id] = None
        clock = clock_of(record)
        if clock is not None:
            self.joined(record, clock)

    def end(self, record: JobRecord) -> None:
        """Let a job's wait end, and count it."""
        wait = record.wait
        if wait.since_us is None:
            return
        delays = NO_DELAYS
        history: tuple[ReasonSince, ...] = ()
        if wait.since_us != self.now_us:
            delays, history = self.delays_of(record, self.now_us), self._before_now(self.history_of(record))
            wait.in_all = wait.in_all.plus(delays)
        wait.since_us, wait.waited, wait.delays, wait.history = None, NO_TIME, delays, history
        key = (record.job.vc, size_of(record.gpus))
        total = self.totals.get(key)
        if total is None:
            total = self.totals.setdefault(key if len(self.totals) < ROWS_MAX else ("", key[1]), Totals())
        total.count(delays)

    def forget(self, record: JobRecord) -> None:
        """Let go of a job that may be taken up again; what it waited for at this very moment was for no time."""
        if record.wait.history:
            record.wait.history = self._before_now(record.wait.history)
        self.unsettled.pop(record.job.job_id, None)

    def _before_now(self, history: tuple[ReasonSince, ...]) -> tuple[ReasonSince, ...]:
        return tuple([one for one in history if one.since_us < self.now_us])

    def begin_anew(self, record: JobRecord) -> None:
        """Let the wait of another attempt begin, where one was waiting."""
        if record.wait.since_us is not None:
            self.end(record)
            self.begin(record)

    def delays_of(self, record: JobRecord, at_us: int) -> Delays:
        """Say how long a job's attempt has waited, by cause: until then if nothing changes, or until its wait ended."""
        if record.wait.since_us is None:
            return record.wait.delays
        fair, capacity, fragmentation, _ = self.waited_by(record, at_us)
        left_us = at_us - record.wait.since_us - fair - capacity - fragmentation
        return Delays(fair, capacity, fragmentation, left_us)

    def delays_in_all(self, record: JobRecord, at_us: int) -> Delays:
        """Say how long all attempts of a job have waited, by cause: until then if nothing changes."""
        in_all = record.wait.in_all
        return in_all if record.wait.since_us is None else in_all.plus(self.delays_of(record, at_us))

    @staticmethod
    def waited_by(record: JobRecord, at_us: int) -> Clocks:
        """Say how long a job's attempt has waited in lines until then, by cause."""
        clock = clock_of(record)
        return record.wait.waited if record.wait.since_us is None or clock is None else _waited(record, clock, at_us)

    def history_of(self, record: JobRecord) -> tuple[ReasonSince, ...]:
        """List a job's last reasons to wait in this attempt."""
        clock = clock_of(record)
        if record.wait.since_us is None or clock is None:
            return record.wait.history[-HISTORY_MAX:]
        return self._history(record, clock, until_us=self.now_us + 1)[-HISTORY_MAX:]

    @staticmethod
    def _history(record: JobRecord, clock: LineClock, until_us: int) -> tuple[ReasonSince, ...]:
        """Add to what a job has noted the reasons that its line had since it joined, and before then."""
        assert record.wait.joined is not None
        joined_us = record.wait.joined[0]
        history = [one for one in record.wait.history if one.since_us < until_us]
        entries = clock.history
        for place, one in enumerate(entries):
            ended = place + 1 < len(entries) and entries[place + 1].since_us <= joined_us
            since_us = max(one.since_us, joined_us)
            if not ended and since_us < until_us:
                note(history, one.code, since_us)
        return tuple(history)


def clock_of(record: JobRecord) -> LineClock | None:
    """Give the clock of the line that a job stands in."""
    if record.want is None:
        return None
    line: Line = record.want.line  # type: ignore[attr-defined] # what stands there is a want of the queue above
    return line.clock


def _waited(record: JobRecord, clock: LineClock, at_us: int) -> Clocks:
    """Add to what a job has waited in other lines what it has waited in this one."""
    assert record.wait.joined is not None
    then, now, before = record.wait.joined[1], clock.at(at_us), record.wait.waited
    return (
        before[0] + now[0] - then[0],
        before[1] + now[1] - then[1],
        before[2] + now[2] - then[2],
        before[3] + now[3] - then[3],
    )
