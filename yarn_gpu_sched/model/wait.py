"""What the engine knows of a job's wait."""

from yarn_gpu_sched.model.delay import NO_DELAYS
from yarn_gpu_sched.model.reason import ReasonSince

Clocks = tuple[int, int, int, int]
"""Microseconds by cause, in the order of `yarn_gpu_sched.model.delay.Cause`."""

NO_TIME: Clocks = (0, 0, 0, 0)


class Wait:
    """The wait of an attempt, by the engine's clock.

    ``since_us``: when it began; None if it does not wait. ``waited``: how long in lines that it has left. ``joined``: when it
    joined the one in which it stands, and how that one's clocks stood then. ``delays``: of the last wait that has ended,
    ``in_all`` of all those. ``history``: for what it waited.
    """

    __slots__ = ("delays", "history", "in_all", "joined", "since_us", "waited")

    def __init__(self) -> None:
        self.since_us: int | None = None
        self.waited = NO_TIME
        self.joined: tuple[int, Clocks] | None = None
        self.delays = self.in_all = NO_DELAYS
        self.history: tuple[ReasonSince, ...] = ()
