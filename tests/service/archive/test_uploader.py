"""Files go into the archive whole and once; what is too old goes, and only what this archive wrote."""

from __future__ import annotations

import getpass
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.service.archive.test_writer import files_end_at, until, use_rows
from tests.service.archive.world import BEGIN_S, HOUR_S, rows_archived, rows_in_spool
from yarn_gpu_sched.archive import ArchiveError, FileName, FolderStore, Kind
from yarn_gpu_sched.journal.entries import MAGIC, entry
from yarn_gpu_sched.service.archive import uploader as uploading
from yarn_gpu_sched.service.archive.spool import Spool
from yarn_gpu_sched.service.archive.uploader import Uploader
from yarn_gpu_sched.service.log import configure_logging
from yarn_gpu_sched.service.metrics import Metrics

DAY_S = 24 * HOUR_S


class _Impatient(threading.Event):
    """Nobody waits for it between two tries."""

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        return self.is_set()


class World:
    """A spool with a closed file, and an uploader that is not started: `round` is one look."""

    def __init__(self, folder: Path, store: FolderStore | None = None) -> None:
        self.archive, self.now_s = folder / "archive", float(BEGIN_S)
        self.archive.mkdir(exist_ok=True)
        self.spool = Spool(folder / "spool", 1 << 30)
        self.metrics = Metrics()
        self.store = store or FolderStore(self.archive)
        self.uploader = Uploader(self.spool, self.store, self.metrics, getpass.getuser(), 90, lambda: self.now_s)
        self.uploader._ending = _Impatient()

    def close_a_file(self, rows: int = 3, hour_s: int = BEGIN_S) -> None:
        self.spool.append(Kind.USE, hour_s, 1, use_rows(rows, hour_s))
        self.spool.close()

    @property
    def failures(self) -> float:
        return float(self.metrics.archive_failures._value.get())


@pytest.fixture(autouse=True)
def _quiet() -> None:
    configure_logging("critical")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.spool.end()


class Failing(FolderStore):
    """An archive that does not answer as long as it is told so; ``late``: it does what it is asked, and does not say so."""

    down = late = False

    def put(self, source: Path, path: str) -> bool:
        if self.down:
            raise ArchiveError("it does not answer")
        done = super().put(source, path)
        if self.late:
            raise ArchiveError("its answer was lost")
        return done


def test_a_closed_file_is_archived_once_and_gone_from_the_spool(world: World) -> None:
    world.close_a_file()
    world.uploader.round()
    world.uploader.round()
    (path,) = world.archive.rglob("*.parquet")
    assert path.parent.relative_to(world.archive) == Path("use/date=2026-09-21")
    assert len(rows_archived(world.archive, Kind.USE)) == 3
    assert world.spool.waiting() == []
    assert list((world.archive / "_part").iterdir()) == []


def test_a_full_disk_keeps_the_rows_and_leaves_nothing_half(world: World) -> None:
    world.close_a_file(rows=2_000)
    with files_end_at(100):
        world.uploader.round()
    assert world.failures == 1
    assert [path.suffix for path in world.spool.directory.glob("use-*")] == [".rows"]
    world.uploader.round()
    assert len(rows_archived(world.archive, Kind.USE)) == 2_000


def test_what_is_open_is_not_archived(world: World) -> None:
    world.spool.append(Kind.USE, BEGIN_S, 1, use_rows(1))
    world.uploader.round()
    assert list(world.archive.rglob("*.parquet")) == []


def test_a_file_without_rows_goes_and_is_not_archived(world: World) -> None:
    world.spool._begin(Kind.USE, BEGIN_S)
    world.spool.close()
    world.uploader.round()
    assert world.spool.waiting() == []
    assert list(world.archive.rglob("*.parquet")) == []


def test_while_the_archive_is_away_everything_stays_and_goes_there_afterwards(tmp_path: Path) -> None:
    store = Failing(tmp_path / "archive")
    world = World(tmp_path, store)
    store.down = True
    for hour in range(24):
        world.close_a_file(hour_s=BEGIN_S + hour * HOUR_S)
        world.uploader.round()
    assert len(world.spool.waiting()) == 24
    assert world.failures > 0
    assert world.metrics.archive_waiting_files._value.get() == 24
    store.down = False
    world.uploader.round()
    assert len(rows_archived(world.archive, Kind.USE)) == 3 * 24
    assert world.spool.waiting() == []
    world.spool.end()


def test_an_answer_that_was_lost_puts_nothing_there_twice(tmp_path: Path) -> None:
    store = Failing(tmp_path / "archive")
    world = World(tmp_path, store)
    world.close_a_file()
    store.late = True
    world.uploader.round()
    assert len(world.spool.waiting()) == 1, "nobody said that it is there"
    store.late = False
    world.uploader.round()
    assert len(rows_archived(world.archive, Kind.USE)) == 3
    assert world.spool.waiting() == []
    world.spool.end()


@pytest.mark.parametrize("left", ["closed", "both", "ready", "archived"])
def test_an_end_at_any_step_leaves_what_the_next_service_finishes_once(tmp_path: Path, left: str) -> None:
    world = World(tmp_path)
    world.close_a_file()
    (closed,) = world.spool.waiting()
    content = closed.read_bytes()
    if left != "closed":
        ready = world.spool.make_ready(closed)
        assert ready is not None
        if left == "both":
            closed.write_bytes(content)
        if left == "archived":
            world.store.put(ready, FileName(BEGIN_S, Kind.USE, ready.stem[-16:]).path)
    (tmp_path / "spool" / "torn.part").write_bytes(b"torn")
    world.spool.end()
    after = World(tmp_path)
    after.uploader.round()
    assert len(rows_archived(after.archive, Kind.USE)) == 3
    assert sorted(path.name for path in (tmp_path / "spool").iterdir()) == ["lock"]
    after.spool.end()


def test_another_file_of_that_name_is_not_replaced_and_keeps_no_other_back(world: World) -> None:
    world.close_a_file()
    (closed,) = world.spool.waiting()
    target = world.archive / FileName(BEGIN_S, Kind.USE, closed.stem[-16:]).path
    target.parent.mkdir(parents=True)
    target.write_bytes(b"somebody else's")
    world.close_a_file(hour_s=BEGIN_S + HOUR_S)
    world.uploader.round()
    assert target.read_bytes() == b"somebody else's"
    assert len(world.spool.waiting()) == 1
    assert len(list(world.archive.rglob("*.parquet"))) == 2
    assert world.failures == 1


FOREIGN = MAGIC + entry(msgspec.msgpack.encode({"number": 1, "batch": b"no rows"}))


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        (".rows", b"not of ours, and long"),
        (".rows", FOREIGN),
        (".rows", MAGIC + entry(b"x")),
        (".parquet", b"no Parquet"),
    ],
)
def test_a_damaged_file_is_set_aside_and_keeps_no_other_back(world: World, ending: str, content: bytes) -> None:
    stem = FileName(BEGIN_S - HOUR_S, Kind.USE, "0" * 16).stem
    (world.spool.directory / f"{stem}{ending}").write_bytes(content)
    world.close_a_file()
    world.uploader.round()
    assert len(rows_archived(world.archive, Kind.USE)) == 3
    assert world.spool.waiting() == []
    assert (world.spool.directory / f"{stem}.damaged").read_bytes() == content
    assert world.spool.drop_one() == (Kind.USE, 0), "it goes when there is no room"
    assert world.spool.drop_one() is None


def test_a_damaged_file_that_was_left_open_lets_the_next_service_start(world: World) -> None:
    world.close_a_file()
    (closed,) = world.spool.waiting()
    closed.rename(closed.with_suffix(".open"))
    stem = FileName(BEGIN_S - HOUR_S, Kind.USE, "0" * 16).stem
    (world.spool.directory / f"{stem}.open").write_bytes(FOREIGN)
    told, number = world.spool.left_open(0)
    assert (len(told), number) == (3, 1)


def test_a_file_that_is_being_archived_is_not_dropped(world: World) -> None:
    world.close_a_file()
    (closed,) = world.spool.waiting()
    ready = world.spool.make_ready(closed)
    assert ready is not None
    assert world.spool.take(ready)
    assert world.spool.drop_one() is None
    world.spool.release(archived=False)
    assert world.spool.drop_one() == (Kind.USE, 3)
    assert not world.spool.take(ready)


def test_what_is_older_than_the_retention_goes_a_day_at_a_time(world: World) -> None:
    for age_days in (0, 89, 92, 200):
        world.close_a_file(hour_s=BEGIN_S - age_days * DAY_S)
    world.uploader.round()
    kept = sorted(row["hour"].timestamp() for row in rows_archived(world.archive, Kind.USE))
    assert kept == [BEGIN_S - 89 * DAY_S] * 3 + [BEGIN_S] * 3
    assert len(list((world.archive / "use").iterdir())) == 2, "folders that are empty went too"


@pytest.mark.parametrize("ahead_days", [91, 12 * 365])
def test_a_wall_clock_that_is_far_ahead_empties_no_archive(world: World, ahead_days: int) -> None:
    """What was archived today by the store's own clock is not old, whatever the service's clock says."""
    today_s = int(time.time()) // 3_600 * 3_600
    world.close_a_file(hour_s=today_s)
    world.uploader.round()
    world.now_s = today_s + ahead_days * DAY_S
    world.uploader.round()
    assert len(rows_archived(world.archive, Kind.USE)) == 3


def test_nothing_is_removed_that_it_did_not_write(world: World) -> None:
    old = world.archive / "use" / "date=2020-01-01"
    old.mkdir(parents=True)
    name = FileName(1_577_836_800, Kind.USE, "0" * 16).path.rpartition("/")[2]
    others = [
        old / "notes.txt",
        old / f"{name}.bak",
        old / name.replace("use", "gpus"),
        old / name.replace("0000", "000g"),
    ]
    for path in (*others, old / name):
        path.write_bytes(b"x")
    (old / f"folder-{name}").mkdir()
    world.uploader.round()
    assert sorted(old.iterdir()) == sorted([*others, old / f"folder-{name}"])


def test_what_somebody_else_owns_is_not_removed(world: World) -> None:
    world.uploader._user = "somebody else"
    world.close_a_file(hour_s=BEGIN_S - 200 * DAY_S)
    world.uploader.round()
    assert len(rows_archived(world.archive, Kind.USE)) == 3


def test_the_thread_archives_when_it_is_hurried_and_ends(world: World) -> None:
    world.uploader.start()
    world.close_a_file()
    world.uploader.hurry()
    until(lambda: list(world.archive.glob("use/*/*.parquet")) and not world.spool.waiting())
    world.uploader.stop()
    assert not world.uploader._thread.is_alive()


def test_a_fault_does_not_end_the_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "LOOK_S", 0.01)
    real, rounds = world.spool.waiting, iter([True])

    def waiting() -> list[Path]:
        if next(rounds, False):
            raise ZeroDivisionError
        return real()

    monkeypatch.setattr(world.spool, "waiting", waiting)
    world.close_a_file()
    world.uploader.start()
    until(lambda: list(world.archive.glob("use/*/*.parquet")))
    world.uploader.stop()
    assert rows_in_spool(world.spool.directory, Kind.USE) == []
