"""Who can never run is refused with numbers, once capacity has settled; never a recovered job (law 10)."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.server import ServerState


def refused(world: World) -> dict[str, str]:
    world.decide()
    return {one.job_id: one.diagnostics for one in world.refusals}


@pytest.mark.parametrize(
    ("tag", "sentence"),
    [
        ("gang:1x5", "asks 5 GPUs a container, the largest server has 4"),
        ("gang:9x1", "asks 9 GPUs at once, all servers together have 8"),
        ("gang:3x3", "asks 9 GPUs at once, all servers together have 8"),
        ("gang:0", 'tag "gang:0": a gang has 1 to 16384 containers'),
        ("gang:2x2x2", 'tag "gang:2x2x2" cannot be read: use gang:N, gang:NxG or gang:NxG+H in whole numbers'),
    ],
)
def test_a_shape_tag_is_refused_before_any_ask(tag: str, sentence: str) -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", tag)
    assert refused(world) == {"j": sentence}
    assert world.why("j").startswith("refused: ")


@pytest.mark.parametrize(
    ("tags", "asks", "sentence"),
    [
        ((), (ask(1, worker(5)),), "asks 5 GPUs a container, the largest server has 4"),
        ((), (ask(1, worker(1, 70_000)),), "asks 70000 MB of memory a container, the largest server has 65536"),
        ((), (ask(1, worker(1, 1, 65)),), "asks 65 vcores a container, the largest server has 64"),
        ((), (ask(1, worker(1), partition="p"),), 'asks partition "p", which has no servers'),
        (("gang:3",), (ask(3, worker(3)),), "asks 9 GPUs at once, all servers together have 8"),
        (
            ("gang:4",),
            (ask(4, worker(1, 40_000)),),
            "asks 4 containers of 1 GPUs and 40000 MB of memory and 1 vcores at once, all servers together hold 2",
        ),
        (("gang:2x2",), (ask(2, worker(1)),), 'tag "gang:2x2" says 2 GPUs a container, an ask has 1'),
        (("gang:2x2",), (ask(2, worker(0)),), 'tag "gang:2x2" says 2 GPUs a container, an ask has 0'),
        (("gang:2x2+1",), (ask(2, worker(1)),), 'tag "gang:2x2+1" says 2 GPUs or none a container, an ask has 1'),
        (
            ("gang:2",),
            (ask(1, worker(1)), ask(1, worker(1), 2, partition="p")),
            'tag "gang:2": the asks name partitions "" and "p"; a gang has one',
        ),
    ],
)
def test_asks_are_refused_with_their_numbers(tags: tuple[str, ...], asks: tuple[Ask, ...], sentence: str) -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", *tags)
    world.ask("j", *asks)
    assert refused(world) == {"j": sentence}


def test_what_fits_is_not_refused() -> None:
    world = World().up(server("s1"), server("s2"))
    for number, tag in enumerate(("gang:8x1", "gang:2x4", "gang:100", "gang:2x1+50")):
        world.submit(f"j{number}", tag)
    assert refused(world) == {}


def test_nothing_is_refused_before_capacity_has_settled() -> None:
    """C5: an ask before any GPU server has registered waits, and runs in the same attempt."""
    world = World().up(settle_left_s=60.0)
    world.submit("j", "gang:2x4")
    world.ask("j", ask(2, worker(4)))
    assert refused(world) == {}
    assert world.why("j").startswith("never_fits_now: no GPU server has registered yet")
    assert world.engine.next_wake_s() == pytest.approx(60.0)
    world.now_s = 20.0
    world.change(server("s1"))
    assert refused(world) == {}
    world.change(server("s2"))
    assert [one.job_id for one in world.run()] == ["j"]


def test_when_capacity_has_settled_who_waited_is_refused() -> None:
    world = World().up(server("s1"), settle_left_s=5.0)
    world.submit("j", "gang:1x5")
    assert refused(world) == {}
    assert not world.engine.cluster().settled
    world.now_s = 5.0
    assert list(refused(world)) == ["j"]
    assert world.engine.cluster().settled


def test_capacity_settles_early_when_all_servers_of_before_are_back() -> None:
    world = World().up(server("s1"), server("s2"))
    world.up(server("s1"), settle_left_s=60.0, epoch=2)
    world.submit("j", "gang:1x5")
    assert refused(world) == {}
    world.change(server("s2"))
    assert list(refused(world)) == ["j"]


def test_the_largest_capacity_seen_counts_not_the_present_one() -> None:
    world = World().up(server("s1", 8), server("s2"))
    world.remove("s1")
    world.submit("j", "gang:1x8")
    world.ask("j", ask(1, worker(8)))
    assert refused(world) == {}
    assert world.why("j").startswith("never_fits_now: ")
    world.change(server("s1", 8))
    assert [one.job_id for one in world.run()] == ["j"]


def test_a_larger_server_that_comes_later_counts() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:1x8")
    assert list(refused(world)) == ["j"]
    world.change(server("s2", 8))
    world.submit("k", "gang:1x8")
    assert list(refused(world)) == ["j"]


def test_another_cluster_has_seen_nothing() -> None:
    world = World().up(server("s1", 8))
    world.up(server("s1", 4), cluster_id="other")
    world.submit("j", "gang:1x8")
    assert list(refused(world)) == ["j"]


def test_a_recovered_job_is_never_refused() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:1x5", recovered=True)
    world.submit("k", "gang:nonsense", recovered=True)
    world.ask("j", ask(1, worker(5)))
    world.ask("k", ask(1, worker(1)))
    assert refused(world) == {}
    assert world.why("j") == (
        "never_fits_now: asks 5 GPUs a container, the largest server has 4;"
        " not refused, because the application was recovered"
    )


def test_a_job_whose_workers_run_is_not_ended_for_a_later_ask() -> None:
    world = World().up(server("s1"))
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    world.run()
    world.ask("j", ask(1, worker(5)))
    assert refused(world) == {}
    assert world.why("j").startswith("never_fits_now: ")


def test_a_server_that_is_unhealthy_still_counts_as_capacity() -> None:
    world = World().up(server("s1", 8, state=ServerState.UNHEALTHY), server("s2"))
    world.submit("j", "gang:1x8")
    world.ask("j", ask(1, worker(8)))
    assert refused(world) == {}


def test_a_refusal_that_did_not_reach_its_aim_is_tried_again() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:1x5")
    refused(world)
    world.refuse(world.refusals[0], OutcomeCode.NOT_READY)
    assert world.engine.next_wake_s() == pytest.approx(0.1)
    world.decide()
    assert len(world.refusals) == 1
    world.now_s = 0.2
    world.decide()
    assert len(world.refusals) == 2
    world.commit(world.refusals[1])
    world.now_s = 60.0
    world.decide()
    assert len(world.refusals) == 2


def test_a_refused_job_gets_nothing_more() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:1x5")
    world.ask("j", ask(1, AM, 0, am=True))
    assert world.run() == []


def test_text_from_anybody_is_harmless() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:\x1b]0;x\x07")
    (diagnostics,) = refused(world).values()
    assert diagnostics.isprintable()
