"""The figures of a replay: the same, under the same names, as the independent judge computes from `schedule.csv`."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from yarn_gpu_sched.model import delay
from yarn_gpu_sched.replay.schedule import US_PER_S, Attempt
from yarn_gpu_sched.replay.trace import TraceJob

SLOWDOWN_LEAST_S = 600
"""A bounded slowdown divides by a job's duration, or by this if it is shorter."""

EVERY = "*"
"""Stands for all virtual clusters, and for all sizes; a virtual cluster that is named so has no figures of its own."""


class Delays(msgspec.Struct):
    """How long attempts waited, by cause, in seconds (see `yarn_gpu_sched.model.delay`); ``delayed`` of them waited at all.

    ``mostly_…`` count those of which a cause took longest, the first of equal ones. Where the policy knows no quotas, waiting while
    too few GPUs are free is capacity delay.
    """

    attempts: int = 0
    delayed: int = 0
    fair_share_s: float = 0.0
    capacity_s: float = 0.0
    fragmentation_s: float = 0.0
    other_s: float = 0.0
    mostly_fair_share: int = 0
    mostly_capacity: int = 0
    mostly_fragmentation: int = 0

    def count(self, delays: delay.Delays) -> None:
        """Count an attempt."""
        self.attempts += 1
        if not delays.total_us:
            return
        self.delayed += 1
        self.fair_share_s += delays.fair_share_us / US_PER_S
        self.capacity_s += delays.capacity_us / US_PER_S
        self.fragmentation_s += delays.fragmentation_us / US_PER_S
        self.other_s += delays.other_us / US_PER_S
        mostly = delays.mostly
        self.mostly_fair_share += mostly is delay.Cause.FAIR_SHARE
        self.mostly_capacity += mostly is delay.Cause.CAPACITY
        self.mostly_fragmentation += mostly is delay.Cause.FRAGMENTATION


class TraceSummary(msgspec.Struct):
    """What was replayed; see `Trace`."""

    name: str
    form: str
    sha256: str
    states: dict[str, int]
    noted: dict[str, int]
    skipped: dict[str, int]
    bad_rows: list[str]
    bad_rows_count: int


class Summary(msgspec.Struct, kw_only=True):
    """The figures of a replay. Those up to ``preemptions`` are the judge's, under its names; times in seconds.

    ``refused``: jobs larger than the cluster, left out of the means. ``gpus_by_server``: how many servers have so many GPUs.
    ``events``: what the engine was told. ``delays``: by virtual cluster, then by size, "*" for all. ``wall_s`` and ``cpu_s``:
    what the replay took, from the first event to the figures; nothing else here differs between two runs.
    """

    jobs: int
    gpus: int
    mean_jct_s: float | None
    median_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_queue_s: float | None
    max_queue_s: float
    mean_bounded_slowdown: float | None
    mean_queue_s_by_gpus: dict[str, float | None]
    makespan_s: float
    held_share: float | None
    lost_gpu_hours: float
    preemptions: int
    refused: int
    policy: str
    version: str
    trace: TraceSummary
    servers: int
    gpus_by_server: dict[str, int]
    domains: int
    relax_after_s: float
    restart_cost_s: float
    checkpoint_every_s: float
    preemption: bool
    grace_s: float
    reserve_after_s: float
    quotas: dict[str, int] | None
    assumptions: list[str]
    warnings: list[str]
    delays: dict[str, dict[str, Delays]]
    events: int
    wall_s: float
    cpu_s: float


def counted(count: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class _Finished(NamedTuple):
    """A job that finished; ``total_s`` from submission to end, of it ``ran_s`` with GPUs."""

    job: TraceJob
    total_s: float
    ran_s: float
    end_s: float
    attempts: int


def figures(jobs: Sequence[TraceJob], attempts: Iterable[Attempt], gpus: int) -> dict[str, Any]:
    """Compute completion times, queueing, slowdown, use and losses. Times in seconds."""
    done = list(_finished(jobs, attempts))
    jct = [one.total_s for one in done]
    queue_by_size: dict[str, list[float]] = defaultdict(list)
    for one in done:
        queue_by_size[delay.size_of(one.job.gpus)].append(one.total_s - one.ran_s)
    cuts = statistics.quantiles(jct, n=100) if len(jct) > 1 else [0.0] * 99
    slow = [max(1.0, one.total_s / max(one.job.duration_s, SLOWDOWN_LEAST_S)) for one in done]
    span_s = max((one.end_s for one in done), default=0.0) - min((job.submit_s for job in jobs), default=0)
    held_gpu_s = sum(one.ran_s * one.job.gpus for one in done)
    lost_gpu_s = sum((one.ran_s - one.job.duration_s) * one.job.gpus for one in done)
    return {
        "jobs": len(jobs),
        "gpus": gpus,
        "mean_jct_s": _mean(jct),
        "median_jct_s": round(cuts[49], 1),
        "p95_jct_s": round(cuts[94], 1),
        "p99_jct_s": round(cuts[98], 1),
        "mean_queue_s": _mean([one.total_s - one.ran_s for one in done]),
        "max_queue_s": round(max((one.total_s - one.ran_s for one in done), default=0.0), 1),
        "mean_bounded_slowdown": round(statistics.fmean(slow), 3) if slow else None,
        "mean_queue_s_by_gpus": {name: _mean(values) for name, values in sorted(queue_by_size.items())},
        "makespan_s": span_s,
        "held_share": round(held_gpu_s / (gpus * span_s), 4) if span_s else None,
        "lost_gpu_hours": round(lost_gpu_s / 3600, 1),
        "preemptions": sum(one.attempts - 1 for one in done),
    }


def _finished(jobs: Iterable[TraceJob], attempts: Iterable[Attempt]) -> Iterator[_Finished]:
    by_job: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_job[attempt.job_id].append(attempt)
    for job in jobs:
        tries = by_job.get(job.job_id, [])
        if tries and tries[-1].outcome == "finished":
            ran_s = sum(one.end_s - one.start_s for one in tries)
            yield _Finished(job, tries[-1].end_s - job.submit_s, ran_s, tries[-1].end_s, len(tries))


def _mean(values: list[float]) -> float | None:
    return round(statistics.fmean(values), 1) if values else None


def delays(jobs: Iterable[TraceJob], attempts: Iterable[Attempt]) -> dict[str, dict[str, Delays]]:
    """Add up, by virtual cluster and by size, how long attempts waited and why; `EVERY` stands for all of them."""
    known = {job.job_id: job for job in jobs}
    found: dict[str, dict[str, Delays]] = defaultdict(lambda: defaultdict(Delays))
    for attempt in attempts:
        if attempt.outcome == "refused":
            continue
        job = known[attempt.job_id]
        own_size = delay.size_of(job.gpus)
        for vc in {job.vc: None, EVERY: None}:
            sizes = found[vc]
            sizes[own_size].count(attempt.delays)
            sizes[EVERY].count(attempt.delays)
    return {vc: dict(sorted(sizes.items())) for vc, sizes in sorted(found.items())}
