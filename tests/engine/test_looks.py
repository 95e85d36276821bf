"""When it is looked whom to stop for a gang: no pass is asked for that could change nothing."""

from __future__ import annotations

from tests.engine.reclaims import AFTER_S, borrowed
from yarn_gpu_sched.engine.events import PreemptionModeChanged
from yarn_gpu_sched.model.preemption import Mode


def test_a_gang_within_its_quota_is_looked_at_when_it_has_waited_long_enough_and_one_beyond_it_is_not() -> None:
    world = borrowed()
    world.gang("a3", 4, 1, "root.a", "locality:0")
    assert world.engine.next_wake_s() is None
    world.gang("b1", 4, 1, "root.b", "locality:0")
    assert world.engine.next_wake_s() == 1_000.0 + AFTER_S
    world.end("b1")
    world.step()
    assert world.engine.next_wake_s() is None


def test_of_gangs_that_want_the_same_the_first_is_looked_at_and_then_the_next() -> None:
    world = borrowed()
    world.gang("b1", 2, 1, "root.b", "locality:0")
    world.step(1_010.0)
    world.gang("b2", 2, 1, "root.b", "locality:0")
    assert world.engine.next_wake_s() == 1_000.0 + AFTER_S
    world.step(1_020.0)
    world.end("b1")
    world.step()
    assert world.engine.next_wake_s() == 1_010.0 + AFTER_S
    world.step(1_010.0 + AFTER_S)
    assert world.warned() == ["a2"]


def test_once_it_is_armed_it_is_known_when_to_look() -> None:
    world = borrowed(mode=Mode.OFF)
    world.gang("b1", 4, 1, "root.b", "locality:0")
    assert world.engine.next_wake_s() is None
    world.apply(PreemptionModeChanged(now_s=world.now_s, mode=Mode.ON, why="tried"))
    assert world.engine.next_wake_s() == 1_000.0 + AFTER_S
