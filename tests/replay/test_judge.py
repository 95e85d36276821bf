"""An independent judge finds nothing broken in what any policy schedules, and the engine's own audit finds nothing either."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.replay.traces import ITP, JUDGE, PHILLY_QUOTAS, PHILLY_WEEK, unpacked
from yarn_gpu_sched.policy import POLICIES, Preemptive, policy_named
from yarn_gpu_sched.replay import Replay, Scenario, Trace, deal_vcs, read_trace, replay, write_results
from yarn_gpu_sched.replay.quotas import read_quotas

CLUSTERS = {"01": "8x8", "03": "20x8", "05": "2x8", "06": "12x8", "10": "2x8"}
QUICK = ("01", "10")
RECLAIMED = [
    (0.0, 12_333.7, 605),
    pytest.param(
        1_800.0, 11_311.5, 642, marks=pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
    ),
]
"""Seconds between checkpoints, the mean completion time in seconds, and how often jobs were stopped."""

RESERVED = [(False, 0.0, 24_101.1, 0), (True, 0.0, 13_803.3, 512), (True, 1_800.0, 14_186.8, 786)]
"""The same where places are kept after 1,800 s; the first: whether anybody is stopped."""

AT_EDGES_MAX = 3
"""Faults of a week that the judge may see at edges of what is kept."""


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
    if done.scenario.preemption or done.scenario.reserve_after_s:
        cluster = (*cluster, "--holds", str(folder / "out" / "holds.csv"), "--min-run", "600", "--spare-after", "3")
    plain = unpacked(packed, folder) if packed.suffix == ".gz" else packed
    command: list[str | Path] = [sys.executable, JUDGE, plain, folder / "out" / "schedule.csv"]
    ended = subprocess.run([*command, *cluster], check=False, capture_output=True, text=True)
    found = dict(json.loads(ended.stdout or "{}"))
    faults = [fault for faults in found["broken"].values() for fault in faults]
    assert sum(found["broken_counts"].values()) == len(faults), "all are listed"
    assert [fault for fault in faults if not is_at_an_edge(fault, done)] == [], ended.stdout + ended.stderr
    return found


def is_at_an_edge(fault: str, done: Replay) -> bool:
    """Tell whether a fault is of a second in which GPUs began or ceased to be kept, and places are kept for who waits long.

    The judge counts as held only what was so before and after that second: not what is kept for a gang that starts in it, nor what
    is kept from then on. Law 7 counts both.
    """
    found = re.search(r"at ([0-9.]+)", fault)
    edges = {one.start_s for one in done.holds} | {one.end_s for one in done.holds}
    return found is not None and float(found[1]) in edges and done.scenario.reserve_after_s > 0


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


@pytest.mark.timeout(600)  # some seconds of work, on a machine that may be busy
@pytest.mark.parametrize(("checkpoint_every_s", "mean_jct_s", "preemptions"), RECLAIMED)
def test_a_week_of_philly_in_which_what_is_borrowed_is_taken_back(
    checkpoint_every_s: float, mean_jct_s: float, preemptions: int, tmp_path: Path
) -> None:
    """The program of the same rules comes to 12,268.1 s with 531 preemptions, and with checkpoints to 11,344.0 s with 591."""
    trace = read_trace(PHILLY_WEEK)
    quotas = read_quotas(PHILLY_QUOTAS, trace, 480)
    scenario = Scenario("60x8", domains=4, quotas=quotas, preemption=True, checkpoint_every_s=checkpoint_every_s)
    done = replay(trace, scenario, "philly")
    found = judge(tmp_path, PHILLY_WEEK, done, ("--servers", "60x8", "--domains", "4", "--quotas", str(PHILLY_QUOTAS)))
    assert found["broken_counts"] == {}
    assert (found["mean_jct_s"], found["preemptions"]) == (mean_jct_s, preemptions)
    assert found["lost_gpu_hours"] == done.summary.lost_gpu_hours


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
@pytest.mark.parametrize(("preemption", "checkpoint_every_s", "mean_jct_s", "preemptions"), RESERVED)
def test_a_week_of_philly_in_which_places_are_kept_for_who_waits_long(
    *, preemption: bool, checkpoint_every_s: float, mean_jct_s: float, preemptions: int, tmp_path: Path
) -> None:
    trace = read_trace(PHILLY_WEEK)
    scenario = Scenario(
        "60x8",
        domains=4,
        quotas=read_quotas(PHILLY_QUOTAS, trace, 480),
        preemption=preemption,
        checkpoint_every_s=checkpoint_every_s,
        reserve_after_s=1_800.0,
    )
    done = replay(trace, scenario, "philly")
    found = judge(tmp_path, PHILLY_WEEK, done, ("--servers", "60x8", "--domains", "4", "--quotas", str(PHILLY_QUOTAS)))
    assert sum(found["broken_counts"].values()) <= AT_EDGES_MAX
    assert (found["mean_jct_s"], found["preemptions"]) == (mean_jct_s, preemptions)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("preemption", [False, True])
def test_nothing_is_broken_where_places_are_kept_for_who_waits_long(*, preemption: bool, tmp_path: Path) -> None:
    """Gangs of up to all of a small crowded cluster wait; jobs that end before go where places are kept for them."""
    trace = crowd(ITP / "cluster06.csv.gz", 120)
    deal_vcs(trace, 2)
    quotas = tmp_path / "quotas.csv"
    quotas.write_text("vc,quota_gpus\n0,8\n1,16\n", encoding="utf-8")
    scenario = Scenario(
        "6x4",
        domains=2,
        quotas=read_quotas(quotas, trace, 24),
        preemption=preemption,
        checkpoint_every_s=600.0,
        reserve_after_s=900.0,
    )
    done = replay(trace, scenario, "philly", audit=True)
    write_results(done, tmp_path / "of")
    judge(
        tmp_path, tmp_path / "of" / "trace.csv", done, ("--servers", "6x4", "--domains", "2", "--quotas", str(quotas))
    )
    assert len(done.holds) > 20
    assert bool(done.summary.preemptions) is preemption


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cluster", QUICK)
def test_on_two_clusters_of_itp_what_is_borrowed_is_taken_back(cluster: str, tmp_path: Path) -> None:
    """Jobs are dealt to four virtual clusters by their ids, with a quota of a quarter of the GPUs each."""
    trace = read_trace(ITP / f"cluster{cluster}.csv.gz")
    deal_vcs(trace, 4)
    servers = CLUSTERS[cluster]
    gpus = int(servers.partition("x")[0]) * 8
    quotas = tmp_path / "quotas.csv"
    quotas.write_text("vc,quota_gpus\n" + "".join(f"{vc},{gpus // 4}\n" for vc in range(4)), encoding="utf-8")
    scenario = Scenario(servers, domains=2, quotas=read_quotas(quotas, trace, gpus), preemption=True)
    done = replay(trace, scenario, "philly")
    write_results(done, tmp_path / "of")
    judge(
        tmp_path, tmp_path / "of" / "trace.csv", done, ("--servers", servers, "--domains", "2", "--quotas", str(quotas))
    )
    assert done.summary.preemptions


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
