"""On a GPU server's own machine the files are looked at by which its containers are bound."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.doctor.site import Site
from tests.doctor.ways import admin_env
from yarn_gpu_sched.doctor import Result, Verdict


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "bindings").mkdir()
    for name in ("bind_gpus.sh", "ygs-launch"):
        (tmp_path / name).touch(mode=0o755)
    return tmp_path / "bind_gpus.sh"


def looked(site: Site, script: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    admin_env("gpu-a1", BASH_ENV=str(script), YGS_BINDING_DIR=str(script.parent / "bindings"))(site)
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-a1")
    return site.look("binding")


def test_what_is_right(site: Site, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked(site, script, monkeypatch)
    assert found.verdict == Verdict.OK
    assert f"{script} is there on gpu-a1" in [each.sentence for each in found.findings]


def test_no_script(site: Site, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script.unlink()
    found = looked(site, script, monkeypatch)
    assert found.verdict == Verdict.FAULT
    assert f"{script} cannot be read on gpu-a1" in found.findings[0].sentence


def test_no_launcher(site: Site, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script.with_name("ygs-launch").unlink()
    assert looked(site, script, monkeypatch).verdict == Verdict.WARNING


def test_no_folder(site: Site, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (script.parent / "bindings").rmdir()
    found = looked(site, script, monkeypatch)
    assert "bindings (YGS_BINDING_DIR) is no folder on gpu-a1" in found.findings[0].sentence
