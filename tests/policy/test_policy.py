"""Policies ask and want; the engine checks each intent and carries out what holds."""

from collections.abc import Iterator

import pytest

from tests.engine.world import InOrder, World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.placement import Placement, Portion
from yarn_gpu_sched.policy import POLICIES, Fifo, Intent, Place, Policy, Refuse, View, Wait, Want, policy_named


class Stubborn(InOrder):
    """A policy that does one thing with every want, then gives up."""

    name = "stubborn"

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def decide(self, view: View) -> Iterator[Intent]:
        for _ in range(10):
            want = view.next_ready()
            if want is None:
                return
            yield self.intent(view, want)

    def intent(self, view: View, want: Want) -> Intent:
        placement = view.find(want)
        assert placement is not None
        portions = list(placement.portions)
        if self.answer == "too few":
            portions = [Portion(portions[0].use, 0, portions[0].containers - 1)]
        if self.answer == "too many":
            portions = [Portion(portions[0].use, 0, portions[0].containers + 1)]
        if self.answer == "twice":
            portions *= 2
        if self.answer == "refuse":
            return Refuse(want, f"not at {view.now_s}")
        if self.answer == "wait":
            return Wait(want)
        return Place(want, Placement(Level.FEWEST_SERVERS, portions))


def world_with(policy: Policy) -> World:
    world = World().up(server("s1", 8))
    world.engine._core.policy = policy
    world.submit("j", "gang:2x2")
    world.ask("j", ask(2, worker(2)))
    return world


@pytest.mark.parametrize("answer", ["too few", "too many", "twice"])
def test_a_placement_that_is_not_the_whole_want_is_rejected(answer: str) -> None:
    world = world_with(Stubborn(answer))
    assert world.decide() == []
    assert world.engine.counters.rejected == 1
    assert world.engine.cluster().used.gpus == 0


def test_what_holds_is_carried_out() -> None:
    world = world_with(Stubborn("place"))
    assert [len(one.assignments) for one in world.decide()] == [2]


def test_a_policy_may_refuse() -> None:
    world = world_with(Stubborn("refuse"))
    world.decide()
    assert [one.diagnostics for one in world.refusals] == ["not at 0.0"]


def test_a_policy_may_not_refuse_who_was_recovered() -> None:
    world = World().up(server("s1", 8))
    world.engine._core.policy = Stubborn("refuse")
    world.submit("j", recovered=True)
    world.ask("j", ask(1, worker(1)))
    world.decide()
    assert world.refusals == []
    assert world.engine.counters.rejected == 1


def test_who_is_said_to_wait_is_not_given_again() -> None:
    world = world_with(Stubborn("wait"))
    world.decide()
    assert world.engine.counters.searches == 1
    world.decide()
    assert world.engine.counters.searches == 1


class Endless(InOrder):
    """A policy that never answers."""

    name = "endless"

    def decide(self, view: View) -> Iterator[Intent]:
        want = view.next_ready()
        assert want is not None
        yield Wait(want)
        while True:
            yield Wait(want)


def test_a_pass_ends_whatever_a_policy_does() -> None:
    world = World(EngineSettings(decisions_per_pass_max=2)).up(server("s1", 8))
    world.engine._core.policy = Endless()
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    assert world.decide() == []
    assert world.engine.counters.rejected == 127


def test_policies_are_known_by_name() -> None:
    assert isinstance(policy_named("fifo"), Fifo)
    assert [policy_named(name).name for name in POLICIES] == list(POLICIES)
    with pytest.raises(
        ValueError, match='policy "x" is not known; there is fifo, fifo_strict, las, philly, sjf, srtf, tiresias'
    ):
        policy_named("x")
