"""The audit log: lines of JSON, rotated, bounded, and never a reason to stop."""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.service.raw_link import BOUND_S
from yarn_gpu_sched.service import audit_log as module
from yarn_gpu_sched.service.audit_log import AuditLog, UnfitAuditLog, audit_path
from yarn_gpu_sched.service.log import configure_logging
from yarn_gpu_sched.service.metrics import Metrics


class Audited:
    """An audit log in a folder."""

    def __init__(self, path: Path | None, **bounds: int) -> None:
        self.path = path
        self.metrics = Metrics()
        self.log = AuditLog(path, self.metrics, **{"bytes_max": 1 << 20, "files_max": 3, **bounds})

    def lines(self) -> list[Any]:
        assert self.path is not None
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def count(self, series: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"ygs_{series}_total")


@pytest.fixture
def said() -> Iterator[list[Any]]:
    configure_logging("debug")
    with structlog.testing.capture_logs() as lines:
        yield lines


def test_a_line_says_when_and_leaves_out_what_nobody_said(tmp_path: Path) -> None:
    one = Audited(tmp_path / "deep" / "audit.jsonl")
    one.log.write({"who": "operator/ops\n\x1b[31m", "before": {"a": 1}, "after": None})
    one.log.close()
    (line,) = one.lines()
    assert line["time"].endswith("+00:00")
    assert (line["who"], line["before"], "after" in line) == ("operator/ops\n\x1b[31m", {"a": 1}, False)
    assert b"\x1b" not in (tmp_path / "deep" / "audit.jsonl").read_bytes()
    assert oct((tmp_path / "deep" / "audit.jsonl").stat().st_mode & 0o777) == "0o600"
    assert one.count("audit_lines") == 1


def test_old_files_go(tmp_path: Path) -> None:
    one = Audited(tmp_path / "audit.jsonl", bytes_max=300, files_max=3)
    for number in range(40):
        one.log.write({"number": number, "filling": "x" * 100})
    one.log.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    kept = [
        json.loads(line)["number"] for name in reversed(files) for line in (tmp_path / name).read_text().splitlines()
    ]
    assert kept == list(range(40 - len(kept), 40)), "the newest, in their order"
    assert all((tmp_path / name).stat().st_size <= 300 for name in files)


def test_old_files_stay_while_no_new_one_can_be_opened(tmp_path: Path, said: list[Any]) -> None:
    one = Audited(tmp_path / "audit.jsonl", bytes_max=300, files_max=4)
    put(one, range(9))
    settled(one, 9)
    oldest = set((tmp_path / "audit.jsonl.3").read_text().splitlines())
    newer = everything(tmp_path) - oldest
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        put(one, range(9, 20))
        settled(one, 20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert one.count("audit_drops")
    assert len(newer) == 3
    assert everything(tmp_path) >= newer, "whoever takes all file descriptors takes no history"
    put(one, range(20, 21))
    one.log.close()
    assert [line["number"] for line in one.lines()] == [20]
    assert [line["event"] for line in said] == ["audit_not_written"]


def put(one: Audited, numbers: range) -> None:
    for number in numbers:
        one.log.write({"number": number, "filling": "x" * 100})


def settled(one: Audited, lines: int) -> None:
    """Wait until so many lines are written or lost."""
    deadline_s = time.monotonic() + BOUND_S
    while (one.count("audit_lines") or 0) + (one.count("audit_drops") or 0) < lines and time.monotonic() < deadline_s:
        time.sleep(0.001)


def everything(folder: Path) -> set[str]:
    return {line for path in folder.iterdir() for line in path.read_text().splitlines()}


def test_a_restart_appends_and_ends_a_line_that_was_torn(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"torn')
    one = Audited(path)
    one.log.write({"who": "a"})
    one.log.close()
    assert path.read_text().splitlines()[0] == '{"torn'
    assert json.loads(path.read_text().splitlines()[1])["who"] == "a"


def test_a_full_disk_is_counted_said_once_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[Any]
) -> None:
    one = Audited(tmp_path / "audit.jsonl")
    really, full = os.write, threading.Event()
    full.set()

    def write(fd: int, line: bytes) -> int:
        if not full.is_set():
            return really(fd, line)
        if b"half" in line:
            return really(fd, line[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    for who in ("a", "half", "b"):
        one.log.write({"who": who})
    drained(one, 3)
    full.clear()
    one.log.write({"who": "c"})
    one.log.close()
    assert one.count("audit_drops") == 3
    assert [line["event"] for line in said] == ["audit_not_written"]
    torn, last = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(last)["who"] == "c"


def drained(one: Audited, drops: int) -> None:
    """Wait until so many lines have been lost."""
    deadline_s = time.monotonic() + BOUND_S
    while one.count("audit_drops") != drops and time.monotonic() < deadline_s:
        time.sleep(0.001)


def test_lines_that_wait_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[Any]) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 4)
    hangs = threading.Event()
    really = os.write

    def write(fd: int, line: bytes) -> int:
        assert hangs.wait(BOUND_S)
        return really(fd, line)

    monkeypatch.setattr(os, "write", write)
    one = Audited(tmp_path / "audit.jsonl")
    for number in range(10):
        one.log.write({"number": number})
    hangs.set()
    one.log.close()
    assert len(one.lines()) + (one.count("audit_drops") or 0) == 10
    assert len(one.lines()) <= 5, "those that waited, and the one that was being written"
    assert [line["event"] for line in said] == ["audit_not_written"]


def test_without_a_file_they_are_in_the_ordinary_log(said: list[Any]) -> None:
    one = Audited(None)
    one.log.write({"who": "operator/ops", "outcome": "done"})
    one.log.write({"who": "unknown", "outcome": "refused"})
    one.log.close()
    assert [(line["event"], line["log_level"], line["who"]) for line in said] == [
        ("audit", "info", "operator/ops"),
        ("audit", "warning", "unknown"),
    ]


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_cannot_be_written_is_said_at_the_start(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.jsonl"
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnfitAuditLog, match=r"audit_log: .*audit\.jsonl cannot be written: "):
        Audited(path)


def test_where_it_is() -> None:
    assert audit_path("/a/b", "/state") == Path("/a/b")
    assert audit_path("", "/state") == Path("/state/audit.jsonl")
    assert audit_path("", "") is None
