"""C25: a wall clock that is set while things wait. All that is timed goes by elapsed time."""

from __future__ import annotations

import ast
import datetime as dt
import json
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.real_service import real_service
from yarn_gpu_sched.client import FakeResourceManager
from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("cc")
HOUR_S, DAY_S = 3600, 86_400
PAUSE_S, SETTLE_S, REQUEUE_S = 2.0, 3.0, 4.0
LATE_S = 10.0
WALL = {"time.time", "time.time_ns", "time.localtime", "time.gmtime", "datetime.now", "datetime.utcnow", "date.today"}


def calls(path: Path) -> set[str]:
    """Return what a file calls or hands on, as it is written: `module.name`."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {
        f"{node.value.id}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


@pytest.mark.parametrize("room", ["model", "placement", "policy", "engine", "journal", "protocol", "service"])
def test_c25_nothing_that_decides_or_serves_reads_the_wall_clock(room: str) -> None:
    files = sorted((ROOT / "yarn_gpu_sched" / room).glob("*.py"))
    assert files
    assert {str(file): calls(file) & WALL for file in files if calls(file) & WALL} == {}


def test_c25_nor_does_the_shim() -> None:
    sources = sorted((ROOT / "rm-shim" / "src" / "main").rglob("*.java"))
    assert sources
    wall = re.compile(r"currentTimeMillis|Instant\.now|LocalDateTime|new Date\(")
    assert [str(source) for source in sources if wall.search(source.read_text(encoding="utf-8"))] == []


class WallClock:
    """The wall clock of the processes started from now on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert COMPILER is not None
        library = folder / "wall_clock.so"
        source = Path(__file__).with_name("wall_clock.c")
        subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        self._file = folder / "skew"
        self.move(0)
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("TEST_SKEW", str(self._file))

    def move(self, skew_s: int) -> None:
        """Set it, to so far from the true time."""
        with self._file.open("r+b" if self._file.exists() else "w+b") as file:
            file.write(struct.pack("l", skew_s))


def fires(rm: FakeResourceManager, holds: Callable[[], bool], since_s: float, after_s: float) -> None:
    """Wait until something holds: not before its time, nor an hour after it."""
    rm.wait(holds, timeout_s=after_s + LATE_S)
    assert time.monotonic() - since_s >= after_s


def lose(rm: FakeResourceManager, server_id: str) -> None:
    """Tell that a server went with all that ran there; the fake's own way lets its containers end well before."""
    with rm._changed:
        rm._say([link_pb2.Change(server_removed=server_id)])


def requeued(rm: FakeResourceManager) -> bool:
    return any(decision.HasField("requeue_job") for decision, _ in rm.decisions)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler here to make the library that moves a process's wall clock")
def test_c25_a_wall_clock_that_is_set_back_and_forth_moves_no_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = WallClock(tmp_path, monkeypatch)
    settings = tmp_path / "service.toml"
    settings.write_text(f"backoff_min_s = {PAUSE_S}\nrequeue_after_s = {REQUEUE_S}\nrepair_hold_s = 1.0\n")
    with real_service(tmp_path, "--config", str(settings)) as address:
        monkeypatch.undo()
        with FakeResourceManager(address, settle_s=SETTLE_S) as rm:
            begun_s = time.monotonic()
            rm.submit("never fits", tags=["gang:1x9"])
            rm.ask("never fits", 1, gpus=9)
            for server in ("s1", "s2"):
                rm.add_server(server)
            rm.submit("degraded", tags=["gang:2x4"])
            rm.ask("degraded", 2, gpus=4)
            rm.wait(lambda: len(rm.containers("degraded")) == 2)
            lost_s = time.monotonic()
            lose(rm, "s2:45454")
            rm.ask("degraded", 1, gpus=4)
            rm.submit("paused", tags=["gang:1"])
            rm.refuse_next(decision_pb2.OUTCOME_CODE_NO_FIT)
            refused_s = time.monotonic()
            rm.ask("paused", 1)
            rm.wait(lambda: any(outcome.code == decision_pb2.OUTCOME_CODE_NO_FIT for _, outcome in rm.decisions))
            wall.move(-HOUR_S)
            fires(rm, lambda: len(rm.containers("paused")) == 1, refused_s, PAUSE_S)
            fires(rm, lambda: rm.ended("never fits") is not None, begun_s, SETTLE_S - 0.5)
            wall.move(DAY_S)
            fires(rm, lambda: requeued(rm), lost_s, REQUEUE_S)
            rm.drop_link()
            rm.submit("after", tags=["gang:1"])
            rm.ask("after", 1)
            rm.wait(lambda: len(rm.containers("after")) == 1, timeout_s=LATE_S)
    said = [json.loads(line) for line in (tmp_path / "service.log").read_text().splitlines()]
    days = [dt.datetime.fromisoformat(line["timestamp"]) for line in said]
    assert max(days) - min(days) > dt.timedelta(hours=24), "its wall clock was really moved"
    assert [line["event"] for line in said if line["level"] == "error"] == []
