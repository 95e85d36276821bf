"""Writes what an archive holds in the form in which Microsoft published the Philly trace; `philly` reads it back."""

from __future__ import annotations

import csv
import datetime as dt
import json
from collections.abc import Iterable, Sequence
from typing import IO

import msgspec

from yarn_gpu_sched.archive import ArchivedAttempt

JOB_LOG, MACHINE_LIST, GPU_UTIL = "cluster_job_log", "cluster_machine_list", "cluster_gpu_util"
"""The files that are written, as Philly's are called."""

STATUS = {"succeeded": "Pass", "killed": "Killed"}
"""How ends are called there; all others are `Failed`."""

_MB_PER_GB = 1_024
_TIME = "%Y-%m-%d %H:%M:%S"


class Machine(msgspec.Struct, frozen=True, order=True):
    """A server with its GPUs; ``gpu_memory_mb`` of one of them, 0 where nobody knows."""

    server: str
    gpus: int
    gpu_memory_mb: int = 0


class Minute(msgspec.Struct, frozen=True):
    """The mean use of a server's GPUs in a minute, percent, by slot; None: not read."""

    begin: dt.datetime
    server: str
    percents: tuple[float | None, ...]


def write_job_log(jobs: Iterable[Sequence[ArchivedAttempt]], file: IO[str]) -> int:
    """Write jobs with their attempts as `cluster_job_log`, times in UTC; return how many."""
    count = 0
    file.write("[")
    for attempts in jobs:
        file.write(",\n" if count else "\n")
        json.dump(_job(attempts), file)
        count += 1
    file.write("\n]\n")
    return count


def _job(attempts: Sequence[ArchivedAttempt]) -> dict[str, object]:
    last = attempts[-1]
    return {
        "status": STATUS.get(last.outcome, "Failed"),
        "vc": last.vc,
        "jobid": last.job_id,
        "attempts": [_attempt(one) for one in attempts if one.started is not None],
        "submitted_time": _time(last.submitted),
        "user": last.user,
    }


def _attempt(one: ArchivedAttempt) -> dict[str, object]:
    assert one.started is not None
    return {
        "start_time": _time(one.started),
        "end_time": _time(one.ended),
        "detail": [{"ip": place.server, "gpus": [f"gpu{gpu}" for gpu in place.gpus]} for place in one.places],
    }


def write_machine_list(machines: Iterable[Machine], file: IO[str]) -> None:
    """Write servers as `cluster_machine_list`."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(("machineId", "number of GPUs", "single GPU mem"))
    for one in sorted(machines):
        memory = f"{round(one.gpu_memory_mb / _MB_PER_GB)}GB" if one.gpu_memory_mb else "NA"
        rows.writerow((one.server, one.gpus, memory))


class GpuUtilWriter:
    """Writes minutes as `cluster_gpu_util`, with a column for each GPU of the server that has most."""

    def __init__(self, file: IO[str], gpus_most: int) -> None:
        self._rows = csv.writer(file, lineterminator="\n")
        self._gpus_most = gpus_most
        self._rows.writerow(("time", "machineId", *(f"gpu{slot}_util" for slot in range(gpus_most))))

    def write(self, minute: Minute) -> None:
        """Write a row; what was not read is `NA`, what the server does not have is empty."""
        read = ["NA" if percent is None else f"{percent:.1f}" for percent in minute.percents]
        empty = [""] * (self._gpus_most - len(read))
        self._rows.writerow((f"{_time(minute.begin)} UTC", minute.server, *read, *empty))


def _time(time: dt.datetime) -> str:
    return time.astimezone(dt.UTC).strftime(_TIME)
