"""An archive in a local folder, with rows that a test names."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from yarn_gpu_sched.archive import FileName, FolderStore, Kind, batch_of
from yarn_gpu_sched.archive.kinds import COLUMNS

BEGIN = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
HOUR = dt.timedelta(hours=1)


def us(time: dt.datetime) -> int:
    return int(time.timestamp() * 1_000_000)


def fill(folder: Path, kind: Kind, written: dt.datetime, *rows: dict[str, Any], part: str = "0" * 16) -> FolderStore:
    """Put a file of rows there, as written in that hour."""
    import pyarrow as pa  # noqa: PLC0415 - as in the product
    import pyarrow.parquet as pq  # noqa: PLC0415 - as in the product

    folder.mkdir(parents=True, exist_ok=True)
    cells = [tuple(row[name] for name, _ in COLUMNS[kind]) for row in rows]
    file = folder / "made.parquet"
    pq.write_table(pa.Table.from_batches([batch_of(kind, cells)]), file, compression="zstd")
    store = FolderStore(folder)
    assert store.put(file, FileName(int(written.timestamp()), kind, part).path)
    file.unlink()
    return store


def job(job_id: str = "j", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - cells of a row
    return {
        "job_id": job_id,
        "attempt": 1,
        "user": "ada",
        "vc": "root.research",
        "name": "train",
        "submitted": us(BEGIN),
        "started": us(BEGIN + HOUR),
        "ended": us(BEGIN + 2 * HOUR),
        "final": True,
        "outcome": "succeeded",
        "gpus": 2,
        "places": [{"server": "gpu-1", "gpus": [0, 1]}],
        "gpu_s": 7_200.0,
        "borrowed_gpu_s": 0.0,
        "idle_gpu_s": 0.0,
        "unread_gpu_s": 0.0,
        "lost_gpu_s": 0.0,
        "preempted_by": [],
        "fair_share_s": 0.0,
        "capacity_s": 3_600.0,
        "fragmentation_s": 0.0,
        "other_s": 0.0,
        "waited_for": ["cluster_full"],
        **fields,
    }


def use(job_id: str = "j", hours: int = 0, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - cells of a row
    figures = {"gpu_s": 7_200.0, "borrowed_gpu_s": 0.0, "idle_gpu_s": 0.0, "unread_gpu_s": 0.0, "lost_gpu_s": 0.0}
    return {
        "hour": us(BEGIN + hours * HOUR),
        "job_id": job_id,
        "user": "ada",
        "vc": "root.research",
        **figures,
        **fields,
    }


def gpu(server: str = "gpu-1", slot: int = 0, minute: int = 0, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - cells of a row
    begin = us(BEGIN + minute * dt.timedelta(minutes=1))
    row = {"minute": begin, "server": server, "gpu": slot, "sm_percent": 50.0, "memory_used_mb": 3}
    return {**row, "memory_total_mb": 16_384, "job_id": "j", "vc": "root.research", "idle": False, **fields}
