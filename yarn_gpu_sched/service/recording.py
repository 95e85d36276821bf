"""The event recorder, so wrapped that its failures never stop scheduling."""

from collections.abc import Callable

import structlog

from yarn_gpu_sched.engine import events
from yarn_gpu_sched.journal import Recorder
from yarn_gpu_sched.service.metrics import Metrics

_log = structlog.get_logger(__name__)


class Recording:
    """Records every event until something fails; then begins a new record at the next registration.

    A record with a gap would replay to another state, so after a failure (a full disk, say) events
    are dropped and counted until a resource manager registers, which voids the state anyway.
    """

    def __init__(self, make: Callable[[], Recorder], metrics: Metrics) -> None:
        self._make = make
        self._metrics = metrics
        self._recorder: Recorder | None = make()

    def record(self, event: events.AnyEvent) -> None:
        """Record an event that is about to be applied."""
        if self._recorder is None and isinstance(event, events.ResourceManagerRegistered):
            self._reopen()
        if self._recorder is None:
            self._metrics.recorder_drops.inc()
            return
        try:
            self._recorder.record(event)
        except OSError as error:
            self._fail(error)

    def _reopen(self) -> None:
        try:
            self._recorder = self._make()
        except OSError as error:
            _log.warning("recorder_not_opened", error=str(error))

    def _fail(self, error: OSError) -> None:
        _log.error("recorder_failed", error=str(error))
        self._metrics.recorder_drops.inc()
        self.close()

    def close(self) -> None:
        """Write out what is buffered and stop."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            recorder.close()
        except OSError as error:
            _log.error("recorder_not_closed", error=str(error))
