"""What is said of reservations to those who have one, and to those who wait for what is kept."""

from __future__ import annotations

from tests.engine.test_reserving import BOUND_S, Waiting, filled
from yarn_gpu_sched.engine.views import Outlook
from yarn_gpu_sched.model.reason import ReasonCode


def told(world: Waiting, job_id: str) -> tuple[ReasonCode, str]:
    reason = world.engine.waiting(job_id)
    assert reason is not None
    return reason.code, reason.sentence


def outlook(world: Waiting, job_id: str) -> Outlook:
    found = world.engine.outlook(job_id, world.now_s)
    assert found is not None
    return found


def test_who_has_one_is_told_what_is_kept_and_who_holds_the_rest() -> None:
    world = filled()
    world.step(100.0 + BOUND_S + 7.0)
    assert told(world, "g") == (
        ReasonCode.RESERVED,
        (
            "asks 4 GPUs at once, 4 x 1; it waited too long, so 2 of 4 GPUs are kept for it on s1, "
            "the rest when r5 and r6 end"
        ),
    )
    found = outlook(world, "g")
    assert found.changes == ("the ends of r5 and r6, where places are kept for it, or room anywhere before",)
    assert found.when == "unknown: not all who hold the rest say how long they run, or they have run longer"
    assert (found.starts_in_s, found.job_ids) == (None, ("r5", "r6"))


def test_who_has_one_is_told_when_it_is_expected_to_start() -> None:
    world = filled(runs=("runtime:4000",))
    world.step(100.0 + BOUND_S)
    found = outlook(world, "g")
    assert (found.when, found.starts_in_s) == ("in 35 min, if all who hold the rest end when they say", 2_100.0)
    late = world.engine.outlook("g", 4_000.0)
    assert late is not None
    assert (late.when, late.starts_in_s) == ("by now, if all who hold the rest end when they say", 0.0)
    world.end("r5")
    world.step(world.now_s + 40.0)
    assert told(world, "g")[1].endswith("3 of 4 GPUs are kept for it on s1, the rest when r6 ends")


def test_who_borrows_is_told_that_others_may_go_before() -> None:
    world = filled()
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    world.step(100.0 + BOUND_S)
    assert outlook(world, "g").changes[1:] == (
        "more of its queue's quota free: until then jobs within their quotas may take what is kept",
    )


def test_who_waits_for_what_is_kept_is_told_for_whom_it_is_and_how_it_could_pass() -> None:
    world = filled(runs=("runtime:4000",))
    world.step(100.0 + BOUND_S)
    world.one("silent")
    world.one("long", "root.a", "runtime:3000")
    for job_id in ("silent", "long"):
        code, sentence = told(world, job_id)
        assert code is ReasonCode.RESERVED
        assert sentence.endswith("0 GPUs are free on 0 servers, 2 are reserved for g, which waited too long")
        found = outlook(world, job_id)
        assert (
            "a run time of at most 2100 s (tag runtime:SECONDS): it would end before g needs the 2 GPUs that are kept for it"
        ) in found.changes
        assert found.when.endswith("; neither jobs before it in order nor those with a reservation are counted")


def test_nobody_is_told_to_pass_where_that_would_not_help() -> None:
    """It is not known when the place is needed; too little is kept; or a limit holds it back besides."""
    silent = filled()
    silent.step(100.0 + BOUND_S)
    silent.one("later")
    assert not passing(silent, "later")
    world = filled(runs=("runtime:4000",))
    world.configure("root.c", quota_gpus=1, maximum_gpus=1)
    world.one("first", "root.c", "runtime:3900")
    world.step(100.0 + BOUND_S)
    assert (world.runs("first"), world.kept("g")) == (True, 1)
    world.gang("larger", 2, 1, "root.b", "locality:0")
    assert not passing(world, "larger")
    world.one("forbidden", "root.c")
    assert told(world, "forbidden")[0] is ReasonCode.VC_MAXIMUM
    assert not passing(world, "forbidden")
    world.one("small", "root.b")
    assert passing(world, "small")


def passing(world: Waiting, job_id: str) -> bool:
    return any("a run time of at most" in change for change in outlook(world, job_id).changes)
