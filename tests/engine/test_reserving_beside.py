"""Reservations of gangs that are not alone: in a partition that lends, and of masters that have GPUs themselves (law 9)."""

from __future__ import annotations

from tests.engine.test_reserving import BOUND_S, Waiting
from tests.engine.world import ask, server, worker


def dense(world: Waiting, job_id: str, until_s: float) -> None:
    """Let jobs of one GPU follow each other until a job is placed, so that no two GPUs are ever free at once but for it."""
    ends, count = world.ends, 0
    while world.now_s < until_s and job_id not in world.starts():
        while sum(not world.runs(f"x{one}") and f"x{one}" not in ends for one in range(count)) < 3:
            world.one(f"x{count}")
            count += 1
        for name in world.starts():
            if name.startswith("x"):
                ends.setdefault(name, world.now_s + 600.0 + 37.0 * (int(name[1:]) % 7))
        over = [name for name, at_s in ends.items() if at_s <= world.now_s and world.runs(name)]
        for name in sorted(over, key=lambda name: ends[name])[:1]:
            world.end(name)
        world.step(world.now_s + 10.0)


def test_a_gang_whose_only_place_is_in_a_partition_that_lends_is_not_starved() -> None:
    world = Waiting(2)
    for name in ("p0", "p1"):
        world.change(server(name, 4, partition="p", lends=True))
    for turn in range(10):
        world.one(f"r{turn}")
        world.ends[f"r{turn}"] = 700.0 + 60.0 * turn
    world.gang("g", 4, 1, "root.a", "locality:0")
    dense(world, "g", 2 * BOUND_S)
    assert world.runs("g")
    assert {one.server_id[0] for one in world.live("g")} == {"p"}


def test_what_is_kept_in_a_partition_that_lends_counts_there() -> None:
    world = Waiting(2)
    for name in ("p0", "p1"):
        world.change(server(name, 4, partition="p", lends=True))
    world.configure("root.a", quota_gpus=10)
    for turn in range(8):
        world.one(f"r{turn}")
    world.step(10.0)
    world.gang("g", 4, 1, "root.a", "locality:0")
    world.step(10.0 + BOUND_S)
    (shown,) = world.engine.reservations()
    assert (shown.partition, shown.kept_gpus > 0) == ("p", True)
    assert world.kept("g") == shown.kept_gpus
    use = {one.virtual_cluster.path: one for one in world.engine.virtual_clusters()[0]}["root.a"]
    lent = {share.partition: share.used_gpus for share in use.shares}
    assert lent["p"] == 6 + shown.kept_gpus


def test_a_master_with_gpus_that_waits_for_its_gang_as_well_is_not_starved() -> None:
    world = Waiting(4, 4)
    for turn in range(8):
        world.one(f"r{turn}")
        world.ends[f"r{turn}"] = 700.0 + 60.0 * turn
    world.submit("g", "gang:3x1")
    world.ask("g", ask(1, worker(1), 0, am=True))
    dense(world, "g", 2 * BOUND_S)
    assert "g" in world.starts()
    assert world.engine.reservations() == ()
    assert "3 GPUs are held for its gang" in world.why("g")
    world.ask("g", ask(3, worker(1)))
    world.step()
    assert len(world.live("g")) == 3
    assert world.engine.audit() == []


def test_a_master_that_asks_for_its_gang_with_it_gets_both_from_its_reservation() -> None:
    world = Waiting(4, 4)
    for turn in range(8):
        world.one(f"r{turn}")
        world.ends[f"r{turn}"] = 700.0 + 60.0 * turn
    world.submit("g", "gang:3x1")
    world.ask("g", ask(1, worker(1), 0, am=True), ask(3, worker(1)))
    dense(world, "g", 2 * BOUND_S)
    assert world.engine.reservations() == ()
    assert "kept for it" not in world.why("g")
    world.step()
    assert len(world.live("g")) == 3
