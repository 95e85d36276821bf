"""What is read back of an archive: rows of a stretch of time, files that are named so, and nothing else."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

import pytest

from tests.archive.filled import BEGIN, DAY, HOUR, fill, gpu, job, us, use
from yarn_gpu_sched.archive import (
    COLUMNS,
    Archive,
    ArchiveError,
    FileName,
    FolderStore,
    HdfsStore,
    Kind,
    MissingExtraError,
    Place,
    need_extra,
    open_store,
    parse_name,
    usage,
)
from yarn_gpu_sched.archive.minutes import minutes, servers

TEXT = (Path(__file__).parents[2] / "docs" / "archive.md").read_text()


def test_names_are_read_back_and_say_where_a_file_is() -> None:
    name = FileName(int(BEGIN.timestamp()) + 7_200, Kind.GPUS, "0123456789abcdef")
    assert name.path == "gpus/date=2026-11-01/gpus-2026-11-01T02Z-0123456789abcdef.parquet"
    assert parse_name(name.path.rpartition("/")[2]) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "jobs.parquet",
        "jobs-2026-11-01T02Z-0123456789abcdef",
        "jobs-2026-11-01T02Z-0123456789abcdef.parquet.tmp",
        "jobs-2026-13-01T02Z-0123456789abcdef.parquet",
        "jobs-2026-11-01T25Z-0123456789abcdef.parquet",
        "jobs-2026-11-01T02Z-0123456789ABCDEF.parquet",
        "cpus-2026-11-01T02Z-0123456789abcdef.parquet",
        "../jobs-2026-11-01T02Z-0123456789abcdef.parquet",
    ],
)
def test_what_is_named_otherwise_is_none_of_its_files(name: str) -> None:
    assert parse_name(name) is None


def test_every_column_is_documented_with_its_type() -> None:
    for kind, columns in COLUMNS.items():
        table = TEXT.partition(f"| `{kind.value}` column")[2].partition("\n\n")[0].splitlines()[2:]
        told = [tuple(cell.strip().strip("`") for cell in row.strip("|").split("|")[:2]) for row in table]
        assert told == list(columns), kind


def test_jobs_that_ended_in_the_time_come_with_all_their_attempts(tmp_path: Path) -> None:
    first = job("b", attempt=1, final=False, outcome="preempted", submitted=us(BEGIN - DAY), ended=us(BEGIN - HOUR))
    fill(tmp_path, Kind.JOBS, BEGIN - HOUR, first, job("old", ended=us(BEGIN - HOUR), submitted=us(BEGIN - DAY)))
    last = job("b", attempt=2, outcome="failed", submitted=us(BEGIN - DAY), ended=us(BEGIN + HOUR))
    fill(tmp_path, Kind.JOBS, BEGIN + HOUR, last, job("a"), job("late", ended=us(BEGIN + DAY)))
    fill(tmp_path, Kind.JOBS, BEGIN + 2 * HOUR, job("runs on", final=False, outcome="restarted"), part="1" * 16)
    jobs = Archive(FolderStore(tmp_path)).jobs(BEGIN, BEGIN + DAY)
    assert [[(one.job_id, one.attempt, one.outcome) for one in attempts] for attempts in jobs] == [
        [("b", 1, "preempted"), ("b", 2, "failed")],
        [("a", 1, "succeeded")],
    ]
    assert jobs[1][0].places == (Place("gpu-1", (0, 1)),)
    assert (jobs[1][0].submitted, jobs[1][0].started) == (BEGIN, BEGIN + HOUR)


def test_rows_that_were_written_a_day_late_are_found(tmp_path: Path) -> None:
    fill(tmp_path, Kind.USE, BEGIN + DAY, use())
    assert [row.used for row in usage(Archive(FolderStore(tmp_path)), ["job"], BEGIN, BEGIN + HOUR)] == [2.0]


def test_use_is_added_up_over_parts_and_told_apart_as_asked(tmp_path: Path) -> None:
    fill(tmp_path, Kind.USE, BEGIN, use("a"), use("b", user="bob", vc="root.product", lost_gpu_s=3_600.0))
    fill(tmp_path, Kind.USE, BEGIN, use("a", borrowed_gpu_s=1_800.0, idle_gpu_s=900.0), part="1" * 16)
    fill(tmp_path, Kind.USE, BEGIN + DAY, use("a", hours=24))
    archive = Archive(FolderStore(tmp_path))
    both = [
        (row.who, row.used, row.borrowed, row.idle, row.lost)
        for row in usage(archive, ["vc", "job"], BEGIN, BEGIN + DAY)
    ]
    assert both == [(("root.research", "a"), 4.0, 0.5, 0.25, 0.0), (("root.product", "b"), 2.0, 0.0, 0.0, 1.0)]
    assert [row.who for row in usage(archive, ["user"], BEGIN, BEGIN + DAY)] == [("ada",), ("bob",)]
    assert usage(archive, ["vc"], BEGIN - DAY, BEGIN) == []


def test_servers_and_minutes_are_those_of_the_telemetry(tmp_path: Path) -> None:
    fill(tmp_path, Kind.GPUS, BEGIN, gpu(slot=1, sm_percent=None), gpu(slot=0), gpu("gpu-2", memory_total_mb=None))
    archive = Archive(FolderStore(tmp_path))
    found = servers(archive, BEGIN, BEGIN + DAY)
    assert {one.server: (one.gpus, one.gpu_memory_mb) for one in found.values()} == {
        "gpu-1": (2, 16_384),
        "gpu-2": (1, 0),
    }
    assert list(minutes(archive, BEGIN, BEGIN + DAY)) == [(BEGIN, "gpu-1", (50.0, None)), (BEGIN, "gpu-2", (50.0,))]
    assert list(minutes(archive, BEGIN + dt.timedelta(minutes=1), BEGIN + DAY)) == []


def test_others_files_are_passed_over_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    fill(tmp_path, Kind.USE, BEGIN, use())
    day = tmp_path / "use" / "date=2026-11-01"
    (day / "notes.txt").write_text("x")
    (tmp_path / "use" / "date=yesterday").mkdir()
    (tmp_path / "use" / "file").write_text("x")
    archive = Archive(FolderStore(tmp_path))
    assert len(usage(archive, ["vc"], BEGIN, BEGIN + DAY)) == 1
    (damaged,) = day.glob("*.parquet")
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.raises(ArchiveError, match="cannot be read"):
        usage(archive, ["vc"], BEGIN, BEGIN + DAY)


def test_an_archive_is_opened_by_its_address(tmp_path: Path) -> None:
    assert isinstance(open_store(str(tmp_path)), FolderStore)
    assert isinstance(open_store("http://127.0.0.1:9870/archive"), HdfsStore)
    for wrong in ("hdfs://nn:8020/archive", "/there/is/none", "http:///archive"):
        with pytest.raises(ArchiveError, match=r"http://NAMENODE:9870/PATH would be right"):
            open_store(wrong)


def test_a_name_node_that_does_not_answer_is_said(tmp_path: Path) -> None:
    store = open_store("http://127.0.0.1:9/archive")
    with pytest.raises(ArchiveError, match=r"http://127\.0\.0\.1:9 does not answer"):
        store.entries("use")
    with pytest.raises(ArchiveError, match=r"does not answer"):
        store.put(tmp_path / "nothing", "use/nothing")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    need_extra()
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    for name in [name for name in sys.modules if name.partition(".")[0] in ("hdfs", "pyarrow", "requests")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtraError, match=r"needs hdfs, pyarrow, requests.*yarn-gpu-sched\[archive\]"):
        need_extra()
