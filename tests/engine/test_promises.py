"""While others are being stopped for a gang, nothing else of its queues uses up the quota for which they are (law 7)."""

from __future__ import annotations

from tests.engine.reclaims import AFTER_S, GRACE_S, Reclaiming, borrowed
from tests.engine.world import ask, server, worker


def stopping() -> Reclaiming:
    """Let `a2` be told to stop for `b1`, and not have done it, when a server with two free GPUs comes."""
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S + GRACE_S - 1.0)
    world.step(1_000.0 + AFTER_S + GRACE_S, obey=False)
    assert world.stopped() == ["a2"]
    world.change(server("s2", 2, rack="/r0"))
    return world


def submit_one(world: Reclaiming, job_id: str, vc: str) -> None:
    """Submit a gang of one GPU; who was told to stop has still not done it."""
    world.shapes[job_id] = (1, 1, vc)
    world.submit(job_id, "gang:1x1", vc=vc)
    world.ask(job_id, ask(1, worker(1)))
    world.step(obey=False)


def test_another_of_its_queue_waits_until_it_runs_and_no_longer() -> None:
    world = stopping()
    submit_one(world, "b2", "root.b")
    world.step(world.now_s + 1.0, obey=False)
    assert not world.runs("b2")
    world.step(world.now_s + 1.0)
    assert world.runs("b1")
    assert world.runs("b2")


def test_one_of_another_queue_need_not_wait() -> None:
    world = stopping()
    submit_one(world, "c1", "root.c")
    assert world.runs("c1")


def test_what_fits_into_the_quota_beside_it_need_not_wait() -> None:
    world = stopping()
    world.configure("root.b", quota_gpus=5)
    submit_one(world, "b2", "root.b")
    submit_one(world, "b3", "root.b")
    assert world.runs("b2")
    assert not world.runs("b3")


def test_it_holds_for_all_queues_above() -> None:
    world = borrowed()
    world.configure("root.b", quota_gpus=4)
    world.configure("root.b.x", quota_gpus=4)
    world.configure("root.b.y", quota_gpus=4)
    world.gang("x1", 4, 1, "root.b.x")
    world.step(1_000.0 + AFTER_S + GRACE_S - 1.0)
    world.step(1_000.0 + AFTER_S + GRACE_S, obey=False)
    assert world.stopped() == ["a2"]
    world.change(server("s2", 2, rack="/r0"))
    submit_one(world, "y1", "root.b.y")
    assert not world.runs("y1")
