"""What YARN's limit on how long an application may go on says of when it ends. Waiting counts."""

from __future__ import annotations

import pytest

from tests.engine.test_reserving import BOUND_S, Waiting
from yarn_gpu_sched.model.job import Job

SUBMITTED_S = 1_790_000_000.0


def limited(world: Waiting, job_id: str, gpus: int, lifetime_s: float, *tags: str) -> None:
    """Submit a gang that YARN ends when so many seconds have passed."""
    expire_time_s = SUBMITTED_S + lifetime_s
    world.gang(job_id, 1, gpus, "root.a", *tags, submit_time_s=SUBMITTED_S, expire_time_s=expire_time_s)


@pytest.mark.parametrize(("lifetime_s", "wanted"), [(None, None), (0.2, 1), (3_600.0, 3_600), (-5.0, 0)])
def test_a_lifetime_is_whole_seconds_from_submission(lifetime_s: float | None, wanted: int | None) -> None:
    expire_time_s = None if lifetime_s is None else SUBMITTED_S + lifetime_s
    assert Job("j", "root.a", submit_time_s=SUBMITTED_S, expire_time_s=expire_time_s).lifetime_s == wanted


@pytest.mark.parametrize(
    ("tags", "queue_s", "lifetime_s", "wanted_s"),
    [
        ((), None, 500, 500),
        (("runtime:100",), None, 500, 100),
        (("runtime:900",), None, 500, 500),
        ((), "300", 500, 300),
        ((), "900", 500, 500),
    ],
)
def test_the_shortest_of_what_is_said_counts(
    tags: tuple[str, ...], queue_s: str | None, lifetime_s: float, wanted_s: float
) -> None:
    world = Waiting(4)
    if queue_s is not None:
        world.configure("root.a", settings=(("default-runtime-s", queue_s),))
    limited(world, "runs", 4, lifetime_s, *tags)
    world.gang("waits", 1, 4)
    found = world.engine.outlook("waits", world.now_s)
    assert found is not None
    assert found.starts_in_s == wanted_s


def test_what_it_has_waited_is_gone() -> None:
    world = Waiting(4)
    world.gang("before", 1, 4)
    limited(world, "runs", 4, 500.0)
    world.step(200.0)
    world.end("before")
    world.step(200.0)
    world.gang("waits", 1, 4)
    found = world.engine.outlook("waits", world.now_s)
    assert found is not None
    assert (found.starts_in_s, found.when) == (
        300.0,
        "in about 5 min, if runs ends when its lifetime is over; jobs before it in order are not counted",
    )


def test_of_several_it_is_said_who_ends_by_what() -> None:
    world = Waiting(4)
    limited(world, "limited", 2, 500.0)
    world.gang("said", 1, 2, "root.a", "runtime:400")
    world.gang("waits", 1, 4)
    found = world.engine.outlook("waits", world.now_s)
    assert found is not None
    assert "if said and limited end when they said, or when their lifetimes are over;" in found.when


def test_who_is_ended_before_by_yarn_may_go_on_what_is_kept() -> None:
    world = Waiting(4, 4)
    for name in ("r1", "r2"):
        world.gang(name, 1, 3, "root.a", "runtime:9000")
    world.gang("g", 1, 4)
    world.step(BOUND_S)
    assert world.kept("g") == 1
    world.gang("fills", 1, 1, "root.a", "runtime:90000")
    limited(world, "long", 1, 9_000.0)
    assert not world.runs("long")
    limited(world, "short", 1, 7_000.0)
    assert world.runs("short")
    assert world.engine.audit() == []


def test_a_limit_that_is_told_while_it_waits_counts_from_then_on() -> None:
    world = Waiting(4, 4)
    for name in ("r1", "r2"):
        world.gang(name, 1, 3, "root.a", "runtime:9000")
    world.gang("g", 1, 4)
    world.step(BOUND_S)
    world.gang("fills", 1, 1, "root.a", "runtime:90000")
    world.gang("later", 1, 1, "root.a", submit_time_s=SUBMITTED_S)
    assert not world.runs("later")
    world.submit("later", "gang:1x1", submit_time_s=SUBMITTED_S, expire_time_s=SUBMITTED_S + 7_000.0)
    world.step()
    assert world.runs("later")
