"""What the demo claims of jobs that are stopped for others can fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.demo.test_claims import run
from yarn_gpu_sched.cli.demo import claims
from yarn_gpu_sched.cli.demo.evidence import Run, TagSample, attempt_of, read_runs
from yarn_gpu_sched.cli.demo.story import ALONG, LOOSER, ONE_MORE, OWED, PREEMPT_GRACE_S, SERVERS, WIDE
from yarn_gpu_sched.cli.demo.tenants import QUOTA_GPUS


def worker(name: str, start_s: float, end_s: float | None, *, stopped: bool = False) -> Run:
    return replace(run(name, 0, start_s=start_s, end_s=end_s), stopped=stopped)


FIRST = [worker("1", 1.0, 20.0, stopped=True), worker("2", 1.0, 20.5, stopped=True)]
OWNER = [worker("3", 21.0, 30.0), worker("4", 21.5, 30.5)]
EVENTS = [(1.5, "start"), (20.0, "stopped")]
AGAIN = [worker("5", 33.0, 40.0), worker("6", 33.0, 40.0)]


def test_who_goes_whole_and_comes_back_afterwards_is_fine() -> None:
    assert list(claims.taken_back(FIRST, OWNER, AGAIN)) == []


@pytest.mark.parametrize(
    ("first", "again", "problem"),
    [
        ([FIRST[0], worker("2", 1.0, 20.0)], AGAIN, "container_2 was not stopped"),
        ([FIRST[0], worker("2", 1.0, 21.1, stopped=True)], AGAIN, "container_2 ended only after the other had begun"),
        ([FIRST[0], worker("2", 1.0, None, stopped=True)], AGAIN, "container_2 ended only after the other had begun"),
        (FIRST, [AGAIN[0], worker("6", 30.2, 40.0)], "it was back before the other had ended"),
        (FIRST, [], "one of them did not run"),
        ([], AGAIN, "one of them did not run"),
    ],
    ids=["half of it goes on", "ends late", "never ends", "back too early", "never back", "never ran"],
)
def test_who_does_not_go_whole_or_comes_back_too_early_is_found(
    first: list[Run], again: list[Run], problem: str
) -> None:
    assert list(claims.taken_back(first, OWNER, again)) == [problem]


def test_one_job_is_stopped_once_by_the_word_of_both() -> None:
    runs = {"wide": [*FIRST, *AGAIN], "owed": OWNER}
    assert list(claims.only_one_stopped(runs, {"wide": ["app-1"]}, "app-1")) == []
    assert list(claims.only_one_stopped(runs, {}, "app-1")) == [
        "by the service nobody was stopped, by the workers wide"
    ]
    assert list(claims.only_one_stopped({"wide": AGAIN}, {}, "app-1")) == [
        "by the service nobody was stopped, by the workers nobody"
    ]
    assert list(claims.only_one_stopped({**runs, "along": FIRST}, {"wide": ["app-1"]}, "app-1")) == [
        "by the service wide was stopped, by the workers along, wide"
    ]
    twice = {"wide": ["app-1", "app-1"]}
    assert list(claims.only_one_stopped(runs, twice, "app-1")) == ["wide was stopped for ['app-1', 'app-1']"]
    assert list(claims.only_one_stopped(runs, {"wide": ["app-2"]}, "app-1")) == ["wide was stopped for ['app-2']"]


def test_a_gang_that_begins_before_the_grace_has_ended_or_long_after_is_found() -> None:
    assert list(claims.began_when_armed(OWNER, 15.0, 5.0)) == []
    assert list(claims.began_when_armed(OWNER, 17.0, 5.0)) == [
        "it began +4.0 s from when that was allowed, and the grace is 5 s"
    ]
    assert list(claims.began_when_armed([worker("3", 41.0, 50.0)], 15.0, 5.0))
    assert list(claims.began_when_armed([], 15.0, 5.0))


def test_the_last_attempt_is_what_must_have_run_whole() -> None:
    names = ("container_1_0007_01_000002", "container_e02_1_0007_02_000002")
    assert [attempt_of(name) for name in names] == [1, 2]
    runs = [Run(name, "gpu-a1", (0,), 1.0, 2.0) for name in names]
    assert claims.last_attempt(runs) == runs[1:]
    assert claims.last_attempt([]) == []


def test_who_was_stopped_has_not_run_whole_and_its_log_says_so(tmp_path: Path) -> None:
    log = tmp_path / "container_1_0007_01_000002.log"
    log.write_text("".join(f"{at} event={event} container={log.stem} host=gpu-a1 gpus=0\n" for at, event in EVENTS))
    (stopped,) = read_runs(tmp_path)
    assert stopped == Run(log.stem, "gpu-a1", (0,), 1.5, 20.0, stopped=True)
    assert list(claims.ran_whole(ONE_MORE, [stopped])) == [f"{log.stem} did not end by itself"]
    assert list(claims.ran_whole(ONE_MORE, [replace(stopped, stopped=False)])) == []


def test_the_tags_of_who_is_stopped_may_be_gone_a_moment_before_it_has_ended() -> None:
    stopped = Run("container_1_0007_01_000002", "gpu-a1", (0,), 1.0, 20.0, stopped=True)
    samples = [TagSample(5.0, {"gpu-a1": {0: 1}}), TagSample(19.0, {})]
    assert list(claims.tagged_while_running([stopped], samples)) == []
    assert list(claims.tagged_while_running([replace(stopped, stopped=False)], samples))
    assert list(claims.tagged_while_running([stopped], [TagSample(10.0, {})]))


def test_the_stories_mean_what_they_say() -> None:
    ((servers, gpus_each),) = SERVERS
    in_use = WIDE.gpus_asked + ALONG.gpus_asked + LOOSER.gpus_asked + ONE_MORE.gpus_asked
    assert 10 * in_use >= 9 * servers * gpus_each, "full enough"
    assert LOOSER.gpus_asked + OWED.gpus_asked <= QUOTA_GPUS < LOOSER.gpus_asked + 2 * OWED.gpus_asked
    assert servers * gpus_each - in_use < OWED.gpus_asked, "it does not fit before somebody goes"
    assert OWED.gpus == ALONG.gpus == WIDE.gpus, "where one of them was it fits"
    assert PREEMPT_GRACE_S > claims.CLOCKS_AGREE_S
