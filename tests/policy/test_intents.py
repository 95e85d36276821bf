"""What a policy may want besides placing: to stop a gang, to be woken; and what it may not do with places."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.engine.world import InOrder, World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import RequeueJob
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.placement import Placement
from yarn_gpu_sched.policy import Intent, Place, Preempt, View, WakeAt, Want

Says = Callable[[View, list[Want]], list[Intent]]


class Saying(InOrder):
    """A policy that says what it is told to, of all that wait, and places nothing else."""

    name = "saying"

    def __init__(self) -> None:
        self.says: Says = lambda _view, _wants: []

    def decide(self, view: View) -> Iterator[Intent]:
        yield from self.says(view, sorted(view.waiting(), key=lambda want: want.job_id))


def world_of(settings: EngineSettings | None = None) -> tuple[World, Saying]:
    policy = Saying()
    world = World(engine=Engine(settings, policy=policy)).up(server("s1"), server("s2", rack="/r2"))
    return world, policy


def gang(world: World, name: str, containers: int) -> None:
    world.submit(name, f"gang:{containers}x1")
    world.ask(name, ask(containers, worker(1)))


def place_all(view: View, wants: list[Want]) -> list[Intent]:
    return [Place(want, found) for want in wants if (found := view.find(want)) is not None]


def running() -> tuple[World, Saying]:
    """Let a gang run on four GPUs, and one wait for eight."""
    world, policy = world_of()
    policy.says = place_all
    gang(world, "runs", 4)
    world.run()
    gang(world, "waits", 8)
    return world, policy


def orders(world: World) -> list[RequeueJob]:
    return [command for command in world.commands if isinstance(command, RequeueJob)]


def test_a_gang_that_is_to_be_stopped_starts_anew_and_says_for_whom() -> None:
    world, policy = running()
    policy.says = lambda _view, wants: [Preempt("runs", wants[0])]
    world.decide()
    (order,) = orders(world)
    assert (order.job_id, order.attempt, order.preempted_by) == ("runs", 1, "waits")
    assert order.diagnostics == "stopped for job waits: it starts anew as a whole"
    world.commit(order)
    world.release_all("runs")
    world.submit("runs", "gang:4x1", attempt=2, submit_time_s=1.0)
    world.ask("runs", ask(4, worker(1)), attempt=2)
    policy.says = place_all
    assert [decision.job_id for decision in world.run()] == ["runs"]


def test_what_is_being_stopped_is_not_stopped_twice_and_not_shown_as_running() -> None:
    world, policy = running()
    shown: list[list[str]] = []

    def says(view: View, wants: list[Want]) -> list[Intent]:
        shown.append([job.job_id for job in view.running()])
        return [Preempt("runs", wants[0])] * 2

    policy.says = says
    world.decide()
    world.decide()
    world.commit(*orders(world))
    world.decide()  # the resource manager has done so, and its new attempt is yet to come
    assert len(orders(world)) == 1
    assert world.engine.counters.rejected == 5
    assert shown == [["runs"], [], []]


@pytest.mark.parametrize("job_id", ["nobody", "waits", "single"])
def test_only_gangs_that_run_are_stopped(job_id: str) -> None:
    world, policy = running()
    world.submit("single")
    world.seen("k-single", "single", "s1", worker(0))
    policy.says = lambda _view, wants: [Preempt(job_id, wants[0])]
    world.decide()
    assert orders(world) == []
    assert world.engine.counters.rejected == 1


def test_nobody_is_stopped_for_whom_nobody_waits_any_more() -> None:
    world, policy = running()
    kept: list[Want] = []

    def keep(_view: View, wants: list[Want]) -> list[Intent]:
        kept.extend(wants)
        return []

    policy.says = keep
    world.decide()
    world.end("waits")
    policy.says = lambda _view, _wants: [Preempt("runs", kept[0])]
    world.decide()
    assert orders(world) == []


@pytest.mark.parametrize("at_s", [5.0, 0.0, -1.0, float("inf"), float("nan")])
def test_a_pass_that_is_wanted_at_once_or_never_is_no_wish(at_s: float) -> None:
    world, policy = world_of()
    world.now_s = 5.0
    policy.says = lambda _view, _wants: [WakeAt(at_s)]
    world.decide()
    assert world.engine.next_wake_s() is None
    assert world.engine.counters.rejected == 1


def test_the_last_wish_of_a_pass_counts_until_the_next_pass() -> None:
    world, policy = world_of()
    policy.says = lambda _view, _wants: [WakeAt(9.0), WakeAt(7.0)]
    world.decide()
    assert world.engine.next_wake_s() == 7.0
    policy.says = lambda _view, _wants: []
    world.decide()
    assert world.engine.next_wake_s() is None


@pytest.mark.parametrize("claimed", Level)
def test_no_gang_is_placed_looser_than_its_ladder_allows_whatever_is_claimed(claimed: Level) -> None:
    """Six GPUs in one rack would be right; the policy takes four in one and two in the other."""
    world, policy = world_of(EngineSettings(relax_after_s=150.0))
    world.change(server("s3"))
    gang(world, "gang", 6)

    def says(view: View, wants: list[Want]) -> list[Intent]:
        found = view.find(wants[0])
        assert found is not None
        here, there = found.portions
        far = next(use for use in world.engine._core.state.servers.values() if use.server_id == "s2")
        return [Place(wants[0], Placement(claimed, [here, there._replace(use=far)]))]

    policy.says = says
    assert world.decide() == []
    assert world.engine.counters.rejected == 1
