"""Collects the jobs of a trace, in whatever order they come, and counts what is not taken as it is."""

from yarn_gpu_sched.replay.source import Source
from yarn_gpu_sched.replay.trace import (
    BAD_ROWS_LISTED_MAX,
    BAD_ROWS_MAX,
    JOBS_MAX,
    NAME_CHARACTERS_MAX,
    STATES_MAX,
    Trace,
    TraceError,
    TraceJob,
    writable,
)


class Collector:
    """Makes a trace of one source. ``skip_bad_rows``: bad rows are counted, the first ones listed; else the first is raised."""

    def __init__(self, source: Source, form: str, *, skip_bad_rows: bool) -> None:
        self.trace = Trace(source.name, form, [])
        self._source = source
        self._skip = skip_bad_rows
        self._seen: set[str] = set()
        self._vcs: dict[str, str] = {}
        self._notes: list[str] = []

    def add(self, line: int, field: str, job: TraceJob) -> None:
        """Take a job; its id must be new. Those without a virtual cluster are put into one when all are there."""
        self._check_name(line, field, job.job_id)
        if job.job_id in self._seen:
            raise self._source.error(line, field, job.job_id, "an id that occurs once would be right")
        if job.vc and job.vc not in self._vcs:
            self._check_name(line, "virtual cluster", job.vc)
        if len(self.trace.jobs) == JOBS_MAX:
            raise FullError(self._source.path, line, "", "", f"at most {JOBS_MAX} jobs would be right")
        self._seen.add(job.job_id)
        self.trace.without_vc += not job.vc
        vc = self._vcs.setdefault(job.vc, job.vc)  # one text for all jobs of a virtual cluster
        self.trace.jobs.append(job._replace(vc=vc))
        for what in self._notes:
            self.trace.noted[what] = self.trace.noted.get(what, 0) + 1
        self._notes.clear()

    def _check_name(self, line: int, field: str, name: str) -> None:
        if not (name.isprintable() and 0 < len(name) <= NAME_CHARACTERS_MAX):
            right = f"1 to {NAME_CHARACTERS_MAX} printable characters would be right"
            raise self._source.error(line, field, name, right)

    def skip(self, reason: str) -> None:
        """Count a row that is no job to be replayed."""
        self.trace.skipped[reason] = self.trace.skipped.get(reason, 0) + 1

    def note(self, what: str) -> None:
        """Say of the job that is read next that something is not taken as the file says it; counted when the job is taken."""
        self._notes.append(what)

    def ended(self, state: str) -> None:
        """Count how a job ended in the trace; there are few ways, what is more counts as others."""
        states = self.trace.states
        name = writable(state[:NAME_CHARACTERS_MAX])
        if name not in states and len(states) >= STATES_MAX:
            name = "others"
        states[name] = states.get(name, 0) + 1

    def bad(self, problem: TraceError) -> None:
        """Count a bad row, or raise what is wrong with it."""
        self._notes.clear()
        if not self._skip or isinstance(problem, FullError):
            raise problem
        self.trace.bad_rows_count += 1
        if self.trace.bad_rows_count > BAD_ROWS_MAX:
            raise TraceError(problem.path, problem.line, "", "", f"at most {BAD_ROWS_MAX} bad rows would be right")
        if len(self.trace.bad_rows) < BAD_ROWS_LISTED_MAX:
            self.trace.bad_rows.append(str(problem))

    def done(self, *, relative: bool) -> Trace:
        """Give the trace; ``relative``: its times count from the first submission. Raises TraceError if it has no jobs."""
        trace = self.trace
        if not trace.jobs:
            raise TraceError(self._source.path, 0, "", "", f"at least one job would be right{self._without()}")
        unsorted = sum(later.submit_s < job.submit_s for job, later in zip(trace.jobs, trace.jobs[1:], strict=False))
        if unsorted:
            trace.noted["stood after a job that was submitted later: the order of submission counts"] = unsorted
        trace.jobs.sort(key=lambda job: job.submit_s)
        if relative:
            trace.first_s = trace.jobs[0].submit_s
            trace.jobs = [job._replace(submit_s=job.submit_s - trace.first_s) for job in trace.jobs]
        if trace.without_vc:
            self._put_into_one_vc()
        trace.sha256 = self._source.sha256
        return trace

    def _put_into_one_vc(self) -> None:
        trace = self.trace
        while trace.one_vc in self._vcs:
            trace.one_vc += "_"
        trace.jobs = [job if job.vc else job._replace(vc=trace.one_vc) for job in trace.jobs]
        trace.assumed.append(f'jobs without a virtual cluster are of one, "{trace.one_vc}" (--vcs)')

    def _without(self) -> str:
        reasons = [f"{count} {reason}" for reason, count in self.trace.skipped.items()]
        if self.trace.bad_rows_count:
            reasons.append(f"{self.trace.bad_rows_count} bad rows, the first: {self.trace.bad_rows[0]}")
        return f"; skipped: {', '.join(reasons)}" if reasons else ""


class FullError(TraceError):
    """More than there may be: no row is to blame."""
