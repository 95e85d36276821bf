"""How long the jobs of a line have waited, by cause, and for which reasons: kept once for all of them."""

from yarn_gpu_sched.model.delay import CAUSES, Cause
from yarn_gpu_sched.model.reason import ReasonCode, ReasonSince
from yarn_gpu_sched.model.wait import Clocks

HISTORY_MAX = 16
"""Reasons of a job that are remembered."""


class LineClock:
    """``code`` is why the line waits since ``since_us``; None before anybody has looked."""

    __slots__ = ("_cause", "_clocks", "code", "history", "since_us")

    def __init__(self) -> None:
        self.code: ReasonCode | None = None
        self._cause = Cause.OTHER
        self.since_us = 0
        self.history: list[ReasonSince] = []
        self._clocks = [0, 0, 0, 0]

    def turn(self, code: ReasonCode, now_us: int) -> None:
        """Wait for another reason from now on."""
        if code is self.code:
            return
        if self.code is not None:
            self._clocks[self._cause] += now_us - self.since_us
        self.code, self._cause, self.since_us = code, CAUSES[code], now_us
        note(self.history, code, now_us)

    def at(self, now_us: int) -> Clocks:
        """Read the clocks."""
        clocks = self._clocks
        if self.code is not None and now_us != self.since_us:
            clocks = clocks.copy()
            clocks[self._cause] += now_us - self.since_us
        fair, capacity, fragmentation, other = clocks
        return fair, capacity, fragmentation, other


def note(history: list[ReasonSince], code: ReasonCode, since_us: int) -> None:
    """Note a reason. What was noted at the same time was for no time; the same reason again goes on.

    One more than is shown is kept: the last one may yet turn out to have been for no time.
    """
    if history and history[-1].since_us >= since_us:
        history.pop()
    if history and history[-1].code is code:
        return
    del history[:-HISTORY_MAX]
    history.append(ReasonSince(code, since_us))
