"""Mean use of each GPU of a server since it was last asked for, weighted by time: monitors tell only what changes."""

from __future__ import annotations

import msgspec


class _Sum(msgspec.Struct, gc=False):
    """``percent`` holds since ``since_s``; before that, ``known_s`` seconds add up to ``percent_s``."""

    percent: float | None
    since_s: float
    percent_s: float = 0.0
    known_s: float = 0.0

    def advance(self, now_s: float) -> None:
        """Let what holds hold until now."""
        held_s = max(0.0, now_s - self.since_s)
        if self.percent is not None:
            self.percent_s += self.percent * held_s
            self.known_s += held_s
        self.since_s = max(now_s, self.since_s)


class Means:
    """By slot; times by the service's clock."""

    def __init__(self) -> None:
        self._sums: dict[int, _Sum] = {}

    def note(self, slot: int, percent: float | None, read_s: float) -> None:
        """Take a reading; None: nobody can tell from here on."""
        known = self._sums.get(slot)
        if known is None:
            self._sums[slot] = _Sum(percent, read_s)
        else:
            known.advance(read_s)
            known.percent = percent

    def take(self, slot: int, now_s: float) -> float | None:
        """Give the mean since it was last taken, and begin anew; None: nothing was read of it."""
        known = self._sums.get(slot)
        if known is None:
            return None
        known.advance(now_s)
        mean = known.percent_s / known.known_s if known.known_s else known.percent
        known.percent_s = known.known_s = 0.0
        return mean

    def forget(self) -> None:
        """Forget everything: what was last read says nothing of now."""
        self._sums.clear()
