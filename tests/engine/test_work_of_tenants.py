"""Work goes with the lines that wake, not with virtual clusters, jobs or users: held by counters."""

from __future__ import annotations

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.ladder import Ladder
from yarn_gpu_sched.engine.pass_view import PassView
from yarn_gpu_sched.engine.queue import Line
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.job_record import JobRecord

VCS = 50


def full(jobs_each: int, *, users: int = 1, settings: tuple[tuple[str, str], ...] = (), relax_s: float = 0.0) -> World:
    """Fill two servers, and let gangs of two shapes wait in each of fifty virtual clusters."""
    chosen = EngineSettings(policy="philly", relax_after_s=relax_s)
    world = World(chosen, audited=False).up(server("s1", 8), server("s2", 8))
    for name in ("s1", "s2"):
        for number in range(8):
            world.seen(f"{name}-{number}", "holder", name, worker(1))
    for number in range(VCS):
        world.configure(f"root.vc{number:02d}", quota_gpus=4, maximum_gpus=8, settings=settings)
        for job in range(jobs_each):
            gpus = 2 + 2 * (job % 2)
            name, user = f"j{number:02d}-{job:03d}", f"u{job % users}"
            world.submit(name, f"gang:1x{gpus}", vc=f"root.vc{number:02d}", user=user, recovered=True)
            world.ask(name, ask(1, worker(gpus)))
    return world


def searches(world: World) -> int:
    before = world.engine.counters.searches
    world.decide()
    return world.engine.counters.searches - before


@pytest.mark.parametrize("jobs_each", [2, 40])
def test_equal_asks_of_a_virtual_cluster_are_examined_once_however_many_wait(jobs_each: int) -> None:
    world = full(jobs_each)
    assert searches(world) == 2 * VCS
    assert searches(world) == 0


def test_where_users_take_turns_each_of_them_is_looked_at_once() -> None:
    world = full(40, users=2, settings=(("user-fairness", "true"),))
    assert searches(world) == 2 * VCS, "each user has one of the two shapes"


def test_a_blocked_shape_wakes_only_when_enough_was_freed_for_it() -> None:
    world = full(4)
    world.decide()
    world.release("s1-0")
    assert searches(world) == 0, "one GPU is free, and nobody asks one"
    world.release("s1-1")
    assert searches(world) <= VCS + 2, "two are: those who ask two are looked at, and one of them is placed"
    assert len(world.places) == 1
    world.release("s2-0")
    assert searches(world) == 0


def test_what_one_queue_frees_of_its_maximum_is_looked_at_by_its_own_jobs_alone() -> None:
    world = full(4)
    world.configure("root.vc07", quota_gpus=4, maximum_gpus=0)
    world.decide()
    before = world.engine.counters.searches
    world.configure("root.vc07", quota_gpus=4, maximum_gpus=8)
    world.decide()
    assert world.engine.counters.searches - before == 2, "its two shapes"


def test_use_that_changes_in_one_queue_is_held_against_limits_there_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full(4)
    world.decide()
    judged: list[str] = []
    kept = Core._judge

    def judge(core: Core, line: Line) -> None:
        judged.append(line.group.vc)
        kept(core, line)

    monkeypatch.setattr(Core, "_judge", judge)
    world.seen("more", "j07-000", "s1", worker(1))
    assert set(judged) <= {"root.vc07"}
    judged.clear()
    world.configure("root.vc08.x", maximum_gpus=1)
    world.submit("below", "gang:1x1", vc="root.vc08.x")
    judged.clear()
    world.seen("and more", "below", "s1", worker(1))
    assert set(judged) <= {"root.vc08", "root.vc08.x"}, "it shares the maximum of the queue above it"


def test_a_server_that_changes_looks_again_at_each_line_and_not_at_each_gang_on_the_ladder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = full(0, relax_s=150.0)
    for number in range(VCS):
        for job in range(40):
            name = f"g{number:02d}-{job:02d}"
            world.submit(name, "gang:2x4", vc=f"root.vc{number:02d}")
            world.ask(name, ask(2, worker(4)))
    looked_at: list[str] = []
    kept = Ladder.level

    def level(ladder: Ladder, record: JobRecord, want: JobWant, now_s: float) -> Level:
        looked_at.append(record.job_id)
        return kept(ladder, record, want, now_s)

    monkeypatch.setattr(Ladder, "level", level)
    before = len(world.commands)
    for memory_mb in (70_000, 80_000):
        world.change(server("s2", 8, memory_mb=memory_mb))
        assert searches(world) == VCS
    assert looked_at == [], "what an empty domain would hold is as it was when they came"
    assert len(world.commands) == before, "no job is touched"


def test_a_server_that_is_lost_still_lets_each_gang_go_as_loose_as_the_rest_demands() -> None:
    """What the line before knew is not what is so now."""
    world = World(EngineSettings(policy="philly", relax_after_s=150.0))
    world.up(
        *(server(name, 4, rack=rack) for name, rack in (("s1", "/r1"), ("s2", "/r1"), ("t1", "/r2"), ("t2", "/r2")))
    )
    for name in ("s1", "t1"):
        world.seen(f"held-{name}", f"holder-{name}", name, worker(4))
    for name in ("one", "two"):
        world.submit(name, "gang:2x4")
        world.ask(name, ask(2, worker(4)))
    assert world.decide() == []
    for name in ("s1", "t1"):
        world.remove(name)
    assert [one.job_id for one in world.decide()] == ["one"], "no rack could hold it any more"


def test_what_is_placed_below_a_shared_maximum_is_held_against_it_once_for_each_user_who_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(EngineSettings(policy="philly"), audited=False).up(*(server(f"s{number}", 8) for number in range(10)))
    world.configure("root.p", maximum_gpus=40, parent=True)
    world.configure("root.p.a", settings=(("max-gpus-per-user", "8"),))
    users = 200
    for number in range(users):
        world.submit(f"j{number}", vc="root.p.a", user=f"u{number}")
        world.ask(f"j{number}", ask(1, worker(1)))
    work: list[str] = []
    kept, told = Core._judge, PassView.share

    def judge(core: Core, line: Line) -> None:
        work.append("judged")
        kept(core, line)

    def share(view: PassView, path: str, partition: str) -> tuple[int, int | None]:
        work.append("shared")
        return told(view, path, partition)

    monkeypatch.setattr(Core, "_judge", judge)
    monkeypatch.setattr(PassView, "share", share)
    assert len(world.decide()) == 40
    assert work.count("judged") <= 5 * users
    assert work.count("shared") <= 3 * users
