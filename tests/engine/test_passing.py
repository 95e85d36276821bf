"""Who may go on what is kept for a gang that has waited too long, and who may not (law 9)."""

from __future__ import annotations

from tests.engine.reclaims import Reclaiming
from tests.engine.test_reserving import BOUND_S, Waiting
from tests.engine.world import ask, worker


def over_its_quota(quota_b: int = 4) -> Waiting:
    """Let a gang of `root.a` for all eight GPUs have a reservation that would borrow; two GPUs are kept for it."""
    world = Waiting(8)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=quota_b)
    for turn in range(6):
        world.one(f"r{turn}", "root.a")
    world.step(100.0)
    world.gang("g", 8, 1, "root.a")
    world.step(100.0 + BOUND_S)
    assert world.kept("g") == 2
    return world


def test_who_is_within_its_quota_passes_a_gang_that_would_borrow() -> None:
    world = over_its_quota()
    world.one("b1", "root.b")
    assert world.runs("b1")
    assert world.kept("g") == 1
    assert "g" in world.reserved


def test_rather_than_have_others_stopped_it_goes_on_what_is_kept_for_a_gang_that_would_borrow() -> None:
    """In the moment in which `a2` has run long enough to be stopped, `a1` ends, and what that leaves is kept for `g`."""
    world = Reclaiming(8, reserve_after_s=1_500.0, preempt_min_run_s=3_000.0)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    for name, gpus in (("a0", 4), ("a1", 2), ("a2", 2)):
        world.gang(name, gpus, 1)
    world.gang("g", 8, 1)
    world.step(2_000.0)
    world.gang("b1", 2, 1, "root.b")
    world.step(2_999.0)
    assert [one.job_id for one in world.engine.reservations()] == ["g"]
    world.now_s = 3_000.0
    world.end("a1")
    world.step()
    assert world.runs("b1")
    assert world.warned() == []


def test_it_is_placed_once_although_it_may_pass_for_two_reasons() -> None:
    world = over_its_quota()
    world.gang("r6", 1, 1, "root.a", "runtime:9000")
    world.one("b1", "root.b", "runtime:1")
    assert world.starts().count("b1") == 1
    assert len(world.live("b1")) == 1


def test_who_would_borrow_as_well_does_not_pass_it() -> None:
    world = over_its_quota(quota_b=0)
    world.one("b1", "root.b")
    assert not world.runs("b1")
    assert world.kept("g") == 2


def test_of_its_own_virtual_cluster_nobody_passes_it() -> None:
    world = over_its_quota()
    for turn in range(4):
        world.end(f"r{turn}")
        world.step(world.now_s + 1.0)
    world.one("own", "root.a")
    assert not world.runs("own")
    assert world.kept("g") == 6


def test_within_its_quota_nobody_passes_it_who_does_not_say_when_it_ends() -> None:
    world = Waiting(8)
    world.configure("root.a", quota_gpus=8)
    world.configure("root.b", quota_gpus=8)
    for turn in range(6):
        world.one(f"r{turn}", "root.b")
    world.step(100.0)
    world.gang("g", 8, 1, "root.a")
    world.step(100.0 + BOUND_S)
    world.one("b1", "root.b")
    assert not world.runs("b1")
    assert world.kept("g") == 2


def test_a_queue_says_for_its_jobs_how_long_they_run() -> None:
    world = Waiting(8)
    for turn in range(6):
        world.one(f"r{turn}", "root.a", "runtime:9000")
    world.step(100.0)
    world.gang("g", 8, 1, "root.a")
    world.step(100.0 + BOUND_S)
    world.one("silent", "root.b")
    assert not world.runs("silent")
    world.configure("root.b", settings=(("default-runtime-s", "60"),))
    world.step(world.now_s + 1.0)
    assert world.runs("silent")


def test_who_ends_too_late_or_does_not_fit_holds_up_nobody_who_may_pass() -> None:
    world = Waiting(8)
    for turn in range(7):
        world.one(f"r{turn}", "root.a", "runtime:9000")
    world.step(100.0)
    world.gang("g", 8, 1, "root.a")
    world.step(100.0 + BOUND_S)
    world.one("late", "root.b", "runtime:9000")
    world.gang("two", 2, 1, "root.b", "runtime:10")
    assert not world.runs("late")
    assert not world.runs("two")
    world.one("short", "root.b", "runtime:10")
    assert world.runs("short")


def beside_it() -> Waiting:
    """Let six GPUs of a queue above be kept for a gang of `root.p.a` that would borrow."""
    world = Waiting(8, 8)
    world.configure("root.p", quota_gpus=8)
    world.configure("root.p.a", quota_gpus=4)
    world.configure("root.p.b", quota_gpus=4)
    world.gang("q", 8, 1, "root.q")
    for turn in range(8):
        world.one(f"r{turn}", "root.q")
    world.gang("g", 8, 1, "root.p.a", "locality:0")
    world.step(BOUND_S)
    for turn in range(6):
        world.end(f"r{turn}")
    world.step(2 * BOUND_S)
    assert world.kept("g") == 6
    return world


def test_what_is_kept_in_a_queue_beside_its_own_takes_nobody_over_the_quota_above() -> None:
    world = beside_it()
    world.gang("b", 4, 1, "root.p.b")
    assert world.runs("b")
    assert world.kept("g") == 2
    world.one("more", "root.p.b")
    assert not world.runs("more")


def test_who_has_a_reservation_beside_it_is_not_over_the_quota_above_either() -> None:
    world = beside_it()
    world.submit("b", "gang:4x1", vc="root.p.b")
    world.ask("b", ask(4, worker(1), at={"s0": 4}, strict=True))
    world.step(world.now_s + BOUND_S)
    shown = [(one.job_id, one.over_quota) for one in world.engine.reservations()]
    assert shown == [("b", False), ("g", True)]
