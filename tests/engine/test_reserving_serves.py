"""A place that is kept for a gang and would not do any more, since its asks or the servers have changed: it gets another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.test_reserving import BOUND_S, Waiting, filled
from tests.engine.world import ask, server, worker
from yarn_gpu_sched.engine.reserving import REPLAN_MIN_S, REPLAN_S


def blacklist(world: Waiting) -> None:
    world.ask("g", ask(4, worker(1)), blacklist=("s1",))


def name_another_host(world: Waiting) -> None:
    world.ask("g", ask(4, worker(1), at={"s0": 4}, strict=True))


def ask_otherwise(world: Waiting) -> None:
    """Ask as many GPUs with more memory than the server has, if it becomes smaller."""
    world.change(server("s1", 4, rack="/r0", memory_mb=8_192))
    world.ask("g", ask(4, worker(1, memory_mb=4_096)))


def make_smaller(world: Waiting) -> None:
    world.change(server("s1", 3, rack="/r0"))


def put_elsewhere(world: Waiting) -> None:
    world.change(server("s1", 4, rack="/r0", partition="fast"))


@pytest.mark.parametrize("change", [blacklist, name_another_host, ask_otherwise, make_smaller, put_elsewhere])
def test_it_is_kept_no_longer_where_it_could_not_go(change: Callable[[Waiting], None]) -> None:
    """Nobody ends, so nothing is free sooner elsewhere."""
    world = filled()
    world.step(100.0 + BOUND_S)
    assert (world.reserved["g"].server_ids, world.kept("g")) == (("s1",), 2)
    change(world)
    world.step(world.now_s + REPLAN_MIN_S)
    assert (world.reserved["g"].server_ids, world.kept("g")) == (("s0",), 0)
    for name in ("r1", "r2", "r3", "r4"):
        world.end(name)
    world.step(world.now_s + 1.0)
    assert world.runs("g")


def test_one_that_spans_racks_is_kept_no_longer_where_its_level_forbids_that() -> None:
    world = Waiting(4, 4, 4)
    for name in ("r1", "r2", "r3"):
        world.one(name)
        world.gang(f"{name}-more", 1, 3)
    world.step(100.0)
    world.gang("g", 8, 1, "root.a", "locality:1")
    world.end("r1")
    world.end("r2")
    world.step(100.0 + BOUND_S)
    (first, second) = world.reserved["g"].server_ids
    world.change(server(second, 4, rack="/elsewhere"))
    world.step(world.now_s + REPLAN_MIN_S)
    assert second not in world.reserved["g"].server_ids
    assert first in world.reserved["g"].server_ids


def test_a_place_that_does_stays() -> None:
    world = filled()
    world.step(100.0 + BOUND_S)
    before = world.reserved["g"].needs
    world.change(server("s1", 4, rack="/r0", memory_mb=32_768))
    world.ask("g", ask(4, worker(1)), blacklist=("elsewhere",))
    world.step(world.now_s + REPLAN_S)
    assert (world.reserved["g"].needs, world.kept("g")) == (before, 2)
