"""Follows what the engine keeps for gangs that have waited too long, for log and metrics: what is made, moved and ended.

It looks once a second; a reservation that comes and goes in between is counted and not logged. How many are told of in one look is
bounded: the next ones are told of in the next.
"""

from collections.abc import Iterator
from itertools import islice

import structlog

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.views import ReservationView
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.metrics import Metrics

LOOK_S = 1.0
TOLD_MAX = 100
NAMED_MAX = 16

_log = structlog.get_logger(__name__)


class ReservationWatch:
    """See the module."""

    def __init__(self, engine: Engine, clock: Clock, metrics: Metrics) -> None:
        self._engine = engine
        self._clock = clock
        self._metrics = metrics
        self._told: dict[str, ReservationView] = {}
        self._made = self._passed = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look now and once a second until `stop`."""
        self._timer = self._clock.call_at(self._clock.now_s() + LOOK_S, self.start)
        self.look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Bring log and metrics up to date."""
        views = self._engine.reservations()
        metrics, counters = self._metrics, self._engine.counters
        metrics.reservations_made.inc(counters.reserved - self._made)
        metrics.reservations_passed.inc(counters.passed - self._passed)
        self._made, self._passed = counters.reserved, counters.passed
        metrics.reservations.set(len(views))
        metrics.reserved_gpus.set(sum(view.kept_gpus for view in views))
        for event, view in list(islice(self._news({view.job_id: view for view in views}), TOLD_MAX)):
            self._tell(event, view)

    def _news(self, now: dict[str, ReservationView]) -> Iterator[tuple[str, ReservationView]]:
        """Give what is not told yet: ends first, so that a job which has another one by now loses the one before."""
        for job_id, before in self._told.items():
            view = now.get(job_id)
            if view is None or view.since_s != before.since_s:
                yield "ended", before
        for job_id, view in now.items():
            known = self._told.get(job_id)
            if known is None or known.since_s != view.since_s:
                yield "made", view
            elif _where(known) != _where(view):
                yield "moved", view

    def _tell(self, event: str, view: ReservationView) -> None:
        if event == "ended":
            del self._told[view.job_id]
            kept_s = round(self._clock.now_s() - view.since_s, 1)
            _log.info("reservation_ended", **_described(view), after_s=kept_s, why=self._why_ended(view.job_id))
            return
        self._told[view.job_id] = view
        expected = None if view.ready_s is None else round(max(0.0, view.ready_s - self._clock.now_s()), 1)
        told = {**_described(view), **_placed(view), "ready_in_s": expected}
        if event == "made":
            _log.info("reservation_made", **told)
        else:
            _log.info("reservation_moved", **told)

    def _why_ended(self, job_id: str) -> str:
        """Say what became of who had it: it started, it has ended, or it waits without."""
        view = self._engine.job(job_id)
        if view is None or view.state is JobState.ENDED:
            return "ended"
        return "started" if view.state is JobState.RUNNING else "given up"


def _described(view: ReservationView) -> dict[str, object]:
    return {"job_id": view.job_id, "virtual_cluster": view.vc, "gpus": view.gpus}


def _placed(view: ReservationView) -> dict[str, object]:
    servers = [server_id for server_id, _, _ in view.servers]
    return {"kept_gpus": view.kept_gpus, "servers": servers[:NAMED_MAX], "servers_count": len(servers)}


def _where(view: ReservationView) -> list[tuple[str, int]]:
    return [(server_id, gpus) for server_id, gpus, _ in view.servers]
