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
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.client.real_service import real_service
from yarn_gpu_sched.client import FakeResourceManager
from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("tcc")
HOUR_S, DAY_S = 3600, 86_400
PAUSE_S, SETTLE_S, REQUEUE_S = 2.0, 3.0, 4.0
LATE_S = 10.0
WALL = re.compile(
    r"time\.(time|time_ns|localtime|gmtime|ctime|asctime|strftime|clock_gettime|clock_gettime_ns)"
    r"|datetime\.(datetime|date)\.(now|utcnow|today)|.*\.GetCurrentTime|yarn_gpu_sched\.identity.*\.utc_now"
)
"""What reads it, by its full name. The time of a log's line is the log's own."""


SHOWN_ONLY = {
    "archiving.py": ["time.time"],
    "preemption_switch.py": ["datetime.datetime.now"],
    "gpus.py": ["time.time"],
    "introducing.py": ["time.time_ns"],
    "audit_log.py": ["datetime.datetime.now"],
}
"""Who may read it: when an operator said something is shown, also after a restart, `ygs doctor` compares clocks, and what is
archived has the time of day; nothing is timed by it."""
CERTIFICATES = {"gate.py": ["yarn_gpu_sched.identity.utc_now"], "tls.py": ["yarn_gpu_sched.identity.utc_now"]}
"""Who may ask whether a certificate has expired: others wrote by the wall clock until when it is valid."""


def names(source: str) -> set[str]:
    """Return the full name of all that is called or handed on, however it was imported."""
    tree = ast.parse(source)
    full = {
        alias.asname or alias.name: f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return {name for node in ast.walk(tree) if (name := _name(node, full))}


def _name(node: ast.AST, full: Mapping[str, str]) -> str:
    if isinstance(node, ast.Name):
        return full.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value, full)}.{node.attr}"
    return ""


def wall_clocks(source: str) -> list[str]:
    """Return how a source reads the wall clock."""
    return sorted(name for name in names(source) if WALL.fullmatch(name))


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nclock = t.time_ns",
        "from time import time\ntime()",
        "from time import time as now\nf(now)",
        "import datetime\ndatetime.datetime.now(tz)",
        "import datetime as dt\ndt.datetime.now(dt.UTC)",
        "from datetime import datetime\ndatetime.utcnow()",
        "from datetime import datetime as day, UTC\nday.now(UTC)",
        "from datetime import date\ndate.today()",
        "from yarn_gpu_sched.identity import utc_now\nutc_now()",
        "message.submit_time.GetCurrentTime()",
        "Timestamp().GetCurrentTime()",
    ],
)
def test_a_wall_clock_is_seen_however_it_is_written(source: str) -> None:
    assert len(wall_clocks(source)) == 1


@pytest.mark.parametrize("source", ["import time\ntime.monotonic()", "import datetime as dt\ndt.timedelta(1)"])
def test_nothing_else_is_taken_for_one(source: str) -> None:
    assert wall_clocks(source) == []


@pytest.mark.parametrize("room", ["model", "placement", "policy", "engine", "journal", "protocol", "service"])
def test_c25_nothing_that_decides_or_serves_reads_the_wall_clock(room: str) -> None:
    files = sorted((ROOT / "yarn_gpu_sched" / room).rglob("*.py"))
    assert files
    read = {file: wall_clocks(file.read_text(encoding="utf-8")) for file in files}
    assert {
        str(file): found for file, found in read.items() if found != {**SHOWN_ONLY, **CERTIFICATES}.get(file.name, [])
    } == {}


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
