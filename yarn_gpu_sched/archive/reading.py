"""Reads an archive, a file at a time."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from yarn_gpu_sched.archive.extra import need_extra
from yarn_gpu_sched.archive.kinds import TIME_COLUMN, Kind, rows_of
from yarn_gpu_sched.archive.names import HOUR_S, FileName, parse_name
from yarn_gpu_sched.archive.stores import ArchiveError, Store

if TYPE_CHECKING:
    import pyarrow as pa

LATE_HOURS = 25
"""Rows may be in files that were written so many hours after what they tell of: a service that was away tells later."""


class Place(msgspec.Struct, frozen=True):
    """GPUs of a server."""

    server: str
    gpus: tuple[int, ...]


class ArchivedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a job, as archived; ``started`` is None if it never held GPUs. ``final``: the job ended with it."""

    job_id: str
    attempt: int
    user: str
    vc: str
    submitted: dt.datetime
    started: dt.datetime | None
    ended: dt.datetime
    final: bool
    outcome: str
    gpus: int
    places: tuple[Place, ...]


class Archive:
    """What a store holds. Raises `MissingExtraError`; its methods raise `ArchiveError`."""

    def __init__(self, store: Store) -> None:
        need_extra()
        self._store = store

    def files(self, kind: Kind, since: dt.datetime, until: dt.datetime) -> list[FileName]:
        """List the files that may hold rows of a stretch of time, oldest first; what is named otherwise is passed over."""
        first, last = since.timestamp() - HOUR_S, until.timestamp() + LATE_HOURS * HOUR_S
        days = {day.name for day in self._store.entries(kind.value) if day.folder and _in_days(day.name, first, last)}
        found = [parse_name(one.name) for day in sorted(days) for one in self._store.entries(f"{kind.value}/{day}")]
        return sorted(name for name in found if name is not None and name.kind is kind and first <= name.hour_s < last)

    def tables(
        self, kind: Kind, since: dt.datetime, until: dt.datetime, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows of a stretch of time, ``since`` included and ``until`` not, a file at a time."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - only where an archive is read

        time = TIME_COLUMN[kind]
        for name in self.files(kind, since, until):
            content = self._store.read(name.path)
            try:
                yield pq.read_table(
                    io.BytesIO(content),
                    columns=None if columns is None else list(columns),
                    filters=[(time, ">=", since), (time, "<", until)],
                )
            except (OSError, ValueError) as error:  # pyarrow's errors are among these
                raise ArchiveError(f"{name.path} cannot be read: {error}") from error

    def jobs(self, since: dt.datetime, until: dt.datetime) -> list[list[ArchivedAttempt]]:
        """List the jobs that ended in a stretch of time with all their attempts, in order of submission."""
        ended = [row for row in self._attempts(since, until) if row.final]
        if not ended:
            return []
        wanted = {one.job_id for one in ended}
        jobs: dict[str, list[ArchivedAttempt]] = {}
        for one in self._attempts(min(row.submitted for row in ended), until):
            if one.job_id in wanted:
                jobs.setdefault(one.job_id, []).append(one)
        for attempts in jobs.values():
            attempts.sort(key=lambda one: (one.attempt, one.ended))
        return sorted(jobs.values(), key=lambda attempts: (attempts[-1].submitted, attempts[-1].job_id))

    def _attempts(self, since: dt.datetime, until: dt.datetime) -> Iterator[ArchivedAttempt]:
        for table in self.tables(Kind.JOBS, since, until, ArchivedAttempt.__struct_fields__):
            for row in rows_of(table):
                yield _attempt(row)


def _attempt(row: dict[str, Any]) -> ArchivedAttempt:
    places = tuple(Place(place["server"], tuple(place["gpus"])) for place in row.pop("places"))
    return ArchivedAttempt(**row, places=places)


def _in_days(folder: str, first_s: float, last_s: float) -> bool:
    try:
        day = dt.datetime.strptime(folder, "date=%Y-%m-%d").replace(tzinfo=dt.UTC).timestamp()
    except ValueError:
        return False
    return day + 24 * HOUR_S > first_s and day < last_s
