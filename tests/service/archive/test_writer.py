"""The spool and the thread that writes it: bounded, and what is lost is counted, telemetry first."""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.service.archive.world import BEGIN_S, HOUR_S, lost, rows_in_spool
from yarn_gpu_sched.archive import FileName, Kind
from yarn_gpu_sched.service.archive import writer as writing
from yarn_gpu_sched.service.archive.spool import Spool
from yarn_gpu_sched.service.archive.writer import Writer
from yarn_gpu_sched.service.log import configure_logging
from yarn_gpu_sched.service.metrics import Metrics

BOUND_S = 60.0
HOUR_ROWS = 5_000


def until(condition: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def gpu_rows(count: int, minute_s: int = BEGIN_S) -> list[tuple[Any, ...]]:
    """Make rows that hardly compress."""
    return [
        (minute_s * 1_000_000, f"s{hash((n, minute_s)) & 0xFFFFFF}", n % 8, n * 0.7, n, n, f"j{n}", "v", None)
        for n in range(count)
    ]


def use_rows(count: int, hour_s: int = BEGIN_S) -> list[tuple[Any, ...]]:
    return [(hour_s * 1_000_000, f"j{n}-{hour_s}", "ada", "root.a", float(n), 0.0, 0.0, 0.0, 0.0) for n in range(count)]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    configure_logging("critical")


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@contextmanager
def writer(folder: Path, metrics: Metrics, bytes_max: int = 1 << 30) -> Iterator[Writer]:
    one = Writer(Spool(folder, bytes_max), metrics)
    one.start()
    try:
        yield one
    finally:
        one.stop()


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Let the kernel refuse to make any file of this process longer than that, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_the_disk_does_not_take_waits_and_is_written_whole_when_it_does(tmp_path: Path, metrics: Metrics) -> None:
    with writer(tmp_path, metrics) as one:
        one.put(Kind.USE, BEGIN_S, use_rows(1))
        until(lambda: not one.queued)
        (path,) = tmp_path.glob("use-*.open")
        with files_end_at(path.stat().st_size + 100):
            for number in range(3):
                one.put(Kind.USE, BEGIN_S, use_rows(1, BEGIN_S + number))
            until(lambda: one.queued == 3 and one._failing)
            assert [row["job_id"] for row in rows_in_spool(tmp_path, Kind.USE)] == [f"j0-{BEGIN_S}"]
        until(lambda: not one.queued)
    assert len(rows_in_spool(tmp_path, Kind.USE)) == 4
    assert lost(metrics) == {}


def test_a_full_disk_costs_telemetry_first(tmp_path: Path, metrics: Metrics) -> None:
    with writer(tmp_path, metrics) as one:
        one.put(Kind.GPUS, BEGIN_S, gpu_rows(10))
        one.keep(b"", close=True)
        one.put(Kind.USE, BEGIN_S, use_rows(1))
        until(lambda: not one.queued)
        (path,) = tmp_path.glob("use-*.open")
        with files_end_at(path.stat().st_size + 100):
            one.put(Kind.USE, BEGIN_S, use_rows(1))
            until(lambda: lost(metrics))
        until(lambda: not one.queued)
    assert lost(metrics) == {("gpus", "disk"): 10}
    assert len(rows_in_spool(tmp_path, Kind.USE)) == 2


def test_of_what_waits_for_a_full_disk_so_much_is_kept_and_the_rest_counted(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WAITING_MAX", 5)
    with writer(tmp_path, metrics) as one, files_end_at(0):
        for number in range(4):
            one.put(Kind.USE, BEGIN_S, use_rows(1, BEGIN_S + number))
            one.put(Kind.GPUS, BEGIN_S, gpu_rows(1))
        until(lambda: one.queued == 5)
    assert lost(metrics) == {("gpus", "disk"): 3}, "telemetry first"
    assert len(rows_in_spool(tmp_path, Kind.USE)) == 4


def test_a_full_spool_loses_the_oldest_telemetry_and_counts_its_rows(tmp_path: Path, metrics: Metrics) -> None:
    with writer(tmp_path, metrics, bytes_max=400_000) as one:
        one.put(Kind.USE, BEGIN_S, use_rows(3))
        for hour in range(10):
            hour_s = BEGIN_S + hour * HOUR_S
            one.put(Kind.GPUS, hour_s, gpu_rows(HOUR_ROWS, hour_s))
            one.keep(b"", close=True)
        until(lambda: not one.queued)
        assert one._spool.bytes <= 400_000
    kept = {row["minute"].timestamp() for row in rows_in_spool(tmp_path, Kind.GPUS)}
    hours_lost = 10 - len(kept)
    assert hours_lost > 0
    assert kept == {BEGIN_S + hour * HOUR_S for hour in range(hours_lost, 10)}, "the oldest went"
    assert lost(metrics) == {("gpus", "spool"): hours_lost * HOUR_ROWS}
    assert len(rows_in_spool(tmp_path, Kind.USE)) == 3


def test_when_no_telemetry_is_left_use_goes_before_jobs(tmp_path: Path, metrics: Metrics) -> None:
    spool = Spool(tmp_path, 1)
    for kind, rows in ((Kind.USE, use_rows(2)), (Kind.GPUS, gpu_rows(3))):
        spool.append(kind, BEGIN_S, 1, rows)
    job: tuple[Any, ...] = ("j", 1, "ada", "v", "", 0, 0, 0, True, "succeeded", 0, [], *[0.0] * 5, [], *[None] * 4, [])
    spool.append(Kind.JOBS, BEGIN_S, 2, [job])
    spool.close()
    dropped = [spool.drop_one() for _ in range(4)]
    assert dropped == [(Kind.GPUS, 3), (Kind.USE, 2), (Kind.JOBS, 1), None]
    spool.end()
    del metrics


def test_telemetry_that_alone_is_more_than_there_may_be_goes_though_it_is_being_written(
    tmp_path: Path, metrics: Metrics
) -> None:
    with writer(tmp_path, metrics, bytes_max=50_000) as one:
        for _ in range(5):
            one.put(Kind.GPUS, BEGIN_S, gpu_rows(HOUR_ROWS))
        until(lambda: not one.queued)
        assert one._spool.bytes <= 50_000
    assert lost(metrics) == {("gpus", "spool"): 5 * HOUR_ROWS}


def test_what_finds_no_place_in_the_queue_is_counted_and_jobs_find_some_where_telemetry_does_not(
    tmp_path: Path, metrics: Metrics
) -> None:
    one = Writer(Spool(tmp_path, 1 << 30), metrics)  # nothing is taken out: it was not started
    for _ in range(writing.TELEMETRY_QUEUE_MAX + 1):
        one.put(Kind.GPUS, BEGIN_S, gpu_rows(1))
    assert lost(metrics) == {("gpus", "queue"): 1}
    for _ in range(writing.QUEUE_MAX - writing.TELEMETRY_QUEUE_MAX + 1):
        one.put(Kind.USE, BEGIN_S, use_rows(1))
    assert lost(metrics) == {("gpus", "queue"): 1, ("use", "queue"): 1}
    assert one.queued == writing.QUEUE_MAX
    one.keep(b"")
    one.start()
    until(lambda: not one.queued)
    one.stop()
    assert len(rows_in_spool(tmp_path, Kind.USE)) == writing.QUEUE_MAX - writing.TELEMETRY_QUEUE_MAX


def test_rows_that_cannot_be_written_at_all_are_counted_and_the_thread_lives_on(
    tmp_path: Path, metrics: Metrics
) -> None:
    with writer(tmp_path, metrics) as one:
        one.put(Kind.USE, BEGIN_S, [("no row",)])
        one.put(Kind.USE, BEGIN_S, use_rows(1))
        until(lambda: not one.queued)
    assert lost(metrics) == {("use", "fault"): 1}
    assert len(rows_in_spool(tmp_path, Kind.USE)) == 1


def test_files_are_closed_only_after_what_is_kept_is_on_the_disk(tmp_path: Path, metrics: Metrics) -> None:
    with writer(tmp_path, metrics) as one:
        one.put(Kind.USE, BEGIN_S, use_rows(1))
        until(lambda: not one.queued)
        with files_end_at(0):
            one.keep(b"what is kept", close=True)
            until(lambda: not one.queued)
            assert [path.suffix for path in tmp_path.glob("use-*")] == [".open"]
        one.keep(b"what is kept", close=True)
        until(lambda: not one.queued)
        assert [path.suffix for path in tmp_path.glob("use-*")] == [".rows"]
        assert (tmp_path / "open.msgpack").read_bytes() == b"what is kept"


def test_a_spool_that_is_removed_costs_what_was_in_it_and_no_more(tmp_path: Path, metrics: Metrics) -> None:
    folder, away = tmp_path / "spool", tmp_path / "away"
    with writer(folder, metrics) as one:
        one.put(Kind.USE, BEGIN_S, use_rows(1))
        until(lambda: not one.queued)
        folder.rename(away)
        one.put(Kind.USE, BEGIN_S, use_rows(2))
        until(lambda: one.queued == 1)
        assert one._spool.bytes == 0, "whoever asks for it is not ended"
        shutil.rmtree(away)
        folder.mkdir()
        until(lambda: not one.queued)
        assert one._thread.is_alive()
    assert len(rows_in_spool(folder, Kind.USE)) == 2
    assert lost(metrics) == {}


def test_a_full_spool_drops_a_file_that_nobody_can_read(tmp_path: Path, metrics: Metrics) -> None:
    (tmp_path / f"{FileName(BEGIN_S - HOUR_S, Kind.USE, '0' * 16).stem}.parquet").write_bytes(b"no Parquet" * 1_000)
    with writer(tmp_path, metrics, bytes_max=9_000) as one:
        one.put(Kind.USE, BEGIN_S, use_rows(1))
        until(lambda: not one.queued)
        assert one._spool.bytes < 9_000
    assert lost(metrics) == {("use", "spool"): 0}
    assert len(rows_in_spool(tmp_path, Kind.USE)) == 1
