"""The kinds of files and their columns; docs/archive.md says what each means."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


class Kind(enum.Enum):
    """What the rows of a file are; in the order in which a full spool is emptied, the last first."""

    JOBS = "jobs"
    USE = "use"
    GPUS = "gpus"

    def __lt__(self, other: Kind) -> bool:
        return _ORDER[self] < _ORDER[other]


_ORDER = {kind: place for place, kind in enumerate(Kind)}

COLUMNS: dict[Kind, tuple[tuple[str, str], ...]] = {
    Kind.JOBS: (
        ("job_id", "text"),
        ("attempt", "int32"),
        ("user", "text"),
        ("vc", "text"),
        ("name", "text"),
        ("submitted", "time"),
        ("started", "time"),
        ("ended", "time"),
        ("final", "bool"),
        ("outcome", "text"),
        ("gpus", "int32"),
        ("places", "places"),
        ("gpu_s", "float64"),
        ("borrowed_gpu_s", "float64"),
        ("idle_gpu_s", "float64"),
        ("unread_gpu_s", "float64"),
        ("lost_gpu_s", "float64"),
        ("preempted_by", "texts"),
        ("fair_share_s", "float64"),
        ("capacity_s", "float64"),
        ("fragmentation_s", "float64"),
        ("other_s", "float64"),
        ("waited_for", "texts"),
    ),
    Kind.USE: (
        ("hour", "time"),
        ("job_id", "text"),
        ("user", "text"),
        ("vc", "text"),
        ("gpu_s", "float64"),
        ("borrowed_gpu_s", "float64"),
        ("idle_gpu_s", "float64"),
        ("unread_gpu_s", "float64"),
        ("lost_gpu_s", "float64"),
    ),
    Kind.GPUS: (
        ("minute", "time"),
        ("server", "name"),
        ("gpu", "int32"),
        ("sm_percent", "float32"),
        ("memory_used_mb", "int32"),
        ("memory_total_mb", "int32"),
        ("job_id", "name"),
        ("vc", "name"),
        ("idle", "bool"),
    ),
}
"""Columns of each kind, in order, with their types: text that repeats is a name, times are in microseconds, UTC."""

TIME_COLUMN = {Kind.JOBS: "ended", Kind.USE: "hour", Kind.GPUS: "minute"}
"""By which column rows belong to a stretch of time."""


@cache
def schema_of(kind: Kind) -> pa.Schema:
    """Give the schema of a kind."""
    import pyarrow as pa  # noqa: PLC0415 - only where an archive is kept or read

    types: dict[str, pa.DataType] = {
        "text": pa.string(),
        "name": pa.dictionary(pa.int32(), pa.string()),
        "time": pa.timestamp("us", tz="UTC"),
        "int32": pa.int32(),
        "float32": pa.float32(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "texts": pa.list_(pa.string()),
        "places": pa.list_(pa.struct([("server", pa.string()), ("gpus", pa.list_(pa.int32()))])),
    }
    return pa.schema([(name, types[kind_of]) for name, kind_of in COLUMNS[kind]])


def batch_of(kind: Kind, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Make a batch of rows whose cells are in the order of the columns; times in microseconds since 1970."""
    import pyarrow as pa  # noqa: PLC0415 - only where an archive is kept or read

    schema = schema_of(kind)
    columns = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(cells, type=field.type) for cells, field in zip(columns, schema, strict=True)], schema=schema
    )


def rows_of(batch: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Give the rows of a batch or table, times as datetimes in UTC."""
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows
