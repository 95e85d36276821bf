"""Application masters and other containers without GPUs on GPU servers: capped, and never in a GPU's way."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.resource import Resource


def masters(world: World) -> tuple[int, int]:
    """Memory and vcores that masters hold."""
    state = world.engine._core.state
    return state.masters.memory_mb, state.masters.vcores


def test_masters_stay_under_their_share() -> None:
    world = World().up(server("s1", memory_mb=10_240), server("s2", memory_mb=10_240))
    for number in range(6):
        world.submit(f"j{number}")
        world.ask(f"j{number}", ask(1, AM, 0, am=True))
    world.run()
    assert masters(world) == (2_048, 4)
    assert world.why("j4") == (
        "am_limit: asks 512 MB and 1 vcores for its master; 4 masters hold 2048 MB and 4 vcores"
        " of the 2048 MB and 12 vcores that masters may have on GPU servers"
    )
    world.end("j0")
    assert [one.job_id for one in world.run()] == ["j4"]


def test_one_master_may_always_run() -> None:
    world = World(EngineSettings(am_share=0.0)).up(server("s1"))
    for job_id in ("a", "b"):
        world.submit(job_id)
        world.ask(job_id, ask(1, AM, 0, am=True))
    assert [one.job_id for one in world.run()] == ["a"]
    world.end("a")
    assert [one.job_id for one in world.run()] == ["b"]


def test_a_share_that_grows_lets_masters_go_on() -> None:
    world = World(EngineSettings(am_share=0.0)).up(server("s1"))
    for job_id in ("a", "b"):
        world.submit(job_id)
        world.ask(job_id, ask(1, AM, 0, am=True))
    world.run()
    world.remove("s1")
    world.change(server("s2"))
    assert [one.job_id for one in world.run()] == ["b"]


def test_containers_without_gpus_leave_every_free_gpu_its_share() -> None:
    """C28: helpers never fill the memory of servers whose GPUs are then of no use."""
    world = World().up(*(server(f"s{number}", 1, memory_mb=4_096, vcores=8) for number in range(4)))
    world.submit("helpers")
    world.ask("helpers", ask(50, worker(0, 100)))
    world.run()
    world.submit("gang", "gang:4x1")
    world.ask("gang", ask(4, worker(1, 3_600, 7)))
    assert [one.job_id for one in world.run()] == ["gang"]
    assert world.why("helpers").startswith("other_resources: asks 1 container of 100 MB")


def test_a_gpu_in_use_gives_what_it_leaves_of_its_share_to_others() -> None:
    world = World().up(server("s1", 1, memory_mb=4_096))
    world.submit("helper")
    world.ask("helper", ask(1, worker(0, 300)), ask(1, worker(0, 350), 2))
    assert len(world.run()) == 1
    world.submit("gang", "gang:1x1")
    world.ask("gang", ask(1, worker(1, 500)))
    assert [one.job_id for one in world.decide()] == ["gang", "helper"]


def test_a_container_that_turns_up_may_make_room_for_others() -> None:
    world = World().up(server("s1", 1, memory_mb=4_096))
    world.submit("helper")
    world.ask("helper", ask(1, worker(0, 300)), ask(1, worker(0, 350), 2))
    assert len(world.run()) == 1
    world.seen("x", "stranger", "s1", worker(1, 500))
    assert [one.job_id for one in world.decide()] == ["helper"]


def test_where_every_server_is_small_progress_is_made_all_the_same() -> None:
    world = World().up(server("s1", 4, memory_mb=4_096, vcores=8), server("s2", 4, memory_mb=4_096, vcores=8))
    world.seen("x", "other", "s2", worker(2))
    world.submit("j", "gang:2x4")
    world.ask("j", ask(1, Resource(1_024, 1), 0, am=True))
    (master,) = world.run()
    assert master.assignments[0].server_id == "s2"


def test_servers_without_gpus_are_left_to_stock_placement() -> None:
    world = World().up(server("cpu", 0))
    world.submit("j")
    world.ask("j", ask(1, worker(0)))
    assert world.run() == []
    assert world.engine.job("j").state is JobState.PENDING  # type: ignore[union-attr] # it was submitted above
    assert world.why("j") == (
        "never_fits_now: no GPU server has registered yet;"
        " servers without GPUs are left to the resource manager's own placement"
    )


def test_servers_without_gpus_are_used_where_that_is_set() -> None:
    world = World(EngineSettings(place_on_cpu_servers=True)).up(server("cpu", 0), server("s1", 4, memory_mb=4_096))
    world.submit("j")
    world.ask("j", ask(1, worker(0, 2_000)))
    assert [one.assignments[0].server_id for one in world.run()] == ["cpu"]


@pytest.mark.timeout(600)  # 2 s of work, on a machine that may be busy
def test_a_thousand_managed_applications_on_16_gpus_never_stall() -> None:
    """Every one runs to its end, masters stay under their cap all the time."""
    servers = [server(f"s{number}", memory_mb=20_480, vcores=32, rack=f"/r{number % 2}") for number in range(4)]
    world = World(EngineSettings(ended_jobs_max=50), audited=False).up(*servers)
    shapes = [(1, 4), (4, 4), (2, 2), (16, 1), (3, 2), (1, 1), (5, 1), (2, 4), (8, 2)]
    for number in range(1_000):
        containers, gpus = shapes[number % len(shapes)]
        world.submit(f"j{number:04d}", f"gang:{containers}x{gpus}")
        world.ask(f"j{number:04d}", ask(1, AM, 0, am=True))
    done = 0
    for _ in range(3_000):
        for placed in world.run():
            view = world.engine.job(placed.job_id)
            assert view is not None
            if view.state is JobState.RUNNING:
                world.end(placed.job_id)
                done += 1
            else:
                containers, gpus = shapes[int(placed.job_id[1:]) % len(shapes)]
                world.ask(placed.job_id, ask(containers, worker(gpus)))
            assert masters(world)[0] <= 8_192
        if done == 1_000:
            break
    assert done == 1_000
    assert world.engine.audit() == []
    assert world.engine.cluster().used == Resource()
    assert world.engine.jobs(limit=100)[1] == 50


def test_who_moves_to_another_queue_leaves_its_masters_share_to_those_that_wait() -> None:
    world = World(EngineSettings(policy="philly")).up(server("s1", 8, memory_mb=10_240, vcores=100))
    for queue in ("a", "b"):
        world.configure(f"root.{queue}", quota_gpus=2)
    for name in ("goes", "waits"):
        world.submit(name, vc="root.a", submit_time_s=1.0)
        world.ask(name, ask(1, Resource(256, 1), 0, am=True))
    assert [one.job_id for one in world.run()] == ["goes"]
    world.submit("goes", vc="root.b", submit_time_s=1.0)
    assert [one.job_id for one in world.run()] == ["waits"]


def test_a_master_that_ran_before_anybody_said_whose_it_is_counts_for_its_queue_from_then_on() -> None:
    """What masters hold in all does not change then, and yet it is why others wait."""
    world = World(EngineSettings(policy="philly")).up(server("s1", 8, memory_mb=8_192, vcores=8))
    world.configure("root.a", quota_gpus=4)
    world.seen("k", "runs", "s1", Resource(256, 1), application_master=True)
    world.submit("waits", vc="root.a", recovered=True)
    world.ask("waits", ask(1, Resource(20_480, 1), 0, am=True))
    assert world.run() == []
    assert world.why("waits").startswith("never_fits_now")
    world.submit("runs", vc="root.a")
    assert world.engine.audit() == []
    assert world.why("waits").startswith("am_limit")


@pytest.mark.parametrize("quota_gpus", [0, None])
def test_masters_of_a_queue_without_a_share_of_the_gpus_have_what_all_may_have(quota_gpus: int | None) -> None:
    """A queue with quota 0 borrows: its part of the masters' share would be none, and its jobs would start one at a time."""
    world = World(EngineSettings(policy="philly", cpu_share=0.5)).up(server("s1", 8, memory_mb=20_480, vcores=100))
    world.configure("root.borrows", quota_gpus=quota_gpus)
    world.configure("root.owns", quota_gpus=8)
    for number in range(6):
        world.submit(f"j{number}", vc="root.borrows", submit_time_s=float(number))
        world.ask(f"j{number}", ask(1, AM, 0, am=True))
    assert [one.job_id for one in world.run()] == ["j0", "j1", "j2", "j3"]
    assert world.why("j4") == (
        "am_limit: asks 512 MB and 1 vcores for its master; 4 masters hold 2048 MB and 4 vcores"
        " of the 2048 MB and 10 vcores that masters may have on GPU servers"
    )
    # What they hold counts for all of them, but a queue with a quota has its own part whatever they do.
    world.submit("o", vc="root.owns", submit_time_s=9.0)
    world.ask("o", ask(1, AM, 0, am=True))
    assert [one.job_id for one in world.run()] == ["o"]
    assert world.why("j4").startswith("am_limit: asks 512 MB and 1 vcores for its master; 5 masters hold 2560 MB")
    world.end("j0")
    assert world.run() == []
    world.end("j1")
    assert [one.job_id for one in world.run()] == ["j4"]
