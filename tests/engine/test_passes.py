"""What a pass does, in which order and how much of it: refusals first, then intents, each checked and counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.world import AM, InOrder, World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.commands import RefuseJob
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.placement import Placement, Portion
from yarn_gpu_sched.policy import Intent, Place, View, Wait, Want


def waiting(world: World, *jobs: str, gpus: int = 1) -> None:
    for name in jobs:
        world.submit(name)
        world.ask(name, ask(1, worker(gpus)))


def refused(world: World) -> list[str]:
    before = len(world.refusals)
    world.decide()
    return [one.job_id for one in world.refusals[before:]]


def test_what_was_done_is_counted() -> None:
    world = World().up(server("s1", 2))
    counters = world.engine.counters
    assert (counters.events, counters.passes, counters.decisions, counters.refusals) == (3, 0, 0, 0)
    waiting(world, "a", "b", "c")
    world.submit("bad", "gang:zero")
    world.decide()
    assert (counters.events, counters.passes, counters.decisions) == (11, 1, 2)
    assert (counters.refusals, counters.rejected, counters.searches) == (1, 0, 3)
    visited = counters.index_entries_visited
    assert visited > 0
    world.decide()
    assert (counters.passes, counters.index_entries_visited) == (2, visited)


def test_decisions_are_numbered_refusals_too() -> None:
    world = World().up(server("s1"))
    world.submit("bad1", "gang:zero")
    world.submit("bad2", "gang:zero")
    waiting(world, "a")
    placed = world.decide()
    assert [one.decision_id for one in world.refusals] == [1, 2]
    assert [one.decision_id for one in placed] == [3]
    waiting(world, "b")
    assert [one.decision_id for one in world.decide()] == [4]


def test_refusals_count_among_the_decisions_of_a_pass() -> None:
    world = World(EngineSettings(decisions_per_pass_max=2)).up(server("s1"))
    world.submit("bad", "gang:zero")
    waiting(world, "a", "b")
    assert [one.job_id for one in world.decide()] == ["a"]
    assert [one.job_id for one in world.decide()] == ["b"]


@pytest.mark.parametrize(("after_s", "expected"), [(0.05, ["good"]), (0.1, ["bad", "good"])])
def test_a_refusal_that_pauses_lets_others_go_and_comes_again_in_time(after_s: float, expected: list[str]) -> None:
    world = World().up(server("s1"))
    world.submit("bad", "gang:zero")
    world.decide()
    world.refuse(world.refusals[0], OutcomeCode.NOT_READY)
    world.submit("good", "gang:zero")
    world.now_s = after_s
    assert refused(world) == expected


def test_a_pass_without_a_whole_snapshot_does_nothing() -> None:
    world = World()
    waiting(world, "a")
    assert world.decide() == []
    assert world.engine.counters.passes == 0


def test_the_next_look_is_at_the_first_time_that_matters() -> None:
    world = World().up(server("s1"), settle_left_s=30.0)
    world.decide()
    assert world.engine.next_wake_s() == 30.0
    waiting(world, "a")
    world.now_s = 5.0
    assert world.engine.next_wake_s() == 0.0, "at once"
    world.refuse(world.decide()[0])
    assert world.engine.next_wake_s() == pytest.approx(5.1)
    world.now_s = 30.0
    world.refuse(world.decide()[0])
    assert world.engine.next_wake_s() == pytest.approx(30.2)


@pytest.mark.parametrize(
    ("share", "masters"),
    [(0.1, 1), (0.5, 4), (0.51, 4), (0.62, 4), (0.63, 5)],
)
def test_masters_are_limited_by_vcores_too(share: float, masters: int) -> None:
    """A server of 8 vcores; a master has one, and one may always run."""
    world = World(EngineSettings(am_share=share, cpu_share=0.99)).up(server("s1", vcores=8))
    for number in range(8):
        world.submit(f"j{number}")
        world.ask(f"j{number}", ask(1, Resource(1, 1), 0, am=True))
    assert len(world.run()) == masters


class Rogue(InOrder):
    """A policy that places all it is given on one server, asked or not, and says each thing so many times."""

    name = "rogue"

    def __init__(self, world: World, *, times: int = 1) -> None:
        self._use = world.engine._core.state.servers["s1"]
        self._times = times

    def decide(self, view: View) -> Iterator[Intent]:
        while (want := view.next_ready()) is not None:
            place = Place(want, Placement(Level.ANYWHERE, [Portion(self._use, 0, want.kinds[0].containers)]))
            yield from [place] * self._times


def rogue_world(times: int = 1) -> World:
    world = World(EngineSettings(am_share=0.0, decisions_per_pass_max=4)).up(server("s1"))
    world.engine._core.policy = Rogue(world, times=times)
    return world


def test_no_policy_places_masters_beyond_their_share() -> None:
    world = rogue_world()
    for number in range(2):
        world.submit(f"j{number}")
        world.ask(f"j{number}", ask(1, AM, 0, am=True))
    assert [one.job_id for one in world.decide()] == ["j0"]
    assert 0 < world.engine.counters.rejected < 4 * 64


def test_a_want_that_was_answered_is_not_answered_again() -> None:
    world = rogue_world(times=3)
    world.submit("j")
    world.ask("j", ask(2, worker(1)))
    assert [one.level for one in world.decide()] == [Level.ANYWHERE] * 2
    assert world.engine.counters.rejected == 4


class Forgetful(InOrder):
    """A policy that goes on with a want of an earlier pass."""

    name = "forgetful"

    def __init__(self) -> None:
        self.kept: list[Want] = []

    def decide(self, view: View) -> Iterator[Intent]:
        want = view.next_ready()
        if want is not None:
            self.kept.append(want)
        for old in self.kept:
            yield Wait(old)


def test_a_want_of_a_job_that_wants_something_else_now_is_rejected() -> None:
    world = World().up(server("s1"))
    world.engine._core.policy = Forgetful()
    waiting(world, "a")
    world.decide()
    world.ask("a", ask(1, worker(2)))
    before = world.engine.counters.rejected
    world.decide()
    assert world.engine.counters.rejected == before + 1


def test_a_want_that_is_not_the_engines_is_rejected() -> None:
    world = World().up(server("s1"))

    class Foreign(InOrder):
        name = "foreign"

        def decide(self, view: View) -> Iterator[Intent]:
            assert view.now_s == 0.0
            yield Wait(Job("a", "root.a"))  # type: ignore[arg-type] # what no policy should do

    world.engine._core.policy = Foreign()
    waiting(world, "a")
    world.decide()
    assert world.engine.counters.rejected == 1


def test_a_pass_looks_at_so_many_intents_and_no_more_however_often_somebody_wakes() -> None:
    world = World(EngineSettings(decisions_per_pass_max=1)).up(server("s1", memory_mb=1_000, vcores=10))
    seen: list[int] = []

    class Busy(InOrder):
        """Touches a server with each intent, so that somebody wakes."""

        name = "busy"

        def decide(self, view: View) -> Iterator[Intent]:
            want = view.next_ready()
            if want is None:
                return
            core = world.engine._core
            seen.append(1)
            yield Wait(want)
            core.index.update(core.state.servers["s1"])

    world.engine._core.policy = Busy()
    world.submit("a")
    world.ask("a", ask(1, worker(0, 50)))
    world.decide()
    assert len(seen) == 64


def test_a_refusal_carries_what_is_to_be_said() -> None:
    world = World().up(server("s1"))
    world.submit("bad", "gang:zero")
    world.decide()
    assert world.refusals == [
        RefuseJob(
            decision_id=1,
            job_id="bad",
            diagnostics='tag "gang:zero" cannot be read: use gang:N, gang:NxG or gang:NxG+H in whole numbers',
        )
    ]


def test_members_of_one_kind_are_dealt_out_in_the_order_of_their_keys() -> None:
    world = World().up(server("s1", 2), server("s2", 2))
    world.submit("j", "gang:4x1")
    world.ask("j", ask(1, worker(1), 2), ask(3, worker(1), 1))
    (placed,) = world.decide()
    dealt = [(one.key.priority, one.server_id, one.gpu_indices) for one in placed.assignments]
    assert dealt == [(1, "s1", (0,)), (1, "s1", (1,)), (1, "s2", (0,)), (2, "s2", (1,))]


def test_members_of_several_kinds_on_one_server_hold_it_together() -> None:
    world = World().up(server("s1", 8))
    world.submit("j", "gang:3")
    world.ask("j", ask(1, worker(2), 1), ask(1, worker(3), 2), ask(1, worker(0), 3))
    (placed,) = world.decide()
    assert [(one.key.priority, one.gpu_indices) for one in placed.assignments] == [(2, (0, 1, 2)), (1, (3, 4)), (3, ())]
    ((part,),) = (decision.parts for decision in world.engine._core.state.decisions.values())
    assert (part.memory_mb, part.vcores, part.mask, part.gpus) == (3 * 1024, 3, 0b11111, 5)
    world.refuse(placed)
    assert world.engine.cluster().used == Resource()
