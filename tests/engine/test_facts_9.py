"""What users of other schedulers had to ask for, under `philly`; what other tests of the engine hold already is not here again."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity

DOCS = Path(__file__).resolve().parents[2] / "docs"


def philly(*servers: Server) -> World:
    return World(EngineSettings(policy="philly")).up(*servers)


def submit(world: World, job_id: str, containers: int, gpus: int, vc: str = "root.a", **fields: object) -> None:
    world.submit(job_id, f"gang:{containers}x{gpus}", vc=vc, **fields)
    world.ask(job_id, ask(containers, worker(gpus)))


def placed(world: World) -> list[str]:
    return [one.job_id for one in world.run()]


def test_facts_9_01_two_jobs_with_half_of_what_they_need_never_hold_and_wait_for_ever() -> None:
    """Two virtual clusters, each with half of the cluster, and each with a gang that wants all of it."""
    world = philly(server("s1"), server("s2"))
    for vc in ("root.a", "root.b"):
        world.configure(vc, quota_gpus=4)
        submit(world, f"gang-{vc}", 2, 4, vc)
    assert placed(world) == ["gang-root.a"]
    assert world.engine.cluster().used.gpus == 8
    world.end("gang-root.a")
    assert placed(world) == ["gang-root.b"]


def test_facts_9_02_a_container_that_is_larger_than_any_server_is_refused_with_the_reason() -> None:
    world = philly(server("s1"), server("s2"))
    world.configure("root.a", quota_gpus=8)
    world.submit("job", "gang:1x5", vc="root.a")
    world.decide()
    (refusal,) = world.refusals
    assert refusal.diagnostics == "asks 5 GPUs a container, the largest server has 4"


def test_facts_9_03_idle_quota_can_be_borrowed_up_to_every_gpu() -> None:
    world = philly(server("s1"), server("s2"))
    world.configure("root.a", quota_gpus=2)
    world.configure("root.b", quota_gpus=6)
    for number in range(8):
        submit(world, f"j{number}", 1, 1)
    assert len(placed(world)) == 8
    (vc,) = [one for one in world.engine.virtual_clusters()[0] if one.virtual_cluster.path == "root.a"]
    assert [(one.used_gpus, one.borrowed_gpus) for one in vc.shares] == [(8, 6)]


def test_facts_9_05_how_many_gpus_and_which_are_one_record() -> None:
    world = philly(server("s1"), server("s2"))
    submit(world, "gang", 3, 2)
    (decision,) = world.decide()
    assert all(len(one.gpu_indices) == one.resource.gpus == 2 for one in decision.assignments)
    world.commit(decision)
    assert all(len(one.gpu_indices) == one.resource.gpus == 2 for one in world.live("gang"))
    for view in world.engine.servers()[0]:
        assert sum(bool(gpu.job_id) for gpu in view.gpus) == view.used.gpus


def test_facts_9_06_what_is_unhealthy_or_held_by_nobody_knows_whom_takes_nothing_from_the_base_of_quotas() -> None:
    world = philly(server("s1"), server("s2"))
    world.configure("root.a", capacities=(QueueCapacity("", "50", "50"),))

    def has() -> list[tuple[int | None, int | None]]:
        (vc,) = [one for one in world.engine.virtual_clusters()[0] if one.virtual_cluster.path == "root.a"]
        return [(one.quota_gpus, one.maximum_gpus) for one in vc.shares]

    assert has() == [(4, 4)]
    world.change(server("s2", state=ServerState.UNHEALTHY))
    world.seen("x", "stranger", "s1", worker(3))
    assert has() == [(4, 4)]
    world.change(server("s2", 2))
    world.remove("s1")
    assert has() == [(4, 4)]


def test_facts_9_08_small_jobs_are_packed_so_that_they_keep_no_large_one_out() -> None:
    world = philly(*(server(f"s{number}") for number in range(4)))
    for number in range(8):
        submit(world, f"small{number}", 1, 1, f"root.{'ab'[number % 2]}")
    assert len(placed(world)) == 8
    submit(world, "large", 2, 4)
    assert placed(world) == ["large"]


def test_facts_9_09_the_tightest_domain_that_holds_the_whole_gang_is_taken_before_any_that_spans() -> None:
    racks = [("/wide", 4), ("/tight", 2), ("/small", 1)]
    world = philly(*(server(f"{rack[1:]}{number}", rack=rack) for rack, count in racks for number in range(count)))
    submit(world, "gang", 2, 4)
    assert placed(world) == ["gang"]
    assert sorted(one.server_id for one in world.live("gang")) == ["tight0", "tight1"]


def test_facts_9_11_a_gang_that_is_asked_bit_by_bit_does_not_lose_its_place_to_a_later_job() -> None:
    world = philly(server("s1"))
    world.seen("held", "holder", "s1", worker(4))
    world.submit("early", "gang:4x1")
    world.ask("early", ask(3, worker(1)))
    submit(world, "late", 4, 1)
    assert placed(world) == []
    world.ask("early", ask(4, worker(1)))
    world.release("held")
    assert placed(world) == ["early"]


def test_facts_9_11_groups_of_gangs_that_interleave_never_lock_each_other() -> None:
    """Two sweeps of gangs of half the cluster and all of it, one queue each: one after the other all of them run."""
    world = philly(server("s1"), server("s2"))
    for number, (vc, containers) in enumerate(itertools.product(("root.a", "root.b"), (2, 1, 2, 1))):
        world.configure(vc, quota_gpus=4)
        submit(world, f"g{number}", containers, 4, vc)
    ran: list[str] = []
    for _ in range(8):
        now = placed(world)
        ran += now
        for job_id in now:
            world.end(job_id)
    assert sorted(ran) == [f"g{number}" for number in range(8)]


def test_facts_9_12_a_stream_of_small_jobs_and_a_large_gang_that_is_blocked_go_by_each_other() -> None:
    """The half of it that is here: small jobs are not held up by the large one."""
    world = philly(server("s1"), server("s2"))
    submit(world, "runs", 1, 4)
    assert placed(world) == ["runs"]
    submit(world, "large", 2, 4)
    for number in range(4):
        submit(world, f"small{number}", 1, 1)
    assert placed(world) == [f"small{number}" for number in range(4)]


def test_facts_9_13_what_can_not_run_now_does_not_block_the_head_of_the_queue() -> None:
    world = philly(server("s1"), server("s2"))
    world.configure("root.a", quota_gpus=8, maximum_gpus=8)
    submit(world, "over", 4, 4, recovered=True, priority=9)
    submit(world, "fits", 2, 4)
    assert placed(world) == ["fits"]
    assert world.why("over").startswith("never_fits_now")


def test_facts_9_14_what_is_granted_is_what_was_asked_in_every_resource_type() -> None:
    world = philly(server("s1"), server("s2"))
    sizes = [Resource(1_000, 3, 2), Resource(777, 1, 2), Resource(333, 5, 0)]
    world.submit("job", "gang:4")
    world.ask("job", ask(1, sizes[0], 1), ask(2, sizes[1], 2), ask(1, sizes[2], 3))
    assert placed(world) == ["job"]
    granted = sorted((one.resource.memory_mb, one.resource.vcores, one.resource.gpus) for one in world.live("job"))
    assert granted == [(333, 5, 0), (777, 1, 2), (777, 1, 2), (1_000, 3, 2)]
    assert world.engine.cluster().used == Resource(2_887, 10, 6)


def test_facts_9_15_a_cap_on_each_user_of_a_queue_can_be_lifted() -> None:
    """Also where a queue above sets it, and the queue itself lifts it."""
    world = philly(server("s1"))
    world.configure("root.p", parent=True, settings=(("max-gpus-per-user", "1"),))
    for number in range(2):
        submit(world, f"x{number}", 1, 1, "root.p.x", user="ann")
        submit(world, f"y{number}", 1, 1, "root.p.y", user="ann")
    assert placed(world) == ["x0", "y0"]
    world.configure("root.p.x", settings=(("max-gpus-per-user", "2"),))
    assert placed(world) == ["x1"]
    assert world.why("y1").startswith("user_limit")


def test_facts_9_16_the_position_of_a_gpus_index_is_stated() -> None:
    assert "in the order of nvidia-smi" in str(Server.__doc__)
    assert "`gpu_indices` are in the order of `nvidia-smi`" in (DOCS / "cli.md").read_text()
