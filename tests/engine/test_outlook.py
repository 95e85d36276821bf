"""What would let a waiting job go on, and when: the ends of others, and the ladder."""

import random

import pytest

from tests.engine.outlooks import AT_ONCE, outlook, submit, world_of
from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.views import Outlook


def test_who_waits_for_nothing_has_no_outlook() -> None:
    world = world_of(4)
    submit(world, "runs", 1, 4)
    assert world.engine.outlook("runs") is None
    assert world.engine.outlook("nobody") is None


def test_who_fits_goes_at_once() -> None:
    world = world_of(4)
    world.submit("j", "gang:1x4")
    world.ask("j", ask(1, worker(4)))
    assert outlook(world) == Outlook((), AT_ONCE, starts_in_s=0.0)
    world.decide()
    assert outlook(world) == Outlook((), "at once: the resource manager's answer is awaited", starts_in_s=0.0)


# Ends


def test_the_ends_that_are_expected_soonest_come_first_and_give_an_estimate() -> None:
    world = world_of(4, 4)
    submit(world, "silent", 1, 4)
    submit(world, "later", 1, 2, "runtime:1000")
    submit(world, "sooner", 1, 2, "runtime:500", vc="root.b")
    submit(world, "j", 1, 2)
    world.now_s = 10.0
    found = outlook(world)
    assert found.changes == (
        "the end of sooner, which holds 2 GPUs, expected in 8 min 12 s",
        "of the GPUs in use: root.a 6, root.b 2",
    )
    assert found.when == "in about 8 min 12 s, if sooner ends when it said; jobs before it in order are not counted"
    assert (found.starts_in_s, found.job_ids, found.gpus_lacking) == (492.0, ("sooner",), 2)


def test_as_few_ends_as_are_enough_and_none_that_is_not_needed() -> None:
    world = world_of(4, 4)
    for name, runtime in (("a", 100), ("b", 200), ("c", 300), ("d", 400)):
        submit(world, name, 1, 2, f"runtime:{runtime}")
    submit(world, "j", 1, 4)
    found = outlook(world)
    assert found.job_ids == ("a", "b"), "they are on one server"
    assert found.changes[0] == "the ends of a and b, which hold 4 GPUs, expected in 3 min 16 s"
    assert found.when.startswith("in about 3 min 16 s, if a and b end when they said;")
    world.end("b", release=False)
    world.release_all("b")
    submit(world, "e", 1, 2)
    found = outlook(world)
    assert found.job_ids == ("c", "d"), "a alone does not free a server, and e says nothing"
    assert found.starts_in_s == 403.0 - world.now_s


def test_a_job_that_says_nothing_makes_the_time_unknown_unless_its_queue_says_it() -> None:
    world = world_of(4)
    submit(world, "one", 1, 2)
    submit(world, "two", 1, 2, "runtime:50")
    submit(world, "j", 1, 4)
    found = outlook(world)
    assert found.changes[0] == "the ends of two and one, which hold 4 GPUs; 1 of them is expected within 48 s"
    assert found.when == (
        "unknown: 1 of the 2 jobs that must end does not say how long it runs (tag runtime:SECONDS), or has run longer"
    )
    assert found.starts_in_s is None
    world.configure("root.a", settings=(("default-runtime-s", "600"),))
    found = outlook(world)
    assert found.starts_in_s == 597.0
    assert "if two and one end when they said, or as their queues expect;" in found.when
    world.end("two")
    submit(world, "k", 1, 2, "runtime:9")
    world.now_s = 700.0
    world.run()
    assert outlook(world).when == (
        "unknown: 2 of the 2 jobs that must end do not say how long they run (tag runtime:SECONDS), or have run longer"
    )


def test_one_job_that_must_end_and_says_nothing() -> None:
    world = world_of(4)
    submit(world, "one", 1, 4)
    submit(world, "j", 1, 4)
    expected = "unknown: the job that must end does not say how long it runs (tag runtime:SECONDS), or has run longer"
    assert outlook(world).when == expected


def test_many_ends_are_named_in_short_to_people_and_ten_to_programs() -> None:
    world = world_of(*[1] * 12)
    for number in range(12):
        submit(world, f"k{number:02}", 1, 1, "runtime:100")
    submit(world, "j", 12, 1)
    found = outlook(world)
    assert found.changes[0] == "the ends of k00, k01, k02 and 9 more, which hold 12 GPUs, expected in 98 s"
    assert found.job_ids == tuple(f"k{number:02}" for number in range(10))


def test_when_no_end_would_do_it_says_so() -> None:
    world = world_of(4, 4)
    world.submit("held", "gang:2x1")
    world.seen("k", "held", "s0", worker(2), application_master=True)
    submit(world, "one", 1, 1)
    submit(world, "j", 2, 4)
    found = outlook(world)
    assert found.changes[0] == "not even the end of the only job that runs there would be enough"
    assert found.when == "unknown: nothing that is known of would end the wait"


def test_nobody_runs_whose_end_would_help() -> None:
    world = world_of(4)
    world.submit("held", "gang:2x1")
    world.seen("k", "held", "s0", worker(2), application_master=True)
    submit(world, "j", 1, 4)
    found = outlook(world)
    assert found.changes[0] == "no job runs whose end would free what it lacks"
    assert found.when == "unknown: nothing that is known of would end the wait"


def test_only_the_first_two_hundred_ends_are_tried() -> None:
    world = World(EngineSettings(policy="philly"), audited=False).up(*(server(f"s{n:03}", 1) for n in range(210)))
    for number in range(210):
        world.submit(f"k{number:03}", "gang:1x1")
        world.ask(f"k{number:03}", ask(1, worker(1)))
    world.run()
    submit(world, "j", 210, 1)
    found = outlook(world)
    assert found.changes[0] == "the ends of the first 200 of 210 jobs that run there would not be enough"
    assert found.when == "unknown: too many jobs must end"
    submit(world, "k", 199, 1)
    assert len(outlook(world, "k").job_ids) == 10


@pytest.mark.parametrize("seed", range(12))
def test_the_ends_are_those_of_a_search_one_by_one(seed: int) -> None:
    """Against taking the jobs away one after another: the smallest prefix, and each that is kept is needed."""
    rng = random.Random(seed)
    world = world_of(4, 4, 4, 4, racks=2)
    for number in range(rng.randint(4, 12)):
        tags = [f"runtime:{rng.randint(50, 900)}"] if rng.random() < 0.7 else []
        submit(world, f"k{number:02}", rng.randint(1, 2), rng.randint(1, 4), *tags)
    submit(world, "j", rng.randint(1, 3), rng.choice((3, 4)))
    found = world.engine.outlook("j")
    if found is None or found.starts_in_s == 0.0:
        return
    taken = world.engine.snapshot()

    def fits_without(job_ids: tuple[str, ...]) -> bool:
        other = World(engine=Engine.restore(taken), audited=False)
        other.now_s = world.now_s
        for job_id in job_ids:
            for container in other.live(job_id):
                other.release(container.container_id)
        only = other.engine.outlook("j")
        return only is None or only.starts_in_s == 0.0

    if found.job_ids:
        assert fits_without(found.job_ids)
        for job_id in found.job_ids:
            assert not fits_without(tuple(other for other in found.job_ids if other != job_id))


# The ladder


def test_the_next_step_of_the_ladder_is_told_and_whether_it_fits_there() -> None:
    world = world_of(4, 4, 4, 4, racks=2, relax_after_s=150.0)
    for number in range(4):
        submit(world, f"k{number}", 1, 3, "runtime:5000")
    submit(world, "j", 3, 1)
    world.now_s = 46.0
    found = outlook(world)
    assert (found.next_level, found.relaxes_in_s) == (1, 108.0)
    assert found.changes[0] == "in 108 s it may go to level 1 (one RDMA domain), where it would not fit now either"
    assert found.starts_in_s == 258.0, "level 2 comes a step later"
    assert (
        found.when == "in 4 min 18 s: at level 2 (anywhere) it fits what is free now, unless a job before it takes that"
    )
    world.now_s = 154.0
    world.run()
    found = outlook(world)
    assert found.changes[0] == "in 2 min 30 s it may go to level 2 (anywhere), where it would fit now"
    assert (found.next_level, found.relaxes_in_s, found.starts_in_s) == (2, 150.0, 150.0)
    world.now_s = 304.0
    world.run()
    assert world.engine.outlook("j") is None


def test_an_end_that_comes_before_the_step_gives_the_time() -> None:
    world = world_of(4, 4, racks=2, relax_after_s=150.0)
    submit(world, "k0", 1, 3, "runtime:60")
    submit(world, "k1", 1, 3, "runtime:5000")
    submit(world, "j", 2, 1)
    found = outlook(world)
    assert found.when.startswith("in about 57 s, if k0 ends when it said")
    assert found.changes[0] == "in 2 min 29 s it may go to level 1 (one RDMA domain), where it would not fit now either"


def test_at_its_loosest_level_no_step_is_told() -> None:
    world = world_of(4, 4, racks=2, relax_after_s=150.0)
    for number in range(2):
        submit(world, f"k{number}", 1, 3)
    submit(world, "j", 2, 1, "locality:0")
    found = outlook(world)
    assert (found.next_level, found.relaxes_in_s) == (None, None)
    assert found.when.startswith("unknown")


def test_a_limit_that_forbids_stops_the_timer_and_it_is_said() -> None:
    world = world_of(4, 4, racks=2, relax_after_s=150.0)
    world.configure("root.a", maximum_gpus=3)
    submit(world, "k", 1, 2, user="ann")
    submit(world, "j", 2, 1)
    found = outlook(world)
    assert (found.next_level, found.relaxes_in_s) == (1, None)
    assert found.changes == (
        (
            "it may go to level 1 (one RDMA domain) when its timer runs out, which stands still while a limit or a pause"
            " holds it back"
        ),
        "maximum of queue root.a larger by 1 GPUs (3 now, 2 in use)",
        "of the GPUs of queue root.a: k of ann 2",
        "the end of k, which holds 2 GPUs",
    )


def test_reading_it_between_the_events_changes_no_decision() -> None:
    """Also of those that wait for spare memory, who hear of each server that is touched."""
    rng = random.Random(7)
    one, two = (World(EngineSettings(policy="philly", relax_after_s=5.0), audited=False) for _ in range(2))
    for world in (one, two):
        world.up(*(server(f"s{number}", 4, rack=f"/r{number % 2}", memory_mb=8_192, vcores=8) for number in range(4)))
        world.configure("root.a", quota_gpus=6, maximum_gpus=12)
    live: list[str] = []
    for number in range(120):
        containers, gpus, memory_mb = rng.randint(1, 3), rng.choice((0, 1, 2, 4)), rng.choice((256, 2_048))
        ended = live.pop(rng.randrange(len(live))) if live and rng.random() < 0.4 else None
        for world in (one, two):
            world.now_s = number * 1.5
            world.submit(f"j{number}", f"gang:{containers}x{gpus}" if gpus else f"gang:{containers}", vc=rng_vc(number))
            world.ask(f"j{number}", ask(containers, worker(gpus, memory_mb)))
            if ended is not None:
                world.end(ended)
            world.run()
        live.append(f"j{number}")
        for job_id in live:
            two.engine.outlook(job_id)
    assert one.commands == two.commands
    assert one.engine.digest() == two.engine.digest()
    assert two.engine.audit() == []


def rng_vc(number: int) -> str:
    return "root.a" if number % 2 else "root.b"
