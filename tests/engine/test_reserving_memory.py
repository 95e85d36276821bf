"""A gang with a reservation that wants more memory beside its GPUs than containers without GPUs leave."""

from __future__ import annotations

from tests.engine.test_reserving import BOUND_S, Waiting
from tests.engine.world import ask, server, worker

EACH_MB = 9_800
"""Of a container of the gang: a GPU's share of the server is 9,000 MB, as a tenth is for work without GPUs."""


def test_memory_that_comes_free_is_kept_although_all_gpus_are_kept_already() -> None:
    world = Waiting()
    world.up(server("s0", 4, memory_mb=40_000), epoch=2)
    for turn in range(6):
        plain(world, turn)
    world.submit("g", "gang:4x1")
    world.ask("g", ask(4, worker(1, memory_mb=EACH_MB)))
    world.step(BOUND_S)
    assert world.kept("g") == 4
    for turn in range(4):
        assert world.runs(f"p{turn}")
        assert not world.runs("g")
        world.end(f"p{turn}")
        plain(world, turn + 6)
        world.step(world.now_s + 1.0)
    assert world.runs("g")
    assert [world.runs(f"p{turn}") for turn in range(4, 10)] == [False] * 6


def plain(world: Waiting, turn: int) -> None:
    """Submit a job of one container without GPUs."""
    world.submit(f"p{turn}", vc="root.c")
    world.ask(f"p{turn}", ask(1, worker(0, memory_mb=1_000)))
    world.step()
