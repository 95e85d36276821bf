"""Law 7 can fail: what is under way for a gang is corrupted, and the law names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.engine.reclaims import AFTER_S, GRACE_S, borrowed
from yarn_gpu_sched.engine.audit import ENGINE_LAWS
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.model.preemption import Mode, Plan, Preempted


def warned() -> Core:
    """Let `a2` be warned for `b1`."""
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    return world.engine._core


def stopped() -> Core:
    """Let `a2` be stopped for `b1`, and half of it be gone: what it left is held."""
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S + GRACE_S, obey=False)
    world.commit(*world.orders())
    for container in world.live("a2")[:2]:
        world.release(container.container_id, lost=True)
    world.decide()
    return world.engine._core


def plan_of(core: Core) -> Plan:
    return core.preemption.plans["b1"]


def decide_below_the_threshold(core: Core) -> None:
    plan_of(core).in_use = 7


def stop_nobody(core: Core) -> None:
    plan_of(core).victims = ()


def decide_too_early(core: Core) -> None:
    plan_of(core).decided_s -= 1.0


def stop_who_ran_too_short(core: Core) -> None:
    plan = plan_of(core)
    plan.victims = (replace(plan.victims[0], started_s=plan.decided_s - 599.0),)


def stop_the_one_that_stopped_it(core: Core) -> None:
    core.state.jobs["b1"].tenure.preempted = (Preempted(1.0, "a2", "root.a", 1.0),)


def stop_it_for_itself(core: Core) -> None:
    plan = plan_of(core)
    plan.victims += (replace(plan.victims[0], job_id="b1"),)


def stop_it_for_two(core: Core) -> None:
    core.preemption.plans["a1"] = replace(plan_of(core), job_id="a1")


def disarm_without_sparing(core: Core) -> None:
    core.preemption.mode = Mode.OBSERVE


def hold_for_ever(core: Core) -> None:
    plan_of(core).stopped_s = core.now_s


def stop_too_often(core: Core) -> None:
    core.state.jobs["a1"].tenure.preempted = (Preempted(1.0, "b9", "root.b", 1.0),) * 4


def stop_too_many(core: Core) -> None:
    core.preemption.stopped_s.extend([core.now_s] * 17)


def wait_like_others(core: Core) -> None:
    record = core.state.jobs["b1"]
    want = record.want
    record.want = None
    del core.preemption.plans["b1"]
    plain = core._want(record)
    assert plain is not None
    core.preemption.plans["b1"] = Plan("b1", 1, "", 0, (), (), core.now_s, core.now_s, 8, 8)
    plain.line = want.line  # type: ignore[attr-defined] # it is a JobWant
    record.want = plain


def stop_for_nobody(core: Core) -> None:
    core.preemption.plans["nobody"] = replace(plan_of(core), job_id="nobody", victims=())


def hold_more_than_it_takes(core: Core) -> None:
    plan = plan_of(core)
    plan.needs = tuple(replace(need, mask=need.mask & need.mask - 1) for need in plan.needs)


OF_PLANS = [
    decide_below_the_threshold,
    stop_nobody,
    decide_too_early,
    stop_who_ran_too_short,
    stop_the_one_that_stopped_it,
    stop_it_for_itself,
    stop_it_for_two,
    disarm_without_sparing,
    hold_for_ever,
    stop_too_often,
    stop_too_many,
    wait_like_others,
    stop_for_nobody,
]


def broken(core: Core) -> set[int]:
    return {found.law for found in ENGINE_LAWS.broken(core)}


def test_nothing_is_broken_before() -> None:
    assert broken(warned()) == broken(stopped()) == set()


@pytest.mark.parametrize("corrupt", OF_PLANS, ids=lambda one: one.__name__)
def test_law_7_can_fail(corrupt: Callable[[Core], None]) -> None:
    core = warned()
    corrupt(core)
    assert 7 in broken(core)


def test_law_7_can_fail_by_what_is_held() -> None:
    core = stopped()
    hold_more_than_it_takes(core)
    assert 7 in broken(core)
