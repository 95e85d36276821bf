"""The vendored yardsticks stay as they were pinned, byte for byte, and the judge can object."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENDORED = ROOT / "tests" / "vendored"
NAMES = ("check_schedule.py", "naive_servers.py")


def pinned() -> dict[str, str]:
    lines = (VENDORED / "SHA256SUMS").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


@pytest.mark.parametrize("name", NAMES)
def test_copy_has_the_pinned_hash(name: str) -> None:
    assert hashlib.sha256((VENDORED / name).read_bytes()).hexdigest() == pinned()[name]


def judge(trace: Path, schedule: Path) -> subprocess.CompletedProcess[str]:
    judge_script = VENDORED / "check_schedule.py"
    command: list[str | Path] = [sys.executable, judge_script, trace, schedule, "--servers", "60x8", "--domains", "4"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_yardstick_schedules_and_judge_agrees_and_can_object(tmp_path: Path) -> None:
    trace, schedule = tmp_path / "trace.csv", tmp_path / "schedule.csv"
    rows = [f"job{index},{index},{gpus},60" for index, gpus in enumerate((1, 8, 16, 3))]
    trace.write_text("\n".join(["job_id,submit,num_gpus,duration", *rows]) + "\n")
    subprocess.run([sys.executable, VENDORED / "naive_servers.py", trace, schedule], check=True)

    right = judge(trace, schedule)
    assert right.returncode == 0, right.stdout + right.stderr

    lines = schedule.read_text().splitlines()
    schedule.write_text("\n".join(lines[:-1]) + "\n")
    wrong = judge(trace, schedule)
    assert wrong.returncode == 1
    assert "complete" in json.loads(wrong.stdout)["broken"]
