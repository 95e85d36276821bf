"""What the queues' configuration comes to, and what is said of what is wrong with it (cases C8 and C9)."""

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.capacity_seen import CapacitySeen
from yarn_gpu_sched.engine.in_force import InForce
from yarn_gpu_sched.engine.views import PartitionShare, VirtualClusterUse
from yarn_gpu_sched.model.tenants import Tenants
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity, VirtualCluster

REFUSED = "; the next start of the ResourceManager refuses that"
IN_LEGACY = f"{REFUSED}, unless its legacy queue mode is off"


def world_of(*servers: int) -> World:
    world = World(EngineSettings(policy="philly"))
    world.up(*(server(f"s{number}", gpus) for number, gpus in enumerate(servers)))
    world.run()
    return world


def told(world: World, path: str, capacity: str = "", maximum: str = "", partition: str = "", **fields: object) -> None:
    world.configure(path, capacities=(QueueCapacity(partition, capacity, maximum),), **fields)


def uses(world: World) -> dict[str, VirtualClusterUse]:
    return {one.virtual_cluster.path: one for one in world.engine.virtual_clusters()[0]}


def warnings(world: World) -> dict[str, tuple[str, ...]]:
    return {path: one.warnings for path, one in uses(world).items() if one.warnings}


def share(world: World, path: str) -> PartitionShare:
    (one,) = uses(world)[path].shares
    return one


def run_job(world: World, job_id: str, vc: str, containers: int, gpus: int, tag: str = "gang:{0}x{1}") -> None:
    world.submit(job_id, *([tag.format(containers, gpus)] if tag else []), vc=vc)
    world.ask(job_id, ask(containers, worker(gpus)))
    world.run()
    world.now_s += 1


# C8


def test_c8_each_text_is_a_quota_or_is_refused_by_name_never_silently_0() -> None:
    world = world_of(4, 4)
    told(world, "root.a", "[memory=0,vcores=0]", "[memory=2048,vcores=2,yarn.io/gpu=4]")
    told(world, "root.b", "[yarn.io/gpu=2]")
    told(world, "root.c", "[memory=50%,vcores=2w,yarn.io/gpu=1]")
    told(world, "root.d", "[memory=4Gi,yarn.io/gpu=1.5]")
    told(world, "root.e", "[memory=1024,YARN.IO/GPU=2]")
    told(world, "root.f", "[yarn.io/gpu=0]")
    quotas = {path: (share(world, path).quota_gpus, share(world, path).maximum_gpus) for path in uses(world)}
    assert quotas == {
        "root.a": (None, 4),
        "root.b": (2, None),
        "root.c": (1, None),
        "root.d": (None, None),
        "root.e": (None, None),
        "root.f": (0, None),
    }
    assert warnings(world) == {
        "root.d": (
            (
                'yarn.scheduler.capacity.root.d.capacity "[memory=4Gi,yarn.io/gpu=1.5]": yarn.io/gpu "1.5" is not whole,'
                " a whole number would be right; it counts as not configured"
            ),
        ),
        "root.e": (
            (
                'yarn.scheduler.capacity.root.e.capacity "[memory=1024,YARN.IO/GPU=2]": resource type "YARN.IO/GPU" is'
                ' unknown, "yarn.io/gpu" would be right; it counts as not configured'
            ),
        ),
    }


def test_c8_a_quota_of_0_borrows_all_that_it_uses() -> None:
    world = world_of(4)
    told(world, "root.a", "[yarn.io/gpu=0]")
    run_job(world, "j", "root.a", 1, 2)
    assert share(world, "root.a") == PartitionShare("", 0, None, 2, 2, translated=False)


def test_c8_percentages_and_weights_are_translated_and_marked() -> None:
    world = world_of(4, 4)
    told(world, "root.a", "40")
    told(world, "root.b", "60", "50")
    assert share(world, "root.a") == PartitionShare("", 3, None, 0, 0, translated=True)
    assert share(world, "root.b") == PartitionShare("", 5, 4, 0, 0, translated=True)


# C9


def test_c9_quotas_above_the_cluster_are_warned_of_once_it_has_settled() -> None:
    world = World().up(server("s1"), settle_left_s=60.0)
    told(world, "root.a", "[yarn.io/gpu=4]")
    told(world, "root.b", "[yarn.io/gpu=2]")
    assert warnings(world) == {}, "servers may still come"
    world.now_s = 60.0
    world.run()
    sentence = "the quotas of the queues below it are 6 GPUs (root.a 4, root.b 2), and there were never more than 4"
    assert warnings(world) == {"root": (sentence,)}
    world.change(server("s2"))
    assert warnings(world) == {}


def test_c9_quotas_above_their_parents_are_warned_of_with_the_largest() -> None:
    world = world_of(8, 8)
    told(world, "root.a", "[yarn.io/gpu=4]", parent=True)
    for number in range(7):
        told(world, f"root.a.q{number}", f"[yarn.io/gpu={1 + number % 2}]")
    sentences = warnings(world)["root.a"]
    assert sentences[0] == (
        "the quotas of the queues below it are 10 GPUs"
        " (root.a.q1 2, root.a.q3 2, root.a.q5 2, root.a.q0 1, root.a.q2 1 and 2 more), its own is 4"
    )


def test_c9_a_quota_over_its_maximum_is_warned_of() -> None:
    world = world_of(8)
    world.configure("root.a", quota_gpus=6, maximum_gpus=4)
    assert warnings(world) == {"root.a": ("quota 6 GPUs is over its maximum, 4: it never has all of it",)}


def test_c9_partitions_are_judged_each_for_itself() -> None:
    world = World().up(server("s1"), server("f1", partition="fast"))
    world.run()
    world.configure(
        "root.a", capacities=(QueueCapacity("", "[yarn.io/gpu=4]", ""), QueueCapacity("fast", "[yarn.io/gpu=8]", ""))
    )
    (sentence,) = warnings(world)["root"]
    assert 'are 8 GPUs of partition "fast" (root.a 8), and there were never more than 4' in sentence
    told(world, "root.b", "[yarn.io/gpu=2]", "[yarn.io/gpu=1]", "fast")
    assert warnings(world)["root.b"][0] == (
        'quota 2 GPUs of partition "fast"'
        ' (yarn.scheduler.capacity.root.b.accessible-node-labels.fast.capacity "[yarn.io/gpu=2]")'
        " is over its maximum, 1: it never has all of it"
    )


def test_c9_a_quota_that_is_lowered_below_its_use_shows_the_rest_as_borrowed() -> None:
    world = world_of(8)
    world.configure("root.a", quota_gpus=8)
    run_job(world, "one", "root.a", 1, 2)
    run_job(world, "two", "root.a", 3, 2)
    assert share(world, "root.a").borrowed_gpus == 0
    world.configure("root.a", quota_gpus=2)
    assert share(world, "root.a") == PartitionShare("", 2, None, 8, 6, translated=False)


@pytest.mark.parametrize(
    ("capacities", "sentence"),
    [
        (
            {"a": "40", "b": "50"},
            f"the capacities of the queues below it are 90 percent together (root.a 40, root.b 50), 100 would be right{IN_LEGACY}",
        ),
        ({"a": "40", "b": "60"}, ""),
        ({"a": "33.33", "b": "33.33", "c": "33.34"}, ""),
        ({"a": "0", "b": "0"}, ""),
        (
            {"a": "40", "b": "4w"},
            f"the capacities of the queues below it are as weights and in percent, one kind would be right{IN_LEGACY}",
        ),
        ({"a": "1w", "b": "4w"}, ""),
        (
            {"a": "60", "b": "[yarn.io/gpu=1]"},
            (
                "the capacities of the queues below it are absolute and in percent, one kind would be right;"
                " whether the next start of the ResourceManager refuses that depends on their order"
            ),
        ),
        ({"a": "0", "b": "[yarn.io/gpu=1]"}, ""),
        ({"a": "[memory=50%,yarn.io/gpu=1]", "b": "40"}, ""),
    ],
)
def test_c9_siblings_that_the_next_start_would_refuse_are_warned_of(capacities: dict[str, str], sentence: str) -> None:
    world = world_of(8)
    world.configure("root", parent=True)
    for name, capacity in capacities.items():
        told(world, f"root.{name}", capacity)
    assert warnings(world).get("root", ()) == ((sentence,) if sentence else ())


@pytest.mark.parametrize(
    ("above", "below", "sentence"),
    [
        (
            "[yarn.io/gpu=4]",
            "100",
            (
                "its capacity is absolute and those of the queues below it are in percent,"
                f" where one is absolute all must be{IN_LEGACY}"
            ),
        ),
        (
            "100",
            "[yarn.io/gpu=4]",
            (
                "its capacity is in percent and those of the queues below it are absolute,"
                f" where one is absolute all must be{IN_LEGACY}"
            ),
        ),
        (
            "[memory=100,yarn.io/gpu=4]",
            "[memory=200,yarn.io/gpu=4]",
            (
                'yarn.scheduler.capacity.root.p.capacity "[memory=100,yarn.io/gpu=4]" is less than the queues below it have'
                f" together, memory=200,vcores=0,yarn.io/gpu=4{IN_LEGACY}"
            ),
        ),
        ("[memory=100,yarn.io/gpu=4]", "[memory=200,yarn.io/gpu=3]", ""),
        ("[memory=100,yarn.io/gpu=4]", "[memory=100,yarn.io/gpu=4]", ""),
        ("4w", "100", ""),
        ("100", "4w", ""),
    ],
)
def test_c9_a_parent_that_the_next_start_would_refuse_is_warned_of(above: str, below: str, sentence: str) -> None:
    world = world_of(8)
    told(world, "root.p", above, parent=True)
    told(world, "root.p.a", below)
    assert warnings(world).get("root.p", ()) == ((sentence,) if sentence else ())


@pytest.mark.parametrize(
    ("capacity", "maximum", "sentence"),
    [
        ("100", "90", '"100" is over its maximum-capacity "90"'),
        ("100", "100", ""),
        ("100", "", ""),
        ("100", "[yarn.io/gpu=4]", ""),
        ("120", "", '"120" is over 100 percent'),
        ("[memory=200,yarn.io/gpu=4]", "[memory=100,yarn.io/gpu=4]", "is over its maximum-capacity"),
        ("[memory=200,yarn.io/gpu=4]", "[memory=100,yarn.io/gpu=5]", ""),
        ("[yarn.io/gpu=4]", "[memory=100]", ""),
    ],
)
def test_c9_a_queue_that_the_next_start_would_refuse_is_warned_of(capacity: str, maximum: str, sentence: str) -> None:
    world = world_of(8)
    told(world, "root.a", capacity, maximum)
    found = [one for one in warnings(world).get("root.a", ()) if one.endswith(REFUSED)]
    assert len(found) == bool(sentence)
    assert all(one.startswith("yarn.scheduler.capacity.root.a.capacity ") and sentence in one for one in found)


def test_c9_a_maximum_over_its_parents_is_warned_of() -> None:
    world = world_of(8)
    told(world, "root.p", "[yarn.io/gpu=4]", "[yarn.io/gpu=6]", parent=True)
    told(world, "root.p.a", "[yarn.io/gpu=4]", "[yarn.io/gpu=8]")
    assert warnings(world)["root.p"] == (
        (
            'yarn.scheduler.capacity.root.p.a.maximum-capacity "[yarn.io/gpu=8]" is over the maximum-capacity of root.p,'
            f' "[yarn.io/gpu=6]"{REFUSED}'
        ),
    )


def test_c9_what_an_integrator_says_in_numbers_is_not_held_against_yarns_rules() -> None:
    world = world_of(8)
    world.configure("research", quota_gpus=5)
    world.configure("teaching", quota_gpus=5)
    (sentence,) = warnings(world)["root"]
    assert "are 10 GPUs (research 5, teaching 5), and there were never more than 8" in sentence


def test_what_limits_nobody_is_no_limit() -> None:
    """Each use of a queue is watched only where there is one: all of the parent, or what cannot be read, is none."""
    tenants, in_force = Tenants(), InForce(Tenants(), CapacitySeen())
    for capacity, limits in (
        ("100", False),
        ("100.0", False),
        ("[yarn.io/gpu=x]", False),
        ("99", True),
        ("[vcores=3]", True),
    ):
        tenants = Tenants()
        tenants.get("root.a").virtual_cluster = VirtualCluster("root.a", capacities=(QueueCapacity("", "", capacity),))
        in_force = InForce(tenants, CapacitySeen())
        assert in_force.limited is limits, capacity
    tenants.get("root.a").virtual_cluster = VirtualCluster("root.a", settings=(("max-gpus-per-user", "4"),))
    in_force.changed()
    assert in_force.limited
    tenants.get("root.a").virtual_cluster = VirtualCluster("root.a", quota_gpus=4)
    in_force.changed()
    assert not in_force.limited


# What is borrowed


def test_a_job_that_straddles_the_quota_is_borrowed_whole_and_a_later_smaller_one_may_fit() -> None:
    world = world_of(8, 8)
    world.configure("root.a", quota_gpus=4)
    run_job(world, "one", "root.a", 1, 3)
    run_job(world, "two", "root.a", 1, 2)
    run_job(world, "three", "root.a", 1, 1)
    assert share(world, "root.a") == PartitionShare("", 4, None, 6, 2, translated=False)
    world.end("one")
    assert share(world, "root.a").borrowed_gpus == 0


def test_who_started_first_is_charged_first_whatever_its_name_and_whenever_it_was_submitted() -> None:
    world = world_of(8)
    world.configure("root.a", quota_gpus=4)
    run_job(world, "z", "root.a", 1, 3)
    world.submit("a", "gang:1x4", vc="root.a", submit_time_s=-5.0)
    world.ask("a", ask(1, worker(4)))
    world.run()
    assert share(world, "root.a") == PartitionShare("", 4, None, 7, 4, translated=False)


def test_containers_without_a_gang_are_charged_one_by_one() -> None:
    world = world_of(8)
    world.configure("root.a", quota_gpus=4)
    run_job(world, "many", "root.a", 6, 1, tag="")
    assert share(world, "root.a") == PartitionShare("", 4, None, 6, 2, translated=False)


def test_a_parent_charges_all_jobs_below_it_in_order_of_their_start() -> None:
    world = world_of(8)
    world.configure("root.p", quota_gpus=4, parent=True)
    world.configure("root.p.a", quota_gpus=4)
    world.configure("root.p.b", quota_gpus=2)
    run_job(world, "one", "root.p.a", 1, 3)
    run_job(world, "two", "root.p.b", 1, 2)
    assert (share(world, "root.p.a").borrowed_gpus, share(world, "root.p.b").borrowed_gpus) == (0, 0)
    assert share(world, "root.p") == PartitionShare("", 4, None, 5, 2, translated=False)


def test_what_is_decided_and_not_committed_yet_is_charged_after_what_runs() -> None:
    world = world_of(8)
    world.configure("root.a", quota_gpus=4)
    run_job(world, "one", "root.a", 1, 4)
    world.submit("two", "gang:1x2", vc="root.a", submit_time_s=-1.0)
    world.ask("two", ask(1, worker(2)))
    world.decide()
    assert share(world, "root.a") == PartitionShare("", 4, None, 6, 2, translated=False)


def test_without_a_quota_nothing_is_borrowed() -> None:
    world = world_of(8)
    run_job(world, "one", "root.a", 1, 4)
    assert share(world, "root.a") == PartitionShare("", None, None, 4, 0, translated=False)


def test_each_partition_is_a_share_of_its_own() -> None:
    world = World().up(server("s1"), server("f1", partition="fast"))
    world.configure("root.a", capacities=(QueueCapacity("fast", "[yarn.io/gpu=1]", ""),))
    world.submit("j", "gang:1x2", vc="root.a")
    world.ask("j", ask(1, worker(2), partition="fast"))
    world.run()
    run_job(world, "k", "root.a", 1, 3)
    assert uses(world)["root.a"].shares == (
        PartitionShare("", None, None, 3, 0, translated=False),
        PartitionShare("fast", 1, None, 2, 2, translated=False),
    )
