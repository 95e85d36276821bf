"""A replay from a trace to its figures: the judge's, under the judge's names, with what was assumed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.replay.traces import ITP, JOBS_HEADER, JUDGE, written
from yarn_gpu_sched.engine import Broken
from yarn_gpu_sched.policy import Facts, Intent, Place, View, Wait, WakeAt
from yarn_gpu_sched.replay import (
    BrokenLawsError,
    ListedServer,
    Replay,
    Scenario,
    StalledError,
    Trace,
    TraceJob,
    read_trace,
    replay,
    write_results,
)

SMALL = ITP / "cluster10.csv.gz"


STOPPED = (
    "a job that is stopped keeps its work up to the last checkpoint, one every 600 s, and resumes anywhere after 7 s "
    "without work (--checkpoint-every, --restart-cost)"
)


class LastComeFirst:
    """A policy of one's own: the job that was submitted last goes first."""

    name = "last_come_first"

    def key(self, job: Facts) -> float:
        return -job.submit_time_s

    def decide(self, view: View) -> Iterator[Intent]:
        while (want := view.next_ready()) is not None:
            placement = view.find(want)
            yield Wait(want) if placement is None else Place(want, placement)


def judged(folder: Path, *options: str) -> dict[str, Any]:
    command: list[str | Path] = [sys.executable, JUDGE, folder / "trace.csv", folder / "schedule.csv", *options]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return dict(json.loads(ended.stdout))


@pytest.mark.parametrize(
    ("policy", "extra"), [("fifo", ()), ("fifo_strict", ("--strict-order",)), ("srtf", ("--baseline",))]
)
def test_figures_are_those_of_the_judge(tmp_path: Path, policy: str, extra: tuple[str, ...]) -> None:
    done = replay(read_trace(SMALL), Scenario("2x8"), policy)
    write_results(done, tmp_path / "out")
    judge = judged(tmp_path / "out", "--servers", "2x8", "--domains", "1", *extra)
    mine = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    assert judge.pop("broken_counts") == judge.pop("broken") == {}
    assert {name: mine[name] for name in judge} == judge
    assert list(mine)[: len(judge)] == list(judge)


def test_own_policy_decides(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, JOBS_HEADER, *[f"{name},{at},8,10,x" for at, name in enumerate("abcd")]))
    done = replay(trace, Scenario("1x8"), LastComeFirst())
    assert done.summary.policy == "last_come_first"
    assert [attempt.job_id for attempt in done.attempts] == ["a", "d", "c", "b"]


def test_unknown_policy_is_an_error_that_lists_those_there_are(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,0,1,5,x"))
    with pytest.raises(
        ValueError, match=r'"luck" is not known; there is fifo, fifo_strict, las, philly, sjf, srtf, tiresias'
    ):
        replay(trace, Scenario("1x8"), "luck")


@pytest.mark.parametrize(
    ("jobs", "right"),
    [
        ([TraceJob("a", 5, 1, 1, "x"), TraceJob("b", 4, 1, 1, "x")], "job b: jobs in order of submission"),
        ([TraceJob("a", -1, 1, 1, "x")], "job a: jobs in order of submission, from 0 s on"),
        ([TraceJob("a", 5, 1, 1, "x"), TraceJob("a", 6, 1, 1, "x")], "job a: an id that occurs once"),
        ([TraceJob("a", 5, 0, 1, "x")], "job a: 1 GPU and 1 s at least"),
        ([TraceJob("a", 5, 1, 0, "x")], "job a: 1 GPU and 1 s at least"),
    ],
)
def test_jobs_of_ones_own_are_checked(jobs: list[TraceJob], right: str) -> None:
    with pytest.raises(ValueError, match=f"mine: {right}.* would be right"):
        replay(Trace("mine", "jobs", jobs), Scenario("1x8"))


def test_two_replays_differ_in_the_clocks_only() -> None:
    first, second = (replay(read_trace(SMALL), Scenario("2x8"), "tiresias") for _ in range(2))
    assert first.attempts == second.attempts
    clocks = {"wall_s": 0.0, "cpu_s": 0.0}
    assert msgspec.structs.replace(first.summary, **clocks) == msgspec.structs.replace(second.summary, **clocks)


def test_job_of_a_billion_gpus_is_refused_and_the_judge_agrees(tmp_path: Path) -> None:
    rows = ["huge,0,1000000000,10,x", "large,0,17,10,x", "fits,0,16,10,x"]
    done = replay(read_trace(written(tmp_path, JOBS_HEADER, *rows)), Scenario("2x8"), audit=True)
    write_results(done, tmp_path / "out")
    assert judged(tmp_path / "out", "--servers", "2x8", "--domains", "1")["mean_jct_s"] == 10.0
    assert done.summary.refused == 2
    assert done.summary.warnings == ["larger than the cluster, so refused and in no mean: 2 jobs"]
    assert done.summary.delays["*"].keys() == {">8", "*"}
    assert (tmp_path / "out" / "delays.csv").read_text().splitlines()[1:] == ["fits,0,0,0,0,0,0"]
    assert done.summary.delays["*"]["*"].attempts == 1


def test_gang_of_more_members_than_there_may_be_is_refused_and_said_so(tmp_path: Path) -> None:
    servers = tuple(ListedServer(str(number), 1_024) for number in range(17))
    trace = read_trace(written(tmp_path, JOBS_HEADER, "large,0,16385,10,x"))
    summary = replay(trace, Scenario(servers)).summary
    assert summary.warnings == ["more than 16,384 members, the most of a gang, so refused and in no mean: 1 job"]
    assert (summary.mean_jct_s, summary.refused, summary.delays) == (None, 1, {})


def test_delays_add_up_by_virtual_cluster_and_size(tmp_path: Path) -> None:
    rows = ["a,0,8,100,x", "b,10,1,10,x", "c,20,4,10,y"]
    summary = replay(read_trace(written(tmp_path, JOBS_HEADER, *rows)), Scenario("1x8")).summary
    assert summary.delays.keys() == {"*", "x", "y"}
    one = summary.delays["x"]["1"]
    assert (one.attempts, one.delayed, one.capacity_s, one.fragmentation_s, one.fair_share_s) == (1, 1, 90.0, 0.0, 0.0)
    total = summary.delays["*"]["*"]
    assert (total.attempts, total.delayed, total.capacity_s) == (3, 2, 170.0)
    assert summary.mean_queue_s == round(170 / 3, 1)
    assert summary.mean_bounded_slowdown == 1.0  # nobody waited longer than the 600 s that a job counts at least


def test_virtual_cluster_named_as_all_of_them_is_counted_once(tmp_path: Path) -> None:
    summary = replay(read_trace(written(tmp_path, JOBS_HEADER, "a,0,8,100,*", "b,0,8,10,x")), Scenario("1x8")).summary
    total = summary.delays["*"]["*"]
    assert (total.attempts, total.delayed, total.capacity_s) == (2, 1, 100.0)
    assert summary.delays["x"]["*"].attempts == 1


def test_waiting_beside_free_gpus_in_the_wrong_places_is_fragmentation(tmp_path: Path) -> None:
    rows = ["a,0,4,100,x", "b,0,5,1000,x", "c,1,6,10,x"]  # four and three GPUs stay free on two servers
    trace = read_trace(written(tmp_path, JOBS_HEADER, *rows))
    one = replay(trace, Scenario("2x8", relax_after_s=1_000.0)).summary.delays["*"]["5-8"]
    assert (one.delayed, one.capacity_s, one.fragmentation_s) == (1, 0.0, 99.0)
    at_once = replay(trace, Scenario("2x8", relax_after_s=0.0)).summary.delays["*"]["5-8"]
    assert at_once.delayed == 0


def preempted(folder: Path, **costs: float) -> Replay:
    """Replay a long job that a short one stops after 100 s."""
    trace = read_trace(written(folder, JOBS_HEADER, "long,0,8,1000,x", "short,100,8,50,x"))
    return replay(trace, Scenario("1x8", **costs), "srtf")  # type: ignore[arg-type] # the costs are numbers


def test_stopped_job_pays_what_the_scenario_says(tmp_path: Path) -> None:
    free, paid = preempted(tmp_path), preempted(tmp_path, restart_cost_s=7.0, checkpoint_every_s=60.0)
    assert [(one.job_id, one.end_s, one.work_s) for one in free.attempts] == [
        ("long", 100.0, 100.0),
        ("short", 150.0, 50.0),
        ("long", 1_050.0, 900.0),
    ]
    assert [(one.job_id, one.end_s, one.work_s) for one in paid.attempts] == [
        ("long", 100.0, 60.0),
        ("short", 150.0, 50.0),
        ("long", 1_097.0, 940.0),
    ]
    assert free.summary.lost_gpu_hours == 0.0
    assert paid.summary.lost_gpu_hours == round(8 * 47 / 3_600, 1) == 0.1
    assert paid.attempts[0].preempted_by == "short"


def test_jobs_that_stop_each_other_for_ever_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.stalling.STOPS_WITHOUT_END_MAX", 300)
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,0,8,10000,x", "b,1,8,10000,x"))
    assert replay(trace, Scenario("1x8"), "las").summary.preemptions > 10
    with pytest.raises(
        StalledError, match=r"no job ended or got on in 301 preemptions, .* more checkpoints .* would be right"
    ):
        replay(trace, Scenario("1x8", checkpoint_every_s=1_000_000.0), "las")


class Idler(LastComeFirst):
    """A policy that places nothing; it asks to be woken again as often as it may."""

    def __init__(self, pause_s: float) -> None:
        self.name = "idler"
        self._pause_s = pause_s

    def decide(self, view: View) -> Iterator[Intent]:
        while (want := view.next_ready()) is not None:
            yield Wait(want)
        yield WakeAt(view.now_s + self._pause_s)


@pytest.mark.parametrize(
    ("pause_s", "message"),
    [
        (
            float("inf"),
            "nothing happens after 305 s, and not all jobs have ended, 1 live: policy idler leaves them waiting for ever",
        ),
        (1.0, "nothing started or ended in 1001 instants, the last at 1000 s: policy idler wakes for nothing"),
    ],
)
def test_policy_that_leaves_jobs_waiting_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause_s: float, message: str
) -> None:
    monkeypatch.setattr("yarn_gpu_sched.replay.stalling.IDLE_INSTANTS_MAX", 1_000)
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,5,8,10,x"))
    with pytest.raises(StalledError, match=message):
        replay(trace, Scenario("1x8"), Idler(pause_s))


def test_what_is_assumed_is_said_with_its_option() -> None:
    assumed = Scenario("4x8", 2, 60.0, 7.0, 600.0).assumed()
    assert assumed[:4] == [
        "4 servers, 32 GPUs (--servers)",
        "RDMA domains of 2 servers each, in the servers' order: 2 (--domains)",
        "a gang waits 60 s at a level of locality before the next (--relax-after)",
        STOPPED,
    ]
    plain = Scenario((ListedServer("m1", 2),), relax_after_s=0.0).assumed()
    assert plain[0] == "1 server, 2 GPUs (--server-list)"
    assert plain[2] == "a gang takes the tightest places there are (--relax-after)"


def test_progress_tells_jobs_that_ended_and_the_time() -> None:
    told: list[tuple[int, float]] = []
    done = replay(read_trace(SMALL), Scenario("2x8"), "srtf", progress=lambda ended, now_s: told.append((ended, now_s)))
    assert told[-1] == (260, done.attempts[-1].end_s)
    assert told == sorted(told)


def test_audit_ends_a_replay_that_breaks_a_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Broken(1, "a GPU has at most one live exclusive holder", "s0000 GPU 0")
    monkeypatch.setattr("yarn_gpu_sched.engine.Engine.audit", lambda _: [broken])
    trace = read_trace(written(tmp_path, JOBS_HEADER, "a,0,1,5,x"))
    assert replay(trace, Scenario("1x8")).summary.jobs == 1
    with pytest.raises(BrokenLawsError, match="at most one live exclusive holder"):
        replay(trace, Scenario("1x8"), audit=True)
