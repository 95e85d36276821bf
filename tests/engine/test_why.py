"""Each reason for waiting, with its sentence, at the edge of the next one."""

from __future__ import annotations

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.model.resource import Resource


def world_of(*asks: Ask, tags: tuple[str, ...] = (), **fields: object) -> World:
    """Two servers of 4 GPUs, and a job that asks and was looked at once."""
    world = World().up(server("s1"), server("s2"))
    world.submit("j", *tags, **fields)
    world.ask("j", *asks)
    return world


def hold(world: World, name: str, where: str, gpus: int, memory_mb: int = 0, vcores: int = 0) -> None:
    if world.engine.job("held") is None:
        world.submit("held")
    world.seen(name, "held", where, Resource(memory_mb, vcores, gpus))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"active": False}, "the resource manager has not let the application ask yet (its own limits)"),
        ({}, "the resource manager has not asked for the application's master yet"),
        ({"unmanaged": True}, "the application master has not asked for containers yet"),
    ],
)
def test_nothing_is_asked_yet(fields: dict[str, object], sentence: str) -> None:
    assert world_of(**fields).why("j") == f"not_asked: {sentence}"  # type: ignore[arg-type] # the fields of Job, by name


def test_an_inactive_job_that_asks_is_told_so_too() -> None:
    why = world_of(ask(1, worker(1)), active=False).why("j")
    assert why == "not_asked: the resource manager has not let the application ask yet (its own limits)"


@pytest.mark.parametrize("asks", [(), (ask(2, worker(4)),)])
def test_before_any_server_has_registered_nobody_is_let_ask(asks: tuple[Ask, ...]) -> None:
    """C5: YARN activates no application while it has no server."""
    world = World().up(settle_left_s=60.0)
    world.submit("j", "gang:2x4", active=False)
    world.ask("j", *asks)
    world.decide()
    assert world.why("j").startswith("not_asked: no server has registered with the resource manager yet")


def test_a_gang_whose_master_runs_and_asks_nothing() -> None:
    world = world_of(tags=("gang:2",))
    world.seen("am", "j", "s1", AM, application_master=True)
    assert world.why("j") == "not_asked: the application master has not asked for containers yet"


@pytest.mark.parametrize(
    ("tag", "asks", "served", "sentence"),
    [
        ("gang:4", (ask(3, worker(1)),), 0, "the gang gang:4 has 4 containers, the application has asked for 3 so far"),
        ("gang:4", (ask(1, worker(1)),), 2, "the gang gang:4 has 4 containers, the application has asked for 3 so far"),
        (
            "gang:2x1+2",
            (ask(1, worker(1), 1), ask(2, worker(0), 2)),
            0,
            "the gang gang:2x1+2 has 4 containers, the application has asked for 3 so far, 1 of them with GPUs",
        ),
    ],
)
def test_the_gang_is_not_whole_yet(tag: str, asks: tuple[Ask, ...], served: int, sentence: str) -> None:
    world = World().up(server("s1"), server("cpu", 0))
    world.submit("j", tag)
    for number in range(served):
        world.seen(f"k{number}", "j", "cpu", worker(0))
    world.ask("j", *asks)
    assert world.why("j") == f"gang_incomplete: {sentence}"
    reason = world.engine.waiting("j")
    assert reason is not None
    assert reason.containers_asked == 4


def test_a_placed_job_awaits_its_commit() -> None:
    world = world_of(ask(5, worker(1)), tags=("gang:5x1",))
    world.decide()
    assert world.why("j") == "decided: placed 5 containers with 5 GPUs on 2 servers; the commit is awaited"


def test_a_job_that_fits_is_placed_in_its_turn_and_one_that_was_found_not_to_fit_waits() -> None:
    world = world_of(ask(1, worker(4)))
    assert world.why("j") == "decided: asks 4 GPUs; it fits and is placed in its turn"
    hold(world, "k1", "s1", 1)
    hold(world, "k2", "s2", 1)
    expected = "fragmented: asks 4 GPUs; 6 GPUs are free on 2 servers, but they hold 0 containers of 4 GPUs"
    assert world.why("j") == expected
    world.decide()
    assert world.why("j") == expected
    world.release("k1")
    world.change(server("s1"))
    assert world.why("j") == "decided: asks 4 GPUs; it fits and is placed in its turn"


def code(world: World, job_id: str = "j") -> str:
    return world.why(job_id).split(":")[0]


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (
            (1, 1),
            "fragmented: asks 6 GPUs at once, 3 x 2; 6 GPUs are free on 2 servers, but they hold 2 containers of 2 GPUs",
        ),
        ((1, 2), "cluster_full: asks 6 GPUs at once, 3 x 2; 5 GPUs are free on 2 servers"),
        ((4, 3), "cluster_full: asks 6 GPUs at once, 3 x 2; 1 GPUs are free on 1 server"),
        ((4, 4), "cluster_full: asks 6 GPUs at once, 3 x 2; 0 GPUs are free on 0 servers"),
    ],
)
def test_full_is_less_free_than_asked_else_it_is_where_it_is_of_no_use(held: tuple[int, int], expected: str) -> None:
    world = world_of(ask(3, worker(2)), tags=("gang:3x2",))
    for number, gpus in enumerate(held, 1):
        hold(world, f"k{number}", f"s{number}", gpus)
    world.decide()
    assert world.why("j") == expected
    reason = world.engine.waiting("j")
    assert reason is not None
    assert (reason.gpus_asked, reason.containers_asked) == (6, 3)
    assert (reason.gpus_free, reason.servers_free) == (8 - sum(held), sum(gpus < 4 for gpus in held))


def test_a_gang_of_several_sizes_says_what_each_would_find() -> None:
    asks = [ask(1, worker(3), 1), ask(1, worker(2), 2), ask(1, worker(0), 3)]
    world = world_of(*asks, tags=("gang:3",))
    hold(world, "k1", "s1", 1)
    hold(world, "k2", "s2", 2)
    fits = "decided: asks 5 GPUs in 3 containers at once; it fits and is placed in its turn"
    assert world.why("j") == fits
    hold(world, "k3", "s1", 1)
    world.decide()
    assert world.why("j").startswith("cluster_full: asks 5 GPUs in 3 containers at once; 4 GPUs are free on 2 servers")
    world.ask("j", ask(1, worker(3), 1), ask(1, worker(1), 2), ask(1, worker(0), 3))
    world.decide()
    assert world.why("j") == (
        "fragmented: asks 4 GPUs in 3 containers at once; 4 GPUs are free on 2 servers,"
        " but they hold 0 containers of 3 GPUs and they hold 4 containers of 1 GPUs"
    )
    for name in ("s1", "s2"):
        hold(world, f"rest-{name}", name, 0, memory_mb=64_000)
    world.ask("j", ask(1, worker(2), 1), ask(1, worker(1), 2), ask(1, worker(0), 3))
    world.decide()
    assert world.why("j") == (
        "other_resources: asks 3 GPUs in 3 containers at once; 4 GPUs are free on 2 servers,"
        " but not with 1024 MB and 1 vcores or 1024 MB and 1 vcores or 1024 MB and 1 vcores a container"
    )


def test_gpus_are_free_and_something_else_is_short() -> None:
    world = world_of(ask(1, worker(4, 40_000)))
    for name in ("s1", "s2"):
        hold(world, f"k-{name}", name, 0, memory_mb=30_000)
    world.decide()
    assert world.why("j") == (
        "other_resources: asks 4 GPUs; 8 GPUs are free on 2 servers, but not with 40000 MB and 1 vcores a container"
    )


def test_a_container_without_gpus_says_what_no_server_has_to_spare() -> None:
    world = World(EngineSettings(cpu_share=0.5)).up(server("s1", memory_mb=1_000, vcores=20))
    hold(world, "k", "s1", 0, memory_mb=400)
    world.submit("j")
    world.ask("j", ask(1, Resource(200, 1)))
    world.decide()
    assert world.why("j") == (
        "other_resources: asks 1 container of 200 MB and 1 vcores; 4 GPUs are free on 1 server,"
        " but no server has so much memory and vcores beside its free GPUs' share"
    )


def test_a_refusal_of_the_resource_manager_holds_for_what_it_refused() -> None:
    world = world_of(ask(1, worker(4)))
    world.now_s = 100.0
    world.refuse(world.decide()[0], OutcomeCode.QUEUE_LIMIT)
    assert world.why("j") == (
        "refused_by_rm: the resource manager refused the last decision as queue_limit (not so); tried again in 0.1 s"
    )
    world.now_s = 100.02
    world.submit("later")
    assert world.why("j").endswith("tried again in 0.1 s")
    world.now_s = 100.5
    world.submit("last")
    assert code(world) == "decided"


def test_masters_wait_at_their_limit_and_nobody_else_does() -> None:
    world = World(EngineSettings(am_share=0.01)).up(server("s1", memory_mb=10_000, vcores=10))
    for name in ("a", "b"):
        world.submit(name)
        world.ask(name, ask(1, AM, 0, am=True))
    world.run()
    assert world.why("b") == (
        "am_limit: asks 512 MB and 1 vcores for its master; 1 masters hold 512 MB and 1 vcores"
        " of the 100 MB and 0 vcores that masters may have on GPU servers"
    )
    world.submit("c")
    world.ask("c", ask(1, worker(4)))
    assert code(world, "c") == "decided"


def test_a_master_within_the_limit_is_no_matter_of_it() -> None:
    world = World().up(server("s1"))
    world.submit("a")
    world.ask("a", ask(1, AM, 0, am=True))
    assert code(world, "a") == "decided"
    world.ask("a", ask(1, Resource(70_000, 1), 0, am=True))
    assert code(world, "a") == "never_fits_now"


def test_what_the_running_servers_could_not_hold_if_empty() -> None:
    world = world_of(ask(1, worker(4, 40_000)), ask(1, worker(4, 41_000), 2))
    world.change(server("s1", memory_mb=1_000))
    world.change(server("s2", memory_mb=1_000))
    world.decide()
    assert world.why("j") == "never_fits_now: asks 4 GPUs; the servers that run now could not hold that if empty"
    assert world.refusals == []


def test_who_ended_was_never_told_of_or_runs_waits_for_nothing() -> None:
    world = world_of()
    world.seen("k", "ghost", "s1", worker(1))
    world.seen("k2", "j", "s1", worker(1))
    assert [world.engine.waiting(name) for name in ("ghost", "nobody", "j")] == [None, None, None]
    world.end("j")
    assert world.engine.waiting("j") is None


def test_a_refused_job_says_what_it_is_told() -> None:
    world = world_of(tags=("gang:zero",))
    reason = world.engine.waiting("j")
    assert reason is not None
    assert reason.code is ReasonCode.REFUSED
    assert reason.sentence.endswith("in whole numbers; the resource manager is told to end it")
