"""GPUs that were taken back for a gang and are slow to become free: the gang waits for them, and nobody else has them meanwhile."""

from __future__ import annotations

import pytest

from tests.engine.monitored import Monitored
from tests.engine.world import ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.events import ServerRemoved
from yarn_gpu_sched.model.health import GpuReport, Health
from yarn_gpu_sched.model.preemption import Mode

HOLD_S, ALARM_S = 5.0, 60.0
SETTINGS = EngineSettings(
    policy="philly",
    preemption=Mode.ON,
    preempt_after_s=2.0,
    preempt_grace_s=0.0,
    preempt_hold_s=HOLD_S,
    preempt_min_run_s=0.0,
    preempt_pause_s=0.0,
    zombie_alarm_s=ALARM_S,
)


@pytest.fixture
def world() -> Monitored:
    """Let a gang of `root.b` wait, within its quota, for the GPUs of one of `root.a` that was stopped for it and has gone."""
    world = Monitored("s1", settings=SETTINGS)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=4)
    world.submit("victim", "gang:1x4")
    world.ask("victim", ask(1, worker(4)))
    world.run()
    zombies(world, 0, 1, 2, 3)
    world.submit("back", "gang:1x4", vc="root.b")
    world.ask("back", ask(1, worker(4)))
    world.decide()
    world.wait(2.0)
    world.run()
    world.release_all("victim")
    world.submit("greedy", "gang:1x1", vc="root.a")
    world.ask("greedy", ask(1, worker(1)))
    return world


def zombies(world: Monitored, *slots: int) -> None:
    """Let the victim's processes be on these GPUs and on no others; the monitor has heard of its end, if it has ended."""
    gone = () if world.live("victim") else ("k0",)
    said = [GpuReport(slot, f"GPU-s1-{slot}", occupants=("k0",) if slot in slots else ()) for slot in range(4)]
    world.report("s1", *said, released=gone)


def started(world: Monitored) -> list[str]:
    """List who was placed after the victim, once all that can be decided is."""
    world.run()
    return [one.job_id for one in world.commands if isinstance(one, PlaceGang)][1:]


def test_the_hold_of_a_preemptor_outlasts_the_clearing_of_what_was_taken_back_for_it(world: Monitored) -> None:
    zombies(world, 1)  # three are free at once: they are not for others
    for _ in range(5):
        world.wait(HOLD_S + 1.0)
        assert started(world) == []
    assert [plan.job_id for plan in world.engine.preemption().plans] == ["back"]
    zombies(world)
    assert started(world) == ["back"]


def test_what_does_not_clear_is_an_alarm_and_the_hold_ends_with_it(world: Monitored) -> None:
    zombies(world, 1)
    world.wait(ALARM_S - 1.0)
    assert (world.health("s1", 1), started(world)) == (Health.OK, [])
    world.wait(1.0)
    assert (world.health("s1", 1), started(world)) == (Health.SUSPECT, ["greedy"])
    assert world.engine.preemption().plans == ()


def test_a_container_that_is_there_again_with_its_server_holds_its_gpus_rightly() -> None:
    world = Monitored("s1")
    world.submit("j", "gang:1x2")
    world.ask("j", ask(1, worker(2)))
    world.run()
    world.apply(ServerRemoved(now_s=world.now_s, server_id="s1"))
    assert world.gpu("s1", 0).gpu.out
    world.change(server("s1"))
    world.seen("k0", "j", "s1", worker(2), gpu_indices=(0, 1))
    world.wait(1_000.0)
    assert [world.health("s1", slot) for slot in (0, 1)] == [Health.OK] * 2
    assert not world.gpu("s1", 0).gpu.out
    world.end("j")
    assert world.gpu("s1", 0).gpu.out
