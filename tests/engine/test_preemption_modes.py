"""Preemption off, only observed, and armed: who is stopped then, what is counted, and what an operator's switch does at once."""

from __future__ import annotations

import pytest

from tests.engine.reclaims import AFTER_S, borrowed
from yarn_gpu_sched.engine.events import PreemptionModeChanged
from yarn_gpu_sched.model.preemption import Mode


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_unless_it_is_armed_nobody_is_stopped(mode: Mode) -> None:
    world = borrowed(mode=mode)
    world.gang("b1", 4, 1, "root.b")
    world.step(3_000.0)
    assert (world.warned(), world.stopped()) == ([], [])
    assert world.engine.counters.observed == (0 if mode is Mode.OFF else 16)
    preview = world.engine.preempt_preview("b1")
    assert preview is not None
    assert preview.plan is not None
    assert [one.job_id for one in preview.plan.victims] == ["a2"]
    assert preview.hindrances == (f"preemption is {mode.value}",)


def test_who_need_not_wait_is_observed_once_a_second_and_no_more() -> None:
    world = borrowed(mode=Mode.OBSERVE, preempt_after_s=0.0)
    world.gang("b1", 4, 1, "root.b")
    world.step()
    assert (world.engine.counters.observed, world.engine.next_wake_s()) == (1, 1_001.0)
    world.step(1_003.0)
    assert world.engine.counters.observed == 4


def test_once_armed_nobody_waits_because_it_was_just_observed() -> None:
    world = borrowed(mode=Mode.OBSERVE)
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S + 1)
    assert world.engine.counters.observed == 1
    world.apply(PreemptionModeChanged(now_s=world.now_s, mode=Mode.ON, why="armed"))
    world.step()
    assert world.warned() == ["a2"]


def test_the_switch_takes_effect_at_once_and_spares_who_was_warned() -> None:
    world = borrowed(mode=Mode.OFF)
    world.gang("b1", 4, 1, "root.b")
    world.step(2_000.0)
    world.apply(PreemptionModeChanged(now_s=world.now_s, mode=Mode.ON, why="armed"))
    world.step(2_000.0)
    assert world.warned() == ["a2"]
    world.apply(PreemptionModeChanged(now_s=world.now_s, mode=Mode.OFF, why="maintenance"))
    world.step(4_000.0)
    assert world.stopped() == []
    assert (world.engine.preemption().mode, world.engine.preemption().why) == (Mode.OFF, "maintenance")
