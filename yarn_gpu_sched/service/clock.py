"""The driver's clock: monotonic, and handed in, so that tests never sleep.

`FakeClock` ships for integrators' tests as well as for ours.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that has not been called yet."""

    def cancel(self) -> None:
        """Do not call it any more. Harmless after it was called."""


class Clock(Protocol):
    """Tells the time and calls back at a time, both on the event loop's thread."""

    def now_s(self) -> float:
        """Seconds since some fixed moment; never runs backwards."""

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        """Call back as soon as ``now_s()`` has reached ``when_s``, also if it already has."""


class LoopClock:
    """The clock of the running event loop: monotonic whatever the wall clock does."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.now_s = self._loop.time

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        """See `Clock`."""
        return self._loop.call_at(when_s, callback)


class _FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """A clock that stands still until it is told to advance."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _FakeTimer]] = []

    def now_s(self) -> float:
        """See `Clock`."""
        return self._now_s

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        """See `Clock`. A time that has passed is called at the next `advance`."""
        timer = _FakeTimer(callback)
        heapq.heappush(self._timers, (when_s, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass: whatever falls due is called in order, at its own time."""
        until_s = self._now_s + seconds
        while self._timers and self._timers[0][0] <= until_s:
            when_s, _, timer = heapq.heappop(self._timers)
            self._now_s = max(self._now_s, when_s)
            if timer.callback is not None:
                timer.callback()
        self._now_s = until_s
