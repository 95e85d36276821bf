"""The locality ladder: a gang starts as tight as the empty cluster allows, and goes a level further by its timer (law 8)."""

from __future__ import annotations

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.events import ResourceManagerRegistered, SnapshotEnded
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.server import Server

EACH_S = 150.0


def racks(*, servers: int = 2, gpus: int = 4) -> list[Server]:
    """Make two racks of so many servers: s1, s2, … and t1, t2, …."""
    names = [(f"{name}{number + 1}", rack) for name, rack in (("s", "/r1"), ("t", "/r2")) for number in range(servers)]
    return [server(name, gpus, rack=rack) for name, rack in names]


def scattered(each_s: float = EACH_S) -> World:
    """Hold half of each server: eight GPUs are free, two on each of four servers in two racks."""
    world = World(EngineSettings(relax_after_s=each_s)).up(*racks())
    for name in ("s1", "s2", "t1", "t2"):
        world.seen(f"held-{name}", f"holder-{name}", name, worker(2))
    return world


def gang(world: World, containers: int, *tags: str, gpus: int = 1, attempt: int = 1) -> None:
    world.submit("gang", f"gang:{containers}x{gpus}", *tags, attempt=attempt, submit_time_s=1.0)
    world.ask("gang", ask(containers, worker(gpus)), attempt=attempt)


def level_at(world: World, now_s: float) -> int | None:
    """Give the level at which the gang is placed then, if it is; what is decided is not committed."""
    world.now_s = now_s
    decided = world.decide()
    return int(decided[0].level) if decided else None


def test_a_gang_goes_a_level_further_whenever_its_timer_ran_out() -> None:
    world = scattered()
    gang(world, 8)  # two servers would hold it, four do now, in two racks
    for now_s, wake_s in ((0.0, 150.0), (149.9, 150.0), (150.0, 300.0), (299.9, 300.0)):
        assert level_at(world, now_s) is None
        assert world.engine.next_wake_s() == wake_s
    assert level_at(world, 300.0) == Level.ANYWHERE
    assert world.engine.next_wake_s() is None


def test_a_tighter_place_is_taken_whenever_there_is_one() -> None:
    world = scattered()
    gang(world, 4)
    assert level_at(world, 0.0) is None
    assert level_at(world, 150.0) == Level.ONE_DOMAIN


def test_a_place_that_is_freed_at_the_tightest_level_is_taken_at_once() -> None:
    world = scattered()
    gang(world, 4)
    assert level_at(world, 10.0) is None
    world.release("held-t1")
    assert level_at(world, 20.0) == Level.FEWEST_SERVERS


def test_what_the_empty_cluster_cannot_hold_tighter_goes_anywhere_at_once() -> None:
    world = World(EngineSettings(relax_after_s=EACH_S)).up(*racks())
    gang(world, 12)
    assert level_at(world, 0.0) == Level.ANYWHERE


def test_a_gang_that_its_rack_could_hold_since_it_grew_is_not_placed_looser() -> None:
    """What decides is the cluster of the moment, not that of its submission."""
    world = World(EngineSettings(relax_after_s=EACH_S)).up(*racks())
    world.seen("held", "holder", "s1", worker(4))
    gang(world, 14)
    assert (
        level_at(world, 0.0) is None
    )  # only twelve are free: it waits for the sake of the number, and may go anywhere
    world.change(server("s3", 4, rack="/r1"))
    world.change(server("s4", 4, rack="/r1"))
    assert level_at(world, 10.0) is None, "twelve are free in its rack, twenty in both"
    assert level_at(world, 150.0) is None
    assert level_at(world, 300.0) == Level.ANYWHERE


def test_nobody_wakes_for_a_gang_that_may_go_anywhere_since_its_rack_shrank() -> None:
    world = scattered()
    gang(world, 8)
    assert level_at(world, 0.0) is None
    assert world.engine.next_wake_s() == 150.0
    world.remove("s2")
    world.remove("t2")
    assert level_at(world, 10.0) is None
    assert world.engine.next_wake_s() is None


def test_a_gang_goes_anywhere_when_its_rack_shrank_whoever_joined_it_before_anybody_looked() -> None:
    world = scattered()
    gang(world, 8)
    assert level_at(world, 150.0) is None
    world.remove("s2")
    world.remove("t2")
    world.submit("other", "gang:8x1", "locality:1")
    world.ask("other", ask(8, worker(1)))
    world.change(server("u1", rack="/r3"))
    assert level_at(world, 150.0) == Level.ANYWHERE, "both stood at level 1, one of them because it goes no further"


def test_without_a_ladder_it_takes_what_there_is() -> None:
    world = scattered(each_s=0.0)
    gang(world, 8)
    assert level_at(world, 0.0) == Level.ANYWHERE
    assert world.engine.next_wake_s() is None


def test_a_single_container_has_no_ladder() -> None:
    world = World(EngineSettings(relax_after_s=EACH_S)).up(server("s1"))
    world.seen("held", "holder", "s1", worker(4))
    gang(world, 1)
    assert level_at(world, 0.0) is None
    assert world.engine.next_wake_s() is None


@pytest.mark.parametrize(("ceiling", "level"), [(0, None), (1, Level.ONE_DOMAIN)])
def test_a_job_may_forbid_looser_levels(ceiling: int, level: Level | None) -> None:
    world = scattered()
    gang(world, 4, f"locality:{ceiling}")
    assert level_at(world, 0.0) is None
    assert world.engine.next_wake_s() == (150.0 if ceiling else None)
    assert level_at(world, 1_000.0) == level


def test_while_the_gang_is_incomplete_no_time_counts() -> None:
    world = scattered()
    world.submit("gang", "gang:4x1")
    world.ask("gang", ask(3, worker(1)))
    assert level_at(world, 1_000.0) is None
    assert world.engine.next_wake_s() is None
    world.ask("gang", ask(4, worker(1)))
    assert level_at(world, 1_100.0) is None
    assert world.engine.next_wake_s() == 1_150.0
    assert level_at(world, 1_150.0) == Level.ONE_DOMAIN


def test_the_timer_pauses_while_a_place_is_decided_and_after_a_refusal_and_goes_on_from_there() -> None:
    world = World(EngineSettings(relax_after_s=EACH_S, backoff_min_s=20.0)).up(*racks())
    world.seen("held-s1", "holder", "s1", worker(4))
    gang(world, 8)
    assert level_at(world, 100.0) == Level.FEWEST_SERVERS
    (decision,) = world.places
    world.now_s = 130.0
    world.refuse(decision)
    world.seen("held-t1", "holder", "t1", worker(4))
    assert level_at(world, 149.0) is None
    assert world.engine.next_wake_s() == 150.0  # the pause ends, and 50 s are left of the first level
    assert level_at(world, 150.0) is None
    assert world.engine.next_wake_s() == 200.0
    assert level_at(world, 200.0) is None
    assert level_at(world, 350.0) == Level.ANYWHERE


def test_within_an_attempt_it_never_resets_and_with_a_new_one_it_begins_anew() -> None:
    world = scattered()
    gang(world, 8)
    assert level_at(world, 200.0) is None
    world.ask("gang", ask(8, worker(1)), blacklist=("nowhere",))
    assert level_at(world, 250.0) is None
    assert world.engine.next_wake_s() == 300.0
    gang(world, 8, attempt=2)
    assert level_at(world, 300.0) is None
    assert world.engine.next_wake_s() == 400.0


@pytest.mark.parametrize("late", [False, True])
def test_it_outlives_a_restart_of_the_resource_manager(late: bool) -> None:  # noqa: FBT001 - a parameter
    """Also where the job is told of only after the snapshot."""
    world = scattered()
    gang(world, 8)
    assert level_at(world, 200.0) is None
    world.apply(ResourceManagerRegistered(now_s=200.0, cluster_id="c", epoch=2))
    for one in racks():
        world.change(one)
        world.seen(f"held-{one.server_id}", f"holder-{one.server_id}", one.server_id, worker(2))
    if not late:
        gang(world, 8)
    world.apply(SnapshotEnded(now_s=200.0))
    if late:
        gang(world, 8)
    assert level_at(world, 200.0) is None
    assert world.engine.next_wake_s() == 300.0
    assert level_at(world, 300.0) == Level.ANYWHERE


def test_it_is_the_same_after_a_restore() -> None:
    world = scattered()
    gang(world, 8)
    assert level_at(world, 200.0) is None
    again = World(engine=Engine.restore(world.engine.snapshot()))
    assert level_at(again, 299.0) is None
    assert again.engine.next_wake_s() == 300.0
    assert level_at(again, 300.0) == Level.ANYWHERE


def test_times_that_cannot_be_written_exactly_run_out_too() -> None:
    """Else a driver that waits until then would find nothing changed, and wait for the same moment again."""
    for number in range(200):
        world = scattered(each_s=0.1 + number / 7)
        world.now_s = 1.7e9 + number / 3
        gang(world, 8)
        assert world.decide() == []
        for _ in range(2):
            wake_s = world.engine.next_wake_s()
            assert wake_s is not None
            assert wake_s > world.now_s
            world.now_s = wake_s
            placed = world.decide()
        assert [decision.level for decision in placed] == [Level.ANYWHERE]


def test_its_level_is_the_reason_that_is_given() -> None:
    world = scattered()
    gang(world, 4)
    world.decide()
    said = "fragmented: asks 4 GPUs at once, 4 x 1; 8 GPUs are free on 4 servers, but not at level 0, "
    assert world.why("gang") == f"{said}on the fewest servers in one RDMA domain; it goes to level 1 in 150 s"


@pytest.mark.parametrize("own", [False, True])
def test_a_partition_that_lends_is_measured_by_what_it_could_hold_itself(own: bool) -> None:  # noqa: FBT001 - a parameter
    """Whether the default partition could hold the gang tighter, or not at all."""
    lent = [server(f"p{number}", 2, rack="/r9", partition="p", lends=True) for number in range(3)]
    world = World(EngineSettings(relax_after_s=EACH_S)).up(*lent, *(racks() if own else ()))
    for name in ("s1", "s2", "t1", "t2") if own else ():
        world.seen(f"held-{name}", f"holder-{name}", name, worker(4))
    gang(world, 4)
    assert level_at(world, 0.0) == Level.FEWEST_SERVERS
    assert world.engine.counters.rejected == 0


def test_what_only_a_partition_that_lends_could_hold_tight_waits_for_that() -> None:
    lent = [server(f"p{number}", 4, rack="/r9", partition="p", lends=True) for number in range(2)]
    small = [server(f"s{number}", 2, rack=f"/r{number}") for number in range(4)]
    world = World(EngineSettings(relax_after_s=EACH_S)).up(*lent, *small)
    world.seen("held", "holder", "p0", worker(1))
    gang(world, 8)
    assert level_at(world, 0.0) is None
    assert level_at(world, 300.0) == Level.ANYWHERE


def test_timers_of_jobs_that_went_are_forgotten() -> None:
    world = scattered()
    gang(world, 8)
    world.decide()
    world.end("gang")
    world.decide()
    assert world.engine.next_wake_s() is None


def test_a_timer_that_a_new_attempt_ended_wakes_nobody_after_its_job_has_gone() -> None:
    world = World(EngineSettings(relax_after_s=EACH_S, ended_jobs_max=0)).up(*racks())
    for name in ("s1", "s2", "t1", "t2"):
        world.seen(f"held-{name}", f"holder-{name}", name, worker(2))
    gang(world, 8)
    assert level_at(world, 0.0) is None
    world.submit("gang", "gang:8x1", attempt=2, submit_time_s=1.0)
    world.end("gang", release=False)
    world.change(server("s3"))
    world.now_s = EACH_S
    assert world.decide() == []
    assert world.engine.next_wake_s() is None
