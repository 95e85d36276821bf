"""Right behaviours learnt from other schedulers: what is lent comes back, and capacity that goes (facts 9.3, 9.4, 9.7, 9.10)."""

from __future__ import annotations

from tests.engine.reclaims import Reclaiming, borrowed
from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings


def test_facts_9_03_idle_quota_that_was_borrowed_to_the_last_gpu_is_given_back_by_preemption() -> None:
    world = borrowed()
    assert world.engine.cluster().used.gpus == 8
    world.gang("b1", 4, 1, "root.b")
    world.step(2_000.0)
    assert world.stopped() == ["a2"]
    assert world.runs("b1")


def test_facts_9_04_victims_are_searched_with_the_constraints_of_placement_where_every_gpu_is_in_use() -> None:
    """Two jobs of two GPUs cost less than the one of four, but no server would be free for the gang without them."""
    world = Reclaiming(4, 4, 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=12)
    world.gang("whole", 1, 4)
    world.step(1_000.0)
    for name in ("x1", "x2"):
        world.gang(name, 1, 2)
    for name in ("y1", "y2"):
        world.gang(name, 1, 2, "root.b")
    servers = {name: {one.server_id for one in world.live(name)} for name in ("x1", "x2", "y1", "y2")}
    world.end("x2")
    world.end("y1")
    world.gang("y3", 1, 2, "root.b")
    world.gang("x3", 1, 2)
    assert servers["x1"] == servers["x2"] != servers["y1"] == servers["y2"]
    assert world.engine.cluster().used.gpus == 12
    world.step(1_900.0)
    world.gang("b1", 1, 4, "root.b")
    world.step(3_000.0)
    assert world.stopped() == ["whole"]
    assert world.runs("b1")


def test_facts_9_07_a_server_that_reports_fewer_gpus_shrinks_at_once_and_what_is_over_committed_is_shown() -> None:
    world = World(EngineSettings(policy="philly")).up(server("s1", 4))
    world.submit("j", "gang:3x1")
    world.ask("j", ask(3, worker(1)))
    world.run()
    world.change(server("s1", 2))
    cluster = world.engine.cluster()
    assert (cluster.capacity.gpus, cluster.used.gpus) == (2, 3)
    world.submit("k", "gang:1x1")
    world.ask("k", ask(1, worker(1)))
    assert world.run() == []


def test_facts_9_10_the_fewest_whole_jobs_are_taken_back_and_no_container_from_each_of_ten_gangs() -> None:
    """Ten gangs lie across all servers; one of them goes whole, and the nine others lose nothing."""
    world = Reclaiming(*[10] * 2)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=20)
    for turn in range(10):
        world.gang(f"g{turn}", 2, 1)
    world.step(1_000.0)
    world.gang("b1", 2, 1, "root.b")
    world.step(2_000.0)
    assert len(world.stopped()) == 1
    assert world.runs("b1")
    assert sum(len(world.live(f"g{turn}")) == 2 for turn in range(10)) == 9
