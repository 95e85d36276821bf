"""What one job may have: refused where it could never run, kept from growing beyond it, ended when its time is over."""

from typing import Any

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import RefuseJob
from yarn_gpu_sched.model.job import JobEnd
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity


def world_of(*, policy: str = "philly", settle_left_s: float = 0.0, **queue: object) -> World:
    world = World(EngineSettings(policy=policy)).up(
        *(server(f"s{number}") for number in range(4)), settle_left_s=settle_left_s
    )
    if queue:
        world.configure("root.a", **queue)
    return world


def settings(**pairs: int) -> dict[str, Any]:
    return {"settings": tuple((name.replace("_", "-"), str(value)) for name, value in pairs.items())}


def refused(world: World) -> list[tuple[str, str]]:
    world.decide()
    return [(one.job_id, one.diagnostics) for one in world.refusals]


def test_a_gang_larger_than_its_queues_maximum_is_refused_by_its_tag() -> None:
    world = world_of(maximum_gpus=8)
    world.submit("j", "gang:3x3")
    assert refused(world) == [("j", "asks 9 GPUs at once, queue root.a may use 8")]


def test_a_gang_larger_than_the_maximum_of_a_queue_above_is_refused() -> None:
    world = world_of()
    world.configure("root.p", maximum_gpus=4, parent=True)
    world.submit("j", "gang:3x2", vc="root.p.a")
    assert refused(world) == [("j", "asks 6 GPUs at once, queue root.p may use 4")]


@pytest.mark.parametrize(("limit", "unit"), [("memory=2048", "3072 MB of memory"), ("vcores=2", "3 vcores")])
def test_a_gang_that_wants_more_memory_or_vcores_than_its_queue_may_use_is_refused(limit: str, unit: str) -> None:
    world = world_of(capacities=(QueueCapacity("", "", f"[{limit}]"),))
    world.submit("j", "gang:3")
    world.ask("j", ask(3, worker(1)))
    assert refused(world) == [("j", f"asks {unit} at once, queue root.a may use {limit.split('=')[1]}")]


def test_nothing_is_refused_by_limits_while_capacity_has_not_settled_nor_if_recovered() -> None:
    world = world_of(maximum_gpus=8, settle_left_s=30.0)
    world.submit("new", "gang:3x3")
    world.submit("old", "gang:3x3", recovered=True)
    for name in ("new", "old"):
        world.ask(name, ask(3, worker(3)))
    assert refused(world) == []
    assert world.why("new").startswith("vc_maximum: asks 9 GPUs at once")
    world.now_s = 30.0
    assert [job_id for job_id, _ in refused(world)] == ["new"]


def test_a_maximum_that_falls_below_a_waiting_gang_is_its_reason_and_blocks_nobody() -> None:
    world = world_of(maximum_gpus=16)
    world.submit("holder", "gang:4x4", vc="root.b")
    world.ask("holder", ask(4, worker(4)))
    world.run()
    world.submit("j", "gang:4x4")
    world.ask("j", ask(4, worker(4)))
    world.decide()
    world.configure("root.a", maximum_gpus=8)
    world.end("holder")
    world.submit("small", "gang:2x4")
    world.ask("small", ask(2, worker(4)))
    assert [one.job_id for one in world.run()] == ["small"]
    assert (
        world.why("j") == "vc_maximum: asks 16 GPUs at once, 4 x 4; queue root.a uses 8 of the 8 GPUs that it may use"
    )
    assert world.refusals == []


def test_a_job_larger_than_a_job_may_be_is_refused() -> None:
    world = world_of(**settings(max_gpus_per_job=4))
    world.submit("fits", "gang:2x2")
    world.submit("j", "gang:3x2")
    assert refused(world) == [("j", "asks 6 GPUs at once, a job of queue root.a may use 4 (ygs.max-gpus-per-job)")]


def test_a_job_without_a_gang_grows_to_what_a_job_may_use_and_on_when_that_is_lifted() -> None:
    world = world_of(**settings(max_gpus_per_job=3))
    world.submit("spark")
    world.ask("spark", ask(5, worker(1)))
    while world.run():
        pass
    assert len(world.live("spark")) == 3
    assert world.why("spark").startswith("user_limit: asks 1 GPUs; it uses 3 GPUs, and a job of queue root.a may use 3")
    world.configure("root.a")
    while world.run():
        pass
    assert len(world.live("spark")) == 5


def test_what_is_held_for_a_lost_member_is_given_to_its_replacement_in_a_job_that_uses_all_it_may() -> None:
    world = world_of(**settings(max_gpus_per_job=8))
    world.submit("j", "gang:2x4")
    world.ask("j", ask(2, worker(4)))
    world.run()
    lost = world.live("j")[0]
    world.release(lost.container_id, lost=True)
    world.ask("j", ask(1, worker(4)))
    (placed,) = world.decide()
    assert [one.server_id for one in placed.assignments] == [lost.server_id]


def test_what_is_held_for_the_gang_of_a_master_is_given_to_it_in_a_job_that_uses_all_it_may() -> None:
    world = world_of(**settings(max_gpus_per_job=5))
    world.submit("j", "gang:2x2")
    world.ask("j", ask(1, worker(1), 0, am=True))
    world.run()
    world.ask("j", ask(2, worker(2)))
    assert [len(one.assignments) for one in world.run()] == [2]


def test_where_the_policy_knows_no_virtual_clusters_nothing_of_theirs_limits_a_job() -> None:
    world = world_of(policy="fifo", maximum_gpus=1, **settings(max_gpus_per_job=1, max_runtime_s=5))
    world.submit("j", "gang:2x2", "runtime:50")
    world.ask("j", ask(2, worker(2)))
    assert refused(world) == []
    assert world.why("j").startswith("decided")


def test_a_job_that_says_to_run_longer_than_it_may_is_refused() -> None:
    world = world_of(**settings(max_runtime_s=60))
    world.submit("fits", "gang:1x1", "runtime:60")
    world.submit("j", "gang:1x1", "runtime:61")
    said = "says that it runs for 61 s, and a job of queue root.a may run for 60 s (ygs.max-runtime-s)"
    assert refused(world) == [("j", said)]


def runs(world: World, name: str, **fields: object) -> None:
    world.submit(name, "gang:2x1", **fields)
    world.ask(name, ask(2, worker(1)))
    world.run()


def test_a_job_that_has_run_as_long_as_it_may_is_ended_with_the_reason_once() -> None:
    world = world_of(**settings(max_runtime_s=60))
    world.now_s = 10.0
    runs(world, "j")
    assert world.engine.next_wake_s() == 70.0
    world.now_s = 69.9
    assert refused(world) == []
    world.now_s = 70.0
    assert refused(world) == [
        ("j", "has run for 60 s, and a job of queue root.a may run no longer (ygs.max-runtime-s)")
    ]
    assert refused(world) == refused(world), "not again while that is under way"
    world.commit(*world.refusals)
    world.end("j", JobEnd.KILLED)
    assert world.engine.next_wake_s() is None


def test_waiting_counts_for_nothing_of_the_time_that_a_job_may_run() -> None:
    world = world_of(**settings(max_runtime_s=60))
    world.submit("holder", "gang:4x4", vc="root.b")
    world.ask("holder", ask(4, worker(4)))
    world.run()
    runs(world, "j")
    world.now_s = 100.0
    world.end("holder")
    world.run()
    assert world.engine.next_wake_s() == 160.0


def test_a_job_that_moves_to_another_queue_has_run_since_it_was_placed() -> None:
    world = world_of(**settings(max_runtime_s=60))
    world.configure("root.b", **settings(max_runtime_s=70))
    runs(world, "j", submit_time_s=1.0)
    world.now_s = 50.0
    world.submit("j", "gang:2x1", vc="root.b", submit_time_s=1.0)
    uses, _ = world.engine.virtual_clusters()
    assert [one.virtual_cluster.path for one in uses if one.jobs_running] == ["root.b"]
    world.now_s = 69.9
    assert refused(world) == []
    world.now_s = 70.0
    assert [job_id for job_id, _ in refused(world)] == ["j"]


def test_a_recovered_job_is_ended_too_when_its_time_is_over_and_a_limit_that_is_lifted_ends_nobody() -> None:
    world = world_of(**settings(max_runtime_s=60))
    runs(world, "j", recovered=True)
    runs(world, "k", user="else")
    world.configure("root.a", **settings(max_runtime_s=100))
    world.now_s = 60.0
    assert refused(world) == []
    world.configure("root.a")
    world.now_s = 150.0
    assert refused(world) == []
    world.configure("root.a", **settings(max_runtime_s=100))
    assert [job_id for job_id, _ in refused(world)] == ["j", "k"]


def test_an_end_that_the_resource_manager_refused_is_ordered_again() -> None:
    world = world_of(**settings(max_runtime_s=60))
    runs(world, "j")
    world.now_s = 60.0
    world.decide()
    (order,) = [one for one in world.commands if isinstance(one, RefuseJob)]
    world.refuse(order)
    world.now_s = 61.0
    world.decide()
    assert [one.job_id for one in world.refusals] == ["j", "j"]


def test_read_again_it_ends_jobs_at_the_same_time() -> None:
    world = world_of(**settings(max_runtime_s=60))
    world.now_s = 5.0
    runs(world, "j")
    again = Engine.restore(world.engine.snapshot())
    assert again.next_wake_s() in (65.0, 5.0)
    world.engine = again
    world.now_s = 65.0
    assert [job_id for job_id, _ in refused(world)] == ["j"]
    assert Engine.restore(again.snapshot()).digest() == again.digest()
