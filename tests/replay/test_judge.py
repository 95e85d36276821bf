"""An independent judge finds nothing broken in what any policy schedules, and the engine's own audit finds nothing either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.replay.traces import ITP, JUDGE, PHILLY_QUOTAS, PHILLY_WEEK, unpacked
from yarn_gpu_sched.policy import POLICIES, Preemptive, policy_named
from yarn_gpu_sched.replay import Replay, Scenario, Trace, read_trace, replay, write_results
from yarn_gpu_sched.replay.quotas import read_quotas

CLUSTERS = {"01": "8x8", "03": "20x8", "05": "2x8", "06": "12x8", "10": "2x8"}
QUICK = ("01", "10")


def options_of(policy: str) -> tuple[str, ...]:
    """Say to the judge which of its laws a policy does not claim."""
    if policy == "fifo_strict":
        return ("--strict-order",)
    return ("--baseline",) if isinstance(policy_named(policy), Preemptive) else ()


def judged(folder: Path, packed: Path, servers: str, domains: int, policy: str) -> dict[str, Any]:
    """Replay a trace, and let the judge compare the trace itself with what was written."""
    done = replay(read_trace(packed), Scenario(servers, domains=domains), policy)
    return judge(folder, packed, done, ("--servers", servers, "--domains", str(domains), *options_of(policy)))


def judge(folder: Path, packed: Path, done: Replay, cluster: tuple[str, ...]) -> dict[str, Any]:
    """Let the judge compare a trace with what was written of its replay."""
    write_results(done, folder / "out")
    command: list[str | Path] = [sys.executable, JUDGE, unpacked(packed, folder), folder / "out" / "schedule.csv"]
    ended = subprocess.run([*command, *cluster], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return dict(json.loads(ended.stdout))


@pytest.mark.timeout(600)  # some seconds of work, on a machine that may be busy
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_broken_in_a_week_of_philly(policy: str, tmp_path: Path) -> None:
    found = judged(tmp_path, PHILLY_WEEK, "60x8", 4, policy)
    assert found["jobs"] == 10_650
    assert found["broken_counts"] == {}
    assert bool(found["preemptions"]) is isinstance(policy_named(policy), Preemptive)


@pytest.mark.timeout(600)  # some seconds of work, on a machine that may be busy
def test_a_week_of_philly_with_quotas_is_what_docs_philly_md_says(tmp_path: Path) -> None:
    """A program of the same rules, written apart from this one, comes to a mean of 12,944.6 s and the same longest wait."""
    trace = read_trace(PHILLY_WEEK)
    done = replay(trace, Scenario("60x8", domains=4, quotas=read_quotas(PHILLY_QUOTAS, trace, 480)), "philly")
    found = judge(tmp_path, PHILLY_WEEK, done, ("--servers", "60x8", "--domains", "4", "--quotas", str(PHILLY_QUOTAS)))
    assert (found["broken_counts"], found["preemptions"]) == ({}, 0)
    assert (found["mean_jct_s"], found["mean_queue_s"], found["max_queue_s"]) == (12_974.8, 5_145.8, 166_850.0)
    every = done.summary.delays["*"]
    mostly = [(every[size].mostly_fragmentation, every[size].delayed) for size in ("1", "2-4", "5-8", ">8")]
    assert mostly == [(0, 7_766), (6, 95), (7, 116), (2, 8)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cluster", QUICK)
def test_nothing_is_broken_on_two_clusters_of_itp(cluster: str, policy: str, tmp_path: Path) -> None:
    judged(tmp_path, ITP / f"cluster{cluster}.csv.gz", CLUSTERS[cluster], 2, policy)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cluster", sorted(set(CLUSTERS) - set(QUICK)))
def test_nothing_is_broken_on_the_other_clusters_of_itp(cluster: str, policy: str, tmp_path: Path) -> None:
    judged(tmp_path, ITP / f"cluster{cluster}.csv.gz", CLUSTERS[cluster], 2, policy)


def crowd(packed: Path, jobs: int) -> Trace:
    """Take the first jobs of a trace, shorter and closer together than they were."""
    trace = read_trace(packed)
    trace.jobs = [
        job._replace(submit_s=60 * number, duration_s=min(job.duration_s, 4_000))
        for number, job in enumerate(trace.jobs[:jobs])
    ]
    return trace


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_law_holds_after_every_event(policy: str) -> None:
    """In a small crowded cluster of two domains, where gangs wait on the ladder until they may go anywhere."""
    done = replay(crowd(ITP / "cluster06.csv.gz", 40), Scenario("6x4", domains=2), policy, audit=True)
    assert {0, 2} <= {attempt.level for attempt in done.attempts}
    assert any(attempt.outcome == "preempted" for attempt in done.attempts) is isinstance(
        policy_named(policy), Preemptive
    )
