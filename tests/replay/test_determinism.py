"""The same input gives the same bytes, whatever the order of hashes in the process that reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replay.traces import ITP
from yarn_gpu_sched.policy import POLICIES

PROGRAM = """
import sys
from yarn_gpu_sched.replay import Scenario, read_trace, replay, write_results

trace, policy, folder = sys.argv[1:]
scenario = Scenario("2x8", domains=2, restart_cost_s=30.5, checkpoint_every_s=60)
write_results(replay(read_trace(trace), scenario, policy), folder)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", POLICIES)
def test_two_processes_with_other_hash_seeds_write_the_same_bytes(policy: str, tmp_path: Path) -> None:
    written = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        command: list[str | Path] = [sys.executable, "-c", PROGRAM, ITP / "cluster10.csv.gz", policy, folder]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        written.append({path.name: path.read_bytes() for path in folder.glob("*.csv")})
    assert "schedule.csv" in written[0]
    assert written[0] == written[1]
