"""Listings page by page, and which GPU of a server is whose."""

from __future__ import annotations

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine.events import VirtualClusterChanged, VirtualClusterRemoved
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

NAMES = ["a", "b", "c", "d"]


def full() -> World:
    """Bring up four of everything that is listed."""
    world = World().up(*(server(name) for name in reversed(NAMES)))
    for name in reversed(NAMES):
        world.apply(VirtualClusterChanged(now_s=0.0, virtual_cluster=VirtualCluster(name)))
    for name in NAMES:
        world.submit(name, vc=name)
    return world


def listed(world: World, what: str, after: str, limit: int) -> tuple[list[str], int]:
    if what == "servers":
        servers, total = world.engine.servers(after, limit)
        return [one.server.server_id for one in servers], total
    if what == "virtual clusters":
        queues, total = world.engine.virtual_clusters(after, limit)
        return [one.virtual_cluster.path for one in queues], total
    jobs, total = world.engine.jobs(after=after, limit=limit)
    return [one.job.job_id for one in jobs], total


@pytest.mark.parametrize("what", ["servers", "virtual clusters", "jobs"])
@pytest.mark.parametrize(
    ("after", "limit", "expected"),
    [
        ("", 9, NAMES),
        ("", 2, ["a", "b"]),
        ("a", 2, ["b", "c"]),
        ("c", 2, ["d"]),
        ("d", 2, []),
        ("", 0, []),
        ("", -1, []),
    ],
)
def test_a_page_goes_on_after_the_last_of_the_one_before(
    what: str, after: str, limit: int, expected: list[str]
) -> None:
    assert listed(full(), what, after, limit) == (expected, 4)


@pytest.mark.parametrize("what", ["servers", "virtual clusters"])
def test_a_page_goes_on_after_one_that_has_gone(what: str) -> None:
    assert listed(full(), what, "b2", 9) == (["c", "d"], 4)


def test_a_page_is_of_a_hundred_unless_asked_otherwise() -> None:
    world = World(audited=False).up(*(server(f"s{number:03d}") for number in range(120)))
    for number in range(120):
        world.submit(f"j{number:03d}", vc=f"root.q{number:03d}")
    for page, total in (world.engine.servers(), world.engine.jobs(), world.engine.virtual_clusters()):
        assert (len(page), total) == (100, 120)


def test_jobs_are_chosen_before_they_are_paged() -> None:
    world = full()
    world.seen("k", "b", "a", worker(1))
    world.end("c")
    for state, expected in ((JobState.RUNNING, ["b"]), (JobState.ENDED, ["c"]), (JobState.PENDING, ["a", "d"])):
        views, total = world.engine.jobs(state)
        assert ([one.job.job_id for one in views], total) == (expected, len(expected))
    views, total = world.engine.jobs(vc="d")
    assert ([one.job.job_id for one in views], total) == (["d"], 1)
    views, total = world.engine.jobs(JobState.PENDING, after="a")
    assert ([one.job.job_id for one in views], total) == (["d"], 2)


def test_each_gpu_shows_who_has_it_or_will() -> None:
    world = World().up(server("s", 4))
    world.submit("under way")
    world.seen("k", "other", "s", worker(1), gpu_indices=(0,))
    world.seen("beyond", "other", "s", worker(1), gpu_indices=(6,))
    world.ask("under way", ask(1, worker(2)))
    world.decide()
    ((view,), _) = world.engine.servers()
    assert [(one.index, one.job_id, one.container_id) for one in view.gpus] == [
        (0, "other", "k"),
        (1, "under way", ""),
        (2, "under way", ""),
        (3, "", ""),
        (6, "other", "beyond"),
    ]
    assert (view.used.gpus, view.containers) == (4, 2)


def test_what_is_under_way_shows_its_own_gpus_only() -> None:
    world = World().up(server("s", 4))
    for name in ("first", "second"):
        world.submit(name)
        world.ask(name, ask(1, worker(1)))
    world.decide()
    ((view,), _) = world.engine.servers()
    assert [one.job_id for one in view.gpus] == ["first", "second", "", ""]


def test_a_virtual_cluster_that_is_removed_stays_while_jobs_speak_of_it() -> None:
    world = full()
    for path in ("a", "never"):
        world.apply(VirtualClusterRemoved(now_s=0.0, path=path))
    assert listed(world, "virtual clusters", "", 9) == (NAMES, 4)
    for name in NAMES:
        world.submit(name, vc="d", submit_time_s=float(1 + NAMES.index(name)))
    assert listed(world, "virtual clusters", "", 9) == (["b", "c", "d"], 3)


def test_containers_of_a_job_come_in_the_order_of_their_ids() -> None:
    world = World().up(server("s"))
    world.submit("j")
    for name in ("k3", "k1", "k2"):
        world.seen(name, "j", "s", worker(1))
    view = world.engine.job("j")
    assert view is not None
    assert [one.container_id for one in view.containers] == ["k1", "k2", "k3"]
    ((listed_view,), _) = world.engine.jobs()
    assert listed_view.containers == (), "a listing is without them"
