"""What would let a job go on that a limit forbids, or that finds GPUs without memory or vcores; who holds them."""

from tests.engine.outlooks import outlook, submit, world_of
from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity

# Limits


def test_each_maximum_on_the_way_up_is_told_with_what_is_lacking_there() -> None:
    world = world_of(8, 8)
    world.configure("root.a", maximum_gpus=10, parent=True)
    world.configure("root.a.x", maximum_gpus=6)
    submit(world, "k1", 1, 4, vc="root.a.x")
    submit(world, "k2", 1, 4, "runtime:100", vc="root.a.y", user="bob")
    submit(world, "j", 1, 4, vc="root.a.x")
    found = outlook(world)
    assert found.changes[:3] == (
        "maximum of queue root.a.x larger by 2 GPUs (6 now, 4 in use)",
        "maximum of queue root.a larger by 2 GPUs (10 now, 8 in use)",
        "of the GPUs of queue root.a.x: k1 4",
    )
    assert found.limit_gpus_lacking == 2
    assert found.job_ids == ("k1",), "the end of k2 leaves the queue's own maximum as it is"


def test_memory_that_a_maximum_forbids_is_no_lack_of_gpus() -> None:
    world = world_of(8)
    world.configure("root.a", capacities=(QueueCapacity("", "", "[memory=1024]"),))
    submit(world, "k", 1, 1, "runtime:100")
    submit(world, "j", 1, 1)
    found = outlook(world)
    assert found.changes[0] == "maximum of queue root.a larger by 1024 MB of memory (1024 now, 1024 in use)"
    assert (found.limit_gpus_lacking, found.job_ids, found.starts_in_s) == (0, ("k",), 98.0)


def test_what_a_user_may_use_is_told_with_the_users_jobs() -> None:
    world = world_of(8)
    world.configure("root.a", settings=(("max-gpus-per-user", "4"),))
    submit(world, "a1", 1, 3, "runtime:300", user="ann")
    submit(world, "b1", 1, 3, "runtime:100", user="bob")
    submit(world, "j", 1, 2, user="ann")
    found = outlook(world)
    assert found.changes == (
        "setting ygs.max-gpus-per-user of queue root.a larger by 1 GPUs (4 now, 3 in use)",
        "of the GPUs of queue root.a that user ann uses: a1 of ann 3",
        "the end of a1, which holds 3 GPUs, expected in 4 min 57 s",
    )
    assert (found.limit_gpus_lacking, found.job_ids) == (1, ("a1",))


def test_of_a_users_limit_the_ends_of_jobs_in_other_partitions_count_and_who_has_no_name_is_a_user_too() -> None:
    world = World(EngineSettings(policy="philly")).up(server("s1", 8), server("p1", 8, partition="p"))
    world.configure("root.a", settings=(("max-gpus-per-user", "4"),))
    world.submit("k", "gang:4x1")
    world.ask("k", ask(4, worker(1), partition="p"))
    world.run()
    submit(world, "j", 1, 1)
    found = outlook(world)
    assert found.changes == (
        "setting ygs.max-gpus-per-user of queue root.a larger by 1 GPUs (4 now, 4 in use)",
        "the end of k, which holds 4 GPUs",
    )


def test_a_job_that_uses_all_that_a_job_may_is_told_that_setting_and_its_own_containers() -> None:
    world = world_of(8)
    world.configure("root.a", settings=(("max-gpus-per-job", "3"),))
    world.submit("j")
    world.ask("j", ask(5, worker(1)))
    while world.run():
        pass
    found = outlook(world)
    assert found.changes == (
        "setting ygs.max-gpus-per-job of queue root.a larger by 1 GPUs (3 now, 3 in use)",
        "the ends of containers of its own with 1 GPUs",
    )
    assert (found.when, found.limit_gpus_lacking) == ("unknown: that is the application's doing", 1)


def test_a_quota_that_is_used_up_is_told_with_who_borrows() -> None:
    world = world_of(8)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    submit(world, "k1", 1, 3, user="ann")
    submit(world, "k2", 1, 2, user="bob")
    submit(world, "k3", 1, 2, vc="root.b")
    submit(world, "j", 1, 4)
    assert world.why("j").startswith("vc_quota")
    found = outlook(world)
    assert found.changes == (
        (
            "quota of queue root.a larger by 5 GPUs (4 now, 5 in use): it would not borrow then;"
            " GPUs must come free all the same"
        ),
        "of the GPUs of queue root.a: k1 of ann 3, k2 of bob 2 (borrowed)",
        "the end of k1, which holds 3 GPUs",
        "of the GPUs in use: root.a 5 (2 borrowed), root.b 2",
    )
    assert (found.limit_gpus_lacking, found.gpus_lacking) == (5, 3)


def test_the_largest_holders_are_named_and_the_others_added_up() -> None:
    world = world_of(8, 8)
    for number, gpus in enumerate((1, 2, 3, 1, 4)):
        world.configure(f"root.q{number}", quota_gpus=1)
        submit(world, f"k{number}", 1, gpus, vc=f"root.q{number}")
    world.configure("root.q0", quota_gpus=3)
    submit(world, "k5", 1, 2, vc="root.q0")
    submit(world, "j", 1, 8, vc="root.z")
    changes = outlook(world).changes
    assert changes[-1] == (
        "of the GPUs in use: root.q4 4 (borrowed), root.q0 3, root.q2 3 (borrowed), 2 other queues 3 (2 borrowed)"
    )


def test_a_maximum_in_a_partition_that_lends_is_told_with_the_ends_that_help_there() -> None:
    world = World(EngineSettings(policy="philly")).up(server("s0"), server("f0", 8, partition="fast", lends=True))
    world.configure("root.a", capacities=(QueueCapacity("fast", "", "[yarn.io/gpu=4]"),))
    submit(world, "full", 1, 4, vc="root.b")
    submit(world, "lent", 1, 3, "runtime:90")
    submit(world, "j", 1, 2)
    assert world.why("j").startswith("vc_maximum")
    found = outlook(world)
    assert found.changes[:2] == (
        'maximum of queue root.a in partition "fast" larger by 1 GPUs (4 now, 3 in use)',
        "of the GPUs of queue root.a: lent 3",
    )
    assert found.job_ids == ("lent",)


# Memory and vcores


def test_servers_that_lack_memory_or_vcores_are_named_with_how_much() -> None:
    world = world_of(*[4] * 5, memory_mb=4_096)
    for number in range(5):
        world.submit(f"cpu{number}", vc="root.c")
        world.seen(f"m{number}", f"cpu{number}", f"s{number}", worker(0, 3_000 + 10 * number, 1))
    world.submit("j", "gang:1x1")
    world.ask("j", ask(1, worker(1, 2_048)))
    world.run()
    assert world.why("j").startswith("other_resources")
    found = outlook(world)
    assert found.changes[0] == (
        "memory or vcores, not GPUs: s0 has 4 GPUs free and lacks 952 MB for a container;"
        " s1 has 4 GPUs free and lacks 962 MB for a container;"
        " s2 has 4 GPUs free and lacks 972 MB for a container; and 2 more servers"
    )
    assert found.server_ids == ("s0", "s1", "s2", "s3", "s4")
    assert found.gpus_lacking == 0
