"""When to look at what again: one time for each key, the next one first."""

from heapq import heappop, heappush


class Agenda:
    """Times at which something may be due for a job or a queue; what was named before for it counts no more."""

    def __init__(self) -> None:
        self._times: list[tuple[float, str]] = []
        self._time_of: dict[str, float] = {}

    def note(self, time_s: float, key: str) -> None:
        """Look at it then, and no more when it was said before."""
        if self._time_of.get(key) != time_s:
            self._time_of[key] = time_s
            heappush(self._times, (time_s, key))

    def strike(self, key: str) -> None:
        """Do not look at it."""
        self._time_of.pop(key, None)

    def times(self) -> list[tuple[str, float]]:
        """List for what which time was named, in order of the keys."""
        return sorted(self._time_of.items())

    def next_s(self) -> float | None:
        """Say when to look next."""
        times = self._times
        while times and self._time_of.get(times[0][1]) != times[0][0]:
            heappop(times)
        return times[0][0] if times else None

    def pass_by(self, now_s: float) -> list[str]:
        """Let the times go by that have come; list for what they were."""
        due = []
        while (next_s := self.next_s()) is not None and next_s <= now_s:
            key = heappop(self._times)[1]
            del self._time_of[key]
            due.append(key)
        return due

    def keys(self) -> list[str]:
        """List for what a time was named."""
        return list(self._time_of)

    def clear(self) -> None:
        """Forget all times."""
        self._times.clear()
        self._time_of.clear()
