"""What would let a waiting job go on, and when, for each sort of wait."""

import random

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.views import Outlook
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity

AT_ONCE = "at once: it fits, and is placed in its turn"


def world_of(*servers: int, relax_after_s: float = 0.0, racks: int = 1, memory_mb: int = 65_536) -> World:
    world = World(EngineSettings(policy="philly", relax_after_s=relax_after_s))
    made = (
        server(f"s{number}", gpus, rack=f"/r{number % racks}", memory_mb=memory_mb)
        for number, gpus in enumerate(servers)
    )
    return world.up(*made)


def submit(
    world: World, job_id: str, containers: int, gpus: int, *tags: str, vc: str = "root.a", **fields: object
) -> None:
    world.submit(job_id, f"gang:{containers}x{gpus}", *tags, vc=vc, **fields)
    world.ask(job_id, ask(containers, worker(gpus)))
    world.run()
    world.now_s += 1


def outlook(world: World, job_id: str = "j") -> Outlook:
    """Ask for it; the state and the work counted stay what they were."""
    before = (world.engine.digest(), world.engine.counters.index_entries_visited, world.engine.counters.searches)
    found = world.engine.outlook(job_id, world.now_s)
    assert (
        world.engine.digest(),
        world.engine.counters.index_entries_visited,
        world.engine.counters.searches,
    ) == before
    assert world.engine.audit() == []
    assert found is not None
    return found


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


# Limits


def test_each_maximum_on_the_way_up_is_told_with_what_is_lacking_there() -> None:
    world = world_of(8, 8)
    world.configure("root.a", maximum_gpus=10, parent=True)
    world.configure("root.a.x", maximum_gpus=6)
    submit(world, "k1", 1, 4, vc="root.a.x")
    submit(world, "k2", 1, 4, "runtime:100", vc="root.a.y", user="bob")
    submit(world, "j", 1, 4, vc="root.a.x")
    found = outlook(world)
    assert found.changes[:3] == (
        "maximum of queue root.a.x larger by 2 GPUs (6 now, 4 in use)",
        "maximum of queue root.a larger by 2 GPUs (10 now, 8 in use)",
        "of the GPUs of queue root.a.x: k1 4",
    )
    assert found.limit_gpus_lacking == 2
    assert found.job_ids == ("k1",), "the end of k2 leaves the queue's own maximum as it is"


def test_memory_that_a_maximum_forbids_is_no_lack_of_gpus() -> None:
    world = world_of(8)
    world.configure("root.a", capacities=(QueueCapacity("", "", "[memory=1024]"),))
    submit(world, "k", 1, 1, "runtime:100")
    submit(world, "j", 1, 1)
    found = outlook(world)
    assert found.changes[0] == "maximum of queue root.a larger by 1024 MB of memory (1024 now, 1024 in use)"
    assert (found.limit_gpus_lacking, found.job_ids, found.starts_in_s) == (0, ("k",), 98.0)


def test_what_a_user_may_use_is_told_with_the_users_jobs() -> None:
    world = world_of(8)
    world.configure("root.a", settings=(("max-gpus-per-user", "4"),))
    submit(world, "a1", 1, 3, "runtime:300", user="ann")
    submit(world, "b1", 1, 3, "runtime:100", user="bob")
    submit(world, "j", 1, 2, user="ann")
    found = outlook(world)
    assert found.changes == (
        "setting ygs.max-gpus-per-user of queue root.a larger by 1 GPUs (4 now, 3 in use)",
        "of the GPUs of queue root.a that user ann uses: a1 of ann 3",
        "the end of a1, which holds 3 GPUs, expected in 4 min 57 s",
    )
    assert (found.limit_gpus_lacking, found.job_ids) == (1, ("a1",))


def test_a_quota_that_is_used_up_is_told_with_who_borrows() -> None:
    world = world_of(8)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    submit(world, "k1", 1, 3, user="ann")
    submit(world, "k2", 1, 2, user="bob")
    submit(world, "k3", 1, 2, vc="root.b")
    submit(world, "j", 1, 4)
    assert world.why("j").startswith("vc_quota")
    found = outlook(world)
    assert found.changes == (
        (
            "quota of queue root.a larger by 5 GPUs (4 now, 5 in use): it would not borrow then;"
            " GPUs must come free all the same"
        ),
        "of the GPUs of queue root.a: k1 of ann 3, k2 of bob 2 (borrowed)",
        "the end of k1, which holds 3 GPUs",
        "of the GPUs in use: root.a 5 (2 borrowed), root.b 2",
    )
    assert (found.limit_gpus_lacking, found.gpus_lacking) == (5, 3)


def test_the_largest_holders_are_named_and_the_others_added_up() -> None:
    world = world_of(8, 8)
    for number, gpus in enumerate((1, 2, 3, 1, 4)):
        world.configure(f"root.q{number}", quota_gpus=1)
        submit(world, f"k{number}", 1, gpus, vc=f"root.q{number}")
    world.configure("root.q0", quota_gpus=3)
    submit(world, "k5", 1, 2, vc="root.q0")
    submit(world, "j", 1, 8, vc="root.z")
    changes = outlook(world).changes
    assert changes[-1] == (
        "of the GPUs in use: root.q4 4 (borrowed), root.q0 3, root.q2 3 (borrowed), 2 other queues 3 (2 borrowed)"
    )


def test_a_maximum_in_a_partition_that_lends_is_told_with_the_ends_that_help_there() -> None:
    world = World(EngineSettings(policy="philly")).up(server("s0"), server("f0", 8, partition="fast", lends=True))
    world.configure("root.a", capacities=(QueueCapacity("fast", "", "[yarn.io/gpu=4]"),))
    submit(world, "full", 1, 4, vc="root.b")
    submit(world, "lent", 1, 3, "runtime:90")
    submit(world, "j", 1, 2)
    assert world.why("j").startswith("vc_maximum")
    found = outlook(world)
    assert found.changes[:2] == (
        'maximum of queue root.a in partition "fast" larger by 1 GPUs (4 now, 3 in use)',
        "of the GPUs of queue root.a: lent 3",
    )
    assert found.job_ids == ("lent",)


# Memory and vcores


def test_servers_that_lack_memory_or_vcores_are_named_with_how_much() -> None:
    world = world_of(*[4] * 5, memory_mb=4_096)
    for number in range(5):
        world.submit(f"cpu{number}", vc="root.c")
        world.seen(f"m{number}", f"cpu{number}", f"s{number}", worker(0, 3_000 + 10 * number, 1))
    world.submit("j", "gang:1x1")
    world.ask("j", ask(1, worker(1, 2_048)))
    world.run()
    assert world.why("j").startswith("other_resources")
    found = outlook(world)
    assert found.changes[0] == (
        "memory or vcores, not GPUs: s0 has 4 GPUs free and lacks 952 MB for a container;"
        " s1 has 4 GPUs free and lacks 962 MB for a container;"
        " s2 has 4 GPUs free and lacks 972 MB for a container; and 2 more servers"
    )
    assert found.server_ids == ("s0", "s1", "s2", "s3", "s4")
    assert found.gpus_lacking == 0


# What is no lack of room


@pytest.mark.parametrize(
    ("fields", "change", "when"),
    [
        (
            {"active": False},
            "maximum-am-resource-percent",
            "unknown: the resource manager decides that, by its own limits",
        ),
        ({}, "its application master is asked for", "unknown: that is the application's doing"),
    ],
)
def test_c29_who_is_not_let_ask_is_told_which_limits_of_yarn_hold_it(
    fields: dict[str, object], change: str, when: str
) -> None:
    world = world_of(4)
    world.submit("j", "gang:1x4", **fields)
    found = outlook(world)
    assert change in found.changes[0]
    assert found.when == when


def test_a_gang_of_which_some_is_not_asked_waits_for_its_application() -> None:
    world = world_of(4)
    world.submit("j", "gang:4x1")
    world.ask("j", ask(3, worker(1)))
    found = outlook(world)
    assert found.changes[0].startswith("its application master asks for the rest of the gang")
    assert found.when == "unknown: that is the application's doing"


def test_asks_that_are_gathered_are_a_gang_at_a_time_that_is_known() -> None:
    world = world_of(4)
    world.configure("root.a", debounce=True)
    world.submit("j")
    world.ask("j", ask(2, worker(1)))
    world.now_s = 1.0
    assert outlook(world).when == "not before 3 s from now, when its gang is formed"


def test_a_pause_after_a_refusal_ends_at_a_time_that_is_known() -> None:
    world = world_of(4)
    world.submit("j", "gang:1x4")
    world.ask("j", ask(1, worker(4)))
    for pause_s in (0.1, 0.2, 0.4):
        (decision,) = world.decide()
        world.refuse(decision, OutcomeCode.NO_FIT)
        found = outlook(world)
        assert found.starts_in_s == pytest.approx(pause_s)
        assert found.when == "in less than 1 s: it fits, and is tried again when the pause after the refusal ends"
        world.now_s += pause_s + 0.001


def test_an_estimate_is_not_before_the_end_of_the_pause() -> None:
    world = World(EngineSettings(policy="philly", backoff_min_s=30.0)).up(server("s0"))
    submit(world, "k", 1, 2, "runtime:10")
    world.submit("j", "gang:1x2")
    world.ask("j", ask(1, worker(2)))
    (decision,) = world.decide()
    world.refuse(decision, OutcomeCode.NO_FIT)
    world.seen("taken", "k", "s0", worker(2))
    found = outlook(world)
    assert (found.job_ids, found.starts_in_s) == (("k",), 30.0)


def test_a_gang_that_lost_a_member_is_whole_or_anew_at_a_time_that_is_known() -> None:
    world = world_of(4, 4)
    submit(world, "j", 2, 2, "runtime:9000")
    world.release(world.live("j")[0].container_id, lost=True)
    found = outlook(world)
    assert found.changes == ("a replacement that its master asks for within 2 min: its GPUs are held so long",)
    assert found.when == "unknown: that is the application's doing"
    world.ask("j", ask(1, worker(2)))
    world.now_s = 61.0
    found = outlook(world)
    assert found.changes == ("a replacement that its master asks for within 60 s: its GPUs are held so long",)
    assert found.when == "in 9 min at the latest it is whole, or starts anew as a whole"


def test_masters_wait_for_the_share_of_masters() -> None:
    world = World(EngineSettings(am_share=0.1)).up(server("s0", memory_mb=10_240, vcores=10))
    world.submit("k")
    world.seen("m", "k", "s0", AM, application_master=True)
    world.submit("j")
    world.ask("j", ask(1, worker(0, 1_024, 1), am=True))
    world.run()
    assert world.why("j").startswith("am_limit")
    found = outlook(world)
    assert found.changes[1] == "a larger share for masters (setting am_share, 10% now), or smaller masters"


def test_who_never_fits_now_waits_for_servers() -> None:
    world = world_of(4)
    world.change(server("s0", 4, state=ServerState.DRAINING))
    submit(world, "j", 1, 4)
    assert outlook(world).when == "not on the servers that are there"
    world = World().up(server("s0"), settle_left_s=60.0)
    submit(world, "j", 1, 8)
    expected = "unknown; if in 59 s the servers that are there cannot hold it, it is refused"
    assert outlook(world).when == expected


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
