"""Where an application lets its containers go: named hosts and racks, blacklists, ceilings, partitions that lend, near its gang."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.model.assignment import Level


def four_servers() -> World:
    return World().up(*(server(f"s{rack}{n}", rack=f"/r{rack}") for rack in (1, 2) for n in (1, 2)))


def where(world: World, job_id: str) -> list[str]:
    return sorted(container.server_id for container in world.live(job_id))


def test_strict_hosts_hold_it_or_nothing_does() -> None:
    world = four_servers()
    world.submit("j", "gang:2x4")
    world.ask("j", ask(2, worker(4), at={"s11": 1, "s22": 1}, strict=True))
    (placed,) = world.run()
    assert where(world, "j") == ["s11", "s22"]
    assert placed.level is Level.ANYWHERE
    world.submit("k", "gang:1x2")
    world.ask("k", ask(1, worker(2), at={"s11": 1}, strict=True))
    assert world.run() == []
    assert world.why("k") == "confined: asks 2 GPUs; 8 GPUs are free on 2 servers, but not where it may go: only s11"
    world.end("j")
    world.run()
    assert where(world, "k") == ["s11"]


def test_a_rack_that_is_preferred_is_left_when_it_is_full() -> None:
    world = four_servers()
    for job_id in ("a", "b"):
        world.submit(job_id, "gang:2x4")
        world.ask(job_id, ask(2, worker(4), at={"/r2": 2}))
        world.run()
    assert where(world, "a") == ["s21", "s22"]
    assert where(world, "b") == ["s11", "s12"]


def test_single_containers_and_masters_go_where_they_are_wanted() -> None:
    world = four_servers()
    world.submit("j")
    world.ask("j", ask(1, AM, 0, am=True, at={"s22": 1}, strict=True))
    world.run()
    (master,) = world.engine.job("j").containers  # type: ignore[union-attr] # it was just submitted
    assert master.server_id == "s22"
    world.ask("j", ask(2, worker(1), at={"s12": 1, "s21": 1}, strict=True))
    world.run()
    world.ask("j", ask(1, worker(1), at={"s12": 1, "s21": 1}, strict=True))
    assert set(where(world, "j")) <= {"s12", "s21"}


def test_nothing_goes_on_the_blacklist_and_it_may_change_its_mind() -> None:
    world = four_servers()
    world.submit("j", "gang:4x4")
    world.ask("j", ask(4, worker(4)), blacklist=("s11", "/r2"))
    assert world.run() == []
    assert world.why("j").endswith("but not where it may go: not s11, /r2")
    world.ask("j", ask(4, worker(4)), blacklist=())
    world.run()
    assert len(where(world, "j")) == 4


@pytest.mark.parametrize(
    ("tag", "placed"), [("locality:0", False), ("locality:1", False), ("locality:2", True), ("x", True)]
)
def test_a_ceiling_keeps_a_gang_together(tag: str, *, placed: bool) -> None:
    world = four_servers()
    world.submit("j", "gang:3x4", tag)
    world.ask("j", ask(3, worker(4)))
    assert bool(world.run()) is placed
    if not placed:
        assert "in one RDMA domain" in world.why("j")


def test_a_ceiling_of_zero_waits_for_the_fewest_servers() -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("holder", "gang:2x2")
    world.ask("holder", ask(2, worker(2), at={"s1": 1, "s2": 1}, strict=True))
    world.run()
    world.submit("j", "gang:2x2", "locality:0")
    world.ask("j", ask(2, worker(2)))
    assert world.run() == []
    assert world.why("j").endswith(
        "not at level 0, on the fewest servers in one RDMA domain, and it goes to no looser one"
    )
    world.end("holder")
    (placed,) = world.run()
    assert placed.level is Level.FEWEST_SERVERS


def test_what_comes_after_the_gang_goes_near_it_and_before_fresh_jobs() -> None:
    world = four_servers()
    world.submit("gang", "gang:1x2")
    world.ask("gang", ask(1, worker(2), at={"s22": 1}, strict=True))
    world.run()
    world.submit("holder", "gang:3x4")
    world.ask("holder", ask(3, worker(4)))
    world.run()
    world.submit("fresh")
    world.ask("fresh", ask(1, worker(2)))
    world.ask("gang", ask(1, worker(2)))
    first, *_ = world.decide()
    assert (first.job_id, first.assignments[0].server_id) == ("gang", "s22")


def test_growth_prefers_the_servers_of_the_gang_then_its_domain() -> None:
    world = four_servers()
    world.submit("j", "gang:1x2")
    world.ask("j", ask(1, worker(2), at={"s21": 1}, strict=True))
    world.run()
    for expected in (["s21", "s21"], ["s21", "s21", "s22"]):
        world.ask("j", ask(1, worker(2)))
        world.run()
        assert where(world, "j") == expected


def test_jobs_of_higher_priority_go_first_and_may_be_raised_later() -> None:
    world = World().up(server("s1"))
    world.submit("holder", "gang:1x4")
    world.ask("holder", ask(1, worker(4)))
    world.run()
    jobs = {
        job_id: world.submit(job_id, "gang:1x4", priority=p) for job_id, p in (("low", 0), ("high", 5), ("raised", 0))
    }
    for job_id in jobs:
        world.ask(job_id, ask(1, worker(4)))
    world.submitted = 3
    world.submit("raised", "gang:1x4", priority=9)
    order: list[str] = []
    for _ in jobs:
        world.end(order[-1] if order else "holder")
        order += [placed.job_id for placed in world.run()]
    assert order == ["raised", "high", "low"]


def test_a_partition_that_lends_serves_asks_of_the_default_one() -> None:
    world = World().up(server("s1"), server("x1", partition="x", lends=True), server("y1", partition="y"))
    for job_id in ("a", "b", "c"):
        world.submit(job_id, "gang:1x4")
        world.ask(job_id, ask(1, worker(4)))
    assert [placed.assignments[0].server_id for placed in world.run()] == ["s1", "x1"]
    world.end("b")
    assert [placed.job_id for placed in world.run()] == ["c"]
    assert where(world, "c") == ["x1"]


def test_what_only_a_lending_partition_could_hold_is_not_refused() -> None:
    world = World().up(server("s1", 2), server("x1", 8, partition="x", lends=True))
    world.submit("j", "gang:1x8")
    world.ask("j", ask(1, worker(8)))
    (placed,) = world.run()
    assert placed.assignments[0].server_id == "x1"
    assert world.refusals == []
    restored = Engine.restore(world.engine.snapshot())
    assert restored.digest() == world.engine.digest()


def test_a_partition_that_no_longer_lends_serves_nobody_else() -> None:
    world = World().up(server("s1", 0), server("x1", partition="x", lends=True))
    world.change(server("x1", partition="x"))
    world.submit("j", "gang:1x4")
    world.ask("j", ask(1, worker(4)))
    assert world.run() == []


def test_a_default_partition_without_servers_is_no_obstacle_where_another_lends() -> None:
    world = World().up(server("x1", partition="x", lends=True))
    world.submit("j", "gang:1x4")
    world.ask("j", ask(1, worker(4)))
    world.submit("k", "gang:1x8")
    world.ask("k", ask(1, worker(8)))
    assert [placed.job_id for placed in world.run()] == ["j"]
    assert [refused.job_id for refused in world.refusals] == ["k"]


@pytest.mark.parametrize("named", [{}, {"s3-1": 1}, {"/r3": 1}])
def test_looking_near_or_at_named_places_costs_the_same_on_any_cluster(named: dict[str, int]) -> None:
    visits = []
    for racks in (8, 64):
        world = World(audited=False).up(
            *(server(f"s{rack}-{n}", rack=f"/r{rack}") for rack in range(racks) for n in range(4))
        )
        world.submit("j", "gang:1x2")
        world.ask("j", ask(1, worker(2)))
        world.run()
        before = world.engine._core.index.visits.entries
        world.ask("j", ask(1, worker(2), at=named, strict=bool(named)))
        assert len(world.run()) == 1
        visits.append(world.engine._core.index.visits.entries - before)
    assert visits[0] == visits[1] < 16


@pytest.mark.parametrize("strict_first", [True, False])
def test_asks_of_one_size_keep_their_own_places(strict_first: bool) -> None:  # noqa: FBT001 # a column of the table
    """Two keys of a gang ask the same amount, one on a host of its own: no container of the other key takes that place."""
    world = four_servers()
    world.submit("j", "gang:4x4")
    confined, free = (1, 2) if strict_first else (2, 1)
    world.ask(
        "j",
        ask(1, worker(4), confined, at={"s22": 1}, strict=True),
        ask(3, worker(4), free),
    )
    (placed,) = world.run()
    assert {one.server_id: one.key.priority for one in placed.assignments} == {
        "s11": free,
        "s12": free,
        "s21": free,
        "s22": confined,
    }


def test_a_server_that_joins_a_partition_that_lends_serves_who_waits_whatever_it_says_itself() -> None:
    world = World().up(server("s1", 2), server("x1", 2, partition="x", lends=True))
    world.submit("j", "gang:1x4", recovered=True)
    world.ask("j", ask(1, worker(4)))
    assert world.run() == []
    world.change(server("x2", 4, partition="x"))
    assert [one.job_id for one in world.run()] == ["j"]
