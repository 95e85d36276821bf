"""The folder of results: whole or not there, never over another's unasked."""

import csv
import json
import os
import tempfile
from pathlib import Path
from typing import IO

import pytest

from tests.replay.traces import JOBS_HEADER, philly_job, philly_log, written
from yarn_gpu_sched.replay import (
    ListedServer,
    Replay,
    ResultsError,
    Scenario,
    check_folder,
    read_trace,
    replay,
    write_results,
)
from yarn_gpu_sched.replay.results import FILES

WRITTEN = sorted(set(FILES) - {"holds.csv"})


@pytest.fixture
def done(tmp_path: Path) -> Replay:
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,0,8,10,x", 'b,0,1,5,"x, y"'))
    return replay(trace, Scenario((ListedServer("m31", 8), ListedServer("m7", 2)), domains=2))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_files_are_written_into_a_new_folder(tmp_path: Path, done: Replay) -> None:
    out = tmp_path / "some" / "where"
    write_results(done, out)
    assert names(out) == WRITTEN
    assert names(out.parent) == ["where"]
    assert (out / "servers.csv").read_text() == "server,domain,gpus,name\ns0000,/d0,8,m31\ns0001,/d1,2,m7\n"
    assert (out / "trace.csv").read_text() == f'{JOBS_HEADER}\na,0,8,10,x\nb,0,1,5,"x, y"\n'
    rows = list(csv.DictReader((out / "schedule.csv").read_text().splitlines()))
    assert [(row["job_id"], row["start_s"], row["end_s"], row["outcome"]) for row in rows] == [
        ("b", "0", "5", "finished"),
        ("a", "0", "10", "finished"),
    ]
    delays = list(csv.DictReader((out / "delays.csv").read_text().splitlines()))
    assert delays[0] == {
        "job_id": "b",
        "attempt": "0",
        "queued_s": "0",
        "fair_share_s": "0",
        "capacity_s": "0",
        "fragmentation_s": "0",
        "other_s": "0",
    }
    assert json.loads((out / "summary.json").read_bytes())["mean_jct_s"] == 7.5


def test_trace_that_was_written_is_read_as_it_was(tmp_path: Path, done: Replay) -> None:
    write_results(done, tmp_path / "out")
    assert read_trace(tmp_path / "out" / "trace.csv").jobs == done.trace.jobs


def test_results_are_not_replaced_unasked_and_other_files_never(tmp_path: Path, done: Replay) -> None:
    out = tmp_path / "out"
    write_results(done, out)
    (out / "notes.txt").write_text("mine")
    (out / "holds.csv").write_text("of another replay")
    (out / "schedule.csv").write_text("old")
    right = r"holds results already \(schedule.csv, .*summary.json\); another folder, or force=True, would be right"
    with pytest.raises(ResultsError, match=right):
        write_results(done, out)
    assert (out / "schedule.csv").read_text() == "old"
    write_results(done, out, force=True)
    assert names(out) == sorted([*WRITTEN, "notes.txt"])
    assert (out / "schedule.csv").read_text() != "old"


def test_folder_without_results_is_used_as_it_is(tmp_path: Path, done: Replay) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    write_results(done, out)
    assert names(out) == sorted([*WRITTEN, "notes.txt"])


@pytest.mark.parametrize("interruption", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", ["write_delays", "_move"])
def test_interrupted_writing_leaves_nothing_and_old_results_whole(
    tmp_path: Path, done: Replay, monkeypatch: pytest.MonkeyPatch, interruption: BaseException, at: str
) -> None:
    write_results(done, tmp_path / "old")
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}

    def interrupted(*_: object) -> None:
        raise interruption

    monkeypatch.setattr(f"yarn_gpu_sched.replay.results.{at}", interrupted)
    there = names(tmp_path)
    for out in (tmp_path / "new", tmp_path / "old"):
        with pytest.raises(type(interruption)):
            write_results(done, out, force=True)
    assert names(tmp_path) == there
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before


def test_replacing_leaves_no_summary_beside_files_of_another_replay(
    tmp_path: Path, done: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_results(done, tmp_path / "out")
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target.name == "trace.csv":
            raise OSError("disk full")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match="disk full"):
        write_results(done, tmp_path / "out", force=True)
    assert "summary.json" not in names(tmp_path / "out")


@pytest.mark.parametrize("place", ["trace.csv", "trace.csv/deeper", "/proc/nowhere/out"])
def test_what_is_no_folder_that_can_be_written_is_an_error(tmp_path: Path, done: Replay, place: str) -> None:
    with pytest.raises(ResultsError, match="would be right"):
        write_results(done, tmp_path / place)


def test_results_reach_another_file_system_whole(tmp_path: Path, done: Replay) -> None:
    shared = Path("/dev/shm")  # noqa: S108 - a file system of its own on nearly every Linux
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    with tempfile.TemporaryDirectory(dir=shared) as other:
        link = tmp_path / "link"
        link.symlink_to(other)
        write_results(done, link)
        (link / "schedule.csv").write_text("old")
        write_results(done, link, force=True)
        assert names(link) == WRITTEN
        assert (link / "schedule.csv").read_text() != "old"
    assert link.is_symlink()


def test_files_are_only_moved_within_a_folder_that_is_there(
    tmp_path: Path, done: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "mount"
    out.mkdir()
    moves: list[tuple[Path, Path]] = []
    replace = Path.replace

    def noted(self: Path, target: Path) -> Path:
        moves.append((self, target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", noted)
    write_results(done, out)
    assert len(moves) == len(WRITTEN)
    assert all(source.is_relative_to(out) and target.parent == out for source, target in moves)


def test_empty_name_is_not_the_current_folder(tmp_path: Path, done: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = names(tmp_path)
    with pytest.raises(ResultsError, match=r'"\." for the current one'):
        write_results(done, "")
    assert names(tmp_path) == there


def test_checking_makes_nothing(tmp_path: Path) -> None:
    check_folder(tmp_path / "some" / "where" / "deep")
    assert names(tmp_path) == []


def test_folders_above_go_again_when_writing_fails(
    tmp_path: Path, done: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "some").mkdir()
    monkeypatch.setattr("yarn_gpu_sched.replay.results.write_delays", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_results(done, tmp_path / "some" / "where" / "deep")
    assert names(tmp_path / "some") == []


def test_folder_may_lie_where_nothing_else_may_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    temporary = tempfile.TemporaryFile

    def noted(*, dir: Path) -> IO[bytes]:  # noqa: A002 - the name that tempfile has
        made.append(dir)
        return temporary(dir=dir)

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    (tmp_path / "out").mkdir()
    check_folder(tmp_path / "out")
    assert made == [tmp_path / "out"]


def test_what_can_never_be_written_is_seen_before(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "full" / "summary.json").mkdir(parents=True)
    for place, right in (
        ("dangling", "a link to a folder that is there would be right"),
        ("loop", "a folder that can be written to would be right"),
        ("x" * 300, "would be right .File name too long"),
        ("new/" + "é" * 200, "names of at most 255 bytes would be right"),
        ("full", "a folder in which summary.json is no folder would be right"),
    ):
        with pytest.raises(ResultsError, match=right):
            check_folder(tmp_path / place, force=True)


def test_name_may_be_as_long_as_the_file_system_takes(tmp_path: Path, done: Replay) -> None:
    write_results(done, tmp_path / ("y" * 255))
    assert names(tmp_path / ("y" * 255)) == WRITTEN


def test_what_utf8_cannot_hold_is_written_as_its_code(tmp_path: Path) -> None:
    named = tmp_path / os.fsdecode(b"\xff.csv")
    written(tmp_path, JOBS_HEADER, "a,0,1,5,x", "b,0,1,x,x", name=named.name)
    write_results(replay(read_trace(named, skip_bad_rows=True), Scenario("1x8")), tmp_path / "jobs")
    told = json.loads((tmp_path / "jobs" / "summary.json").read_bytes())["trace"]
    assert told["name"] == r"\udcff.csv"
    assert r"\udcff.csv, line 3: duration 'x'" in told["bad_rows"][0]
    log = philly_log(tmp_path, philly_job(status="\ud800"))
    write_results(replay(read_trace(log), Scenario("2x8")), tmp_path / "philly")
    assert json.loads((tmp_path / "philly" / "summary.json").read_bytes())["trace"]["states"] == {r"\ud800": 1}
