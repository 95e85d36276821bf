"""The files of a record: their names and bounds, what of them may be torn, and what is no record at all."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from tests.engine.world import server
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.events import ServerChanged
from yarn_gpu_sched.journal import Recorder, RecordError, replay
from yarn_gpu_sched.journal import entries as entries_module
from yarn_gpu_sched.journal.entries import MAGIC, entry, file_name, files_of, read_entries


def change(number: int) -> ServerChanged:
    return ServerChanged(now_s=float(number), server=server(f"s{number:03d}"))


def record(recorder: Recorder, engine: Engine, *numbers: int) -> None:
    for number in numbers:
        recorder.record(change(number))
        engine.apply(change(number))


def entries(path: Path) -> list[bytes]:
    return list(read_entries(path))


def written(path: Path, *parts: bytes) -> Path:
    path.write_bytes(b"".join(parts))
    return path


def test_files_are_named_by_their_number_and_listed_oldest_first(tmp_path: Path) -> None:
    assert file_name(7) == "events-000000000007.log"
    for name in ("events-10.log", "events-000000000002.log", "events-x.log", "events-3.txt", "other-1.log"):
        (tmp_path / name).write_bytes(b"")
    assert files_of(tmp_path) == [(2, tmp_path / "events-000000000002.log"), (10, tmp_path / "events-10.log")]


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = written(tmp_path / "f", MAGIC, entry(b"one"), entry(b""), entry(b"three"))
    assert entries(path) == [b"one", b"", b"three"]


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"\x00",
        entry(b"two")[:7],
        entry(b"two")[:8],
        entry(b"two")[:-1],
        struct.pack(">II", 3, zlib.crc32(b"tw")) + b"tw",
        struct.pack(">II", 3, zlib.crc32(b"owt")) + b"two",
        struct.pack(">II", 1 << 31, zlib.crc32(b"two")) + b"two",
    ],
    ids=[
        "nothing",
        "a byte",
        "in its head",
        "a head",
        "in its bytes",
        "sum of what is left",
        "wrong sum",
        "wrong length",
    ],
)
def test_a_torn_tail_is_not_read_nor_what_follows_it(tmp_path: Path, tail: bytes) -> None:
    assert entries(written(tmp_path / "f", MAGIC, entry(b"one"), tail)) == [b"one"]
    if len(tail) > 7:
        after = written(tmp_path / "f", MAGIC, entry(b"one"), tail, entry(b"later"))
        assert entries(after) == [b"one"]


@pytest.mark.parametrize(("length", "read"), [(9, 1), (10, 1), (11, 0)])
def test_an_entry_beyond_the_bound_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, read: int
) -> None:
    monkeypatch.setattr(entries_module, "ENTRY_BYTES_MAX", 10)
    assert len(entries(written(tmp_path / "f", MAGIC, entry(b"x" * length)))) == read


@pytest.mark.parametrize("content", [b"", MAGIC[:-1], b"ygs-events-2\n" + entry(b"one")])
def test_a_file_that_does_not_begin_as_a_record_is_refused(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path / file_name(1), content)
    with pytest.raises(RecordError, match=r"events-000000000001\.log does not begin"):
        replay(path.parent)


def test_a_recorder_makes_its_folder_and_may_come_again(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "record"
    for number in (1, 2, 3):
        with Recorder(folder, Engine()):
            assert [known for known, _ in files_of(folder)] == list(range(1, number + 1))
    (folder / file_name(41)).write_bytes((folder / file_name(3)).read_bytes())
    Recorder(folder, Engine()).close()
    assert files_of(folder)[-1][0] == 42


def test_a_new_file_replays_before_anything_is_flushed(tmp_path: Path) -> None:
    engine = Engine()
    engine.apply(change(0))
    recorder = Recorder(tmp_path, engine)
    assert replay(tmp_path).digest() == engine.digest()
    recorder.close()


def test_events_reach_the_file_when_flushed_or_closed(tmp_path: Path) -> None:
    engine = Engine()
    recorder = Recorder(tmp_path, engine)
    ((_, path),) = files_of(tmp_path)
    record(recorder, engine, 1)
    assert len(entries(path)) == 2, "its head and the snapshot"
    recorder.flush()
    assert len(entries(path)) == 3
    record(recorder, engine, 2)
    recorder.close()
    recorder.close()
    assert len(entries(path)) == 4


def test_leaving_its_block_closes_a_recorder(tmp_path: Path) -> None:
    with Recorder(tmp_path, engine := Engine()) as recorder:
        record(recorder, engine, 1)
    assert replay(tmp_path).digest() == engine.digest()
    with pytest.raises(ValueError, match="closed"):
        recorder.record(change(2))


def test_many_events_reach_the_file_without_being_flushed(tmp_path: Path) -> None:
    engine = Engine()
    recorder = Recorder(tmp_path, engine)
    ((_, path),) = files_of(tmp_path)
    bytes_before = path.stat().st_size
    for number in range(300):
        recorder.record(change(number))
    assert path.stat().st_size == bytes_before, "less than the buffer holds"
    for number in range(10_000):
        recorder.record(change(number % 1_000))
    assert path.stat().st_size - bytes_before > 256 * 1024
    recorder.close()


def test_a_file_is_followed_once_its_events_have_reached_the_bound(tmp_path: Path) -> None:
    engine = Engine()
    event_bytes = _bytes_of_an_event(tmp_path / "measured")
    folder = tmp_path / "record"
    recorder = Recorder(folder, engine, file_bytes_max=2 * event_bytes)
    files = []
    for number in range(1, 6):
        record(recorder, engine, number)
        files.append(len(files_of(folder)))
    recorder.close()
    assert files == [1, 1, 2, 2, 3]
    assert [len(entries(path)) - 2 for _, path in files_of(folder)] == [2, 2, 1]
    assert replay(folder).digest() == engine.digest()


def _bytes_of_an_event(folder: Path) -> int:
    recorder = Recorder(folder, Engine())
    ((_, path),) = files_of(folder)
    before = path.stat().st_size
    recorder.record(change(1))
    recorder.close()
    return path.stat().st_size - before


@pytest.mark.parametrize("files_max", [1, 2, 3])
def test_at_most_so_many_files_are_kept(tmp_path: Path, files_max: int) -> None:
    engine = Engine()
    recorder = Recorder(tmp_path, engine, file_bytes_max=1, files_max=files_max)
    for number in range(5):
        record(recorder, engine, number)
        assert len(files_of(tmp_path)) == min(files_max, number + 1)
    recorder.close()
    assert replay(tmp_path).digest() == engine.digest()


@pytest.mark.parametrize("bounds", [{"files_max": 0}, {"file_bytes_max": 0}, {"file_bytes_max": -1}])
def test_bounds_are_at_least_one(tmp_path: Path, bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must both be at least 1"):
        Recorder(tmp_path, Engine(), **bounds)
    Recorder(tmp_path, Engine(), files_max=1, file_bytes_max=1).close()


@pytest.mark.parametrize("entries_left", [0, 1])
def test_a_record_without_a_whole_snapshot_is_none(tmp_path: Path, entries_left: int) -> None:
    Recorder(tmp_path, Engine()).close()
    ((_, path),) = files_of(tmp_path)
    kept = [entry(one) for one in entries(path)[:entries_left]]
    written(path, MAGIC, *kept, entry(b"torn")[:-1])
    with pytest.raises(RecordError, match=r"events-000000000001\.log ends before its snapshot is whole"):
        replay(tmp_path)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_entry_that_is_whole_but_cannot_be_read_is_named(tmp_path: Path, place: int) -> None:
    with Recorder(tmp_path, engine := Engine()) as recorder:
        record(recorder, engine, 1)
    ((_, path),) = files_of(tmp_path)
    parts = entries(path)
    parts[place] = b"\xc1 is no msgpack"
    written(path, MAGIC, *map(entry, parts))
    with pytest.raises(ValueError, match="cannot be read") as raised:
        replay(tmp_path)
    if place != 1:
        assert isinstance(raised.value, RecordError)
        assert path.name in str(raised.value)


def test_a_file_after_a_torn_one_begins_anew_from_its_snapshot(tmp_path: Path) -> None:
    engine = Engine()
    recorder = Recorder(tmp_path, engine, file_bytes_max=1)
    record(recorder, engine, 1, 2, 3)
    recorder.close()
    middle = files_of(tmp_path)[1][1]
    middle.write_bytes(middle.read_bytes()[:-1])
    assert replay(tmp_path).digest() == engine.digest()


@pytest.mark.parametrize("files_max", [0, -1])
def test_no_files_are_no_record(tmp_path: Path, files_max: int) -> None:
    Recorder(tmp_path, Engine()).close()
    with pytest.raises(FileNotFoundError, match="holds no record"):
        replay(tmp_path, files_max=files_max)
    assert replay(tmp_path, files_max=1).digest() == Engine().digest()
