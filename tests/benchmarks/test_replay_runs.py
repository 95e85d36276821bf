"""The traces that the benchmark of replays makes."""

from __future__ import annotations

from benchmarks.replay_runs import EVENTS, FILL, WEEK_S, several, steady
from yarn_gpu_sched.replay import Trace, TraceJob


def test_copies_of_a_week_follow_each_other_with_ids_of_their_own() -> None:
    week = Trace("week", "jobs", [TraceJob("a", 5, 1, 10, "vc"), TraceJob("b", 7, 2, 20, "vc")])
    jobs = several(week, 3).jobs
    assert [job.submit_s for job in jobs] == [5, 7, WEEK_S + 5, WEEK_S + 7, 2 * WEEK_S + 5, 2 * WEEK_S + 7]
    assert len({job.job_id for job in jobs}) == len(jobs)
    assert {job.gpus for job in jobs} == {1, 2}


def test_a_steady_trace_fills_the_cluster_first() -> None:
    jobs, filling = steady(1_000, [1, 2, 8])
    at_once = [job for job in jobs if job.submit_s == 0]
    assert len(at_once) == filling
    assert FILL * 1_000 - 8 <= sum(job.gpus for job in at_once) <= FILL * 1_000
    assert len(jobs) == filling + EVENTS
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    assert steady(1_000, [1, 2, 8])[0] == jobs, "the same each time"
