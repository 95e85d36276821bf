"""Which containers wrote a checkpoint: what was touched since it was looked at last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarn_gpu_sched.binding import BindingFiles, CheckpointFiles
from yarn_gpu_sched.monitor import checkpoints as checkpoints_module
from yarn_gpu_sched.monitor.checkpoints import Checkpoints


@pytest.fixture
def files(tmp_path: Path) -> Iterator[CheckpointFiles]:
    bindings = BindingFiles(tmp_path)
    bindings.change({"c1": "0\n", "c2": "1\n"})
    yield bindings.checkpoints
    bindings.close()


def touch(tmp_path: Path, name: str, at_s: int) -> None:
    os.utime(tmp_path / "~checkpoints" / name, (at_s, at_s))


def news(watch: Checkpoints, *names: str) -> list[str]:
    return watch.news(watch.look(watch.next_names(names)))


def test_what_was_touched_is_news_once(tmp_path: Path, files: CheckpointFiles) -> None:
    watch = Checkpoints(files)
    assert news(watch, "c1", "c2") == []
    touch(tmp_path, "c2", 100)
    assert news(watch, "c1", "c2") == ["c2"]
    assert news(watch, "c1", "c2") == []
    touch(tmp_path, "c2", 101)
    assert news(watch, "c1", "c2") == ["c2"]


def test_what_a_monitor_before_saw_is_no_news_but_the_next_touch_is(tmp_path: Path, files: CheckpointFiles) -> None:
    touch(tmp_path, "c1", 100)
    again = BindingFiles(tmp_path)
    watch = Checkpoints(again.checkpoints)
    assert news(watch, "c1") == []
    touch(tmp_path, "c1", 101)
    assert news(watch, "c1") == ["c1"]
    again.close()
    del files


def test_only_named_containers_are_looked_at(tmp_path: Path, files: CheckpointFiles) -> None:
    watch = Checkpoints(files)
    touch(tmp_path, "c2", 100)
    assert news(watch, "c1") == []


def test_files_are_looked_at_in_turn_so_many_at_a_time(files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints_module, "FILES_MAX", 2)
    watch = Checkpoints(files)
    there = ["a", "b", "c", "d", "e"]
    assert [watch.next_names(there) for _ in range(3)] == [["a", "b"], ["c", "d"], ["e", "a"]]
    assert watch.next_names(["c", "x"]) == ["c", "x"]
