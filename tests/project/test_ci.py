"""`.ci/run` sets up, lints and tests, prints what each step took, and ends with the failing step's code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "clone" / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", tmp_path / "clone" / ".ci" / "run")
    return tmp_path / "clone"


def run(checkout: Path, makefile: str) -> subprocess.CompletedProcess[str]:
    (checkout / "Makefile").write_text(makefile)
    return subprocess.run(["/bin/bash", ".ci/run"], check=False, cwd=checkout, capture_output=True, text=True)


def test_steps_run_in_order_and_are_timed(checkout: Path) -> None:
    done = run(checkout, "setup lint test test-docker:\n\t@echo did $@\n")
    assert done.returncode == 0
    assert re.findall(r"^did ([\w-]+)$", done.stdout, re.MULTILINE) == ["setup", "lint", "test", "test-docker"]
    assert re.findall(r"^=== make ([\w-]+): \d+ s, exit code 0$", done.stdout, re.MULTILINE) == [
        "setup",
        "lint",
        "test",
        "test-docker",
    ]


def test_failing_step_ends_it_with_a_failure(checkout: Path) -> None:
    done = run(checkout, "setup test:\n\t@echo did $@\nlint:\n\t@exit 3\n")
    assert done.returncode == 2, "make's code for a failed recipe"
    assert re.search(r"^=== make lint: \d+ s, exit code 2$", done.stdout, re.MULTILINE)
    assert "did test" not in done.stdout


@pytest.mark.parametrize("changed", ["check_schedule.py", "naive_servers.py"])
def test_copy_that_differs_from_its_original_is_a_failure(checkout: Path, changed: str) -> None:
    originals, copies = checkout.parent / "shared" / "tools", checkout / "tests" / "vendored"
    for folder in (originals, copies):
        folder.mkdir(parents=True)
        for name in ("check_schedule.py", "naive_servers.py"):
            (folder / name).write_text("the same\n")
    assert run(checkout, "setup lint test test-docker:\n\t@echo did $@\n").returncode == 0
    (copies / changed).write_text("another\n")
    assert run(checkout, "setup lint test test-docker:\n\t@echo did $@\n").returncode == 1
