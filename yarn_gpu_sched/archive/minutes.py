"""Reads telemetry: servers with their GPUs, and what was read of them minute by minute."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import msgspec

from yarn_gpu_sched.archive.kinds import Kind, rows_of
from yarn_gpu_sched.archive.reading import Archive


class GpuServer(msgspec.Struct):
    """A server of which telemetry was archived: its GPUs, and the memory of the largest, MiB, 0 where nobody knows."""

    server: str
    gpus: int = 0
    gpu_memory_mb: int = 0


def servers(archive: Archive, since: dt.datetime, until: dt.datetime) -> dict[str, GpuServer]:
    """Say which servers there were in a stretch of time. Raises `ArchiveError`."""
    found: dict[str, GpuServer] = {}
    for table in archive.tables(Kind.GPUS, since, until, ["minute", "server", "gpu", "memory_total_mb"]):
        most = table.group_by("server").aggregate([("gpu", "max"), ("memory_total_mb", "max")])
        for row in rows_of(most):
            one = found.setdefault(row["server"], GpuServer(row["server"]))
            one.gpus = max(one.gpus, row["gpu_max"] + 1)
            one.gpu_memory_mb = max(one.gpu_memory_mb, row["memory_total_mb_max"] or 0)
    return found


def minutes(
    archive: Archive, since: dt.datetime, until: dt.datetime
) -> Iterator[tuple[dt.datetime, str, tuple[float | None, ...]]]:
    """Yield minute, server and the mean use of its GPUs by slot; a file at a time, in order of time in each."""
    for table in archive.tables(Kind.GPUS, since, until, ["minute", "server", "gpu", "sm_percent"]):
        rows = sorted(rows_of(table), key=lambda row: (row["minute"], row["server"], row["gpu"]))
        for (minute, server), read in groupby(rows, key=lambda row: (row["minute"], row["server"])):
            yield minute, server, _by_slot(list(read))


def _by_slot(read: list[dict[str, Any]]) -> tuple[float | None, ...]:
    percents: list[float | None] = [None] * (read[-1]["gpu"] + 1)
    for row in read:
        percents[row["gpu"]] = row["sm_percent"]
    return tuple(percents)
