"""A plan answers "what if" for several wants at once, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.engine.world import InOrder, World, ask, server, worker
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.placement import Placement, Portion
from yarn_gpu_sched.policy import Intent, Policy, View, Want

Answer = Callable[[View, dict[str, Want]], None]


class Asking(InOrder):
    """A policy that asks the view something, and wants nothing."""

    name = "asking"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def decide(self, view: View) -> Iterator[Intent]:
        self.answer(view, {want.job_id: want for want in view.waiting()})
        return iter(())


def world_of(*servers: int) -> World:
    return World(engine=Engine()).up(*(server(f"s{number}", gpus) for number, gpus in enumerate(servers)))


def gang(world: World, name: str, containers: int, gpus: int = 1, memory_mb: int = 1_024) -> None:
    world.submit(name, f"gang:{containers}x{gpus}")
    world.ask(name, ask(containers, worker(gpus, memory_mb)))


def asked(world: World, answer: Answer) -> None:
    """Let a policy ask in a pass; nothing is different afterwards."""
    policy: Policy = Asking(lambda _view, _wants: None)
    core = world.engine._core
    core.policy, before = policy, core.policy
    world.decide()
    core.policy = Asking(answer)
    digest, free = world.engine.digest(), [use.free_mask for use in core.state.servers.values()]
    world.decide()
    core.policy = before
    assert world.engine.digest() == digest
    assert [use.free_mask for use in core.state.servers.values()] == free


def servers_in(placement: Placement | None) -> list[str]:
    return [] if placement is None else sorted(portion.use.server_id for portion in placement.portions)


def test_each_question_sees_what_was_taken_before_it() -> None:
    world = world_of(4, 4)
    gang(world, "a", 3)
    gang(world, "b", 3)
    gang(world, "c", 3)

    def answer(view: View, wants: dict[str, Want]) -> None:
        with view.plan() as plan:
            for name, place in (("a", ["s0"]), ("b", ["s1"]), ("c", [])):
                found = plan.find(wants[name])
                assert servers_in(found) == place
                assert found is None or plan.take(wants[name], found)
        assert servers_in(view.find(wants["c"])) == ["s0"], "all of it is undone"

    asked(world, answer)


def test_a_place_that_was_taken_is_not_taken_twice() -> None:
    world = world_of(4)
    gang(world, "a", 3)
    gang(world, "b", 3)

    def answer(view: View, wants: dict[str, Want]) -> None:
        with view.plan() as plan:
            found = plan.find(wants["a"])
            assert found is not None
            assert plan.take(wants["a"], found)
            assert not plan.take(wants["b"], found)

    asked(world, answer)


def test_a_place_that_is_free_in_part_is_not_taken_at_all() -> None:
    world = world_of(4, 4)
    gang(world, "wide", 6)
    gang(world, "on the second", 4)

    def answer(view: View, wants: dict[str, Want]) -> None:
        with view.plan() as plan:
            wide = plan.find(wants["wide"])
            assert wide is not None
            last = wide.portions[-1].use
            assert plan.take(wants["on the second"], Placement(wide.level, [Portion(last, 0, 4)]))
            assert not plan.take(wants["wide"], wide)
            assert plan.find(wants["on the second"]) is not None, "what was free of it is free again"

    asked(world, answer)


def stopping(world: World, want: str, surplus: list[str]) -> tuple[list[str], list[str]]:
    """Ask where a gang would go, and who is to be stopped for it."""
    said: list[tuple[Placement | None, list[str]]] = []

    def answer(view: View, wants: dict[str, Want]) -> None:
        with view.plan() as plan:
            said.append(plan.find_without(wants[want], surplus))

    asked(world, answer)
    ((placement, victims),) = said
    return servers_in(placement), victims


def full(*, gpus: int = 4) -> World:
    """Two servers full of gangs of one GPU each: a0, a1, … on the first, b0, b1, … on the second."""
    world = world_of(gpus, gpus)
    for name in [f"a{number}" for number in range(gpus)] + [f"b{number}" for number in range(gpus)]:
        gang(world, name, 1)
        world.run()
    return world


def test_only_those_are_stopped_whose_places_are_needed() -> None:
    world = full()
    gang(world, "new", 1, gpus=2)
    assert stopping(world, "new", ["a0", "b0", "b1"]) == (["s1"], ["b0", "b1"])


def test_of_those_that_may_be_stopped_the_first_are() -> None:
    world = full()
    gang(world, "new", 2)
    assert stopping(world, "new", ["b2", "a3", "a1"])[1] == ["b2", "a3"]


def test_where_all_that_may_be_stopped_are_not_enough_nobody_is() -> None:
    world = full()
    gang(world, "new", 1, gpus=3)
    assert stopping(world, "new", ["a0", "a1", "b0", "b1"]) == ([], [])


def test_memory_counts_too() -> None:
    world = world_of(4)
    gang(world, "thin", 1)
    gang(world, "fat", 1, memory_mb=60_000)
    world.run()
    gang(world, "new", 1, memory_mb=30_000)
    assert stopping(world, "new", ["thin", "fat"]) == (["s0"], ["fat"])


def test_what_a_gang_has_that_was_stopped_is_free_for_the_next_question() -> None:
    world = full()
    gang(world, "new", 1, gpus=2)
    gang(world, "next", 1)

    def answer(view: View, wants: dict[str, Want]) -> None:
        with view.plan() as plan:
            placement, victims = plan.find_without(wants["new"], ["a0", "a1"])
            assert victims == ["a0", "a1"]
            assert placement is not None
            assert plan.find(wants["next"]) is not None
            assert plan.take(wants["new"], placement)
            assert plan.find(wants["next"]) is None

    asked(world, answer)


def test_who_runs_and_what_is_free_is_shown() -> None:
    world = full()
    world.end("a0")
    gang(world, "new", 2)
    shown: list[tuple[list[str], int]] = []

    def answer(view: View, wants: dict[str, Want]) -> None:
        assert list(wants) == ["new"]
        shown.append((sorted(job.job_id for job in view.running()), view.gpus_free))

    asked(world, answer)
    assert shown == [(["a1", "a2", "a3", "b0", "b1", "b2", "b3"], 1)]
