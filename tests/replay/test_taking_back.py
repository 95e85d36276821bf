"""A replay in which what is borrowed is taken back, at once or after a warning."""

from pathlib import Path

import pytest

from tests.replay.traces import JOBS_HEADER, written
from yarn_gpu_sched.replay import Replay, Scenario, read_quotas, read_trace, replay

AFTER_S = 120.0


def taken_back(folder: Path, grace_s: float) -> Replay:
    """Let nine jobs of one GPU borrow, and a gang of two come at 1,000 s, for which one GPU is free and another is lacking."""
    jobs = [f"a{number},{number},1,5000,lender" for number in range(9)]
    trace = read_trace(written(folder, JOBS_HEADER, *jobs, "b,1000,2,100,owner"))
    quotas = read_quotas(written(folder, "vc,quota_gpus", "lender,0", "owner,10", name="quotas.csv"), trace, 10)
    return replay(trace, Scenario("1x10", quotas=quotas, preemption=True, grace_s=grace_s), "philly", audit=True)


@pytest.mark.parametrize("grace_s", [0.0, 30.0])
def test_the_youngest_is_stopped_when_the_gang_has_waited_and_the_grace_is_over(grace_s: float, tmp_path: Path) -> None:
    """The GPU that is free is held from the warning on, and the stopped job comes back."""
    done = taken_back(tmp_path, grace_s)
    at_s = 1_000.0 + AFTER_S + grace_s
    stopped, started = done.attempts[:2]
    assert (stopped.job_id, stopped.outcome, stopped.end_s, stopped.preempted_by) == ("a8", "preempted", at_s, "b")
    assert (started.job_id, started.outcome, started.start_s) == ("b", "finished", at_s)
    assert started.start_seq == stopped.end_seq + 1
    held = [(one.start_s, one.end_s, one.job_id, one.placement) for one in done.holds]
    assert held == ([(at_s - grace_s, at_s, "b", "s0000:9")] if grace_s else [])
    again = next(one for one in done.attempts if (one.job_id, one.attempt) == ("a8", stopped.attempt + 1))
    assert (again.start_s, again.outcome) == (at_s + 100.0, "finished")
