"""Who used how much: GPU-hours by virtual cluster, user and job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from yarn_gpu_sched.archive.kinds import Kind, rows_of
from yarn_gpu_sched.archive.names import HOUR_S
from yarn_gpu_sched.archive.reading import Archive

BY = {"vc": "vc", "user": "user", "job": "job_id"}
"""What usage can be told apart by, and the column of each."""

_SUMS = ("gpu_s", "borrowed_gpu_s", "idle_gpu_s", "unread_gpu_s", "lost_gpu_s")


class Usage(msgspec.Struct, frozen=True):
    """GPU-hours of whoever ``who`` names, in the order that was asked for.

    ``used``: held; of it ``borrowed`` beyond the quota, ``idle`` (read as not used), ``unread`` (nobody can tell); ``lost``: what
    was done since the last checkpoint when a job was stopped for another.
    """

    who: tuple[str, ...]
    used: float
    borrowed: float
    idle: float
    unread: float
    lost: float


def usage(archive: Archive, by: Sequence[str], since: dt.datetime, until: dt.datetime) -> list[Usage]:
    """Add up whole hours that begin in a stretch of time; who used most goes first. Raises `ArchiveError`."""
    keys = [BY[name] for name in by]
    sums: dict[tuple[str, ...], list[float]] = {}
    for table in archive.tables(Kind.USE, since, until, [*dict.fromkeys(keys), *_SUMS, "hour"]):
        for row in rows_of(table.group_by(keys).aggregate([(name, "sum") for name in _SUMS])):
            total = sums.setdefault(tuple(row[key] for key in keys), [0.0] * len(_SUMS))
            for place, name in enumerate(_SUMS):
                total[place] += row[f"{name}_sum"] / HOUR_S
    return [Usage(who, *total) for who, total in sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))]
