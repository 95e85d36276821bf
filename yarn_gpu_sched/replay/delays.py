"""How long jobs wait, by cause: too few GPUs free (capacity), or enough of them, but not where the gang may go (fragmentation)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class FreeTime:
    """For how long at least so many GPUs were free, for each of the sizes that will be asked."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self._sizes = sorted(set(sizes))
        self._seconds = [0.0] * (len(self._sizes) + 1)
        self._now_s = 0.0

    def advance(self, now_s: float, free: int) -> None:
        """Let time go on to now, while so many GPUs were free."""
        self._seconds[bisect_right(self._sizes, free)] += now_s - self._now_s
        self._now_s = now_s

    def at_least_s(self, gpus: int) -> float:
        """Add up the time in which at least so many GPUs were free; it is one of the sizes."""
        return sum(self._seconds[bisect_left(self._sizes, gpus) + 1 :])
