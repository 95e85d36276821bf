"""A gang with a reservation whose placement the resource manager refuses: nobody takes meanwhile what is kept for it."""

from __future__ import annotations

from tests.engine.test_reserving import BOUND_S, Waiting, filled

PAUSE_S = 0.1


def refused(world: Waiting) -> None:
    """Let the gang have room, and jobs of one GPU wait for it too; its placement is refused."""
    world.step(100.0 + BOUND_S)
    for turn in range(4):
        world.one(f"x{turn}")
    world.end("r5")
    world.end("r6")
    (decision,) = world.decide()
    assert decision.job_id == "g"
    world.refuse(decision)


def test_while_it_pauses_all_of_it_is_kept() -> None:
    world = filled()
    refused(world)
    world.step(world.now_s + PAUSE_S / 2)
    assert (world.kept("g"), world.starts()[-1]) == (4, "g")
    world.step(world.now_s + PAUSE_S)
    assert world.runs("g")
    assert world.reserved == {}


def test_it_pauses_in_its_turn_among_the_others() -> None:
    """Who would borrow keeps only so much as is left to it while one within its quota waits, whether it pauses or not."""
    world = Waiting(4, 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=8)
    for turn in range(8):
        world.one(f"r{turn}", "root.c")
    world.gang("g", 4, 1, "root.a", "locality:0")
    world.step(BOUND_S)
    for turn in range(4):
        world.end(f"r{turn}")
    (decision,) = world.decide()
    world.refuse(decision)
    assert [one.over_quota for one in world.engine.reservations()] == [True]
    world.gang("b1", 4, 1, "root.b")
    assert world.starts()[-1] == "b1"
    assert world.runs("b1")


def test_a_gang_that_is_ended_while_it_pauses_leaves_nothing_kept() -> None:
    world = filled()
    refused(world)
    world.end("g")
    world.step(world.now_s + 1.0)
    assert world.reserved == {}
    assert [world.runs(f"x{turn}") for turn in range(4)] == [True] * 4
