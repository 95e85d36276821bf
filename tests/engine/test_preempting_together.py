"""Several gangs take back what was lent at the same time, while others start, and none is forgotten (law 7)."""

from __future__ import annotations

from tests.engine.reclaims import AFTER_S, GRACE_S, HOLD_S, Reclaiming, borrowed
from tests.engine.world import AM, ask, worker
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.events import Pass


def test_who_came_to_run_while_it_was_looked_for_others_is_found_in_its_turn() -> None:
    """`a2` is placed in the very pass in which only `a1` may be stopped, which is not enough; later it is old enough itself."""
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=8)
    world.gang("a1", 4, 1)
    world.gang("b1", 8, 1, "root.b")
    world.step(1_000.0)
    world.gang("a2", 4, 1)
    world.step(3_000.0)
    assert sorted(world.stopped()) == ["a1", "a2"]
    assert world.runs("b1")


def test_two_gangs_share_what_the_victims_of_both_leave() -> None:
    """Of the two jobs that must go, one gang takes one GPU, and the other gang the other three."""
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=2)
    world.configure("root.c", quota_gpus=4)
    for turn in range(4):
        world.gang(f"a{turn}", 1, 2)
    world.step(1_000.0)
    world.gang("b1", 1, 1, "root.b")
    world.gang("c1", 3, 1, "root.c")
    world.step(1_000.0 + AFTER_S + GRACE_S)
    assert world.warned() == world.stopped() == ["a2", "a3"]
    assert world.runs("b1")
    assert world.runs("c1")


def test_who_was_warned_is_spared_if_what_others_leave_is_enough() -> None:
    """The large one goes for `c1` and leaves room for `b1` too, for which the small one had been warned before."""
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=2)
    world.configure("root.c", quota_gpus=1)
    world.configure("root.d", quota_gpus=2)
    world.gang("large", 4, 1)
    world.gang("small", 2, 1)
    world.gang("d1", 2, 1, "root.d")
    world.step(1_000.0)
    world.gang("b1", 2, 1, "root.b")
    world.step(1_010.0)
    world.gang("c1", 1, 1, "root.c")
    world.step(1_010.0 + AFTER_S)
    assert world.warned() == ["small", "large"]
    world.step(1_010.0 + AFTER_S + GRACE_S)
    assert world.stopped() == ["large"]
    assert world.runs("b1")
    assert world.runs("c1")


def test_it_is_told_when_others_are_stopped_again_after_it_was_in_vain() -> None:
    """`a3` does not die while its place is held; then `a2` could be stopped, but not at once."""
    world = Reclaiming(4, 4, 4)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    for name in ("a1", "a2", "a3"):
        world.gang(name, 4, 1)
        world.step(world.now_s + 1.0)
    world.step(1_000.0)
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S + GRACE_S + HOLD_S, obey=False)
    assert world.stopped() == ["a3"]
    preview = world.engine.preempt_preview("b1")
    assert preview is not None
    assert preview.plan is not None
    assert [one.job_id for one in preview.plan.victims] == ["a2"]
    assert preview.hindrances == ("it was in vain before, so nobody is stopped for another 120 s",)
    world.step(world.now_s + AFTER_S, obey=False)
    assert world.warned()[-1] == "a2"


def test_it_is_looked_again_when_a_server_goes_or_a_job_moves() -> None:
    """By either `root.p` uses less, and is within its quota with `x1`."""
    for change in ("server", "job"):
        world = Reclaiming(4, 4, 4, 4)
        world.configure("root.p", quota_gpus=6)
        world.configure("root.p.x", quota_gpus=4)
        world.configure("root.p.y", quota_gpus=4)
        world.configure("root.a", quota_gpus=0)
        world.gang("y1", 4, 1, "root.p.y")
        for turn in range(3):
            world.gang(f"a{turn}", 4, 1)
        world.step(1_000.0)
        world.gang("x1", 4, 1, "root.p.x")
        world.step(2_000.0)
        assert world.warned() == []
        if change == "server":
            world.remove(world.live("y1")[0].server_id)
        else:
            world.submit("y1", "gang:4x1", vc="root.b")
        world.step(3_000.0)
        assert len(world.stopped()) == 1


def test_what_was_stopped_before_is_not_forgotten_when_several_containers_are_not_stopped() -> None:
    world = Reclaiming(8)
    world.configure("root.a", quota_gpus=2)
    world.configure("root.b", quota_gpus=6)
    world.singles("plain", 8, 1)
    world.step(1_000.0)
    world.gang("b1", 2, 1, "root.b")
    world.step(1_200.0)
    world.gang("b2", 3, 1, "root.b")
    world.step(1_200.0 + AFTER_S, obey=False)
    world.commit(*world.orders())
    world.answered += len(world.orders())
    world.step(1_200.0 + AFTER_S + GRACE_S, obey=False)
    assert world.stopped() == ["plain"] * 5
    world.decline()
    view = world.engine.job("plain")
    assert view is not None
    assert [one.by_job_id for one in view.preempted] == ["b1"]


def test_the_end_of_the_grace_is_not_missed_when_something_else_of_the_job_is_committed_in_it() -> None:
    """The master's place is decided in the pass in which others are warned, and told as committed later."""
    world = borrowed(preempt_after_s=0.0)
    world.shapes["b1"] = (4, 1, "root.b")
    world.submit("b1", "gang:4x1", vc="root.b")
    world.ask("b1", ask(1, AM, 0, am=True), ask(4, worker(1)))
    placed = [one for one in world.apply(Pass(now_s=world.now_s)) if isinstance(one, PlaceGang)]
    assert world.warned() == ["a2"]
    assert len(placed) == 1
    world.now_s += 10.0
    world.commit(*placed)
    world.apply(Pass(now_s=world.now_s))
    assert world.engine.next_wake_s() == 1_000.0 + GRACE_S
