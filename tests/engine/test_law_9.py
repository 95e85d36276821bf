"""Law 9 can fail: what is kept for gangs that waited too long is corrupted, and the law names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.engine.test_reserving import BOUND_S, Waiting
from yarn_gpu_sched.engine.audit import ENGINE_LAWS
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.keeping import keep
from yarn_gpu_sched.engine.reservation_checks import reservation_faults
from yarn_gpu_sched.model.preemption import Plan
from yarn_gpu_sched.model.reservation import Reservation


def kept() -> Core:
    """Let `g` have a reservation, and part of it be kept; `h` of another virtual cluster has one, `i` none."""
    world = Waiting(4, 4)
    for turn in range(6):
        world.one(f"r{turn}")
    for name, vc in (("g", "root.a"), ("h", "root.b"), ("i", "root.a")):
        world.gang(name, 4, 1, vc, "locality:0")
    world.step(BOUND_S)
    assert sorted(world.reserved) == ["g", "h"]
    world.end("r0")
    world.step(BOUND_S + 1.0)
    assert (world.kept("g"), world.kept("h")) == (2, 0)
    return world.engine._core


def broken(core: Core) -> list[str]:
    return list(reservation_faults(core))


def reservation(core: Core) -> Reservation:
    return core.reservations.by_job["g"]


def give_its_virtual_cluster_two(core: Core) -> None:
    core.reservations.by_job["i"] = replace(reservation(core), job_id="i")
    core.changed(core.state.jobs["i"])


def keep_for_nobody(core: Core) -> None:
    core.reservations.by_job["nobody"] = replace(reservation(core), job_id="nobody")


def take_elsewhere(core: Core) -> None:
    one = reservation(core)
    one.needs = tuple(replace(need, server_id="elsewhere") for need in one.needs)


def take_more_than_it_asks(core: Core) -> None:
    one = reservation(core)
    one.needs += one.needs


def reserve_too_early(core: Core) -> None:
    reservation(core).since_s -= 1.0


def stop_others_as_well(core: Core) -> None:
    core.preemption.plans["g"] = Plan("g", 1, "", 0, (), (), core.now_s, core.now_s, 8, 8)


def forget_who_waits(core: Core) -> None:
    del core.reservations.by_job["h"]
    core.reservations.agenda.clear()
    core.reservations.again.clear()
    core.reservations.overdue.clear()


def keep_too_much_idle(core: Core) -> None:
    one = core.reservations.by_job["h"]
    keep(core, core.state.jobs["h"], one.needs, float("inf"))


def wait_like_others(core: Core) -> None:
    one = core.reservations.by_job.pop("g")
    core.changed(core.state.jobs["g"])
    core.reservations.by_job["g"] = one


CORRUPTIONS = [
    give_its_virtual_cluster_two,
    keep_for_nobody,
    take_elsewhere,
    take_more_than_it_asks,
    reserve_too_early,
    stop_others_as_well,
    forget_who_waits,
    keep_too_much_idle,
    wait_like_others,
]


def test_nothing_is_broken_before() -> None:
    assert ENGINE_LAWS.broken(kept()) == []


def test_it_is_one_of_the_laws() -> None:
    core = kept()
    take_elsewhere(core)
    assert 9 in {found.law for found in ENGINE_LAWS.broken(core)}


@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda one: one.__name__)
def test_law_9_can_fail(corrupt: Callable[[Core], None]) -> None:
    core = kept()
    corrupt(core)
    assert broken(core)
