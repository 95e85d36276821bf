"""The archive on a real HDFS: a DataNode that is killed, safe mode, a spool that is full, a service that is killed.

Nothing is there twice, nothing is lost that was promised, and what may be lost is counted.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.archive.conftest import USER, Hdfs
from tests.client.real_service import killed_service, real_service
from tests.service.archive.test_writer import gpu_rows, use_rows
from tests.service.archive.world import BEGIN_S, HOUR_S, lost, rows_in_spool
from yarn_gpu_sched.archive import FileName, HdfsStore, Kind, Store, parse_name
from yarn_gpu_sched.archive.kinds import schema_of
from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.client import FakeResourceManager
from yarn_gpu_sched.replay import read_trace
from yarn_gpu_sched.service.archive.spool import Spool
from yarn_gpu_sched.service.archive.uploader import Uploader
from yarn_gpu_sched.service.archive.writer import Writer
from yarn_gpu_sched.service.log import configure_logging
from yarn_gpu_sched.service.metrics import Metrics

pytestmark = [pytest.mark.real, pytest.mark.timeout(420)]

BOUND_S = 120.0
ROUNDS, JOBS_A_ROUND = 3, 6


@pytest.fixture(autouse=True)
def _quiet() -> None:
    configure_logging("critical")


def until(condition: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def files(store: Store, kind: Kind) -> list[str]:
    return [
        f"{kind.value}/{day.name}/{one.name}"
        for day in store.entries(kind.value)
        for one in store.entries(f"{kind.value}/{day.name}")
    ]


def rows(store: Store, kind: Kind) -> list[dict[str, Any]]:
    """Read every row that a reader of the archive sees."""
    import io  # noqa: PLC0415 - beside what needs it

    import pyarrow.parquet as pq  # noqa: PLC0415 - as in the product

    return [row for path in files(store, kind) for row in pq.read_table(io.BytesIO(store.read(path))).to_pylist()]


@contextlib.contextmanager
def uploading(spool: Spool, store: Store, metrics: Metrics) -> Iterator[Uploader]:
    one = Uploader(spool, store, metrics, USER, 90, lambda: float(BEGIN_S))
    one.start()
    try:
        yield one
    finally:
        one.stop()


def nothing_of(kind: Kind) -> bytes:
    """Return a Parquet file without rows: at the end of any bytes it makes them one of that kind, by what stands last in it."""
    out = io.BytesIO()
    pq.write_table(schema_of(kind).empty_table(), out)
    return out.getvalue()


def test_a_data_node_that_is_killed_in_the_middle_of_an_upload(hdfs: Hdfs, tmp_path: Path) -> None:
    store = hdfs.store("data-node")
    spool, metrics = Spool(tmp_path, 1 << 30), Metrics()
    name = FileName(BEGIN_S, Kind.USE, "0123456789abcdef")
    content = os.urandom(64 << 20) + nothing_of(Kind.USE)
    (tmp_path / f"{name.stem}.parquet").write_bytes(content)
    blocks = hdfs.cluster.folder / "data" / "datanode"
    seen: list[str] = []
    with uploading(spool, store, metrics):
        until(lambda: any(path.stat().st_size for path in blocks.rglob("rbw/blk_*") if path.suffix != ".meta"))
        hdfs.cluster.kill("dn")
        assert spool.busy is not None, "it was killed in the middle"
        until(lambda: metrics.archive_failures._value.get() > 0)
        seen += files(store, Kind.USE)
        hdfs.cluster.start("dn")
        until(lambda: not spool.waiting())
    spool.end()
    assert seen == [], "no reader saw half a file"
    assert files(store, Kind.USE) == [name.path]
    assert store.read(name.path) == content
    assert store.entries("_part") == []


def test_safe_mode_with_a_spool_that_is_too_small(hdfs: Hdfs, tmp_path: Path) -> None:
    """Telemetry goes, oldest first, and what went is what was counted; the use of all hours arrives, once."""
    store = hdfs.store("safe-mode")
    spool, metrics = Spool(tmp_path, 300_000), Metrics()
    hdfs.run("dfsadmin", "-safemode", "enter")
    with uploading(spool, store, metrics) as uploader:
        writer = Writer(spool, metrics, uploader.hurry)
        writer.start()
        for hour in range(12):
            hour_s = BEGIN_S + hour * HOUR_S
            writer.put(Kind.GPUS, hour_s, gpu_rows(3_000, hour_s))
            writer.put(Kind.USE, hour_s, use_rows(10, hour_s))
            writer.keep(b"", close=True)
        until(lambda: not writer.queued and metrics.archive_failures._value.get() > 0)
        assert files(store, Kind.USE) == files(store, Kind.GPUS) == []
        hdfs.run("dfsadmin", "-safemode", "leave")
        until(lambda: not spool.waiting())
        writer.stop()
    gone = lost(metrics)
    assert set(gone) == {("gpus", "spool")}
    assert gone["gpus", "spool"] > 0
    archived = rows(store, Kind.GPUS)
    assert len(archived) + gone["gpus", "spool"] == 12 * 3_000
    hours = {row["minute"].timestamp() for row in archived}
    assert hours == {BEGIN_S + hour * HOUR_S for hour in range(12 - len(hours), 12)}
    assert Counter(row["job_id"] for row in rows(store, Kind.USE)) == Counter(
        row[1] for hour in range(12) for row in use_rows(10, BEGIN_S + hour * HOUR_S)
    )


class _Ends(HdfsStore):
    """A store whose process ends after the n-th step of an upload: nothing that would follow is done."""

    def __init__(self, hdfs: Hdfs, folder: str, steps: int) -> None:
        super().__init__(hdfs.url, hdfs.root(folder), USER)
        for name in ("write", "makedirs", "rename"):
            setattr(self._client, name, self._counted(getattr(self._client, name)))
        self._left = steps

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever the client takes
            if not self._left:
                raise SystemExit
            self._left -= 1
            result = step(*arguments, **options)
            if not self._left:
                raise SystemExit
            return result

        return counted


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_an_end_between_any_two_steps_of_an_upload(hdfs: Hdfs, tmp_path: Path, steps: int) -> None:
    store = hdfs.store(f"steps-{steps}")
    spool, metrics = Spool(tmp_path, 1 << 30), Metrics()
    spool.append(Kind.USE, BEGIN_S, 1, use_rows(5))
    spool.close()
    ending = Uploader(spool, _Ends(hdfs, f"steps-{steps}", steps), metrics, USER, 90, lambda: float(BEGIN_S))
    with pytest.raises(SystemExit):
        ending.round()
    assert len(files(store, Kind.USE)) == (steps == len(("write", "makedirs", "rename")))
    spool.end()
    again = Spool(tmp_path, 1 << 30)
    Uploader(again, store, metrics, USER, 90, lambda: float(BEGIN_S)).round()
    assert len(rows(store, Kind.USE)) == 5
    assert again.waiting() == []
    again.end()


def test_retention_removes_what_is_old_and_its_own(hdfs: Hdfs, tmp_path: Path) -> None:
    own, other = hdfs.store("retention"), HdfsStore(hdfs.url, hdfs.root("retention"), "somebody-else")
    file = tmp_path / "file"
    file.write_bytes(b"x")
    old, young = BEGIN_S - 200 * 24 * HOUR_S, BEGIN_S - 80 * 24 * HOUR_S
    for hour_s in (old, young):
        own.put(file, FileName(hour_s, Kind.GPUS, "0" * 16).path)
    folder = FileName(old, Kind.GPUS, "0" * 16).path.rpartition("/")[0]
    own.put(file, f"{folder}/notes.txt")
    hdfs.run("dfs", "-chmod", "-R", "777", hdfs.root("retention"))
    other.put(file, FileName(old, Kind.GPUS, "1" * 16).path)
    spool = Spool(tmp_path / "spool", 1 << 30)
    Uploader(spool, own, Metrics(), USER, 90, lambda: float(BEGIN_S)).round()
    spool.end()
    kept = {parse_name(path.rpartition("/")[2]) or path.rpartition("/")[2] for path in files(own, Kind.GPUS)}
    assert kept == {FileName(young, Kind.GPUS, "0" * 16), FileName(old, Kind.GPUS, "1" * 16), "notes.txt"}


class Served:
    """Jobs that end on a service which is killed; ``promised`` are those whose end was seen on its disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: set[str] = set()
        self.promised: set[str] = set()

    def on_disk(self) -> set[str]:
        with contextlib.suppress(FileNotFoundError):  # a file was archived while we looked
            return {row["job_id"] for row in rows_in_spool(self.folder, Kind.JOBS)}
        return set()

    def run_jobs(self, rm: FakeResourceManager, number: int, *, wait: bool) -> None:
        rm.add_server("gpu-a1", gpus=8)
        ids = [f"application_{number}_{n:04d}" for n in range(JOBS_A_ROUND)]
        for job_id in ids:
            rm.submit(job_id, tags=["gang:1x1"], user="ada")
            rm.ask(job_id, 1, gpus=1)
            rm.wait(lambda job_id=job_id: len(rm.containers(job_id)) == 1, timeout_s=BOUND_S)  # type: ignore[misc] # bound as a default
        for job_id in ids[: JOBS_A_ROUND // 2]:
            self._end(rm, job_id)
        if wait:
            until(lambda: self.on_disk() >= set(ids[: JOBS_A_ROUND // 2]))
            self.promised |= set(ids[: JOBS_A_ROUND // 2])
        for job_id in ids[JOBS_A_ROUND // 2 :]:
            self._end(rm, job_id)

    def _end(self, rm: FakeResourceManager, job_id: str) -> None:
        rm.end(job_id)
        self.ended.add(job_id)


def test_a_service_that_is_killed_again_and_again(hdfs: Hdfs, tmp_path: Path) -> None:
    root, store = hdfs.root("killed"), hdfs.store("killed")
    state = tmp_path / "state"
    options = ("--archive-url", hdfs.url, "--archive-path", root, "--archive-user", USER, "--state-dir", str(state))
    served = Served(state / "archive")
    for number in range(ROUNDS):
        with killed_service(tmp_path, *options) as (address, pid), FakeResourceManager(address) as rm:
            served.run_jobs(rm, number, wait=True)
            threading.Event().wait(0.1 * number)  # some ends are on the disk by then, some are not
            served.promised |= served.on_disk() & served.ended
            os.kill(pid, signal.SIGKILL)
    with real_service(tmp_path, *options) as address, FakeResourceManager(address) as rm:
        served.run_jobs(rm, ROUNDS, wait=True)
        until(lambda: served.on_disk() >= {job_id for job_id in served.ended if f"_{ROUNDS}_" in job_id})
        served.promised |= served.on_disk() & served.ended
    with real_service(tmp_path, *options):
        until(lambda: not any(path.suffix in (".rows", ".parquet") for path in served.folder.glob("jobs-*")))
    archived = Counter(row["job_id"] for row in rows(store, Kind.JOBS))
    assert served.promised >= {f"application_{n}_{k:04d}" for n in range(ROUNDS + 1) for k in range(JOBS_A_ROUND // 2)}
    assert served.promised <= set(archived) <= served.ended, "nothing is lost that was on the disk"
    assert set(archived.values()) == {1}, "nothing is there twice"
    _reads_back(hdfs, root, tmp_path, set(archived))


def _reads_back(hdfs: Hdfs, root: str, tmp_path: Path, jobs: set[str]) -> None:
    """Show that what is exported from HDFS are the same jobs, for the replay too."""
    place = ("--archive", f"{hdfs.url}{root}", "--user", USER, "--from", "2026-01-01")
    result = CliRunner().invoke(ygs, ["export", "--format", "philly", *place, str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    trace = read_trace(tmp_path / "out" / "cluster_job_log")
    assert {(one.job_id, one.gpus) for one in trace.jobs} == {(job_id, 1) for job_id in jobs}
