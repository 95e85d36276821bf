"""Goes round the jobs that have not ended, a bounded number of them a second, for all who must look at each now and then.

With ten thousand jobs a round takes some seconds, and the event loop is never held for long.
"""

from collections.abc import Sequence
from typing import Protocol

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.service.clock import Clock, Timer

WALK_S = 1.0
WALK_JOBS = 200


class Visitor(Protocol):
    """Who looks at the jobs."""

    def seen(self, views: Sequence[JobView]) -> None:
        """Look at the next jobs of the round: first those that are pending, then those that run."""

    def round_ended(self) -> None:
        """Take note that all have been seen, and that a new round begins."""


class Walk:
    """Takes visitors round, once a second a piece of the way."""

    def __init__(self, engine: Engine, clock: Clock, *visitors: Visitor) -> None:
        self._engine = engine
        self._clock = clock
        self._visitors = visitors
        self._state = JobState.PENDING
        self._after = ""
        self._timer: Timer | None = None

    def start(self) -> None:
        """Go on now, and once a second until `stop`."""
        self._timer = self._clock.call_at(self._clock.now_s() + WALK_S, self.start)
        self._step()

    def stop(self) -> None:
        """Go on no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _step(self) -> None:
        left = self._look(WALK_JOBS)
        if left and self._state is JobState.PENDING:
            self._state, self._after = JobState.RUNNING, ""
            left = self._look(left)
        if left:
            self._state, self._after = JobState.PENDING, ""
            for visitor in self._visitors:
                visitor.round_ended()

    def _look(self, limit: int) -> int:
        """Show the next jobs of a state; return how many more there might have been: some only if these were the last."""
        views, _ = self._engine.jobs(state=self._state, after=self._after, limit=limit)
        for visitor in self._visitors:
            visitor.seen(views)
        if views:
            self._after = views[-1].job.job_id
        return limit - len(views)
