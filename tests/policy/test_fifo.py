"""First come first served, with overtaking, by what it says of a view that it is shown."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from tests.engine.world import ask, server, worker
from yarn_gpu_sched.engine.want import JobWant, want_of
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement import Placement, Portion
from yarn_gpu_sched.policy import Facts, Fifo, FifoStrict, Place, Plan, Wait, Want
from yarn_gpu_sched.policy.group import Group


def want_named(job_id: str) -> JobWant:
    record = JobRecord(Job(job_id, "root.a"), 0.0)
    record.asks = (ask(1, worker(1)),)
    want = want_of(record)
    assert want is not None
    return want


class Shown:
    """A view of some wants, of which some find a place. As the engine's, it goes on once a want was answered. Nobody runs."""

    now_s = 7.0

    def __init__(self, *wants: JobWant, fitting: str) -> None:
        self.wants = list(wants)
        self.placement = Placement(Level.ANYWHERE, [Portion(ServerUse(server("s"), 0.1), 0, 1)])
        self.fitting = fitting
        self.asked: list[str] = []

    def next_ready(self) -> Want | None:
        return self.wants[0] if self.wants else None

    def next_in_order(self) -> Want | None:
        return self.next_ready()

    def groups(self) -> list[Group]:
        return []

    def next_of(self, group: Group) -> Want | None:
        raise NotImplementedError

    def share(self, path: str, partition: str) -> tuple[int, int | None]:
        raise NotImplementedError

    def used_by(self, group: Group) -> int:
        raise NotImplementedError

    def waiting(self) -> list[Want]:
        return list(self.wants)

    def reclaiming(self) -> list[Want]:
        return []

    def running(self) -> list[Facts]:
        return []

    @property
    def gpus_free(self) -> int:
        return 0

    def plan(self) -> AbstractContextManager[Plan]:
        raise NotImplementedError

    def find(self, want: Want) -> Placement | None:
        self.asked.append(want.job_id)
        return self.placement if want.job_id in self.fitting else None


@pytest.mark.parametrize("fitting", ["", "a", "bc", "abc"])
def test_each_want_is_placed_where_it_finds_a_place_else_it_waits(fitting: str) -> None:
    wants = [want_named(name) for name in "abc"]
    view = Shown(*wants, fitting=fitting)
    said = []
    for intent in Fifo().decide(view):
        said.append(intent)
        view.wants.pop(0)
    placed = [Place(want, view.placement) if want.job_id in fitting else Wait(want) for want in wants]
    assert said == placed
    assert view.asked == ["a", "b", "c"], "each was looked at once, in the order in which it was given"


def test_with_nothing_ready_nothing_is_said() -> None:
    assert list(Fifo().decide(Shown(fitting=""))) == []


def test_it_looks_only_as_far_as_it_is_read() -> None:
    view = Shown(want_named("a"), want_named("b"), fitting="ab")
    said = Fifo().decide(view)
    assert view.asked == []
    next(said)
    assert view.asked == ["a"]


def test_a_want_without_an_answer_is_given_again() -> None:
    view = Shown(want_named("a"), fitting="")
    said = Fifo().decide(view)
    assert [next(said) for _ in range(3)] == [Wait(view.wants[0])] * 3


def test_what_is_wanted_shows_all_that_a_policy_may_read() -> None:
    want: Want = want_named("a")
    assert (want.job_id, want.vc, want.partition, want.application_master) == ("a", "root.a", "", False)
    assert [kind.containers for kind in want.kinds] == [1]


@pytest.mark.parametrize(
    ("fitting", "asked"), [("", ["a"]), ("a", ["a", "b"]), ("bc", ["a"]), ("abc", ["a", "b", "c"])]
)
def test_the_strict_one_ends_with_the_first_that_has_to_wait(fitting: str, asked: list[str]) -> None:
    view = Shown(*[want_named(name) for name in "abc"], fitting=fitting)
    for _ in FifoStrict().decide(view):
        view.wants.pop(0)
    assert view.asked == asked
