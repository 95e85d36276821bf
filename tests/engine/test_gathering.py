"""Jobs without a tag where the queue debounces: their asks with GPUs become a gang once they have not changed for a while."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import Engine

GATHER_S = 4.0


def debouncing(*, servers: int = 2) -> World:
    world = World().up(*(server(f"s{n + 1}") for n in range(servers)))
    world.configure("root.a", debounce=True)
    world.submit("j")
    return world


@pytest.mark.parametrize(
    ("queue", "above", "gathers"),
    [
        ({"settings": (("gang", "debounce"),)}, {}, True),
        ({}, {"settings": (("gang", "debounce"),)}, True),
        ({"settings": (("gang", "none"),)}, {"settings": (("gang", "debounce"),)}, False),
        ({"debounce": True}, {}, True),
    ],
    ids=["the queue's setting", "of the queue above", "its own before the one above", "without settings"],
)
def test_a_queue_or_one_above_it_says_whether_asks_are_gathered(
    queue: dict[str, object],
    above: dict[str, object],
    gathers: bool,  # noqa: FBT001 - pytest passes by name
) -> None:
    world = World().up(server("s1"))
    world.configure("root", parent=True, **above)
    world.configure("root.a", **queue)
    world.submit("j")
    world.ask("j", ask(2, worker(1)))
    assert (world.run() == []) is gathers
    (shown,) = [
        use.virtual_cluster for use in world.engine.virtual_clusters()[0] if use.virtual_cluster.path == "root.a"
    ]
    assert shown.debounce is gathers


def test_asks_that_trickle_in_become_one_gang() -> None:
    world = debouncing()
    for count in (1, 2, 3):
        world.ask("j", ask(count, worker(2)))
        assert world.run() == []
        world.now_s += GATHER_S - 1.0
        assert world.run() == []
    assert world.why("j") == (
        "gathering: has asked 3 containers with GPUs so far; a gang of them is formed in 1 s unless the asks change"
    )
    assert world.engine.next_wake_s() == 10.0
    world.now_s = 10.0
    (placed,) = world.run()
    assert len(placed.assignments) == 3


def test_the_same_asks_again_change_nothing() -> None:
    world = debouncing()
    world.ask("j", ask(2, worker(2)))
    world.now_s = GATHER_S - 0.5
    world.ask("j", ask(2, worker(2)))
    world.now_s = GATHER_S
    assert len(world.run()[0].assignments) == 2


def test_such_a_gang_is_placed_whole_or_not_at_all() -> None:
    world = debouncing()
    world.submit("holder", "gang:1x4")
    world.ask("holder", ask(1, worker(4)))
    world.run()
    world.ask("j", ask(2, worker(4)))
    world.now_s = GATHER_S
    assert world.run() == []
    world.end("holder")
    (placed,) = world.run()
    assert len(placed.assignments) == 2


def test_masters_and_containers_without_gpus_wait_for_nobody() -> None:
    world = debouncing()
    world.ask("j", ask(1, AM, 0, am=True), ask(2, worker(2), 1), ask(1, worker(0), 2))
    assert [len(placed.assignments) for placed in world.run()] == [1, 1]
    world.now_s = GATHER_S
    (placed,) = world.run()
    assert [one.resource.gpus for one in placed.assignments] == [2, 2]


def test_it_is_never_refused_for_its_count_but_for_its_size() -> None:
    world = debouncing()
    world.ask("j", ask(9, worker(4)))
    world.submit("k")
    world.ask("k", ask(1, worker(5)))
    world.now_s = GATHER_S
    assert world.run() == []
    world.decide()
    assert [refused.job_id for refused in world.refusals] == ["k"]
    assert world.why("j").startswith("never_fits_now")


def test_a_gang_that_was_formed_is_gathered_anew_when_its_asks_change() -> None:
    world = debouncing(servers=1)
    world.submit("holder", "gang:1x4")
    world.ask("holder", ask(1, worker(4)))
    world.run()
    world.ask("j", ask(2, worker(2)))
    world.now_s = GATHER_S
    assert world.run() == []
    world.ask("j", ask(4, worker(1)))
    world.end("holder")
    assert world.run() == []
    world.now_s += GATHER_S
    (placed,) = world.run()
    assert len(placed.assignments) == 4


def test_what_comes_after_the_gang_is_growth() -> None:
    world = debouncing()
    world.ask("j", ask(2, worker(2)))
    world.now_s = GATHER_S
    world.run()
    world.ask("j", ask(1, worker(1)))
    assert len(world.run()) == 1


def test_tags_win_and_a_job_that_ends_is_watched_no_more() -> None:
    world = debouncing()
    world.submit("tagged", "gang:2x1")
    world.ask("tagged", ask(2, worker(1)))
    assert [placed.job_id for placed in world.run()] == ["tagged"]
    world.ask("j", ask(2, worker(2)))
    world.end("j")
    assert world.engine.next_wake_s() is None


def test_elsewhere_containers_are_placed_one_by_one_at_once() -> None:
    world = debouncing()
    world.submit("plain", vc="root.b")
    world.ask("plain", ask(3, worker(1)))
    assert len(world.run()) == 3


def test_an_engine_that_was_written_down_goes_on_watching() -> None:
    world = debouncing()
    world.ask("j", ask(2, worker(2)))
    assert world.run() == []
    restored = Engine.restore(world.engine.snapshot())
    assert restored.audit() == []
    assert (restored.digest(), restored.next_wake_s()) == (world.engine.digest(), GATHER_S)
