"""Replay a week of Philly, how quick it is beside a plain scheduler; eight weeks; a large cluster; all policies.

Every run is a process of its own. Its CPU time is counted, which other work on the machine disturbs less than wall time; of several
runs the quickest is taken, those of both programs in turns.
"""

from __future__ import annotations

import gzip
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, Measured
from benchmarks.replay_runs import DOMAINS, EVENTS, FILL, PHILLY_WEEK, SERVERS
from yarn_gpu_sched.policy import POLICIES

ROOT = Path(__file__).parents[1]
VENDORED = ROOT / "tests" / "vendored"
ROUNDS = 3
WEEKS = 8
SIZES = (60, 16_384)


def measure() -> Measured:
    """Measure all of it."""
    week, naive = _side_by_side()
    jobs_s = week["jobs"] / week["cpu_s"]
    eight = min((_run("weeks", str(WEEKS)) for _ in range(ROUNDS - 1)), key=lambda run: run["cpu_s"])
    growth = eight["cpu_s"] / eight["jobs"] * jobs_s
    small, large = ([_run("size", str(servers))["event_us"] for _ in range(ROUNDS)] for servers in SIZES)
    figures = [
        Figure(
            "one week: jobs a second",
            jobs_s,
            "jobs/s",
            5_000,
            at_least=True,
            note="fifo, placements and delays by cause",
        ),
        Figure("one week: CPU time", week["cpu_s"], "s", note=f"{week['events']:,.0f} events"),
        Figure(
            "one week: CPU time of naive_servers.py", naive, "s", note="it reads the trace and writes a schedule too"
        ),
        Figure("one week: times as quick as naive_servers.py", naive / week["cpu_s"], "x", 8, at_least=True),
        Figure("eight weeks: cost a job, of one week's", growth, "x", 1.3, note=f"{eight['jobs']:,.0f} jobs"),
        Figure("eight weeks: memory", eight["peak_mb"], "MiB", 1_024, note="all of the process"),
        Figure(f"{SIZES[0]} servers: cost an event", min(small), "us"),
        Figure(f"{SIZES[1]} servers: cost an event", min(large), "us"),
        Figure(
            "cost an event, large of small", statistics.median(large) / statistics.median(small), "x", 2, note="medians"
        ),
    ]
    return Measured(tuple(figures + _tenants() + _policies()), _configuration())


def _tenants() -> list[Figure]:
    """Measure policy `philly` with quotas: by the wall, the quickest of several, on one core."""
    found = []
    for name, run, argument, limit_s in (
        ("one week, philly with quotas", "tenants", 1, 3),
        ("eight weeks, philly with quotas", "tenants", WEEKS, 30),
        ("one week, the same with preemption", "lending", 0, 3),
    ):
        runs = [_run(run, str(argument)) for _ in range(ROUNDS)]
        quickest = min(runs, key=lambda run: run["wall_s"])
        note = f"CPU {quickest['cpu_s']:.2f} s; mean queue {quickest['mean_queue_s']:,.0f} s"
        found.append(Figure(f"{name}: wall time", quickest["wall_s"], "s", limit_s, note=note))
    return found


def _side_by_side() -> tuple[dict[str, float], float]:
    """Give the quickest run of the week, and the CPU seconds of the quickest one of the plain scheduler."""
    weeks, naive = [], []
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        trace.write_bytes(gzip.decompress(PHILLY_WEEK.read_bytes()))
        for _ in range(ROUNDS):
            weeks.append(_run("weeks", "1"))
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command: list[str | Path] = [
                sys.executable,
                VENDORED / "naive_servers.py",
                trace,
                Path(folder) / "schedule.csv",
            ]
            subprocess.run(command, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            naive.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(weeks, key=lambda run: run["cpu_s"]), min(naive)


def _run(what: str, argument: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.replay_runs", what, argument]
    ended = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def _policies() -> list[Figure]:
    figures = []
    for name in POLICIES:
        run = _run("policy", name)
        note = f"p99 {run['p99_jct_s']:,.0f} s, mean queue {run['mean_queue_s']:,.0f} s, {run['preemptions']:,.0f} preemptions"
        figures.append(
            Figure(f"{name}: mean completion time", run["mean_jct_s"], "s", note=f"{note}, CPU {run['cpu_s']:.1f} s")
        )
    return figures


def _configuration() -> dict[str, object]:
    return {
        "trace": "philly_week, 10,650 jobs",
        "cluster": f"{SERVERS} GPUs, {DOMAINS} domains, ladder 150 s a level",
        "large and small": f"servers of 8 GPUs, {FILL:.0%} in use before, then {EVENTS:,} events that keep it so",
        "runs": f"{ROUNDS} of each, in turns; CPU time of the process",
    }
