"""Reader of Microsoft's public Philly trace, `cluster_job_log` in JSON."""

import re

import msgspec

from yarn_gpu_sched.replay.collector import Collector
from yarn_gpu_sched.replay.json_list import JsonList
from yarn_gpu_sched.replay.rows import NO_TIME, TIME_RIGHT, clock_s
from yarn_gpu_sched.replay.source import Source
from yarn_gpu_sched.replay.trace import Trace, TraceError, TraceJob

_PLACE = re.compile(r"(.*) - at `\$\.?(.*)`")


class _Detail(msgspec.Struct):
    gpus: list[str] = []
    ip: str = ""


class _Attempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Detail] = []


class _Job(msgspec.Struct):
    jobid: str
    vc: str
    submitted_time: str | None = None
    attempts: list[_Attempt] = []
    status: str = ""


def philly_of(source: Source, *, skip_bad_rows: bool = False) -> Trace:
    """Read a `cluster_job_log`: a job's duration is the sum of its attempts; killed and failed ones count as finished at that.

    A job of which no attempt has a start and an end is skipped. Its size is the largest of its attempts'.
    """
    collector = Collector(source, "philly", skip_bad_rows=skip_bad_rows)
    for number, (line, value) in enumerate(JsonList(source), 1):
        try:
            reader = _Reader(source, line, number, collector)
            job = reader.job(value)
            if job is not None:
                collector.add(line, reader.field("jobid"), job)
                collector.ended(reader.status or "unknown")
        except TraceError as problem:
            collector.bad(problem)
    trace = collector.done(relative=True)
    trace.assumed += [
        "killed and failed jobs count as finished at the sum of their attempts",
        "times are local and without a zone: a clock that was put back or forward is not known of",
        "times count from the first submission",
    ]
    return trace


class _Reader:
    """Reads one job, in which errors name the job's place in the list and the field."""

    def __init__(self, source: Source, line: int, number: int, collector: Collector) -> None:
        self._source = source
        self._line = line
        self._number = number
        self._collector = collector
        self.status = ""

    def field(self, name: str) -> str:
        """Name a field of this job."""
        return f"job {self._number}, {name}" if name else f"job {self._number}"

    def job(self, value: object) -> TraceJob | None:
        """Read the job; None where it is skipped."""
        raw = self._converted(value)
        self.status = raw.status
        submit_s = self._time_s("submitted_time", raw.submitted_time)
        if submit_s is None:
            self._collector.skip("without a time of submission")
            return None
        ran = [(ran_s, _gpus(one)) for place, one in enumerate(raw.attempts) if (ran_s := self._ran_s(place, one)) >= 0]
        gpus = max((gpus for _, gpus in ran), default=0)
        if not gpus:
            self._collector.skip("without GPUs" if ran else "never started")
            return None
        if len(ran) < len(raw.attempts):
            self._collector.note("had attempts without a start or an end: these were left out")
        if any(size != gpus for _, size in ran):
            self._collector.note("had attempts of several sizes: the largest was taken")
        return TraceJob(raw.jobid, submit_s, gpus, max(1, sum(ran_s for ran_s, _ in ran)), raw.vc)

    def _converted(self, value: object) -> _Job:
        try:
            return msgspec.convert(value, _Job)
        except msgspec.ValidationError as problem:
            match = _PLACE.fullmatch(str(problem))
            right, place = match.groups() if match else (str(problem), "")
            raise self._source.error(self._line, self.field(place), repr(value), right) from None

    def _ran_s(self, place: int, attempt: _Attempt) -> int:
        """Say how long an attempt ran; -1 where the trace does not say."""
        start_s = self._time_s(f"attempts[{place}].start_time", attempt.start_time)
        end_s = self._time_s(f"attempts[{place}].end_time", attempt.end_time)
        if start_s is None or end_s is None:
            return -1
        if end_s < start_s:
            name, found = f"attempts[{place}].end_time", str(attempt.end_time)
            raise self._source.error(self._line, self.field(name), found, "an end after the start would be right")
        return end_s - start_s

    def _time_s(self, name: str, value: str | None) -> int | None:
        if value is None or value.strip().lower() in NO_TIME:
            return None
        found = clock_s(value.strip())
        if found is None:
            raise self._source.error(self._line, self.field(name), value, TIME_RIGHT)
        return found


def _gpus(attempt: _Attempt) -> int:
    return len({(detail.ip, gpu) for detail in attempt.detail for gpu in detail.gpus})
