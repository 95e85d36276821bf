"""Steps of attained service, what stops cost, and whom a policy refuses: what a replay takes for right, and says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.replay.traces import ITP
from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.policy import Facts, Intent, Las, Refuse, Tiresias, View, policy_named
from yarn_gpu_sched.replay import Scenario, Trace, TraceJob, replay
from yarn_gpu_sched.replay.simulation import Overheads

SMALL = str(ITP / "cluster10.csv.gz")


@pytest.mark.parametrize(
    ("policy", "said"), [("las", "in steps of 1,000,000 GPU"), ("tiresias", "it has attained 1,000,000 GPU")]
)
def test_steps_are_an_option_and_are_said_with_the_result(policy: str, said: str, tmp_path: Path) -> None:
    chosen = ["--policy", policy, "--step", "1e6"]
    command = ["replay", SMALL, "--servers", "1x16", *chosen, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(ygs, command)
    assert done.exit_code == 0, done.output
    printed = " ".join(done.output.split())
    assert said in printed
    assert "the next 400 in order are looked at" in printed


def test_steps_change_the_turns() -> None:
    jobs = [TraceJob("a", 0, 1, 1_000, "v"), TraceJob("b", 0, 1, 1_000, "v")]
    ends = {}
    for step_gpu_s in (100.0, 500.0):
        done = replay(Trace("made", "jobs", list(jobs)), Scenario("1x1"), Las(step_gpu_s))
        ends[step_gpu_s] = done.summary.preemptions
    assert ends == {100.0: 18, 500.0: 2}
    assert replay(Trace("made", "jobs", list(jobs)), Scenario("1x1"), Tiresias(300.0)).summary.preemptions == 2


@pytest.mark.parametrize(
    ("policy", "step", "said"), [("fifo", "600", "counts no attained service"), ("las", "0", "1 to")]
)
def test_steps_that_are_none_are_wrong_usage(policy: str, step: str, said: str, tmp_path: Path) -> None:
    command = ["replay", SMALL, "--servers", "1x16", "--policy", policy, "--step", step, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(ygs, command)
    assert done.exit_code == 2
    assert said in done.output


def test_a_policy_without_steps_has_none() -> None:
    with pytest.raises(ValueError, match='policy "sjf" counts no attained service; las and tiresias do, in steps'):
        policy_named("sjf", 100.0)


@pytest.mark.parametrize("every_s", [0.1, 0.3, 7.0])
def test_a_checkpoint_at_the_moment_of_the_stop_counts(every_s: float) -> None:
    for number in range(1, 200):
        assert Overheads(0.0, every_s).kept_s(number * every_s, 0) == pytest.approx(number * every_s)


@pytest.mark.parametrize(
    "fields", [{"relax_after_s": 1e-320}, {"restart_cost_s": 1e-9}, {"checkpoint_every_s": 1e-320}]
)
def test_times_too_short_to_count_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        Scenario("1x1", **fields)  # type: ignore[arg-type] # fields by name


class RefusesAll:
    """A policy of one's own that wants nobody."""

    name = "refuses_all"

    def key(self, job: Facts) -> float:
        return job.submit_time_s

    def decide(self, view: View) -> Iterator[Intent]:
        while (want := view.next_ready()) is not None:
            yield Refuse(want, "not here")


def test_who_is_refused_by_a_policy_is_counted_as_that() -> None:
    done = replay(Trace("made", "jobs", [TraceJob("a", 0, 1, 10, "v")]), Scenario("1x1"), RefusesAll())
    assert done.summary.warnings == ["refused by the policy and in no mean: 1 job"]
