"""What would let a job go on that waits for something other than room."""

import pytest

from tests.engine.outlooks import outlook, submit, world_of
from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.server import ServerState

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


@pytest.mark.parametrize("quota", [None, 2])
def test_masters_wait_for_the_share_of_masters(quota: int | None) -> None:
    world = World(EngineSettings(policy="philly", am_share=0.1)).up(server("s0", memory_mb=10_240, vcores=10))
    world.configure("root.a", quota_gpus=quota)
    world.submit("k")
    world.seen("m", "k", "s0", AM, application_master=True)
    world.submit("j")
    world.ask("j", ask(1, worker(0, 1_024, 1), am=True))
    world.run()
    assert world.why("j").startswith("am_limit")
    changes = outlook(world).changes
    assert changes[1] == "a larger share for masters (setting am_share, 10% now), or smaller masters"
    expected = "a larger quota of queue root.a: its masters have the part of the share that it is of all GPUs"
    assert changes[2:] == (() if quota is None else (expected,))
    assert ("of queue root.a" in changes[0]) == (quota is not None)


def test_who_never_fits_now_waits_for_servers() -> None:
    world = world_of(4)
    world.change(server("s0", 4, state=ServerState.DRAINING))
    submit(world, "j", 1, 4)
    assert outlook(world).when == "not on the servers that are there"
    world = World().up(server("s0"), settle_left_s=60.0)
    submit(world, "j", 1, 8)
    expected = "unknown; if in 59 s the servers that are there cannot hold it, it is refused"
    assert outlook(world).when == expected
