"""Inputs that other systems got wrong, as far as an engine with quotas is concerned; C8 and more of C9 are in test_in_force.py."""

from __future__ import annotations

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang, RequeueJob
from yarn_gpu_sched.engine.events import (
    JobChanged,
    OutcomeReported,
    Pass,
    ResourceManagerRegistered,
    SnapshotEnded,
    VirtualClusterRemoved,
)
from yarn_gpu_sched.engine.views import VirtualClusterUse
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity


def world_of(servers: int = 2, gpus: int = 4, *, relax_after_s: float = 0.0) -> World:
    settings = EngineSettings(policy="philly", relax_after_s=relax_after_s)
    return World(settings).up(*(server(f"s{number + 1}", gpus) for number in range(servers)))


def submit(world: World, job_id: str, containers: int, gpus: int, vc: str = "root.a", **fields: object) -> None:
    world.submit(job_id, f"gang:{containers}x{gpus}", vc=vc, **fields)
    world.ask(job_id, ask(containers, worker(gpus)))


def placed(world: World) -> list[str]:
    return [one.job_id for one in world.run()]


def vc_of(world: World, path: str) -> VirtualClusterUse:
    (found,) = [one for one in world.engine.virtual_clusters()[0] if one.virtual_cluster.path == path]
    return found


def test_c5_with_no_server_yet_nobody_is_refused_nor_over_its_quota_and_the_same_attempt_runs_later() -> None:
    world = World(EngineSettings(policy="philly")).up(settle_left_s=60.0)
    world.configure("root.a", capacities=(QueueCapacity("", "[yarn.io/gpu=8]", ""),))
    submit(world, "gang", 2, 4)
    world.now_s = 10.0
    assert placed(world) == []
    assert world.why("gang").startswith("never_fits_now: no GPU server has registered yet")
    assert vc_of(world, "root.a").warnings == ()
    (share,) = vc_of(world, "root.a").shares
    assert (share.quota_gpus, share.used_gpus, share.borrowed_gpus) == (8, 0, 0)
    world.now_s = 20.0
    for name in ("s1", "s2"):
        world.change(server(name))
    assert placed(world) == ["gang"]
    assert world.refusals == []
    assert {one.attempt for one in world.live("gang")} == {1}


def test_c5_a_quota_in_percent_is_of_nothing_before_any_server_and_of_all_of_them_later() -> None:
    world = World(EngineSettings(policy="philly")).up(settle_left_s=60.0)
    world.configure("root.a", capacities=(QueueCapacity("", "50", "50"),))
    submit(world, "gang", 2, 2)
    assert placed(world) == []
    assert world.refusals == []
    for name in ("s1", "s2"):
        world.change(server(name))
    assert placed(world) == ["gang"]
    (share,) = vc_of(world, "root.a").shares
    assert (share.quota_gpus, share.maximum_gpus) == (4, 4)


def test_c9_a_leaf_with_a_running_gang_gets_children() -> None:
    """What runs there counts for it as before, for what is above it, and against its maximum."""
    world = world_of()
    world.configure("root.a", quota_gpus=4, maximum_gpus=6)
    submit(world, "runs", 2, 2)
    assert placed(world) == ["runs"]
    world.configure("root.a", quota_gpus=4, maximum_gpus=6, parent=True)
    world.configure("root.a.x", quota_gpus=2)
    submit(world, "below", 1, 2, "root.a.x")
    submit(world, "over", 1, 2, "root.a.x")
    assert placed(world) == ["below"]
    assert "queue root.a uses 6 of the 6 GPUs" in world.why("over")
    assert (vc_of(world, "root.a").used.gpus, vc_of(world, "root.a.x").used.gpus) == (6, 2)
    world.end("runs")
    assert placed(world) == ["over"]


def test_c9_a_leaf_that_is_removed_and_added_again_keeps_its_jobs_and_their_places() -> None:
    world = world_of()
    world.configure("root.a", quota_gpus=4, maximum_gpus=4)
    submit(world, "runs", 1, 4)
    assert placed(world) == ["runs"]
    submit(world, "waits", 1, 4)
    world.apply(VirtualClusterRemoved(now_s=world.now_s, path="root.a"))
    assert vc_of(world, "root.a").used.gpus == 4, "its jobs are still there"
    world.now_s += 5.0
    world.configure("root.a", quota_gpus=4, maximum_gpus=4)
    submit(world, "later", 1, 4)
    assert placed(world) == []
    assert world.why("waits").startswith("vc_maximum")
    world.end("runs")
    assert placed(world) == ["waits"]


def test_c9_while_a_leaf_is_removed_nothing_limits_it() -> None:
    world = world_of()
    world.configure("root.a", maximum_gpus=4)
    submit(world, "runs", 1, 2)
    submit(world, "waits", 1, 4)
    assert placed(world) == ["runs"]
    world.apply(VirtualClusterRemoved(now_s=world.now_s, path="root.a"))
    assert placed(world) == ["waits"]


def test_c9_a_quota_that_was_lowered_while_the_service_was_away_kills_nobody() -> None:
    """8 used, 2 left of the quota: 6 are borrowed, and nothing is stopped."""
    world = world_of()
    world.configure("root.a", quota_gpus=8)
    for number in range(4):
        submit(world, f"j{number}", 1, 2, submit_time_s=float(number))
    assert len(placed(world)) == 4
    held = {f"j{number}": world.live(f"j{number}") for number in range(4)}
    anew = World(engine=Engine.restore(world.engine.snapshot()))
    anew.apply(ResourceManagerRegistered(now_s=9.0, cluster_id="c", epoch=1))
    for name in ("s1", "s2"):
        anew.change(server(name))
    anew.configure("root.a", quota_gpus=2)
    for job_id, containers in held.items():
        anew.submit(job_id, "gang:1x2", submit_time_s=float(job_id[1:]), recovered=True)
        for one in containers:
            anew.seen(one.container_id, job_id, one.server_id, one.resource, gpu_indices=one.gpu_indices)
    anew.apply(SnapshotEnded(now_s=9.0))
    assert anew.decide() == []
    assert not any(isinstance(one, RequeueJob) for one in anew.commands)
    (share,) = vc_of(anew, "root.a").shares
    assert (share.quota_gpus, share.used_gpus, share.borrowed_gpus) == (2, 8, 6)


def test_c13_nothing_new_goes_to_a_server_that_drains_and_a_gang_that_goes_with_it_returns_with_its_old_place() -> None:
    world = world_of()
    world.configure("root.a", quota_gpus=8)
    submit(world, "gang", 2, 4)
    (decision,) = world.decide()
    world.commit(decision)
    world.change(server("s2", state=ServerState.DRAINING))
    submit(world, "later", 2, 4)
    assert placed(world) == []
    world.remove("s2")
    world.release_all("gang")
    world.apply(
        JobChanged(now_s=world.now_s, job=Job("gang", "root.a", tags=("gang:2x4",), submit_time_s=1.0, attempt=2))
    )
    world.ask("gang", ask(2, worker(4)), attempt=2)
    assert placed(world) == [], "whole or not at all"
    world.change(server("s2"))
    assert placed(world) == ["gang"], "recommissioned it is usable at once, by the first that came"


def test_c13_a_decision_that_is_under_way_when_its_server_goes_holds_nothing_afterwards() -> None:
    world = world_of()
    world.configure("root.a", quota_gpus=8, maximum_gpus=8)
    submit(world, "gang", 2, 4)
    (decision,) = world.decide()
    world.remove("s2")
    world.refuse(decision, OutcomeCode.SERVER_GONE)
    assert vc_of(world, "root.a").used.gpus == 0
    world.change(server("s2"))
    world.now_s = 1.0
    assert placed(world) == ["gang"]


def test_c25_the_end_by_its_lifetime_frees_what_is_held_and_a_decision_under_way_is_refused_cleanly() -> None:
    world = world_of(1)
    world.configure("root.a", quota_gpus=4, maximum_gpus=4)
    world.submit("ahead", "gang:1x2", vc="root.a", expire_time_s=100.0)
    world.ask("ahead", ask(1, worker(1), 0, am=True))
    (decision,) = world.decide()
    assert vc_of(world, "root.a").used.gpus == 3, "its gang's are held"
    world.end("ahead", JobEnd.KILLED, release=False)
    world.apply(OutcomeReported(now_s=world.now_s, decision_id=decision.decision_id, code=OutcomeCode.NO_ATTEMPT))
    assert vc_of(world, "root.a").used.gpus == 0
    submit(world, "next", 1, 4)
    assert placed(world) == ["next"]


@pytest.mark.parametrize("step_s", [-3_600.0, 0.0])
def test_c25_time_that_is_told_backwards_moves_no_timer(step_s: float) -> None:
    """A driver that tells an earlier time, for whatever reason, stops no ladder and ends no pause early."""
    world = world_of(relax_after_s=150.0)
    for name in ("s1", "s2"):
        world.seen(f"held-{name}", f"holder-{name}", name, worker(2))
    submit(world, "gang", 4, 1)
    assert world.decide() == []
    world.now_s = 100.0
    assert world.decide() == []
    world.apply(Pass(now_s=100.0 + step_s))
    assert world.engine.next_wake_s() == 150.0
    world.now_s = 150.0
    assert [type(one) for one in world.decide()] == [PlaceGang]


def test_c28_parameter_servers_of_one_queue_never_take_the_memory_of_anothers_workers() -> None:
    world = World(EngineSettings(policy="philly")).up(
        *(server(f"s{n}", 1, memory_mb=8_192, vcores=8) for n in range(4))
    )
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=4)
    world.submit("helpers", vc="root.a")
    world.ask("helpers", ask(100, worker(0, 500)))
    world.run()
    submit(world, "workers", 4, 1, "root.b")
    world.ask("workers", ask(4, worker(1, 7_000, 6)))
    assert placed(world)[0] == "workers"
    assert len(world.live("workers")) == 4


def test_c29_an_application_that_the_resource_manager_does_not_let_ask_is_told_whose_limit_that_is() -> None:
    world = world_of()
    world.configure("root.a", quota_gpus=4)
    world.submit("accepted", "gang:1x4", vc="root.a", active=False)
    assert world.why("accepted").startswith("not_asked: the resource manager has not let the application ask yet")
    outlook = world.engine.outlook("accepted")
    assert outlook is not None
    assert "maximum-am-resource-percent" in outlook.changes[0]
    world.ask("accepted", ask(1, AM, 0, am=True), ask(1, worker(4)))
    assert placed(world) == [], "nothing is committed for who is not active"
    world.submit("accepted", "gang:1x4", vc="root.a", submit_time_s=1.0)
    assert placed(world) == ["accepted", "accepted"]


def test_c26_queues_that_say_nothing_of_gpus_limit_none_and_jobs_without_gpus_run_where_there_are_none() -> None:
    settings = EngineSettings(policy="philly", place_on_cpu_servers=True)
    world = World(settings).up(server("cpu", 0))
    world.configure("root.a", capacities=(QueueCapacity("", "[memory=4096,vcores=4]", "[memory=65536,vcores=64]"),))
    world.submit("plain", vc="root.a")
    world.ask("plain", ask(2, worker(0)))
    assert placed(world) == ["plain", "plain"]
    (share,) = vc_of(world, "root.a").shares
    assert (share.quota_gpus, share.maximum_gpus) == (None, None)
