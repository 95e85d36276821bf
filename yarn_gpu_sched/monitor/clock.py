"""The monitor's clock: monotonic, and handed in, so that tests never sleep. `FakeClock` ships for integrators' tests as well."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from typing import Protocol


class Clock(Protocol):
    """Tells the time and lets it pass, on the event loop's thread."""

    def now_s(self) -> float:
        """Seconds since some fixed moment; never runs backwards."""

    async def wait(self, seconds: float, event: asyncio.Event | None = None) -> None:
        """Return after so many seconds, or as soon as the event is set."""


class LoopClock:
    """The clock of the running event loop: monotonic whatever the wall clock does."""

    def __init__(self) -> None:
        self.now_s = asyncio.get_running_loop().time

    async def wait(self, seconds: float, event: asyncio.Event | None = None) -> None:
        """See `Clock`."""
        if event is None:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            # Not `wait_for`: it may swallow that it is cancelled.
            async with asyncio.timeout(max(seconds, 0.0)):
                await event.wait()


class FakeClock:
    """A clock that stands still until it is told to advance."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, asyncio.Event]] = []

    def now_s(self) -> float:
        """See `Clock`."""
        return self._now_s

    async def wait(self, seconds: float, event: asyncio.Event | None = None) -> None:
        """See `Clock`."""
        passed = asyncio.Event()
        heapq.heappush(self._waiting, (self._now_s + max(seconds, 0.0), next(self._order), passed))
        tasks = [asyncio.ensure_future(each.wait()) for each in (passed, event) if each is not None]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def advance(self, seconds: float) -> None:
        """Let time pass: whoever waits goes on in order, at its own time."""
        until_s = self._now_s + seconds
        await self.settle()
        while self._waiting and self._waiting[0][0] <= until_s:
            when_s, _, passed = heapq.heappop(self._waiting)
            self._now_s = max(self._now_s, when_s)
            passed.set()
            await self.settle()
        self._now_s = until_s
        await self.settle()

    async def settle(self, turns: int = 30) -> None:
        """Let every task that can go on do so, without time passing."""
        for _ in range(turns):
            await asyncio.sleep(0)
