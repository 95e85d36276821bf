"""The event recorder, so wrapped that its failures never stop scheduling."""

from collections.abc import Callable

import structlog

from yarn_gpu_sched.engine import events
from yarn_gpu_sched.journal import Recorder
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.metrics import Metrics

FLUSH_S = 1.0
RETRY_S = 60.0

_log = structlog.get_logger(__name__)


class Recording:
    """Records every event until something fails; a minute later it begins a new file.

    A file with a gap would replay to another state, so after a failure (a full disk, say) events are dropped and counted until a
    new file begins, with a snapshot of its own.
    """

    def __init__(self, make: Callable[[], Recorder], clock: Clock, metrics: Metrics) -> None:
        self._make = make
        self._clock = clock
        self._metrics = metrics
        self._recorder: Recorder | None = make()
        self._retry_at_s = 0.0
        self._flush: Timer | None = None

    def record(self, event: events.AnyEvent) -> None:
        """Record an event that is about to be applied."""
        if self._recorder is None and self._clock.now_s() >= self._retry_at_s:
            self._reopen()
        if self._recorder is None:
            self._metrics.recorder_drops.inc()
            return
        try:
            self._recorder.record(event)
        except OSError as error:
            self._metrics.recorder_drops.inc()
            self._fail(error)
            return
        if self._flush is None:
            self._flush = self._clock.call_at(self._clock.now_s() + FLUSH_S, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        if self._recorder is None:
            return
        try:
            self._recorder.flush()
        except OSError as error:
            self._fail(error)

    def _reopen(self) -> None:
        try:
            self._recorder = self._make()
        except OSError as error:
            self._fail(error)
        else:
            _log.info("recorder_reopened")

    def _fail(self, error: OSError) -> None:
        _log.error("recorder_failed", error=str(error), retry_s=RETRY_S)
        self._retry_at_s = self._clock.now_s() + RETRY_S
        self.close()

    def close(self) -> None:
        """Write out what is buffered and stop."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            recorder.close()
        except OSError as error:
            _log.warning("recorder_not_closed", error=str(error))
