"""Views are copies, paged, and right; every waiting reason has its numbers in one sentence."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.events import VirtualClusterChanged, VirtualClusterRemoved
from yarn_gpu_sched.model.job import JobEnd, JobState
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster


def three_jobs() -> World:
    world = World().up(server("s1"), server("s2"))
    for number, vc in enumerate(("root.a", "root.b", "root.a")):
        world.submit(f"j{number}", vc=vc)
        world.ask(f"j{number}", ask(1, worker(1)))
    world.run()
    return world


def test_jobs_come_in_order_of_submission_page_by_page() -> None:
    world = three_jobs()
    world.submit("early", submit_time_s=0.5)
    page, total = world.engine.jobs(limit=2)
    assert ([view.job.job_id for view in page], total) == (["early", "j0"], 4)
    page, total = world.engine.jobs(after="j0", limit=2)
    assert ([view.job.job_id for view in page], total) == (["j1", "j2"], 4)
    assert all(view.containers == () for view in page)
    assert world.engine.jobs(after="unknown")[0] == []


def test_jobs_are_chosen_by_state_and_virtual_cluster() -> None:
    world = three_jobs()
    world.end("j0", JobEnd.FAILED)
    assert [view.job.job_id for view in world.engine.jobs(vc="root.a")[0]] == ["j0", "j2"]
    assert [view.job.job_id for view in world.engine.jobs(state=JobState.ENDED)[0]] == ["j0"]
    assert world.engine.jobs(state=JobState.RUNNING, vc="root.a")[1] == 1


def test_virtual_clusters_show_their_use() -> None:
    world = three_jobs()
    world.apply(VirtualClusterChanged(now_s=0.0, virtual_cluster=VirtualCluster("root.c", 8)))
    views, total = world.engine.virtual_clusters()
    assert [(view.virtual_cluster.path, view.used.gpus, view.jobs_running) for view in views] == [
        ("root.a", 2, 2),
        ("root.b", 1, 1),
        ("root.c", 0, 0),
    ]
    assert total == 3
    world.apply(VirtualClusterRemoved(now_s=0.0, path="root.c"))
    assert world.engine.virtual_clusters()[1] == 2


def test_a_job_that_moves_is_charged_to_its_new_virtual_cluster() -> None:
    world = three_jobs()
    world.submit("j0", vc="root.b", submit_time_s=1.0)
    uses = {view.virtual_cluster.path: view.used.gpus for view in world.engine.virtual_clusters()[0]}
    assert uses == {"root.a": 1, "root.b": 2}


def test_servers_come_in_order_page_by_page() -> None:
    world = three_jobs()
    page, total = world.engine.servers(limit=1)
    assert ([view.server.server_id for view in page], total) == (["s1"], 2)
    (view,), _ = world.engine.servers(after="s1")
    assert view.server.server_id == "s2"
    assert page[0].used == Resource(3 * 1024, 3, 3)
    assert [gpu.container_id for gpu in page[0].gpus] == ["k0", "k1", "k2", ""]


def test_ended_jobs_are_bounded_oldest_first() -> None:
    world = World(EngineSettings(ended_jobs_max=2)).up(server("s1"))
    for number in range(4):
        world.submit(f"j{number}")
        world.end(f"j{number}")
    assert [view.job.job_id for view in world.engine.jobs()[0]] == ["j2", "j3"]


def test_an_ended_job_that_still_holds_something_is_kept() -> None:
    world = World(EngineSettings(ended_jobs_max=0)).up(server("s1"))
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    world.run()
    world.end("j", release=False)
    assert world.engine.job("j") is not None
    world.release_all("j")
    assert world.engine.job("j") is None


def test_why_the_cluster_is_full() -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", "gang:5x1")
    world.ask("j", ask(5, worker(1)))
    world.run()
    world.submit("k", "gang:2x2")
    world.ask("k", ask(2, worker(2)))
    world.run()
    assert world.why("k") == "cluster_full: asks 4 GPUs at once, 2 x 2; 3 GPUs are free on 1 server"
    reason = world.engine.waiting("k")
    assert reason is not None
    assert (reason.gpus_asked, reason.containers_asked, reason.gpus_free, reason.servers_free) == (4, 2, 3, 1)


def test_why_free_gpus_are_of_no_use() -> None:
    world = World().up(server("s1"), server("s2"))
    for name in ("s1", "s2"):
        world.seen(f"x{name}", "x", name, worker(1))
    world.submit("k", "gang:1x4")
    world.ask("k", ask(1, worker(4)))
    world.run()
    assert world.why("k") == (
        "fragmented: asks 4 GPUs; 6 GPUs are free on 2 servers, but they hold 0 containers of 4 GPUs"
    )


def test_why_other_resources_are_short() -> None:
    world = World().up(server("s1", memory_mb=8_192))
    world.seen("x", "x", "s1", Resource(6_000, 1, 0))
    world.submit("k")
    world.ask("k", ask(1, worker(1, 4_096)))
    world.run()
    assert world.why("k") == (
        "other_resources: asks 1 GPUs; 4 GPUs are free on 1 server, but not with 4096 MB and 1 vcores a container"
    )


def test_why_nothing_was_asked() -> None:
    world = World().up(server("s1"))
    world.submit("a", active=False)
    world.submit("b")
    world.submit("c")
    world.seen("m", "c", "s1", AM, application_master=True)
    assert world.why("a").startswith("not_asked: the resource manager has not let the application ask yet")
    assert world.why("b").startswith("not_asked: the resource manager has not asked for the application's master yet")
    assert world.why("c") == ""
    world.submit("d", active=False)
    world.ask("d", ask(1, worker(1)))
    assert world.run() == []
    assert world.why("d").startswith("not_asked")


def test_who_is_next_is_told_so() -> None:
    world = World().up(server("s1"))
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    assert world.why("j") == "decided: asks 1 GPUs; it fits and is placed in its turn"


def test_who_waits_for_nothing_has_no_reason() -> None:
    world = three_jobs()
    world.end("j0")
    assert [world.why(job_id) for job_id in ("j0", "j1", "unknown")] == ["", "", ""]


def test_asking_why_costs_the_decision_nothing() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:9x1", recovered=True)
    world.ask("j", ask(9, worker(1)))
    world.run()
    before = (world.engine.counters.index_entries_visited, world.engine.digest())
    assert world.engine.waiting("j") is not None
    assert world.engine.waiting("j").code is ReasonCode.NEVER_FITS_NOW  # type: ignore[union-attr] # see above
    assert (world.engine.counters.index_entries_visited, world.engine.digest()) == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("am_share", 1.5),
        ("cpu_share", -0.1),
        ("backoff_min_s", 0.0),
        ("backoff_min_s", 31.0),
        ("backoff_max_s", 4_000.0),
        ("ended_jobs_max", -1),
        ("decisions_per_pass_max", 0),
        ("policy", "none"),
    ],
)
def test_settings_out_of_range_are_named(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        EngineSettings(**{field: value})  # type: ignore[arg-type] # that is the test
