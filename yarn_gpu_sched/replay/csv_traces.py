"""Readers of traces in CSV: one row a job (Philly's week, ITP), Helios's `cluster_log.csv`, openb's pods."""

from pathlib import Path

from yarn_gpu_sched.replay.collector import Collector
from yarn_gpu_sched.replay.rows import TIME_RIGHT, Row, Table
from yarn_gpu_sched.replay.source import Source
from yarn_gpu_sched.replay.trace import GPUS_MAX, Trace, TraceError, TraceJob

JOB_STYLES = {"submit": "num_gpus", "submission_time": "num_gpu"}
"""The two styles of one row a job: the column of the submission, and that of the GPUs."""

JOB_COLUMNS = ("job_id", "duration")
HELIOS_COLUMNS = ("job_id", "vc", "gpu_num", "node_num", "state", "submit_time", "start_time", "end_time", "duration")
OPENB_COLUMNS = ("name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time", "scheduled_time")
MILLI = 1_000


def read_jobs(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read a file as `jobs_of` does."""
    with Source(path) as source:
        return jobs_of(source, Table(source), skip_bad_rows=skip_bad_rows)


def jobs_of(source: Source, table: Table, *, skip_bad_rows: bool = False) -> Trace:
    """Read one row a job: `job_id`, submission, GPUs, `duration` in seconds, and `cluster` (its virtual cluster) if it is there."""
    table.need(JOB_COLUMNS)
    style = next((style for style in JOB_STYLES.items() if table.has(style)), None)
    if style is None:
        raise table.unknown("columns submit and num_gpus, or submission_time and num_gpu, would be right")
    submit, gpus = style
    collector = Collector(source, "jobs", skip_bad_rows=skip_bad_rows)
    for row in table.rows():
        try:
            duration_s = max(1, row.seconds("duration"))
            job_id, vc = row.text("job_id"), row.optional("cluster")
            collector.add(row.line, "job_id", TraceJob(job_id, row.seconds(submit), row.gpus(gpus), duration_s, vc))
        except TraceError as problem:
            collector.bad(problem)
    trace = collector.done(relative=False)
    trace.assumed.append("times are rounded to whole seconds, durations to 1 s at least")
    return trace


def helios_of(source: Source, table: Table, *, skip_bad_rows: bool = False) -> Trace:
    """Read a `cluster_log.csv` as Helios publishes it.

    Every state that a job may end in counts as finished at its duration. A job without GPUs, and one that never started, is
    skipped. Where duration and start to end differ by more than a second, start to end is believed: the GPUs were held so long.
    """
    collector = Collector(source, "helios", skip_bad_rows=skip_bad_rows)
    for row in table.rows():
        try:
            job = _helios_job(row, collector)
            if job is not None:
                state = row.text("state")
                collector.add(row.line, "job_id", job)
                collector.ended(state)
        except TraceError as problem:
            collector.bad(problem)
    trace = collector.done(relative=True)
    trace.assumed += [
        "every end counts as finished, whatever its state",
        "times count from the first submission; a clock that was put back or forward is not known of",
        "GPUs may lie on any number of servers, whatever node_num says",
    ]
    return trace


def _helios_job(row: Row, collector: Collector) -> TraceJob | None:
    gpus = row.gpus("gpu_num", least=0)
    if not gpus:
        collector.skip("without GPUs")
        return None
    submit_s, start_s, end_s = (row.time_s(column) for column in ("submit_time", "start_time", "end_time"))
    if submit_s is None:
        raise row.error("submit_time", TIME_RIGHT)
    if start_s is None:
        collector.skip("never started")
        return None
    duration_s = row.seconds("duration")
    if end_s is not None and end_s < start_s:
        raise row.error("end_time", "an end after the start would be right")
    job_id, vc = row.text("job_id"), row.text("vc")
    if start_s < submit_s:
        collector.note("had a start before the submission: the start was taken for it")
        submit_s = start_s
    if end_s is not None and abs(end_s - start_s - duration_s) > 1:
        collector.note("had a duration that differs from start to end: start to end was taken")
        duration_s = end_s - start_s
    nodes = row.whole("node_num", 0, GPUS_MAX)
    if not nodes:
        collector.note("had a node_num of 0, which nothing else depends on")
    elif gpus % nodes:
        collector.note("had unequal numbers of GPUs on the servers: it is a gang of single GPUs like every other")
    return TraceJob(job_id, submit_s, gpus, max(1, duration_s), vc)


def openb_of(source: Source, table: Table, *, skip_bad_rows: bool = False) -> Trace:
    """Read openb's list of pods. A pod that asks parts of a GPU gets whole ones; one without GPUs, or still pending, is skipped."""
    collector = Collector(source, "openb", skip_bad_rows=skip_bad_rows)
    for row in table.rows():
        try:
            job = _openb_job(row, collector)
            if job is not None:
                collector.add(row.line, "name", job)
                collector.ended(row.text("pod_phase"))
        except TraceError as problem:
            collector.bad(problem)
    trace = collector.done(relative=False)
    trace.assumed += [
        "GPU models, processors and memory are not looked at",
        "a pod lasts from when it was scheduled to when it was deleted, and counts as finished then",
    ]
    return trace


def _openb_job(row: Row, collector: Collector) -> TraceJob | None:
    gpus = row.gpus("num_gpu", least=0)
    if not gpus:
        collector.skip("without GPUs")
        return None
    if row.text("pod_phase") == "Pending" or not row.optional("scheduled_time"):
        collector.skip("never started")
        return None
    milli = row.whole("gpu_milli", 1, GPUS_MAX)
    began_s, ended_s = row.seconds("scheduled_time"), row.seconds("deletion_time")
    if ended_s < began_s:
        raise row.error("deletion_time", "a time after scheduled_time would be right")
    job = TraceJob(row.text("name"), row.seconds("creation_time"), gpus, max(1, ended_s - began_s), "")
    if milli < MILLI:
        collector.note("asked a part of a GPU: it was rounded up to a whole one")
    return job
