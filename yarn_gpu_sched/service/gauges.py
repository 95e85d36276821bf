"""Sets the gauges once a second.

Pending jobs are counted by reason, as the service's walk comes to them: with ten thousand of them the figures are some seconds old.
"""

from collections import Counter
from collections.abc import Sequence

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.service.bindings import Bindings
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.driver import Driver
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.fleet import Fleet
from yarn_gpu_sched.service.monitors.health_gauges import HealthGauges
from yarn_gpu_sched.service.vc_gauges import VirtualClusterGauges
from yarn_gpu_sched.service.watch import Watchers

REFRESH_S = 1.0


class Gauges:
    """Reads the parts of one service and sets its gauges."""

    def __init__(
        self,
        metrics: Metrics,
        clock: Clock,
        driver: Driver,
        watchers: Watchers,
        bindings: Bindings | None,
        fleet: Fleet,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._driver = driver
        self._watchers = watchers
        self._bindings = bindings
        self._fleet = fleet
        self._engine: Engine = driver.engine
        self._health = HealthGauges(metrics, clock, driver.engine)
        self._vcs = VirtualClusterGauges(metrics, clock, driver.engine)
        self._waiting: Counter[ReasonCode] = Counter()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Refresh now and once a second until `stop`."""
        self.refresh()
        self._timer = self._clock.call_at(self._clock.now_s() + REFRESH_S, self.start)

    def stop(self) -> None:
        """Refresh no more."""
        if self._timer is not None:
            self._timer.cancel()

    def refresh(self) -> None:
        """Set every gauge."""
        self._refresh_queues()
        self._refresh_cluster()
        self._vcs.refresh()
        self._health.refresh()

    def _refresh_queues(self) -> None:
        session = self._driver.session
        depth = self._metrics.queue_depth
        depth.labels("work").set(self._driver.queued)
        depth.labels("outbound").set(session.outbound if session else 0)
        depth.labels("unanswered").set(len(session.unanswered) if session else 0)
        depth.labels("bindings").set(self._bindings.queued if self._bindings else 0)
        depth.labels("orders").set(self._fleet.queued)
        self._metrics.monitors.set(self._fleet.connected)
        self._metrics.watchers.set(len(self._watchers))

    def _refresh_cluster(self) -> None:
        cluster = self._engine.cluster()
        self._metrics.link_up.set(cluster.connected)
        self._metrics.link_epoch.set(cluster.epoch)
        self._metrics.servers.set(cluster.servers)
        self._metrics.gpus.labels("used").set(cluster.used.gpus)
        self._metrics.gpus.labels("free").set(cluster.capacity.gpus - cluster.used.gpus)
        _, known = self._engine.jobs(limit=1)
        ended = known - cluster.jobs_pending - cluster.jobs_running
        counts = {
            JobState.PENDING: cluster.jobs_pending,
            JobState.RUNNING: cluster.jobs_running,
            JobState.ENDED: ended,
        }
        for state, count in counts.items():
            self._metrics.jobs.labels(state.value).set(count)

    def seen(self, views: Sequence[JobView]) -> None:
        """Count the pending jobs among these by reason."""
        pending = (view.waiting for view in views if view.state is JobState.PENDING)
        self._waiting.update(waiting.code for waiting in pending if waiting is not None)

    def round_ended(self) -> None:
        """Set how many pending jobs wait for each reason."""
        for code in ReasonCode:
            self._metrics.jobs_waiting.labels(code.value).set(self._waiting[code])
        self._waiting.clear()
