"""Order under `philly`: virtual clusters by what they use of their quotas, level by level; inside one, priority and first come."""

from __future__ import annotations

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity

FAIR = (("user-fairness", "true"),)


def world_of(servers: int, gpus: int = 4, *, audited: bool = True) -> World:
    settings = EngineSettings(policy="philly")
    return World(settings, audited=audited).up(*(server(f"s{number}", gpus) for number in range(servers)))


def submit(world: World, job_id: str, vc: str, gpus: int = 1, containers: int = 1, **fields: object) -> None:
    world.submit(job_id, f"gang:{containers}x{gpus}", vc=vc, **fields)
    world.ask(job_id, ask(containers, worker(gpus)))


def order(world: World) -> list[str]:
    """Decide and commit; say who was placed, in order."""
    return [one.job_id for one in world.run()]


def fill(world: World, vcs: dict[str, int]) -> None:
    """Submit so many jobs of one GPU to each, all of the first before any of the second."""
    for vc, jobs in vcs.items():
        for number in range(jobs):
            submit(world, f"{vc.rpartition('.')[2]}{number + 1}", vc)


def test_whose_share_of_the_quota_is_used_least_goes_next() -> None:
    world = world_of(2)
    world.configure("root.a", quota_gpus=6)
    world.configure("root.b", quota_gpus=2)
    fill(world, {"root.a": 6, "root.b": 6})
    placed = order(world)
    assert placed == ["a1", "b1", "a2", "a3", "a4", "b2", "a5", "a6"], "three to one, ties by path"


def test_of_equal_shares_the_first_by_path_whoever_came_first() -> None:
    world = world_of(1)
    for path in ("root.b", "root.a"):
        world.configure(path, quota_gpus=4)
    fill(world, {"root.b": 2, "root.a": 2})
    assert order(world) == ["a1", "b1", "a2", "b2"]


@pytest.mark.parametrize("quota", [None, 0])
def test_who_has_no_quota_is_served_last(quota: int | None) -> None:
    world = world_of(1)
    world.configure("root.a", quota_gpus=quota)
    world.configure("root.b", quota_gpus=1)
    fill(world, {"root.a": 3, "root.b": 3})
    assert order(world) == ["b1", "b2", "b3", "a1"], "b borrows before a has anything"


def test_of_those_without_a_quota_who_uses_least_goes_next() -> None:
    world = world_of(1)
    submit(world, "large", "root.a", 2)
    assert order(world) == ["large"]
    fill(world, {"root.a": 2, "root.b": 2})
    assert order(world) == ["b1", "b2"]


def test_the_order_is_fair_at_each_level_of_the_queues() -> None:
    """Two queues below one share what that one has, however few jobs stand beside it."""
    world = world_of(2)
    for path, quota in (("root.p", 4), ("root.p.x", 2), ("root.p.y", 2), ("root.q", 4)):
        world.configure(path, quota_gpus=quota, parent=path == "root.p")
    fill(world, {"root.p.x": 4, "root.p.y": 4, "root.q": 4})
    placed = order(world)
    assert placed == ["x1", "q1", "y1", "q2", "x2", "q3", "y2", "q4"]


def test_priority_counts_inside_a_virtual_cluster_and_not_between_them() -> None:
    world = world_of(1)
    for path in ("root.a", "root.b"):
        world.configure(path, quota_gpus=2)
    submit(world, "a1", "root.a")
    submit(world, "a2", "root.a", priority=5)
    submit(world, "a3", "root.a", priority=5)
    submit(world, "b1", "root.b")
    assert order(world) == ["a2", "b1", "a3", "a1"]


def test_a_small_job_passes_a_large_one_that_is_blocked_in_its_own_virtual_cluster_and_in_others() -> None:
    world = world_of(1)
    for path in ("root.a", "root.b"):
        world.configure(path, quota_gpus=4)
    submit(world, "held", "root.b", 2)
    assert order(world) == ["held"]
    submit(world, "large", "root.a", 4)
    submit(world, "small", "root.a", 1)
    submit(world, "other", "root.b", 1)
    assert order(world) == ["small", "other"]


def test_what_nobody_uses_is_borrowed_up_to_the_maximum() -> None:
    world = world_of(2)
    world.configure("root.a", quota_gpus=2, maximum_gpus=6)
    world.configure("root.b", quota_gpus=6)
    fill(world, {"root.a": 8})
    assert len(order(world)) == 6
    (use,) = [one for one in world.engine.virtual_clusters()[0] if one.virtual_cluster.path == "root.a"]
    assert [(one.used_gpus, one.borrowed_gpus) for one in use.shares] == [(6, 4)]


def test_a_job_that_straddles_the_quota_is_borrowed_whole() -> None:
    world = world_of(2)
    world.configure("root.a", quota_gpus=4)
    submit(world, "within", "root.a", 3)
    submit(world, "straddles", "root.a", 2)
    assert order(world) == ["within", "straddles"]
    (use,) = [one for one in world.engine.virtual_clusters()[0] if one.virtual_cluster.path == "root.a"]
    assert [(one.used_gpus, one.borrowed_gpus) for one in use.shares] == [(5, 2)]


def test_partitions_have_turns_of_their_own() -> None:
    world = World(EngineSettings(policy="philly")).up(server("s1", 2), server("f1", 2, partition="fast"))
    fast = (QueueCapacity("fast", "[yarn.io/gpu=2]", ""),)
    world.configure("root.a", quota_gpus=2, capacities=fast)
    world.configure("root.b", quota_gpus=2)
    submit(world, "a1", "root.a")
    assert order(world) == ["a1"]
    for vc in ("root.b", "root.a"):
        world.submit(f"{vc}-f", "gang:1x1", vc=vc)
        world.ask(f"{vc}-f", ask(1, worker(1), partition="fast"))
    fill(world, {"root.b": 1})
    assert sorted(order(world)) == ["b1", "root.a-f", "root.b-f"]
    assert world.places[-3:][0].job_id in {"root.a-f", "b1"}, "a has a quota there, b has none"
    fast_ones = [one.job_id for one in world.places if one.job_id.endswith("-f")]
    assert fast_ones == ["root.a-f", "root.b-f"]


def test_one_users_sweep_of_8562_jobs_does_not_block_the_others_of_its_virtual_cluster() -> None:
    world = world_of(60, 8, audited=False)
    world.configure("root.a", quota_gpus=480, settings=FAIR)
    for number in range(8_562):
        submit(world, f"sweep{number:04d}", "root.a", user="ann")
    while world.engine.next_wake_s() is not None:
        world.commit(*world.decide())
    assert len(world.places) == 480
    for number in range(20):
        submit(world, f"bob{number}", "root.a", user="bob")
        submit(world, f"cat{number}", "root.a", user="cat")
    before = world.engine.counters.searches
    for number in range(40):
        world.end(f"sweep{number:04d}")
        world.commit(*world.decide())
    later = [one.job_id for one in world.places[480:]]
    assert sorted(later) == sorted([f"{user}{number}" for user in ("bob", "cat") for number in range(20)])
    assert later[:4] == ["bob0", "cat0", "bob1", "cat1"], "they take turns"
    assert world.engine.counters.searches - before <= 4 * 40, "the sweep is looked at as one"


@pytest.mark.parametrize("settings", [(), (("max-gpus-per-user", "4"),)], ids=["no limit", "a limit for each user"])
def test_without_turns_for_users_who_came_first_goes_first(settings: tuple[tuple[str, str], ...]) -> None:
    world = world_of(1)
    world.configure("root.a", quota_gpus=4, settings=settings)
    for name, user in (("a1", "ann"), ("a2", "ann"), ("a3", "ann"), ("a4", "ann"), ("b1", "bob")):
        submit(world, name, "root.a", user=user)
    assert order(world) == ["a1", "a2", "a3", "a4"]


def test_a_limit_for_each_user_changes_no_order_and_holds_back_its_user_alone() -> None:
    world = world_of(2)
    world.configure("root.a", quota_gpus=8, settings=(("max-gpus-per-user", "4"),))
    submit(world, "a1", "root.a", 2, user="ann")
    assert order(world) == ["a1"]
    submit(world, "b1", "root.a", 2, user="bob")
    submit(world, "a2", "root.a", 2, user="ann", priority=1)
    submit(world, "a3", "root.a", user="ann", priority=2)
    submit(world, "b2", "root.a", user="bob")
    submit(world, "nobody", "root.a", user="")
    assert order(world) == ["a3", "b1", "b2", "nobody"], "by priority, then who came first; a2 would be one too many"


def test_with_turns_who_uses_least_goes_first() -> None:
    world = world_of(1)
    world.configure("root.a", quota_gpus=4, settings=FAIR)
    for name, user in (("a1", "ann"), ("a2", "ann"), ("a3", "ann"), ("b1", "bob"), ("b2", "bob")):
        submit(world, name, "root.a", user=user)
    assert order(world) == ["a1", "b1", "a2", "b2"]


def test_a_replacement_waits_for_no_other_user() -> None:
    """It goes first in its virtual cluster, also where its user uses more than others (law 4)."""
    world = world_of(2)
    world.configure("root.a", quota_gpus=8, settings=FAIR)
    submit(world, "gang", "root.a", 2, 2, user="ann")
    submit(world, "fills", "root.b", 4)
    assert sorted(order(world)) == ["fills", "gang"]
    gone = world.live("gang")[0].server_id
    world.remove(gone)
    world.change(server(gone, 2))
    world.submit("fresh", "gang:1x2", vc="root.a", user="bob")
    world.ask("fresh", ask(1, worker(2)))
    world.ask("gang", ask(1, worker(2)))
    assert order(world)[0] == "gang"


def test_a_job_returns_after_a_lost_attempt_with_its_old_place() -> None:
    world = world_of(1)
    world.configure("root.a", quota_gpus=4)
    submit(world, "first", "root.a", 4)
    assert order(world) == ["first"]
    submit(world, "second", "root.a", 4)
    world.release_all("first")
    world.submit("first", "gang:1x4", vc="root.a", attempt=2, submit_time_s=1.0)
    world.ask("first", ask(1, worker(4)), attempt=2)
    assert order(world) == ["first"]


def test_a_queue_that_is_stopped_lets_those_in_it_go_on() -> None:
    """YARN takes no new job there, and lets those that it has run to their ends; so is it here."""
    world = world_of(1)
    world.configure("root.a", quota_gpus=4)
    submit(world, "runs", "root.a", 2)
    assert order(world) == ["runs"]
    submit(world, "waits", "root.a", 4)
    world.configure("root.a", quota_gpus=4, running=False)
    assert order(world) == []
    world.end("runs")
    assert order(world) == ["waits"]
