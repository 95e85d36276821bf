"""Containers of which nobody told the GPUs: stock placement made them, before the shim or while it was away."""

import random

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine.commands import Bind


def indices(world: World, *job_ids: str) -> dict[str, tuple[int, ...]]:
    return {one.container_id: one.gpu_indices for job_id in job_ids for one in world.live(job_id)}


def test_they_give_up_what_a_container_is_told_to_have() -> None:
    world = World().up(server("s1", 4))
    world.seen("stock", "x", "s1", worker(2))
    assert indices(world, "x") == {"stock": (0, 1)}
    world.seen("ours", "y", "s1", worker(2), gpu_indices=(1, 2))
    assert indices(world, "x", "y") == {"ours": (1, 2), "stock": (0, 3)}
    assert [(one.container_id, one.gpu_indices) for one in world.commands if isinstance(one, Bind)] == [
        ("stock", (0, 1)),
        ("stock", (0, 3)),
        ("ours", (1, 2)),
    ]


def test_they_count_as_in_use_and_only_the_rest_is_given_out() -> None:
    world = World().up(server("s1", 4))
    world.seen("stock", "x", "s1", worker(3))
    world.submit("j")
    world.ask("j", ask(2, worker(1)))
    (only,) = world.run()
    assert only.assignments[0].gpu_indices == (3,)
    assert world.why("j").startswith("cluster_full: ")
    world.release("stock")
    assert [one.assignments[0].gpu_indices for one in world.run()] == [(0,)]


def test_news_of_one_keeps_it_assumed() -> None:
    world = World().up(server("s1", 4))
    world.seen("stock", "x", "s1", worker(2))
    world.seen("stock", "x", "s1", worker(2), ending=True)
    world.seen("ours", "y", "s1", worker(1), gpu_indices=(0,))
    assert indices(world, "x", "y") == {"ours": (0,), "stock": (1, 2)}


def test_what_is_told_later_is_believed() -> None:
    world = World().up(server("s1", 4))
    world.seen("stock", "x", "s1", worker(1))
    world.seen("stock", "x", "s1", worker(1), gpu_indices=(2,))
    world.seen("ours", "y", "s1", worker(2), gpu_indices=(0, 1))
    assert indices(world, "x", "y") == {"ours": (0, 1), "stock": (2,)}


def test_in_whatever_order_a_snapshot_tells_of_them_no_gpu_is_held_twice() -> None:
    chance = random.Random(7)
    told = [("a", (0, 3)), ("b", ()), ("c", (2,)), ("d", ()), ("e", (5, 6, 7))]
    for _ in range(50):
        chance.shuffle(told)
        world = World().up(server("s1", 8))  # which audits after each event
        for name, gpu_indices in told:
            world.seen(name, "x", "s1", worker(len(gpu_indices) or 1), gpu_indices=gpu_indices)
        held = sorted(index for one in indices(world, "x").values() for index in one)
        assert held == list(range(8))
