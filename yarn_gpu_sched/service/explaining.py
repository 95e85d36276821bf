"""Tells the resource manager why its jobs wait, so that whoever asks YARN is told too.

Only what changed is told, of a job at most every ten seconds; a time that runs down is no change. What a resource manager was told
is forgotten with its session, since a new one knows nothing of it.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.protocol.v1 import link_pb2
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.driver import Driver
from yarn_gpu_sched.service.session import Session

TOLD_EVERY_S = 10.0
_RUNS_DOWN = re.compile(r"\d+(?:\.\d+)? s\b")
# It is about to be placed, or to be ended: what comes of it says more.
_PASSING = (ReasonCode.DECIDED, ReasonCode.REFUSED)


class _Told(msgspec.Struct, frozen=True, gc=False):
    """What was told of a job, and when; ``what`` is empty where it waits no more."""

    attempt: int
    what: tuple[object, ...]
    told_s: float


class Explaining:
    """Looks at jobs as the walk comes to them."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._session: Session | None = None
        self._told: dict[str, _Told] = {}
        self._met: set[str] = set()

    @property
    def remembered(self) -> int:
        """Jobs of which something was told."""
        return len(self._told)

    def seen(self, views: Sequence[JobView]) -> None:
        """Tell what changed of these jobs; nothing while the resource manager does not take it."""
        session = self._driver.session
        if session is not self._session:
            self._session = session
            self._told.clear()
        if session is None or not session.snapshot_ended or not self._driver.engine.cluster().connected:
            return
        if session.takes_explanations(len(views)):
            self._met.update(view.job.job_id for view in views)
            session.explain(self._changed(views))

    def round_ended(self) -> None:
        """Forget jobs that have ended."""
        for job_id in [job_id for job_id in self._told if job_id not in self._met]:
            view = self._driver.engine.job(job_id)
            if view is None or view.end is not None:
                del self._told[job_id]
        self._met.clear()

    def _changed(self, views: Sequence[JobView]) -> Iterator[link_pb2.Explanation]:
        now_s = self._clock.now_s()
        for view in views:
            job = view.job
            # YARN itself says best why it lets a job not ask yet.
            if not job.active or (view.waiting is not None and view.waiting.code in _PASSING):
                continue
            told = self._told.get(job.job_id)
            if told is not None and told.attempt == job.attempt and now_s - told.told_s < TOLD_EVERY_S:
                continue
            what = _what(view)
            if told is None or told.attempt != job.attempt:
                told = _Told(job.attempt, (), now_s)
            if what == told.what:
                if not what:
                    self._told.pop(job.job_id, None)
                continue
            self._told[job.job_id] = _Told(job.attempt, what, now_s)
            yield link_pb2.Explanation(job_id=job.job_id, attempt=job.attempt, sentence=_sentence(view))


def _what(view: JobView) -> tuple[object, ...]:
    """Give what matters of a job's waiting; empty if it waits for nothing.

    The job's state counts, because YARN forgets what it was told when the job's master registers.
    """
    waiting = view.waiting
    return () if waiting is None else (waiting.code, view.state, _RUNS_DOWN.sub("", waiting.sentence))


def _sentence(view: JobView) -> str:
    waiting = view.waiting
    return "" if waiting is None else one_line(f"waits as {waiting.code.value}: {waiting.sentence}")
