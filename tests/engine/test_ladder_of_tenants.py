"""How long a gang waits at a level: as its own tag says, up to a maximum, else as its queue does, else as all do."""

from __future__ import annotations

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.assignment import Level

Settings = tuple[tuple[str, str], ...]


def scattered(max_s: float = 3_600.0) -> World:
    """Leave two GPUs free on each of four servers in two racks; a level lasts 150 s where nobody says otherwise."""
    world = World(EngineSettings(policy="philly", relax_after_s=150.0, relax_after_max_s=max_s))
    world.up(*(server(f"{rack[2:]}{number}", rack=rack) for rack in ("/rs", "/rt") for number in (1, 2)))
    for name in ("s1", "s2", "t1", "t2"):
        world.seen(f"held-{name}", f"holder-{name}", name, worker(2))
    return world


def wakes_s(world: World, *tags: str, vc: str = "root.p.a") -> float | None:
    """Submit a gang of a whole rack, and say when it may go to the next level."""
    world.submit("gang", "gang:8x1", *tags, vc=vc)
    world.ask("gang", ask(8, worker(1)))
    assert world.decide() == []
    return world.engine.next_wake_s()


@pytest.mark.parametrize(
    ("above", "own", "expected"),
    [
        ((), (), 150.0),
        ((("relax-after-s", "20"),), (), 20.0),
        ((("relax-after-s", "20"),), (("relax-after-s", "30"),), 30.0),
        ((), (("relax-after-s", "later"),), 150.0),
    ],
)
def test_a_queue_says_how_long_a_level_lasts_or_the_nearest_above_it(
    above: Settings, own: Settings, expected: float
) -> None:
    world = scattered()
    world.configure("root.p", parent=True, settings=above)
    world.configure("root.p.a", settings=own)
    assert wakes_s(world) == expected


@pytest.mark.parametrize(
    ("tag", "max_s", "settings", "expected"),
    [
        ("locality:2@40", 3_600.0, (), 40.0),
        ("locality:2@40", 3_600.0, (("relax-after-s", "20"),), 40.0),
        ("locality:2@9999", 300.0, (), 300.0),
        ("locality:2@9999", 300.0, (("relax-after-max-s", "60"),), 60.0),
        ("locality:2@9999", 300.0, (("relax-after-max-s", "5000"),), 5_000.0),
        ("locality:1@40", 30.0, (), 30.0),
    ],
)
def test_a_job_says_it_itself_up_to_what_the_administrator_allows(
    tag: str, max_s: float, settings: Settings, expected: float
) -> None:
    world = scattered(max_s)
    world.configure("root.p.a", settings=settings)
    assert wakes_s(world, tag) == expected


def test_a_queue_without_a_ladder_takes_what_there_is_at_once() -> None:
    world = scattered()
    world.configure("root.a", settings=(("relax-after-s", "0"),))
    world.submit("gang", "gang:8x1", vc="root.a")
    world.ask("gang", ask(8, worker(1)))
    assert [one.level for one in world.decide()] == [Level.ANYWHERE]


def test_a_setting_that_changes_counts_at_once_with_what_was_spent() -> None:
    world = scattered()
    assert wakes_s(world) == 150.0
    world.now_s = 50.0
    world.configure("root.p.a", settings=(("relax-after-s", "40"),))
    assert world.decide() == [], "one level further: a rack does not hold it"
    assert world.engine.next_wake_s() == 80.0
    world.now_s = 80.0
    assert [one.level for one in world.decide()] == [Level.ANYWHERE]


def test_a_gang_that_moves_to_another_queue_goes_by_the_new_ones_seconds_with_what_was_spent() -> None:
    world = scattered()
    world.configure("root.b", settings=(("relax-after-s", "30"),))
    assert wakes_s(world) == 150.0
    world.now_s = 61.0
    world.submit("gang", "gang:8x1", vc="root.b", submit_time_s=1.0)
    assert [one.level for one in world.decide()] == [Level.ANYWHERE]


def test_a_gang_that_names_hosts_of_several_racks_itself_goes_there_at_once() -> None:
    world = scattered()
    world.submit("gang", "gang:2x2")
    world.ask("gang", ask(2, worker(2), at={"s1": 1, "t1": 1}, strict=True))
    (placed,) = world.decide()
    assert sorted(one.server_id for one in placed.assignments) == ["s1", "t1"]


def test_one_that_names_hosts_of_one_rack_goes_there_by_its_ladder() -> None:
    world = scattered()
    world.submit("gang", "gang:2x2")
    world.ask("gang", ask(2, worker(2), at={"s1": 1, "s2": 1}, strict=True))
    assert world.decide() == [], "one server would hold it, if it were empty"
    world.now_s = 150.0
    (placed,) = world.decide()
    assert (placed.level, sorted(one.server_id for one in placed.assignments)) == (Level.ONE_DOMAIN, ["s1", "s2"])


def test_one_that_names_hosts_that_come_into_one_rack_is_held_to_it() -> None:
    world = scattered()
    for name in ("s1", "t1"):
        world.change(server(name, 2, rack=f"/r{name[0]}"))
    world.submit("gang", "gang:2x2")
    world.ask("gang", ask(2, worker(2), at={"s1": 1, "t1": 1}, strict=True))
    assert world.decide() == [], "they have two GPUs each, and these are held"
    world.change(server("t1", 2, rack="/rs"))
    world.decide()
    assert world.why("gang") != ""


def test_of_domains_that_hold_it_the_one_that_is_left_least_fragmented_is_taken_then_the_first() -> None:
    world = World(EngineSettings(policy="philly", relax_after_s=150.0))
    world.up(*(server(f"{rack[2:]}{number}", rack=rack) for rack in ("/ra", "/rb", "/rc") for number in (1, 2, 3)))
    world.seen("held", "holder", "b1", worker(4))
    for name in ("first", "second"):
        world.submit(name, "gang:2x4")
        world.ask(name, ask(2, worker(4)))
    first, second = world.decide()
    assert sorted(one.server_id for one in first.assignments) == ["b2", "b3"], "nothing is left of it"
    assert sorted(one.server_id for one in second.assignments) == ["a1", "a2"], "the first of equal ones"
