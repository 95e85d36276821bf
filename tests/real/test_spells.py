"""What the other tests rest on can fail."""

from __future__ import annotations

from pathlib import Path

from tests.real import spells


def _log(folder: Path, number: int, *lines: str) -> None:
    (folder / f"container_1_0001_01_00000{number}.log").write_text("".join(f"{line}\n" for line in lines))


def test_a_gpu_that_two_workers_hold_at_once_is_found(tmp_path: Path) -> None:
    _log(tmp_path, 1, "start 10.0 gpu-a1 gpus=0,1", "end 20.0 gpu-a1 gpus=0,1")
    _log(tmp_path, 2, "start 19.9 gpu-a1 gpus=1,2", "end 30.0 gpu-a1 gpus=1,2")
    assert len(spells.held_twice(spells.read(tmp_path))) == 1


def test_one_after_the_other_or_on_other_servers_is_no_double_use(tmp_path: Path) -> None:
    _log(tmp_path, 1, "start 10.0 gpu-a1 gpus=0", "end 20.0 gpu-a1 gpus=0")
    _log(tmp_path, 2, "start 20.0 gpu-a1 gpus=0", "end 30.0 gpu-a1 gpus=0")
    _log(tmp_path, 3, "start 10.0 gpu-b1 gpus=0")
    assert spells.held_twice(spells.read(tmp_path)) == []


def test_a_worker_that_never_ended_still_holds_its_gpus(tmp_path: Path) -> None:
    _log(tmp_path, 1, "start 10.0 gpu-a1 gpus=0")
    _log(tmp_path, 2, "start 99.0 gpu-a1 gpus=0")
    assert len(spells.held_twice(spells.read(tmp_path))) == 1


def test_unbound_is_not_the_same_as_no_gpus(tmp_path: Path) -> None:
    _log(tmp_path, 1, "start 10.0 gpu-a1 gpus=unbound")
    _log(tmp_path, 2, "start 10.0 gpu-a1 gpus=")
    assert [spell.gpus for spell in spells.read(tmp_path).values()] == [None, ()]
