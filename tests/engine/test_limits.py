"""Limits of virtual clusters: maxima all the way up, and what a user may use; who meets one waits, and blocks nobody else."""

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity

PHILLY = EngineSettings(policy="philly")


def world_of(*, servers: int = 4, relax_after_s: float = 0.0) -> World:
    settings = EngineSettings(policy="philly", relax_after_s=relax_after_s)
    return World(settings).up(*(server(f"s{number + 1}") for number in range(servers)))


def submit(world: World, job_id: str, vc: str, containers: int = 1, gpus: int = 2, **fields: object) -> None:
    world.submit(job_id, f"gang:{containers}x{gpus}", vc=vc, **fields)
    world.ask(job_id, ask(containers, worker(gpus)))


def placed(world: World) -> list[str]:
    return [one.job_id for one in world.run()]


def test_a_queue_uses_no_more_than_its_maximum_and_the_next_goes_when_it_uses_less() -> None:
    world = world_of()
    world.configure("root.a", quota_gpus=4, maximum_gpus=4)
    for name in ("one", "two", "three"):
        submit(world, name, "root.a")
    submit(world, "other", "root.b")
    assert sorted(placed(world)) == ["one", "other", "two"]
    assert world.why("three") == "vc_maximum: asks 2 GPUs; queue root.a uses 4 of the 4 GPUs that it may use"
    world.end("one")
    assert placed(world) == ["three"]


def test_a_maximum_holds_for_all_queues_below_together() -> None:
    world = world_of()
    world.configure("root.a", maximum_gpus=4, parent=True)
    submit(world, "one", "root.a.x")
    submit(world, "two", "root.a.y")
    submit(world, "three", "root.a.x")
    submit(world, "four", "root.a.y")
    assert placed(world) == ["one", "two"]
    assert "queue root.a uses 4 of the 4 GPUs" in world.why("four")
    world.end("one")
    assert placed(world) == ["three"], "the first that came, of the queue that uses less"


@pytest.mark.parametrize("kind", ["memory=4096", "vcores=4"])
def test_only_what_is_asked_is_limited(kind: str) -> None:
    world = world_of()
    world.configure("root.a", capacities=(QueueCapacity("", "", f"[{kind}]"),))
    submit(world, "small", "root.a", 3, 1)
    submit(world, "large", "root.a", 2, 1)
    assert placed(world) == ["small"]
    assert world.why("large").startswith("vc_maximum: asks 2 GPUs at once, 2 x 1; queue root.a uses 3")


def test_a_user_uses_no_more_than_a_user_may_and_others_go_on() -> None:
    world = world_of()
    world.configure("root.a", settings=(("max-gpus-per-user", "4"),))
    for name, user in (("a1", "ann"), ("a2", "ann"), ("a3", "ann"), ("b1", "bob")):
        submit(world, name, "root.a", user=user)
    assert sorted(placed(world)) == ["a1", "a2", "b1"]
    assert world.why("a3") == "user_limit: asks 2 GPUs; user ann uses 4 GPUs in root.a, where a user may use 4"
    world.configure("root.a", settings=(("max-gpus-per-user", "6"),))
    assert placed(world) == ["a3"], "an administrator can lift it"


def test_a_maximum_that_is_lowered_stops_nobody_and_one_that_is_raised_lets_the_next_go() -> None:
    world = world_of()
    submit(world, "one", "root.a")
    submit(world, "two", "root.a")
    assert placed(world) == ["one", "two"]
    world.configure("root.a", maximum_gpus=2)
    submit(world, "three", "root.a")
    assert placed(world) == []
    assert "uses 4 of the 2 GPUs" in world.why("three")
    world.configure("root.a", maximum_gpus=6)
    assert placed(world) == ["three"]


def test_partitions_have_maxima_of_their_own() -> None:
    world = World(PHILLY).up(server("s1"), server("s2", partition="fast"))
    world.configure("root.a", capacities=(QueueCapacity("fast", "", "[yarn.io/gpu=2]"),))
    world.submit("f1", "gang:1x2", vc="root.a")
    world.ask("f1", ask(1, worker(2), partition="fast"))
    world.submit("f2", "gang:1x2", vc="root.a")
    world.ask("f2", ask(1, worker(2), partition="fast"))
    submit(world, "d", "root.a", 2, 2)
    assert sorted(placed(world)) == ["d", "f1"]
    assert "queue root.a uses 2 of the 2 GPUs" in world.why("f2")


def test_the_ladder_pauses_while_a_limit_forbids_and_goes_on_with_what_was_spent() -> None:
    world = world_of(servers=3, relax_after_s=10.0)
    world.configure("root.a", maximum_gpus=8)
    for number in range(3):
        submit(world, f"holds{number}", "root.b", 1, 3)
    assert len(placed(world)) == 3
    submit(world, "gang", "root.a", 2, 2)
    assert placed(world) == []
    world.now_s = 4.0
    world.configure("root.a", maximum_gpus=3)
    world.now_s = 50.0
    world.run()
    assert world.engine.next_wake_s() is None, "its timer stands still"
    world.configure("root.a", maximum_gpus=8)
    assert world.engine.next_wake_s() is not None
    world.run()
    assert world.engine.next_wake_s() == 56.0


def test_a_maximum_that_cannot_be_read_is_none_and_is_told() -> None:
    world = world_of()
    world.configure("root.a", capacities=(QueueCapacity("", "", "1w"),))
    submit(world, "one", "root.a")
    assert placed(world) == ["one"]
    (said,) = world.engine._core.in_force.warnings["root.a"]
    assert said.startswith('yarn.scheduler.capacity.root.a.maximum-capacity "1w": a maximum cannot be a weight')


def test_limits_of_queues_that_a_new_snapshot_does_not_name_forbid_nothing() -> None:
    world = world_of()
    world.configure("root.a", maximum_gpus=0)
    submit(world, "one", "root.a")
    assert placed(world) == []
    world.up(server("s1"), epoch=2)
    submit(world, "one", "root.a")
    assert placed(world) == ["one"]


def test_an_engine_that_was_written_down_forbids_the_same() -> None:
    world = world_of(relax_after_s=10.0)
    world.configure("root.a", maximum_gpus=4)
    submit(world, "one", "root.a", 2, 2)
    submit(world, "two", "root.a", 2, 2)
    world.run()
    restored = Engine.restore(world.engine.snapshot())
    assert restored.digest() == world.engine.digest()
    assert restored.audit() == []
    assert restored.next_wake_s() == world.engine.next_wake_s() or world.engine.next_wake_s() is None
    twin = World(engine=restored)
    twin.containers_made = world.containers_made
    for one in (world, twin):
        one.end("one")
    assert placed(world) == placed(twin) == ["two"]


def lending() -> World:
    """Four GPUs, all held, and a partition of four that lends; queue root.a may use two of these."""
    world = World(PHILLY).up(server("s1"), server("p1", partition="p", lends=True))
    world.seen("held", "holder", "s1", worker(4))
    world.configure("root.a", capacities=(QueueCapacity("p", "", "[yarn.io/gpu=2]"),))
    for name in ("one", "two"):
        submit(world, name, "root.a")
    return world


def test_what_is_lent_counts_against_the_maximum_of_the_partition_that_lends() -> None:
    world = lending()
    assert placed(world) == ["one"]
    said = 'asks 2 GPUs; in partition "p", which lends, queue root.a uses 2 of the 2 GPUs that it may use'
    assert world.why("two") == f"vc_maximum: {said}"
    submit(world, "other", "root.b")
    assert placed(world) == ["other"], "it blocks nobody else"


def test_who_waits_for_what_is_lent_goes_when_its_queue_uses_less_there_or_may_use_more() -> None:
    for number in range(2):
        world = lending()
        assert placed(world) == ["one"]
        if number:
            world.configure("root.a", capacities=(QueueCapacity("p", "", "[yarn.io/gpu=4]"),))
        else:
            world.submit("one", "gang:1x2", vc="root.b", submit_time_s=1.0)
        assert world.engine.next_wake_s() == world.now_s
        assert placed(world) == ["two"]


def test_a_partition_that_lends_from_now_on_has_limits_too() -> None:
    world = World(PHILLY).up(server("s1"), server("p1", partition="p"))
    world.seen("held", "holder", "s1", worker(4))
    world.configure("root.a", capacities=(QueueCapacity("p", "", "[yarn.io/gpu=1]"),))
    submit(world, "one", "root.a")
    assert placed(world) == []
    world.change(server("p1", partition="p", lends=True))
    assert placed(world) == []
    assert world.why("one").startswith("vc_maximum")


def test_a_gang_whose_gpus_were_held_for_it_keeps_to_limits_of_memory_all_the_same() -> None:
    world = world_of(servers=1)
    world.configure("root.a", capacities=(QueueCapacity("", "", "[memory=2048]"),))
    world.submit("job", "gang:2x1", vc="root.a")
    world.ask("job", ask(1, worker(1, 1_024), 0, am=True))
    assert placed(world) == ["job"]
    world.ask("job", ask(2, worker(1, 1_024)))
    assert placed(world) == []
    assert world.why("job").endswith("queue root.a uses 1024 of the 2048 MB of memory that it may use")
    world.configure("root.a", capacities=(QueueCapacity("", "", "[memory=3Gi]"),))
    assert placed(world) == ["job"]


def test_what_a_hold_that_ends_leaves_lets_the_next_go_in_the_same_pass() -> None:
    world = world_of(servers=1)
    world.configure("root.a", maximum_gpus=2)
    submit(world, "gang", "root.a", 2, 1)
    assert placed(world) == ["gang"]
    world.release(world.live("gang")[0].container_id, lost=True)
    submit(world, "next", "root.a", 1, 1)
    assert placed(world) == []
    world.now_s = 120.0
    assert placed(world) == ["next"]


def test_a_queue_may_have_as_many_levels_as_its_path_has_room_for() -> None:
    world = World(PHILLY, audited=False).up(server("s1"))
    deep = ".".join("a" * 1_200)
    world.configure(deep, maximum_gpus=2)
    submit(world, "one", deep)
    submit(world, "two", deep)
    assert placed(world) == ["one"]
    assert world.engine.audit() == []
