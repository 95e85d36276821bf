"""One measured run of a replay in a process of its own: `python -m benchmarks.replay_runs WHAT ARGUMENT` prints a JSON object."""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.replay import Scenario, Trace, TraceJob, read_trace, replay
from yarn_gpu_sched.replay.layout import servers_of, uniform
from yarn_gpu_sched.replay.quotas import Quotas, read_quotas
from yarn_gpu_sched.replay.scenario import RELAX_AFTER_S
from yarn_gpu_sched.replay.simulation import Simulation

PHILLY_WEEK = Path(__file__).parents[1] / "tests" / "data" / "traces" / "philly_week.csv.gz"
PHILLY_QUOTAS = PHILLY_WEEK.parent / "philly_week_quotas.csv"
SERVERS, DOMAINS = "60x8", 4
WEEK_S = 604_800
FILL = 0.85
EVENTS = 20_000
SECONDS_BETWEEN = 45
"""Mean time between two submissions, whatever the cluster's size, so that as many events share an instant."""

SERVERS_A_DOMAIN = 32


def weeks(count: str) -> dict[str, float]:
    """Replay so many copies of the week, one after the other, with `fifo`."""
    trace = several(read_trace(PHILLY_WEEK), int(count))
    return _replayed(trace, "fifo")


def tenants(count: str) -> dict[str, float]:
    """Replay so many copies of the week with `philly` and the quotas of its virtual clusters."""
    trace = several(read_trace(PHILLY_WEEK), int(count))
    return _replayed(trace, "philly", read_quotas(PHILLY_QUOTAS, trace, sum(uniform(SERVERS))))


def lending(checkpoint_every_s: str) -> dict[str, float]:
    """Replay the week with `philly`, quotas and preemption: a job that is stopped loses all its work since its last checkpoint."""
    trace = read_trace(PHILLY_WEEK)
    quotas = read_quotas(PHILLY_QUOTAS, trace, sum(uniform(SERVERS)))
    return _replayed(trace, "philly", quotas, preemption=True, checkpoint_every_s=float(checkpoint_every_s))


def policy(name: str) -> dict[str, float]:
    """Replay the week with a policy."""
    return _replayed(read_trace(PHILLY_WEEK), name)


def _replayed(
    trace: Trace, name: str, quotas: Quotas | None = None, *, preemption: bool = False, checkpoint_every_s: float = 0.0
) -> dict[str, float]:
    scenario = Scenario(
        SERVERS, domains=DOMAINS, quotas=quotas, preemption=preemption, checkpoint_every_s=checkpoint_every_s
    )
    began_s = time.process_time()
    done = replay(trace, scenario, name).summary
    cpu_s = time.process_time() - began_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    said = {name: getattr(done, name) for name in ("mean_jct_s", "p99_jct_s", "mean_queue_s", "preemptions", "events")}
    return {"jobs": len(trace.jobs), "cpu_s": cpu_s, "wall_s": done.wall_s, "peak_mb": peak_mb, **said}


def several(week: Trace, count: int) -> Trace:
    """Shift copies of a week by a week each, with ids of their own."""
    week.jobs = [
        job._replace(job_id=f"{job.job_id}-{number}", submit_s=job.submit_s + number * WEEK_S)
        for number in range(count)
        for job in week.jobs
    ]
    return week


class _EnoughError(Exception):
    """As many events as wanted were measured."""


def size(servers: str) -> dict[str, float]:
    """Measure events on a cluster of so many servers that was filled before."""
    gpus = uniform(f"{servers}x8")
    jobs, filling = steady(sum(gpus), [job.gpus for job in read_trace(PHILLY_WEEK).jobs])
    settings = EngineSettings(relax_after_s=RELAX_AFTER_S, ended_jobs_max=0)
    simulation = Simulation(jobs, servers_of(gpus, -(-len(gpus) // SERVERS_A_DOMAIN)), settings)
    marks: list[tuple[int, float]] = []

    def watch(_ended: int, now_s: float) -> None:
        """Begin after the instant that fills the cluster, which takes many passes; end as soon as there were enough events."""
        if now_s and (not marks or simulation.events - marks[0][0] >= EVENTS):
            marks.append((simulation.events, time.process_time()))
        if len(marks) > 1:
            raise _EnoughError

    try:
        simulation.run(watch)
    except _EnoughError:
        (events, from_s), (events_then, to_s) = marks
        return {"event_us": (to_s - from_s) / (events_then - events) * 1e6, "jobs_before": filling}
    raise RuntimeError(f"{servers} servers: the trace ended before {EVENTS} events")


def steady(gpus: int, sizes: list[int]) -> tuple[list[TraceJob], int]:
    """Make jobs of a trace's sizes that fill a cluster at once, and then come as often as others end; say how many fill it."""
    rng = random.Random(5)
    drawn = rng.choices(sizes, k=gpus)
    filling = next(number for number, total in enumerate(accumulate(drawn)) if total > FILL * gpus)
    mean_s = filling * SECONDS_BETWEEN
    jobs = [
        TraceJob(f"f{number}", 0, drawn[number], 1 + int(rng.expovariate(1 / mean_s)), "") for number in range(filling)
    ]
    submit_s = 0.0
    for number in range(EVENTS):
        submit_s += rng.expovariate(1 / SECONDS_BETWEEN)
        duration_s = 1 + int(rng.expovariate(1 / mean_s))
        jobs.append(TraceJob(f"n{number}", 1 + int(submit_s), rng.choice(sizes), duration_s, ""))
    return jobs, filling


RUNS: dict[str, Callable[[str], dict[str, float]]] = {
    "weeks": weeks,
    "tenants": tenants,
    "lending": lending,
    "policy": policy,
    "size": size,
}

if __name__ == "__main__":
    json.dump(RUNS[sys.argv[1]](sys.argv[2]), sys.stdout)
