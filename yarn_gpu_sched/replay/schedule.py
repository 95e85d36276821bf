"""What became of the jobs of a trace: a row for each attempt."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import astuple

from yarn_gpu_sched.model.delay import Delays

US_PER_S = 1_000_000

COLUMNS = (
    "job_id",
    "attempt",
    "start_s",
    "end_s",
    "start_seq",
    "end_seq",
    "outcome",
    "work_s",
    "level",
    "placement",
    "preempted_by",
)
DELAY_COLUMNS = ("job_id", "attempt", "queued_s", "fair_share_s", "capacity_s", "fragmentation_s", "other_s")


class Attempt(NamedTuple):
    """An attempt of a job.

    ``start_seq`` and ``end_seq``: the order of all starts and ends. ``outcome``: finished, preempted or refused. ``work_s``:
    what it achieved of the job's duration. ``placement``: "server:gpu.gpu server:gpu". ``queued_s``: since submission or the
    attempt before; ``delays``: the same by cause. Times in seconds.
    """

    job_id: str
    attempt: int
    start_s: float
    end_s: float
    start_seq: int
    end_seq: int
    outcome: str
    work_s: float
    level: int
    placement: str
    preempted_by: str
    queued_s: float
    delays: Delays


class Hold(NamedTuple):
    """Idle GPUs that were kept for a job, seconds; written as the independent judge reads it."""

    start_s: float
    end_s: float
    job_id: str
    placement: str


def write_holds(path: Path, holds: Iterable[Hold]) -> None:
    """Write what was held as CSV, in order of the ends."""
    rows = ((plain(one.start_s), plain(one.end_s), one.job_id, one.placement) for one in holds)
    write_csv(path, Hold._fields, rows)


def write_schedule(path: Path, attempts: Iterable[Attempt]) -> None:
    """Write attempts as CSV, in order of their ends."""
    rows = (
        (job, number, plain(start), plain(end), first, last, outcome, plain(work), level, placement, by)
        for job, number, start, end, first, last, outcome, work, level, placement, by, _, _ in attempts
    )
    write_csv(path, COLUMNS, rows)


def write_delays(path: Path, attempts: Iterable[Attempt]) -> None:
    """Write how long each attempt was queued, and why, as CSV, in the same order."""
    rows = (
        (
            one.job_id,
            one.attempt,
            plain(one.queued_s),
            *[plain(cause_us / US_PER_S) for cause_us in astuple(one.delays)],
        )
        for one in attempts
        if one.outcome != "refused"
    )
    write_csv(path, DELAY_COLUMNS, rows)


def write_csv(path: Path, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    """Write a CSV file, the same bytes for the same rows."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def plain(seconds: float) -> str:
    """Write seconds, whole ones without a point."""
    return str(int(seconds)) if seconds == int(seconds) else repr(seconds)
