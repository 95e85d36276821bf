"""Masters with GPUs of their own: never placed where their gang has no room, and the room is held until the gang is asked."""

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.model.outcome import OutcomeCode

MASTER = ask(1, worker(1, memory_mb=2048), 0, am=True)


def cluster(*, gpus: int = 4, servers: int = 2) -> World:
    return World().up(*(server(f"s{n + 1}", gpus) for n in range(servers)))


def master(world: World, job_id: str, gang: str) -> list[PlaceGang]:
    world.submit(job_id, gang)
    world.ask(job_id, MASTER)
    placed = world.run()
    if placed:
        world.ask(job_id)
    return placed


def used(world: World) -> int:
    return world.engine.cluster().used.gpus


def test_a_master_whose_gang_has_no_room_beside_it_waits() -> None:
    world = cluster()
    world.submit("other", "gang:1x2")
    world.ask("other", ask(1, worker(2)))
    world.run()
    assert master(world, "j", "gang:2x3") == []
    assert world.why("j") == (
        "cluster_full: asks 7 GPUs in 3 containers at once for its master and its gang; 6 GPUs are free on 2 servers"
    )
    world.end("other")
    assert [one.job_id for one in world.run()] == ["j"]


def test_a_master_and_a_gang_that_no_cluster_of_this_size_holds_together_are_refused() -> None:
    world = cluster()
    master(world, "j", "gang:2x4")
    assert [one.diagnostics for one in world.refusals] == ["asks 9 GPUs at once, all servers together have 8"]


def test_the_gangs_gpus_are_held_until_it_asks_and_then_are_its() -> None:
    world = cluster()
    (placed,) = master(world, "j", "gang:2x3")
    assert [one.resource.gpus for one in placed.assignments] == [1]
    assert used(world) == 7
    assert world.why("j") == (
        "not_asked: the application master has not asked for containers yet; 6 GPUs are held for its gang for another 60 s"
    )
    world.submit("fresh", "gang:1x2")
    world.ask("fresh", ask(1, worker(2)))
    assert world.run() == []
    world.ask("j", ask(1, worker(3)))
    assert world.why("j").endswith("has asked for 1 so far; 6 GPUs are held for its gang for another 60 s")
    world.ask("j", ask(2, worker(3)))
    assert world.engine.next_wake_s() == world.now_s
    (gang,) = world.run()
    assert (gang.job_id, len(gang.assignments)) == ("j", 2)
    world.ask("j")
    assert world.why("j") == ""
    assert used(world) == 7


def test_two_masters_never_take_what_their_gangs_need() -> None:
    world = cluster(servers=1)
    for job_id in ("a", "b"):
        world.submit(job_id, "gang:1x2")
        world.ask(job_id, MASTER)
    assert [one.job_id for one in world.run()] == ["a"]
    world.ask("a", ask(1, worker(2)))
    assert [one.job_id for one in world.run()] == ["a"]
    world.end("a")
    assert [one.job_id for one in world.run()] == ["b"]


def test_what_is_held_too_long_is_free_for_others() -> None:
    world = cluster()
    master(world, "j", "gang:2x3")
    world.submit("fresh", "gang:1x3")
    world.ask("fresh", ask(1, worker(3)))
    world.now_s = 59.9
    assert world.run() == []
    assert world.engine.next_wake_s() == 60.0
    world.now_s = 60.0
    assert [one.job_id for one in world.run()] == ["fresh"]
    world.ask("j", ask(2, worker(3)))
    assert world.run() == []
    assert world.why("j").startswith("cluster_full")


@pytest.mark.parametrize("memory_mb", [1024, 60_000])
def test_a_gang_that_wants_more_memory_than_is_left_beside_its_gpus_goes_elsewhere_or_waits(memory_mb: int) -> None:
    world = cluster(servers=2, gpus=8)
    master(world, "j", "gang:2x3")
    world.ask("j", ask(2, worker(3, memory_mb=memory_mb)))
    (gang,) = world.run()
    servers = {one.server_id for one in gang.assignments}
    assert len(servers) == (1 if memory_mb == 1024 else 2)


def test_a_refused_master_frees_what_was_held_and_is_tried_again_only_after_a_pause() -> None:
    world = cluster()
    world.submit("j", "gang:2x3")
    world.ask("j", MASTER)
    for pause_s in (0.1, 0.2, 0.4):
        (decision,) = world.decide()
        assert used(world) == 7
        world.refuse(decision, OutcomeCode.QUEUE_LIMIT)
        assert used(world) == 0
        assert world.decide() == []
        assert world.why("j").endswith(f"tried again in {pause_s:.1f} s")
        world.now_s += pause_s


@pytest.mark.parametrize("how", ["ends", "next attempt", "reconnects"])
def test_nothing_stays_held_for_who_is_gone(how: str) -> None:
    world = cluster()
    master(world, "j", "gang:2x3")
    if how == "ends":
        world.end("j")
    elif how == "next attempt":
        world.release_all("j")
        world.submit("j", "gang:2x3", attempt=2, submit_time_s=1.0)
    else:
        world.up(server("s1"), server("s2"))
    assert used(world) == 0


def test_a_server_that_goes_takes_what_is_held_there_with_it() -> None:
    world = cluster()
    (placed,) = master(world, "j", "gang:2x3")
    here = placed.assignments[0].server_id
    world.remove("s2" if here == "s1" else "s1")
    assert used(world) == 4
    world.change(server("s3"))
    world.ask("j", ask(2, worker(3)))
    (gang,) = world.run()
    assert {one.server_id for one in gang.assignments} == {here, "s3"}


def test_without_the_gangs_shape_a_master_is_placed_by_itself() -> None:
    for tags in ((), ("gang:4",)):
        world = cluster()
        world.submit("j", *tags)
        world.ask("j", MASTER)
        (placed,) = world.run()
        assert [one.resource.gpus for one in placed.assignments] == [1]
        assert used(world) == 1


def test_a_hold_is_written_down_and_read_again() -> None:
    world = cluster()
    master(world, "j", "gang:2x3")
    again = World(engine=Engine.restore(world.engine.snapshot()))
    again.ask("j", ask(2, worker(3)))
    assert [one.job_id for one in again.run()] == ["j"]


def test_a_hold_of_no_time_holds_nothing() -> None:
    world = World(EngineSettings(gang_hold_s=0)).up(server("s1"), server("s2"))
    master(world, "j", "gang:2x3")
    assert used(world) == 1


def test_a_gang_that_is_asked_with_its_master_leaves_nothing_held_beside_it() -> None:
    world = cluster()
    world.submit("j", "gang:1x3")
    world.ask("j", MASTER, ask(1, worker(3)))
    world.run()
    assert used(world) == 4
    world.ask("j")
    world.release(world.live("j")[0].container_id, lost=True)
    assert world.why("j").startswith("gang_degraded")


def test_a_tag_that_changes_frees_what_was_held_by_the_old_one() -> None:
    world = cluster()
    master(world, "j", "gang:2x3")
    world.submit("j", "gang:1x1", submit_time_s=1.0)
    assert used(world) == 1
