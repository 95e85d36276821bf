"""Committed stubs are what the protocol gives, and a difference is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import stubs


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return stubs.generate()


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "v1"
    shutil.copytree(stubs.TARGET, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(stubs, "TARGET", copy)
    monkeypatch.setattr(stubs, "ROOT", tmp_path)
    return copy


def test_committed_stubs_are_as_generated(made: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert stubs.check(made) == 0, capsys.readouterr().out


def test_edited_stub_is_found(made: dict[str, str], target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (target / "link_pb2.pyi").open("a") as stub:
        stub.write("extra: int\n")
    assert stubs.check(made) == 1
    assert "v1/link_pb2.pyi is not what proto/ gives" in capsys.readouterr().out


def test_missing_and_left_over_stubs_are_found_and_mended(made: dict[str, str], target: Path) -> None:
    (target / "job_pb2.py").unlink()
    (target / "gone_pb2.py").write_text("")
    assert stubs.check(made) == 1
    assert stubs.write(made) == 0
    assert stubs.check(made) == 0
    assert not (target / "gone_pb2.py").exists()


def test_imports_lead_to_the_room(made: dict[str, str]) -> None:
    assert "from yarn_gpu_sched.protocol.v1 import ask_pb2" in made["link_pb2.py"]
    assert not any(stubs.WELL_KNOWN in text for text in made.values())
