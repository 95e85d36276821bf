"""Gauges of the health of servers and GPUs, set every 10 s: they count all GPUs."""

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.model.health import Health, Telemetry
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.metrics import Metrics

REFRESH_S = 10.0


class HealthGauges:
    """Counts when it is time; called once a second."""

    def __init__(self, metrics: Metrics, clock: Clock, engine: Engine) -> None:
        self._metrics = metrics
        self._clock = clock
        self._engine = engine
        self._due_s = 0.0

    def refresh(self) -> None:
        """Count, if it is time."""
        now_s = self._clock.now_s()
        if now_s < self._due_s:
            return
        self._due_s = now_s + REFRESH_S
        counts, metrics = self._engine.health_counts(), self._metrics
        for health in Health:
            metrics.gpu_health.labels(health.value).set(counts.health.get(health, 0))
        for telemetry in Telemetry:
            metrics.server_telemetry.labels(telemetry.value).set(counts.telemetry.get(telemetry, 0))
        metrics.gpus_not_free.set(counts.not_free)
        metrics.servers_drained.set(counts.drained)
