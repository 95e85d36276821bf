"""The file of the operator's switch: whole or not there, and nothing that is not ours is read as one."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.service.listening import CannotStart
from yarn_gpu_sched.service.server import _switch_file
from yarn_gpu_sched.service.settings import Settings
from yarn_gpu_sched.service.switch_file import Damaged, Switch, SwitchFile, UnfitStateDirectory

ON = Switch(Mode.ON, "armed for good", "ada", datetime(2026, 9, 22, 10, 0, tzinfo=UTC))


def test_what_was_written_last_is_read_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = SwitchFile(tmp_path / "new" / "state")
    assert file.read() is None
    file.write(Switch(Mode.OFF, "no", "", ON.time))
    file.write(ON)
    assert file.read() == ON
    assert SwitchFile(file.directory).read() == ON
    assert [path.name for path in file.directory.iterdir()] == ["preemption.json"]
    file.close()


def test_it_is_synced_before_it_takes_the_place_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, done = SwitchFile(tmp_path), []
    sync, rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        done.append("directory" if os.path.isdir(f"/proc/self/fd/{fd}") else "file")  # noqa: PTH112 - of an open file
        sync(fd)

    def renamed(source: str, target: str, **more: int) -> None:
        done.append("rename")
        rename(source, target, **more)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr("os.rename", renamed)
    file.write(ON)
    assert done == ["file", "rename", "directory"]


def test_what_was_there_stays_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SwitchFile(tmp_path)
    file.write(ON)

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        file.write(Switch(Mode.OFF, "no", "", ON.time))
    assert file.read() == ON


DAMAGED = {
    "half": b'{"mode": "on", "why"',
    "empty": b"",
    "no text": b"\xff\xfe\x00",
    "another mode": b'{"mode":"maybe","why":"w","by":"","time":"2026-09-22T10:00:00Z"}',
    "no zone": b'{"mode":"on","why":"w","by":"","time":"2026-09-22T10:00:00"}',
    "too long": b'{"mode":"on","why":"' + b"w" * 501 + b'","by":"","time":"2026-09-22T10:00:00Z"}',
    "far too long": b" " * (1 << 17) + b"{}",
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_cannot_be_read_is_damaged_and_kept_aside(tmp_path: Path, what: str) -> None:
    file = SwitchFile(tmp_path)
    (tmp_path / "preemption.json").write_bytes(DAMAGED[what])
    with pytest.raises(Damaged, match=r"preemption\.json"):
        file.read()
    file.set_aside()
    assert file.read() is None
    assert (tmp_path / "preemption.json.damaged").read_bytes() == DAMAGED[what]


def test_neither_a_link_nor_a_pipe_nor_a_directory_is_followed(tmp_path: Path) -> None:
    file, elsewhere = SwitchFile(tmp_path / "state"), tmp_path / "elsewhere"
    SwitchFile(elsewhere).write(ON)
    path = tmp_path / "state" / "preemption.json"
    path.symlink_to(elsewhere / "preemption.json")
    with pytest.raises(Damaged):
        file.read()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Damaged):
        file.read()
    path.unlink()
    path.mkdir()
    with pytest.raises(Damaged):
        file.read()
    file.set_aside()
    assert file.read() is None


def test_a_directory_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnfitStateDirectory, match=r"state_dir: .*file cannot be used"):
        SwitchFile(tmp_path / "file")
    with pytest.raises(CannotStart, match=r"state_dir: .*below cannot be used"):
        _switch_file(Settings(state_dir=str(tmp_path / "file" / "below")))
    assert _switch_file(Settings()) is None
