"""Looks now and then who uses none of the GPUs that it holds, warns of it, and lets it be stopped for others, as the settings say.

A job is idle when each of its GPUs is. One that holds a GPU of which nobody can tell is not: nobody claims what was not read.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence

import structlog

from yarn_gpu_sched.engine import Engine, events
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.service.checkpoint_watch import Tell
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.fleet import Fleet
from yarn_gpu_sched.service.monitors.idling import use_of
from yarn_gpu_sched.service.refusal import Refusal

LOOK_S = 10.0

_log = structlog.get_logger(__name__)


class IdleJobs(enum.Enum):
    """What follows for a job that uses none of its GPUs: it is shown; it is warned of; or it may be stopped for others too."""

    SHOW = "show"
    WARN = "warn"
    PREEMPT = "preempt"


class IdleWatch:
    """Knows who is idle; ``idle`` names them with whether that was told to the engine."""

    def __init__(self, engine: Engine, clock: Clock, metrics: Metrics, fleet: Fleet, follow: IdleJobs) -> None:
        self.idle: dict[str, bool] = {}
        self.follow = follow
        self._engine = engine
        self._clock = clock
        self._metrics = metrics
        self._fleet = fleet
        self._timer: Timer | None = None
        self._telling: asyncio.Task[None] | None = None
        self._tell: Tell | None = None

    def start(self, tell: Tell) -> None:
        """Look now, and every 10 s until `stop`."""
        self._tell = tell
        self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._telling is not None:
            self._telling.cancel()

    def _look(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_s() + LOOK_S, self._look)
        if self._telling is not None and not self._telling.done():
            return  # what the engine is being told must be known before it is told anything else
        found = self._idle_now()
        self._metrics.idle_jobs.set(len(found))
        for job_id, user in found.items():
            if job_id not in self.idle and self.follow is not IdleJobs.SHOW:
                _log.warning("job_idle", job_id=job_id, user=user, after_s=self._fleet.idle.after_s)
        before, self.idle = self.idle, {job_id: self.idle.get(job_id, False) for job_id in found}
        ended = [job_id for job_id, told in before.items() if told and job_id not in found]
        begun = [job_id for job_id, told in self.idle.items() if not told] if self.follow is IdleJobs.PREEMPT else []
        if ended or begun:
            self._telling = asyncio.create_task(self._tell_engine(begun, ended))

    def _idle_now(self) -> dict[str, str]:
        """List the running jobs all of whose GPUs are idle, with their users."""
        now_s, found = self._clock.now_s(), {}
        for job_id in self._fleet.jobs_with_idle_gpus(now_s):
            view = self._engine.job(job_id)
            if view is None or view.state is not JobState.RUNNING:
                continue
            use = use_of(self._engine, self._fleet, view, now_s)
            if use.gpus and use.idle == use.gpus:
                found[job_id] = view.job.user
        return found

    async def _tell_engine(self, begun: Sequence[str], ended: Sequence[str]) -> None:
        """Tell the engine; whom it was not told of because too much waits, it is told of the next time."""
        said = [*((job_id, True) for job_id in begun), *((job_id, False) for job_id in ended)]

        def make(now_s: float) -> list[events.AnyEvent]:
            return [events.IdleReported(now_s=now_s, job_id=job_id, idle=idle) for job_id, idle in said]

        assert self._tell is not None
        try:
            await self._tell(make)
        except Refusal as refusal:
            _log.warning("idleness_not_told", why=refusal.sentence)
            self.idle |= dict.fromkeys(ended, True)
            return
        self.idle |= dict.fromkeys(begun, True)
