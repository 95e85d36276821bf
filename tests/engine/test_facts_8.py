"""Rules that were decided (docs/policy.md): one test for each that no other test of the engine holds already."""

from __future__ import annotations

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.server import UNKNOWN_RACK, Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity

STEP_S = 150.0


def philly(*servers: Server, relax_after_s: float = STEP_S) -> World:
    return World(EngineSettings(policy="philly", relax_after_s=relax_after_s)).up(*servers)


def unknown(count: int, gpus: int = 4) -> list[Server]:
    """Make servers of which nobody has said where they stand."""
    return [server(f"d{number}", gpus, rack=UNKNOWN_RACK) for number in range(count)]


@pytest.mark.parametrize("ceiling", [0, 1])
def test_facts_8_1_no_gang_on_several_servers_of_the_default_rack_is_taken_for_one_domain(ceiling: int) -> None:
    world = philly(*unknown(3))
    world.submit("near", "gang:2x4", f"locality:{ceiling}")
    world.ask("near", ask(2, worker(4)))
    for now_s in (0.0, STEP_S, 10 * STEP_S):
        world.now_s = now_s
        assert world.decide() == []
    assert world.why("near").startswith("fragmented")


def test_facts_8_1_a_single_server_of_the_default_rack_is_its_own_domain() -> None:
    world = philly(*unknown(2))
    world.submit("small", "gang:4x1", "locality:0")
    world.ask("small", ask(4, worker(1)))
    (placed,) = world.decide()
    assert placed.level is Level.FEWEST_SERVERS
    assert len({one.server_id for one in placed.assignments}) == 1


def test_facts_8_1_a_rack_that_is_known_is_taken_before_servers_of_the_default_rack() -> None:
    world = philly(*unknown(2), server("s1", rack="/r1"), server("s2", rack="/r1"))
    world.submit("gang", "gang:2x4")
    world.ask("gang", ask(2, worker(4)))
    (placed,) = world.decide()
    assert placed.level is Level.FEWEST_SERVERS
    assert {one.server_id for one in placed.assignments} == {"s1", "s2"}


def test_facts_8_1_where_all_are_in_the_default_rack_a_gang_on_several_servers_goes_anywhere_at_once() -> None:
    world = philly(*unknown(2))
    world.submit("gang", "gang:2x4")
    world.ask("gang", ask(2, worker(4)))
    (placed,) = world.decide()
    assert placed.level is Level.ANYWHERE


def test_facts_8_2_nothing_is_refused_nor_over_a_quota_before_capacity_has_settled() -> None:
    world = World(EngineSettings(policy="philly")).up(settle_left_s=60.0)
    world.configure("root.a", capacities=(QueueCapacity("", "50", "50"),))
    world.submit("job", "gang:2x4", vc="root.a")
    world.ask("job", ask(2, worker(4)))
    world.run()
    assert world.refusals == []
    assert world.engine.waiting("job") is not None
    (vc,) = [one for one in world.engine.virtual_clusters()[0] if one.virtual_cluster.path == "root.a"]
    assert vc.warnings == ()
    for number in range(4):
        world.change(server(f"s{number}"))
    assert [one.job_id for one in world.run()] == ["job"]


def test_facts_8_3_a_maximum_of_gpus_is_nothing_to_who_asks_none() -> None:
    world = philly(server("s1"))
    world.configure("root.a", maximum_gpus=0)
    world.submit("plain", vc="root.a")
    world.ask("plain", ask(2, worker(0)))
    world.submit("gpus", vc="root.a")
    world.ask("gpus", ask(1, worker(1)))
    assert [one.job_id for one in world.run()] == ["plain", "plain"]
    assert world.why("gpus").startswith("refused: asks 1 GPUs at once, queue root.a may use 0")


def test_facts_8_4_a_replacement_goes_before_fresh_jobs_also_where_its_queue_is_over_its_quota() -> None:
    world = philly(server("s1"), server("s2", 2), relax_after_s=0.0)
    world.configure("root.a", quota_gpus=2)
    world.submit("gang", "gang:3x2", vc="root.a")
    world.ask("gang", ask(3, worker(2)))
    world.run()
    world.remove("s2")
    world.submit("fresh", "gang:1x2", vc="root.a", priority=0, submit_time_s=0.0)
    world.ask("fresh", ask(1, worker(2)))
    world.ask("gang", ask(1, worker(2)))
    world.change(server("s3", 2))
    assert [one.job_id for one in world.run()] == ["gang"]
    assert len(world.live("gang")) == 3


def test_facts_8_4_a_gang_that_stays_without_its_replacement_is_queued_again_whole_and_frees_its_gpus() -> None:
    world = philly(server("s1"), server("s2", 2), relax_after_s=0.0)
    world.submit("gang", "gang:3x2")
    world.ask("gang", ask(3, worker(2)))
    world.run()
    world.remove("s2")
    world.ask("gang", ask(1, worker(2)))
    world.now_s = world.engine.settings.requeue_after_s
    world.decide()
    assert any(type(one).__name__ == "RequeueJob" for one in world.commands)
    world.release_all("gang")
    world.submit("other", "gang:1x4")
    world.ask("other", ask(1, worker(4)))
    assert [one.job_id for one in world.decide()] == ["other"]


def test_facts_8_5_who_withdraws_its_asks_and_asks_again_keeps_its_place_and_the_time_it_has_spent() -> None:
    racks = [server(name, 2, rack=rack) for name, rack in (("s1", "/r1"), ("s2", "/r1"), ("t1", "/r2"), ("t2", "/r2"))]
    world = philly(*racks)
    for name in ("s1", "t1"):
        world.seen(f"held-{name}", f"holder-{name}", name, worker(2))
    world.submit("first", "gang:2x2")
    world.ask("first", ask(2, worker(2)))
    world.now_s = 100.0
    assert world.decide() == []
    world.ask("first")
    world.now_s = 1_000.0
    world.ask("first", ask(2, worker(2)))
    for now_s in (1_000.0, 1_199.0):
        world.now_s = now_s
        assert world.decide() == [], "it had spent 100 s, and two levels are 300"
    world.submit("second", "gang:2x2", "locality:2@0")
    world.ask("second", ask(2, worker(2)))
    world.now_s = 1_200.0
    assert [one.job_id for one in world.decide()] == ["first"]


def test_facts_8_5_also_for_what_is_unhealthy_meanwhile() -> None:
    """A server that is unhealthy changes what the empty cluster allows, not the time that was spent."""
    world = philly(server("s1", 2, rack="/r1"), server("s2", 2, rack="/r1"), server("t1", 2, rack="/r2"))
    world.seen("held", "holder", "s1", worker(2))
    world.submit("gang", "gang:2x2")
    world.ask("gang", ask(2, worker(2)))
    world.now_s = 200.0
    assert world.decide() == []
    world.change(server("s1", 2, rack="/r1", state=ServerState.UNHEALTHY))
    (placed,) = world.decide()
    assert placed.level is Level.ANYWHERE, "no domain could hold it now"
