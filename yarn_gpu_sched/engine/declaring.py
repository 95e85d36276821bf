"""Who waits and says how long it runs, the shortest first."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yarn_gpu_sched.model.job_record import JobRecord


class Declaring:
    """Waiting jobs by the run time that they declare, in seconds."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, JobRecord]] = {}
        self._sorted: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._known)

    def put(self, record: JobRecord, runtime_s: int | None) -> None:
        """Note what a waiting job declares; None: it declares nothing."""
        job_id, known = record.job.job_id, self._known.get(record.job.job_id)
        if known is not None and known[0] == runtime_s:
            return
        self.drop(job_id)
        if runtime_s is not None:
            self._known[job_id] = (runtime_s, record)
            insort(self._sorted, (runtime_s, job_id))

    def drop(self, job_id: str) -> None:
        """Forget a job."""
        known = self._known.pop(job_id, None)
        if known is not None:
            del self._sorted[bisect_left(self._sorted, (known[0], job_id))]

    def within(self, seconds: float) -> list[tuple[int, JobRecord]]:
        """List the jobs that run no longer than that, with their run times, the shortest first."""
        end = bisect_right(self._sorted, seconds, key=lambda one: one[0])
        return [self._known[job_id] for _, job_id in self._sorted[:end]]

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()
        self._sorted.clear()
