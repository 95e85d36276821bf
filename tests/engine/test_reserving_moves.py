"""A gang with a reservation that goes to another queue, or asks of other servers; a server that goes, or a better place."""

from __future__ import annotations

import msgspec

from tests.engine.test_reserving import BOUND_S, Waiting, filled
from tests.engine.world import ask, server, worker
from yarn_gpu_sched.engine.events import JobChanged
from yarn_gpu_sched.engine.reserving import LOOKED_AT_MAX, REPLAN_MIN_S, REPLAN_S
from yarn_gpu_sched.model.server import ServerState


def move(world: Waiting, job_id: str, vc: str) -> None:
    view = world.engine.job(job_id)
    assert view is not None
    world.apply(JobChanged(now_s=world.now_s, job=msgspec.structs.replace(view.job, vc=vc)))


def test_one_that_is_moved_to_where_another_has_one_loses_its_own() -> None:
    """Of a virtual cluster one gang at most has one, at any time."""
    world = filled()
    world.gang("other", 4, 1, "root.b", "locality:0")
    world.step(200.0 + BOUND_S)
    assert sorted(world.reserved) == ["g", "other"]
    move(world, "other", "root.a")
    assert (list(world.reserved), world.kept("other")) == (["g"], 0)
    world.step(world.now_s + BOUND_S)
    assert list(world.reserved) == ["g"]


def test_one_that_is_moved_to_where_nobody_has_one_gets_another() -> None:
    world = filled()
    world.step(100.0 + BOUND_S)
    move(world, "g", "root.b")
    world.step(world.now_s + 1.0)
    assert (list(world.reserved), world.kept("g")) == (["g"], 2)
    world.gang("next", 4, 1, "root.a", "locality:0")
    world.step(world.now_s + BOUND_S)
    assert sorted(world.reserved) == ["g", "next"]


def test_one_that_asks_of_another_partition_keeps_nothing_where_it_was() -> None:
    world = filled()
    world.change(server("fast", 4, rack="/r0", partition="fast"))
    world.gang("holds", 1, 1, "root.b")
    world.submit("runs", "gang:1x2", vc="root.b")
    world.ask("runs", ask(1, worker(2), partition="fast"))
    world.step(100.0 + BOUND_S)
    before = world.reserved["g"]
    assert (before.partition, world.kept("g")) == ("", 1)
    world.ask("g", ask(4, worker(1), partition="fast"))
    world.step(world.now_s + 1.0)
    after = world.reserved["g"]
    assert (after.partition, after.server_ids, world.kept("g")) == ("fast", ("fast",), 2)


def test_a_server_that_goes_moves_more_of_them_than_a_pass_looks_for() -> None:
    world = Waiting(4, 4, 4)
    for server_id in ("s0", "s1", "s2"):
        world.one(f"runs-{server_id}", "root.z")
        world.gang(f"fills-{server_id}", 3, 1, "root.z", "locality:0")
    for number in range(LOOKED_AT_MAX + 2):
        world.gang(f"g{number}", 12, 1, f"root.v{number}")
    world.step(BOUND_S)
    world.step(world.now_s + 1.0)
    assert len(world.reserved) == LOOKED_AT_MAX + 2
    world.end("runs-s1")
    world.end("runs-s2")
    world.change(server("s3", 8, rack="/r0"))
    world.remove("s0")
    world.step(world.now_s + 1.0)
    assert len(world.reserved) == LOOKED_AT_MAX + 2
    assert {"s0"} & {where for one in world.reserved.values() for where in one.server_ids} == set()


def test_one_is_moved_where_a_job_that_said_it_would_end_does_not_and_that_job_goes_on() -> None:
    world = Waiting(4, 4)
    for name, runtime in (("r1", 20_000), ("r2", 20_000), ("r3", 20_000), ("r4", 20_000), ("r5", 4_000), ("r6", 4_000)):
        world.one(name, "root.a", f"runtime:{runtime}")
    world.step(100.0)
    world.gang("g", 4, 1, "root.a", "locality:0")
    world.step(100.0 + BOUND_S)
    assert (world.reserved["g"].server_ids, world.reserved["g"].ready_s) == (("s1",), 4_000.0)
    world.one("passes", "root.a", "runtime:2000")
    for name in ("r5", "r6"):
        world.end(name)
    world.step(4_000.0 + REPLAN_MIN_S)
    assert (world.reserved["g"].server_ids, world.reserved["g"].ready_s) == (("s0",), 20_000.0)
    assert world.runs("passes")


def test_when_jobs_have_ended_elsewhere_it_is_looked_soon_whether_that_is_better() -> None:
    """There so many have ended that less is missing."""
    world = filled()
    world.step(100.0 + BOUND_S)
    assert world.reserved["g"].server_ids == ("s1",)
    for name in ("r1", "r2", "r3"):
        world.end(name)
    world.step(100.0 + BOUND_S + REPLAN_MIN_S - 1.0)
    assert world.reserved["g"].server_ids == ("s1",)
    world.step(100.0 + BOUND_S + REPLAN_MIN_S)
    assert (world.reserved["g"].server_ids, world.kept("g")) == (("s0",), 3)


def test_it_is_looked_every_five_minutes_whether_it_is_late_by_now() -> None:
    """One of two jobs that it waits for has run longer than it said, the other may for long."""
    world = Waiting(4)
    world.one("r1", "root.a", "runtime:2000")
    world.gang("r2", 2, 1, "root.a", "runtime:9000")
    world.step(100.0)
    world.gang("g", 4, 1)
    world.step(100.0 + BOUND_S)
    assert world.reserved["g"].ready_s == 9_000.0
    world.step(100.0 + BOUND_S + REPLAN_S - 1.0)
    assert world.reserved["g"].ready_s == 9_000.0
    world.step(100.0 + BOUND_S + REPLAN_S)
    assert world.reserved["g"].ready_s is None


def test_when_a_server_comes_back_it_is_looked_soon_whether_that_is_better() -> None:
    world = Waiting(4, 4, 4)
    for turn in range(9):
        world.one(f"r{turn}")
    (first,) = {one.server_id for one in world.live("r8")}
    world.change(server(first, 4, rack="/r0", state=ServerState.DRAINING))
    world.step(100.0)
    world.gang("g", 4, 1, "root.a", "locality:0")
    world.step(100.0 + BOUND_S)
    assert world.reserved["g"].server_ids != (first,)
    world.change(server(first, 4, rack="/r0"))
    world.step(100.0 + BOUND_S + REPLAN_MIN_S)
    assert (world.reserved["g"].server_ids, world.kept("g")) == ((first,), 3)


def test_who_fills_its_own_maximum_gets_a_place_where_it_has_its_jobs() -> None:
    """Of another's servers it could keep nothing as they come free: its maximum has no room then."""
    world = Waiting(4, 4)
    world.configure("root.a", maximum_gpus=4)
    for turn in range(4):
        world.one(f"b{turn}", "root.b")
    for turn in range(4):
        world.one(f"own{turn}", "root.a")
    world.gang("g", 4, 1, "root.a", "locality:0")
    world.step(BOUND_S)
    assert world.reserved["g"].server_ids == ("s1",)
    for turn in range(4):
        world.one(f"more{turn}", "root.b")
        world.one(f"later{turn}", "root.a")
        world.end(f"b{turn}")
        world.end(f"own{turn}")
        world.step(world.now_s + 1.0)
    assert world.runs("g")
