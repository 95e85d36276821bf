"""Jobs that use none of their GPUs: they count as borrowed, whatever their queue's quota is, and as nothing in its use of that."""

from __future__ import annotations

from tests.engine.reclaims import AFTER_S, GRACE_S, Reclaiming
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.events import IdleReported


def full() -> Reclaiming:
    """Let two queues use all of their quotas but one GPU each, and a gang of the first wait for the rest of it."""
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=6)
    world.configure("root.b", quota_gpus=4)
    world.gang("b1", 4, 1, "root.b")
    world.gang("a1", 2, 1)
    world.gang("a2", 2, 1)
    world.step(1_000.0)
    world.gang("a3", 2, 1)
    return world


def idle(world: Reclaiming, job_id: str, *, so: bool = True) -> None:
    world.apply(IdleReported(now_s=world.now_s, job_id=job_id, idle=so))


def test_nobody_within_the_quota_is_stopped_while_it_uses_its_gpus() -> None:
    world = full()
    world.step(3_000.0)
    assert (world.stopped(), world.runs("a3")) == ([], False)


def test_an_idle_job_within_its_quota_gives_way_to_a_gang_within_another() -> None:
    world = full()
    world.step(1_000.0 + AFTER_S + 10.0)
    idle(world, "b1")
    world.step(world.now_s + GRACE_S)
    assert world.stopped() == ["b1"]
    assert world.runs("a3")


def test_a_job_that_goes_on_again_is_spared() -> None:
    world = full()
    world.step(1_000.0 + AFTER_S + 10.0)
    idle(world, "b1")
    world.step()
    assert world.warned() == ["b1"]
    idle(world, "b1", so=False)
    world.step(world.now_s + GRACE_S + 1.0)
    assert (world.stopped(), world.runs("b1")) == ([], True)


def test_an_idle_job_charges_its_quota_with_nothing() -> None:
    """What started after it was borrowed because of it, and is not any more."""
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    world.gang("a1", 4, 1)
    world.step(10.0)
    world.gang("a2", 4, 1)
    world.step(1_000.0)
    idle(world, "a1")
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S + GRACE_S)
    assert world.stopped() == ["a1"]
    assert world.runs("a2")


def test_what_is_said_of_nobody_or_of_who_waits_is_ignored() -> None:
    world = full()
    before = world.engine.digest()
    idle(world, "nobody")
    idle(world, "a3")
    assert world.engine.digest() == before


def test_idleness_outlasts_a_snapshot_and_ends_with_the_attempt() -> None:
    world = full()
    idle(world, "b1")
    again = Engine.restore(world.engine.snapshot())
    assert again.digest() == world.engine.digest()
    record = again._core.state.jobs["b1"]
    assert record.tenure.idle
    record.tenure.begin_anew()
    assert not record.tenure.idle
