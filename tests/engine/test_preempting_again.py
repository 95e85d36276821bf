"""When it is looked whom to stop for a gang, and what is said where that is nobody (law 7)."""

from __future__ import annotations

import pytest

from tests.engine.reclaims import AFTER_S, GRACE_S, Reclaiming, borrowed
from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings, preempting
from yarn_gpu_sched.engine.commands import RequeueJob
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.reclaiming import Failing, Found, reclaim
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.preemption import Mode

LOOKS = 20


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List for whom it was searched."""
    names: list[str] = []

    def counted(core: Core, want: JobWant) -> Found | Failing:
        names.append(want.job_id)
        return reclaim(core, want)

    monkeypatch.setattr(preempting, "reclaim", counted)
    return names


def look_often(world: Reclaiming) -> None:
    """Let a second go by, and another."""
    for _ in range(LOOKS):
        world.step(world.now_s + 1.0)
        world.decide()


def test_that_nobody_was_found_is_remembered_until_something_changes(searched: list[str]) -> None:
    """The only one who borrows has a master outside of the cluster."""
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    world.gang("a1", 4, 1)
    world.gang("a2", 4, 1, unmanaged=True)
    world.step(1_000.0)
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert searched == ["b1"]
    look_often(world)
    assert searched == ["b1"]
    world.configure("root.a", quota_gpus=0)
    world.step()
    assert (searched, world.warned()) == (["b1", "b1"], ["a1"])


def test_more_victims_than_a_minute_has_are_not_searched_again_and_again(searched: list[str]) -> None:
    world = Reclaiming(10, preempt_victims_per_minute=3)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=10)
    for turn in range(10):
        world.gang(f"a{turn}", 1, 1)
    world.step(1_000.0)
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    look_often(world)
    assert searched == ["b1"]
    preview = world.engine.preempt_preview("b1")
    assert preview is not None
    assert preview.hindrances == (
        "0 were stopped in the last minute and 0 are warned; 4 more would be over 3 a minute",
    )
    world.end("a0")
    world.step()
    assert (searched, len(world.warned())) == (["b1", "b1"], 3)


def test_below_the_threshold_when_the_grace_ends_nobody_is_stopped() -> None:
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert world.warned() == ["a2"]
    for number in range(3):
        world.change(server(f"t{number}", 1, rack="/r0"))
    world.step(1_000.0 + AFTER_S + GRACE_S)
    assert world.stopped() == []
    preview = world.engine.preempt_preview("b1")
    assert preview is not None
    assert preview.sentence == "8 of 11 GPUs are in use, held or reserved, and that must be 90 % of them"


def test_why_nobody_who_borrows_may_be_stopped_is_said_with_numbers() -> None:
    world = borrowed(preempt_min_run_s=5_000.0)
    world.gang("b1", 4, 1, "root.b")
    preview = world.engine.preempt_preview("b1")
    assert preview is not None
    assert preview.sentence == (
        "nobody who borrows may be stopped: of 1, 1 have run for less than 5000 s, "
        "0 are spared, being stopped already or not to be stopped at all"
    )


def lent(of_b: int, **settings: float) -> Reclaiming:
    """Let one-GPU jobs borrow all of 8 GPUs, of which so many are the quota of `root.b`."""
    world = Reclaiming(8, **settings)  # type: ignore[arg-type] # none of them is the number of racks
    world.configure("root.a", quota_gpus=8 - of_b)
    world.configure("root.b", quota_gpus=of_b)
    for turn in range(8):
        world.gang(f"a{turn}", 1, 1)
    world.step(1_000.0)
    return world


def test_who_is_warned_counts_among_those_of_a_minute() -> None:
    world = lent(8, preempt_victims_per_minute=3)
    for turn in range(3):
        world.gang(f"b{turn}", 2, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert len(world.warned()) == 2


def test_what_is_promised_to_a_gang_counts_for_the_next_of_its_queue() -> None:
    world = lent(6)
    for turn in range(2):
        world.gang(f"b{turn}", 2 * turn + 3, 1, "root.b")
    world.step(1_000.0 + AFTER_S)
    assert len(world.warned()) == 3
    preview = world.engine.preempt_preview("b1")
    assert preview is not None
    assert (preview.condition, preview.plan) == ("over_quota", None)


def test_nobody_wakes_for_a_gang_that_others_were_stopped_for_once_it_runs() -> None:
    world = World(
        EngineSettings(
            policy="philly",
            preemption=Mode.ON,
            preempt_after_s=2.0,
            preempt_grace_s=0.0,
            preempt_hold_s=5.0,
            preempt_min_run_s=0.0,
            preempt_pause_s=0.0,
        )
    ).up(server("s0", 4))
    for path, quota in (("root.h", 3), ("root.b", 1)):
        world.configure(path, quota_gpus=quota)
    for number in range(4):
        world.submit(f"h{number}", "gang:1x1", vc="root.h")
        world.ask(f"h{number}", ask(1, worker(1)))
        world.run()
    world.submit("back", "gang:1x1", vc="root.b")
    world.ask("back", ask(1, worker(1)))
    world.decide()
    world.now_s = 2.0
    world.decide()
    (order,) = [one for one in world.commands if isinstance(one, RequeueJob)]
    world.commit(order)
    world.release_all(order.job_id)
    world.run()
    world.decide()
    assert len(world.live("back")) == 1
    assert world.engine.preemption().plans == ()
    assert world.engine._core.preemption.agenda.next_s() is None


ODD_S = 1.01
"""With a minute added and taken off again it is less than before."""


def test_who_may_be_stopped_after_a_time_is_so_when_that_time_is_noted_however_it_is_rounded() -> None:
    assert (ODD_S + 60.0) - 60.0 < ODD_S
    world = World(
        EngineSettings(
            policy="philly",
            preemption=Mode.ON,
            preempt_after_s=1.0,
            preempt_grace_s=0.0,
            preempt_min_run_s=60.0,
            preempt_pause_s=0.0,
            preempt_victims_per_minute=1,
        )
    ).up(server("s0", 4))
    for path, quota in (("root.h", 2), ("root.b", 2)):
        world.configure(path, quota_gpus=quota)
    world.now_s = ODD_S
    for number in range(4):
        world.submit(f"h{number}", "gang:1x1", vc="root.h")
        world.ask(f"h{number}", ask(1, worker(1)))
        world.run()
    for name in ("back1", "back2"):
        world.submit(name, "gang:1x1", vc="root.b")
        world.ask(name, ask(1, worker(1)))
    stopped_s = []
    for _ in range(12):
        before = len(world.commands)
        world.run()
        orders = [one for one in world.commands[before:] if isinstance(one, RequeueJob)]
        stopped_s += [world.now_s for _ in orders]
        world.commit(*orders)
        for order in orders:
            world.release_all(order.job_id)
        wake_s = world.engine.next_wake_s()
        if wake_s is None:
            break
        world.now_s = max(world.now_s, wake_s)
    assert stopped_s == [
        ODD_S + 60.0,
        ODD_S + 60.0 + 60.0,
    ]  # the youngest has run for a minute, and one a minute is stopped
