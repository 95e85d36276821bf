"""Where a job stands, and what it still waits for, by what is known of it."""

from __future__ import annotations

import pytest

from tests.engine.world import AM, ask, worker
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.job import Job, JobEnd, JobState
from yarn_gpu_sched.model.job_record import Backoff, JobRecord, ask_key
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.resource import NOTHING

MASTER = Container("am", "j", 1, "s1", AM, application_master=True)
WORKER = Container("k1", "j", 1, "s1", worker(1), (0,))
WANTS = ask(2, worker(1))


def record(*containers: Container, asks: tuple[Ask, ...] = (), gang: GangTag | None = None) -> JobRecord:
    made = JobRecord(Job("j", "root.a", submit_time_s=3.0), 5.0)
    made.containers = {one.container_id: one for one in containers}
    made.asks, made.gang = asks, gang
    return made


@pytest.mark.parametrize(
    ("containers", "asks", "gang", "state"),
    [
        ((), (), None, JobState.PENDING),
        ((), (WANTS,), None, JobState.PENDING),
        ((MASTER,), (WANTS,), None, JobState.PENDING),
        ((MASTER,), (), None, JobState.RUNNING),
        ((MASTER, WORKER), (WANTS,), None, JobState.RUNNING),
        ((WORKER,), (), None, JobState.RUNNING),
        ((MASTER,), (), GangTag(2), JobState.PENDING),
        ((MASTER, WORKER), (WANTS,), GangTag(2), JobState.PENDING),
    ],
)
def test_a_job_runs_once_it_has_what_it_asked_for_first(
    containers: tuple[Container, ...], asks: tuple[Ask, ...], gang: GangTag | None, state: JobState
) -> None:
    assert record(*containers, asks=asks, gang=gang).state is state


def test_a_gang_runs_once_it_was_committed_and_until_it_ended() -> None:
    made = record(gang=GangTag(2))
    states = [made.state]
    made.gang_placed = True
    states.append(made.state)
    made.end = JobEnd.KILLED
    states.append(made.state)
    assert states == [JobState.PENDING, JobState.RUNNING, JobState.ENDED]


def test_a_master_is_no_worker() -> None:
    assert record(MASTER).has_workers is False
    assert record(MASTER, WORKER).has_workers is True
    assert record().has_workers is False


def test_a_new_record_knows_the_job_and_nothing_else() -> None:
    made = record()
    assert (made.order, made.first_seen_s, made.known) == ((3.0, "j"), 5.0, True)
    assert (made.gang_placed, made.gang_under_way, made.presumed_ended) == (False, False, False)
    assert (made.served, made.used, made.refusal, made.diagnostics) == (0, NOTHING, "", "")
    assert (made.end, made.ended_s, made.level, made.backoff, made.want) == (None, None, None, None, None)


def test_a_pause_ends_when_it_says_and_no_pause_ended_long_ago() -> None:
    made = record()
    assert made.backoff_until_s == float("-inf")
    made.backoff = Backoff(OutcomeCode.NO_FIT, 0.1, 7.5, 3)
    assert (made.backoff_until_s, made.backoff.detail) == (7.5, "")


@pytest.mark.parametrize(("under_way", "pending"), [(None, 2), (0, 2), (1, 1), (2, 0), (5, 0)])
def test_what_is_pending_is_what_no_decision_answers(under_way: int | None, pending: int) -> None:
    made = record(asks=(WANTS,))
    if under_way is not None:
        made.in_flight = {ask_key(WANTS): under_way}
    assert made.pending(WANTS) == pending


@pytest.mark.parametrize(
    "other", [ask(2, worker(1), 2), ask(2, worker(2)), ask(2, worker(1), am=True)], ids=["key", "size", "master"]
)
def test_a_decision_for_another_ask_answers_none_of_this(other: Ask) -> None:
    made = record(asks=(WANTS,))
    made.in_flight = {ask_key(other): 1}
    assert made.pending(WANTS) == 2


def test_an_ask_is_the_same_whatever_its_number() -> None:
    assert ask_key(WANTS) == ask_key(WANTS.with_count(7))
