"""A gang that lost a member: its place is held, the replacement goes first, and without one the job starts anew (law 4)."""

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import RequeueJob
from yarn_gpu_sched.engine.events import ResourceManagerRegistered, SnapshotEnded
from yarn_gpu_sched.model.outcome import OutcomeCode

HOLD_S, REQUEUE_S = 120.0, 600.0


def running(*, servers: int = 2, gang: str = "gang:2x2") -> World:
    """Run a gang of 2 x 2 GPUs on s1, and a job that holds all that is left."""
    world = World().up(*(server(f"s{n + 1}") for n in range(servers)))
    world.submit("gang", gang)
    world.ask("gang", ask(2, worker(2)))
    world.run()
    world.ask("gang")
    world.submit("holder", f"gang:{servers - 1}x4")
    world.ask("holder", ask(servers - 1, worker(4)))
    world.run()
    world.ask("holder")
    return world


def lose_one(world: World) -> str:
    container_id = world.live("gang")[0].container_id
    world.release(container_id, lost=True)
    return container_id


def fresh_job_waits(world: World) -> None:
    world.submit("fresh", "gang:1x2")
    world.ask("fresh", ask(1, worker(2)))
    assert world.run() == []


def requeues(world: World) -> list[RequeueJob]:
    return [command for command in world.commands if isinstance(command, RequeueJob)]


def test_what_a_lost_member_had_is_held_for_its_replacement() -> None:
    world = running()
    lose_one(world)
    fresh_job_waits(world)
    assert world.engine.cluster().used.gpus == 8
    assert world.why("gang") == (
        "gang_degraded: 1 of 2 containers of the gang were lost; 2 GPUs are held for the replacement for another 120 s;"
        " its master asks for no replacement"
    )
    world.ask("gang", ask(1, worker(2)))
    (placed,) = world.run()
    assert (placed.job_id, placed.assignments[0].server_id) == ("gang", "s1")
    world.ask("gang")
    assert world.why("gang") == ""
    assert world.engine.cluster().used.gpus == 8


def test_a_hold_ends_and_whoever_waits_gets_the_place() -> None:
    world = running()
    lose_one(world)
    fresh_job_waits(world)
    world.now_s += HOLD_S - 0.1
    assert world.run() == []
    assert world.engine.next_wake_s() == HOLD_S
    world.now_s = HOLD_S
    assert [placed.job_id for placed in world.run()] == ["fresh"]
    assert world.why("gang") == ""
    assert requeues(world) == []


def test_a_replacement_that_cannot_be_had_starts_the_job_anew_as_a_whole() -> None:
    world = running()
    lose_one(world)
    world.ask("gang", ask(1, worker(4)))  # its master wants a larger one, which the place that is held cannot be
    assert world.run() == []
    assert "without one it starts anew as a whole in 600 s" in world.why("gang")
    world.now_s = REQUEUE_S - 0.1
    assert world.run() == []
    assert requeues(world) == []
    assert world.engine.next_wake_s() == REQUEUE_S
    world.now_s = REQUEUE_S
    world.decide()
    (order,) = requeues(world)
    assert (order.job_id, order.attempt) == ("gang", 1)
    assert order.diagnostics.startswith("1 of its containers were lost and could not be replaced for 600 s")
    world.decide()
    assert len(requeues(world)) == 1
    assert "told to start it anew" in world.why("gang")


def test_a_job_that_started_anew_is_a_gang_again() -> None:
    world = running()
    lose_one(world)
    world.ask("gang", ask(1, worker(4)))
    world.now_s = REQUEUE_S
    world.decide()
    (order,) = requeues(world)
    world.commit(order)
    world.release_all("gang")
    job = world.submit("gang", "gang:2x2", attempt=2)
    world.ask("gang", ask(2, worker(2)), attempt=job.attempt)
    (placed,) = world.run()
    assert (placed.attempt, len(placed.assignments)) == (2, 2)
    assert world.engine.cluster().used.gpus == 8


def test_an_order_to_start_anew_that_was_refused_is_given_again() -> None:
    world = running()
    lose_one(world)
    world.ask("gang", ask(1, worker(4)))
    world.now_s = REQUEUE_S
    world.decide()
    world.refuse(requeues(world)[0], OutcomeCode.NOT_READY)
    for _ in range(3):
        world.now_s += 9.9
        world.decide()
        assert len(requeues(world)) == 1
    world.now_s = world.engine.next_wake_s() or 0.0
    assert world.now_s == REQUEUE_S + 30.0
    world.decide()
    assert len(requeues(world)) == 2


@pytest.mark.parametrize("how", ["its server", "failed", "ended well"])
def test_what_counts_as_lost(how: str) -> None:
    world = running(servers=3)
    if how == "its server":
        world.remove(world.live("gang")[0].server_id)
    else:
        world.release(world.live("gang")[0].container_id, lost=how == "failed")
    assert world.why("gang").startswith("gang_degraded") is (how != "ended well")


def test_a_gang_that_lost_its_server_is_repaired_elsewhere_before_fresh_jobs() -> None:
    world = running(servers=3)
    world.submit("fresh", "gang:2x2")
    world.ask("fresh", ask(2, worker(2)))
    world.remove("s1")
    world.ask("gang", ask(2, worker(2)))
    world.end("holder")
    placed = world.run()
    assert [one.job_id for one in placed] == ["gang", "gang", "fresh"]
    world.ask("gang")
    assert world.why("gang") == ""


def test_the_end_of_a_job_ends_what_is_held_for_it() -> None:
    world = running()
    lose_one(world)
    world.end("gang")
    assert world.engine.cluster().used.gpus == 4


def test_growth_beyond_the_gang_is_no_member() -> None:
    world = running(servers=3, gang="gang:1x2")
    assert len(world.live("gang")) == 2
    lose_one(world)
    assert world.why("gang") == ""


def test_an_engine_that_was_written_down_goes_on_tending() -> None:
    world = running()
    lose_one(world)
    restored = Engine.restore(world.engine.snapshot())
    assert restored.audit() == []
    assert restored.digest() == world.engine.digest()
    assert restored.next_wake_s() == world.engine.next_wake_s()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_new_registration_voids_holds_and_remembers_what_is_missing(replaced: bool) -> None:  # noqa: FBT001 # a column of the table
    world = running()
    lose_one(world)
    kept = world.live("gang")[0]
    world.now_s = 10.0
    world.apply(ResourceManagerRegistered(now_s=10.0, cluster_id="c", epoch=1))
    world.change(server("s1"))
    world.submit("gang", "gang:2x2")
    for number in range(1 + replaced):
        world.seen(f"{kept.container_id}-{number}", "gang", "s1", worker(2), gpu_indices=(2 * number, 2 * number + 1))
    world.apply(SnapshotEnded(now_s=10.0))
    world.run()
    assert world.engine.cluster().used.gpus == (4 if replaced else 2)
    assert (world.why("gang") == "") is replaced
    if not replaced:
        world.ask("gang", ask(1, worker(4)))
        world.now_s = REQUEUE_S
        world.decide()
        assert len(requeues(world)) == 1


def test_the_times_can_be_set() -> None:
    world = World(EngineSettings(repair_hold_s=0.0, requeue_after_s=5.0)).up(server("s1"))
    world.submit("gang", "gang:2x2")
    world.ask("gang", ask(2, worker(2)))
    world.run()
    world.ask("gang", ask(1, worker(3)))
    lose_one(world)
    world.run()
    assert world.engine.cluster().used.gpus == 2
    world.now_s = 5.0
    world.decide()
    assert len(requeues(world)) == 1


def test_a_job_whose_master_is_not_ours_starts_anew_within_its_attempt() -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("gang", "gang:2x2", unmanaged=True)
    world.ask("gang", ask(2, worker(2)))
    world.run()
    lose_one(world)
    world.ask("gang", ask(1, worker(4), at={"nowhere": 1}, strict=True))
    world.now_s = REQUEUE_S
    world.decide()
    world.commit(*requeues(world))
    world.release_all("gang")
    world.ask("gang", ask(2, worker(2)))
    (placed,) = world.run()
    assert len(placed.assignments) == 2


def lost_a_server() -> World:
    """Run a gang of 2 x 4 GPUs on two servers, and lose one of these."""
    world = World().up(server("s1"), server("s2"))
    world.submit("j", "gang:2x4", submit_time_s=1.0)
    world.ask("j", ask(2, worker(4)))
    world.run()
    world.ask("j")
    world.remove("s2")
    return world


def test_a_job_that_is_told_to_start_anew_wants_nothing_and_asks_for_no_pass() -> None:
    world = lost_a_server()
    world.ask("j", ask(1, worker(4)))
    world.now_s = REQUEUE_S
    world.decide()
    (order,) = requeues(world)
    assert world.engine.next_wake_s() is None
    world.commit(order)
    world.change(server("s3"))
    assert world.decide() == []
    assert world.engine.next_wake_s() is None


def test_a_pause_after_a_refusal_is_not_taken_for_a_loss_that_the_master_has_taken() -> None:
    world = lost_a_server()
    world.ask("j", ask(1, worker(4)))
    world.now_s = HOLD_S + 10
    world.decide()
    world.change(server("s2"))
    world.refuse(world.decide()[0])
    world.decide()
    assert world.why("j").endswith("without one it starts anew as a whole in 470 s"), "also while it pauses"
    world.remove("s2")
    world.now_s = REQUEUE_S
    world.decide()
    assert len(requeues(world)) == 1


def test_a_gang_that_is_to_be_placed_again_as_a_whole_misses_nobody() -> None:
    world = lost_a_server()
    world.ask("j", ask(1, worker(4)))
    world.up(server("s1"), server("s2"), epoch=2)
    world.submit("j", "gang:2x4", submit_time_s=1.0, recovered=True)
    world.submit("holder", "gang:1x4")
    world.ask("holder", ask(1, worker(4)))
    world.run()
    world.ask("j", ask(2, worker(4)))
    world.now_s = 2 * REQUEUE_S
    world.decide()
    assert requeues(world) == []
    world.end("holder")
    assert [one.job_id for one in world.run()] == ["j"]


def test_a_gang_whose_tag_goes_misses_nobody() -> None:
    world = lost_a_server()
    world.submit("j", submit_time_s=1.0)
    assert world.why("j") == ""


def test_an_order_that_is_refused_after_the_gang_is_whole_changes_nothing() -> None:
    world = lost_a_server()
    world.ask("j", ask(1, worker(4)))
    world.change(server("s2"))
    (replacement,) = world.decide()
    world.now_s = REQUEUE_S
    world.decide()
    world.commit(replacement)
    world.ask("j")
    for order in requeues(world):
        world.refuse(order)
    assert world.why("j") == ""
    world.release(world.live("j")[0].container_id, lost=True)
    assert world.why("j").startswith("gang_degraded: 1 of 2 containers")
