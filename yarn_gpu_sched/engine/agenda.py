"""When to look at which job again: one time a job, the next one first."""

from heapq import heappop, heappush


class Agenda:
    """Times at which something may be due for a job; what was named before for it counts no more."""

    def __init__(self) -> None:
        self._times: list[tuple[float, str]] = []
        self._time_of: dict[str, float] = {}

    def note(self, time_s: float, job_id: str) -> None:
        """Look at a job then, and no more when it was said before."""
        if self._time_of.get(job_id) != time_s:
            self._time_of[job_id] = time_s
            heappush(self._times, (time_s, job_id))

    def strike(self, job_id: str) -> None:
        """Do not look at a job."""
        self._time_of.pop(job_id, None)

    def next_s(self) -> float | None:
        """Say when to look next."""
        times = self._times
        while times and self._time_of.get(times[0][1]) != times[0][0]:
            heappop(times)
        return times[0][0] if times else None

    def pass_by(self, now_s: float) -> list[str]:
        """Let the times go by that have come; list the jobs."""
        due = []
        while (next_s := self.next_s()) is not None and next_s <= now_s:
            job_id = heappop(self._times)[1]
            del self._time_of[job_id]
            due.append(job_id)
        return due

    def jobs(self) -> list[str]:
        """List the jobs of which a time was named."""
        return list(self._time_of)

    def clear(self) -> None:
        """Forget all times."""
        self._times.clear()
        self._time_of.clear()
