"""A gang that has waited too long gets places that later jobs cannot take (law 9)."""

from __future__ import annotations

import pytest

from tests.engine.reclaims import Reclaiming, borrowed
from tests.engine.world import ask, server, worker
from yarn_gpu_sched.engine.events import Pass, ResourceManagerLost
from yarn_gpu_sched.engine.reserving import LOOKED_AT_MAX, REPLAN_MIN_S
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.model.reservation import Reservation
from yarn_gpu_sched.model.server import ServerState

BOUND_S = 1_800.0
BEFORE_S = 0.001


class Waiting(Reclaiming):
    """Reserves after the bound; nobody is stopped."""

    def __init__(self, *servers: int, racks: int = 1, **settings: float) -> None:
        super().__init__(*servers, racks=racks, mode=Mode.OFF, **{"reserve_after_s": BOUND_S, **settings})
        self.ends: dict[str, float] = {}

    def one(self, name: str, vc: str = "root.a", *tags: str) -> None:
        """Submit a job of one GPU."""
        self.gang(name, 1, 1, vc, *tags)

    @property
    def reserved(self) -> dict[str, Reservation]:
        """Give the reservations."""
        return self.engine._core.reservations.by_job


def stream(world: Waiting, until_s: float, every_s: float = 10.0, runs_s: float = 600.0) -> None:
    """Let jobs of one GPU come without end, more than there is room for, and each run for a while."""
    ends = world.ends
    while world.now_s < until_s:
        world.one(f"x{world.submitted}")
        world.step(world.now_s + every_s)
        for name in [*world.starts()]:
            if name.startswith("x"):
                ends.setdefault(name, world.now_s + runs_s)
        for name in [name for name, at_s in ends.items() if at_s <= world.now_s and world.runs(name)]:
            world.end(name)
        world.step()


@pytest.mark.parametrize(("servers", "gpus"), [(2, 16), (4, 16), (4, 32)])
def test_a_stream_of_small_jobs_does_not_starve_a_large_gang(servers: int, gpus: int) -> None:
    """There are never so many free at once without it; with it the gang starts when those have ended that ran there."""
    world = Waiting(*[8] * servers)
    world.audited = False
    stream(world, 700.0)
    world.gang("large", gpus, 1)
    began_s = world.now_s
    stream(world, began_s + BOUND_S - 20.0)
    assert world.reserved == {}
    assert not world.runs("large")
    stream(world, began_s + BOUND_S + 20.0)
    assert "large" in world.reserved
    stream(world, began_s + BOUND_S + 20.0 + 650.0)
    assert world.runs("large")
    assert world.engine.audit() == []


def test_a_pass_that_does_not_come_to_the_end_of_who_is_ready_reserves_as_well() -> None:
    """Else passes that are always full would let a gang wait for ever."""
    world = Waiting(4, 4, decisions_per_pass_max=1)
    for turn in range(6):
        world.one(f"r{turn}")
    world.gang("large", 4, 1, "root.a", "locality:0")
    world.step(BOUND_S - 1.0)
    for turn in range(2):
        world.submit(f"x{turn}", "gang:1x1")
        world.ask(f"x{turn}", ask(1, worker(1)))
    world.apply(Pass(now_s=BOUND_S))
    assert list(world.reserved) == ["large"]


def test_a_stream_of_large_gangs_does_not_starve_a_small_job() -> None:
    """Two gangs of a queue with all of the quota wait always, and take all GPUs; one GPU is asked in a queue without any."""
    world = Waiting(4, 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=8)
    for turn in range(3):
        world.gang(f"g{turn}", 8, 1, "root.b")
    world.one("small", "root.a")
    for turn in range(8):
        assert world.runs(f"g{turn}")
        world.step(world.now_s + 300.0)
        world.end(f"g{turn}")
        world.gang(f"g{turn + 3}", 8, 1, "root.b")
        if world.now_s >= BOUND_S:
            break
        assert not world.runs("small")
    assert world.runs("small")
    world.end("small")
    world.step(world.now_s + 1.0)
    assert world.runs(f"g{turn + 1}")


def filled(*, runs: tuple[str, ...] = ()) -> Waiting:
    """Let four jobs of one GPU run on two servers, two on each, and a gang wait for all four GPUs of a server since 100 s."""
    world = Waiting(4, 4)
    for name in ("r1", "r2", "r3", "r4", "r5", "r6"):
        world.one(name, "root.a", *runs)
    world.step(100.0)
    world.gang("g", 4, 1, "root.a", "locality:0")
    return world


def test_the_reservation_comes_with_the_bound_and_keeps_what_is_free() -> None:
    world = filled()
    assert world.starts()[:6] == ["r1", "r2", "r3", "r4", "r5", "r6"]
    world.step(100.0 + BOUND_S - BEFORE_S)
    assert (world.reserved, world.kept("g")) == ({}, 0)
    world.step(100.0 + BOUND_S)
    assert (list(world.reserved), world.kept("g")) == (["g"], 2)
    assert "it waited too long, so 2 of 4 GPUs are kept for it on s1" in world.why("g")
    world.one("later")
    assert not world.runs("later")
    assert "2 are reserved for g, which waited too long" in world.why("later")
    for name in ("r5", "r6"):
        world.end(name)
        world.step(world.now_s + 1.0)
    assert world.runs("g")
    assert world.reserved == {}


def test_it_goes_where_most_will_be_free_first_as_far_as_is_known() -> None:
    world = Waiting(4, 4)
    for name, runtime in (
        ("r1", "runtime:9000"),
        ("r2", "runtime:9000"),
        ("r3", "runtime:9000"),
        ("r4", "runtime:9000"),
    ):
        world.one(name, "root.a", runtime)
    for name in ("r5", "r6", "r7", "r8"):
        world.one(name, "root.a", "runtime:4000")
    world.step(100.0)
    world.gang("g", 4, 1, "root.a", "locality:0")
    world.step(100.0 + BOUND_S)
    reservation = world.reserved["g"]
    assert (reservation.server_ids, reservation.ready_s) == (("s1",), 4_000.0)
    assert set(reservation.awaited) == {"r5", "r6", "r7", "r8"}


def test_who_says_that_it_ends_before_may_pass_and_nobody_else() -> None:
    world = filled(runs=("runtime:4000",))
    world.step(100.0 + BOUND_S)
    assert world.kept("g") == 2
    world.one("silent")
    world.one("long", "root.a", "runtime:3000")
    assert not world.runs("silent")
    assert not world.runs("long")
    world.one("short", "root.a", "runtime:2000")
    assert world.runs("short")
    assert world.kept("g") == 1


def test_who_runs_longer_than_it_said_moves_the_reservation_and_goes_on() -> None:
    world = filled(runs=("runtime:4000",))
    world.step(100.0 + BOUND_S)
    world.one("short", "root.a", "runtime:2000")
    world.step(4_100.0)
    for name in ("r5", "r6"):
        world.end(name)
    world.step(4_200.0)
    assert world.runs("short")
    assert not world.runs("g")
    assert world.reserved["g"].ready_s is None
    world.end("short")
    world.step(4_300.0)
    assert world.runs("g")


def test_of_a_virtual_cluster_one_gang_at_most_has_one() -> None:
    world = Waiting(4, 4)
    for name in ("r1", "r2", "r3", "r4", "r5"):
        world.one(name)
    for name in ("g1", "g2"):
        world.gang(name, 4, 1, "root.a", "locality:0")
    world.step(2 * BOUND_S)
    assert list(world.reserved) == ["g1"]
    world.end("g1")
    world.step(world.now_s + 1.0)
    assert list(world.reserved) == ["g2"]


def test_further_ones_keep_little_that_is_idle_and_within_the_quota_goes_first() -> None:
    world = Waiting(*[10] * 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=40)
    for turn in range(4):
        world.gang(f"r{turn}", 1, 7, "root.a")
    world.gang("a1", 1, 10, "root.a", "locality:0")
    world.step(100.0)
    world.gang("b1", 1, 10, "root.b", "locality:0")
    world.step(100.0 + BOUND_S)
    assert sorted(world.reserved) == ["a1", "b1"]
    assert (world.kept("b1"), world.kept("a1")) == (3, 2)
    assert set(world.reserved["a1"].server_ids) != set(world.reserved["b1"].server_ids)


def test_a_server_that_goes_moves_it() -> None:
    world = filled()
    world.step(100.0 + BOUND_S)
    (before,) = world.reserved["g"].server_ids
    world.change(server(before, 4, rack="/r0", state=ServerState.DRAINING))
    world.step(world.now_s + 1.0)
    (after,) = world.reserved["g"].server_ids
    assert after != before


def test_a_gang_that_goes_away_leaves_nothing_kept() -> None:
    world = filled()
    world.step(100.0 + BOUND_S)
    world.one("later")
    world.end("g")
    world.step(world.now_s + 1.0)
    assert world.reserved == {}
    assert world.runs("later")


def test_without_the_setting_nobody_has_one() -> None:
    world = Waiting(4, reserve_after_s=0.0)
    world.gang("r", 3, 1)
    world.gang("g", 4, 1)
    world.step(10 * BOUND_S)
    assert world.reserved == {}


def test_small_jobs_of_its_own_virtual_cluster_that_fill_its_maximum_do_not_starve_it() -> None:
    world = Waiting(4, 4)
    world.configure("root.a", maximum_gpus=6)
    for turn in range(6):
        world.one(f"r{turn}")
    world.step(100.0)
    world.gang("g", 4, 1)
    assert world.why("g").startswith("vc_maximum")
    world.step(100.0 + BOUND_S)
    assert (list(world.reserved), world.kept("g")) == (["g"], 0)
    for count, name in enumerate(("r4", "r5", "r0"), 1):
        world.end(name)
        world.one(f"own{count}")
        world.step(world.now_s + 1.0)
        assert world.kept("g") == count
        assert not world.runs(f"own{count}")
    world.end("r1")
    world.step(world.now_s + 1.0)
    assert world.runs("g")


def test_the_first_gets_also_what_others_kept_there() -> None:
    """Three of four GPUs are kept for a gang that would borrow; one within its quota needs all of both servers."""
    world = Waiting(4, 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=8)
    world.gang("r0", 1, 4, "root.a")
    world.one("r1", "root.a")
    world.step(100.0)
    world.gang("a1", 4, 1, "root.a", "locality:0")
    world.step(150.0)
    world.gang("b1", 8, 1, "root.b")
    world.step(100.0 + BOUND_S)
    assert (list(world.reserved), world.kept("a1")) == (["a1"], 3)
    world.step(150.0 + BOUND_S)
    assert sorted(world.reserved) == ["a1", "b1"]
    assert (world.kept("a1"), world.kept("b1")) == (0, 3)
    world.end("r1")
    world.end("r0")
    world.step(world.now_s + 1.0)
    assert world.runs("b1")


def test_who_has_a_reservation_may_have_others_stopped_and_then_has_it_no_more() -> None:
    world = borrowed(reserve_after_s=60.0, preempt_after_s=120.0)
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + 60.0)
    assert [one.job_id for one in world.engine.reservations()] == ["b1"]
    world.step(1_000.0 + 120.0)
    assert world.warned() == ["a2"]
    assert world.engine.reservations() == ()
    world.step(1_000.0 + 150.0)
    assert world.runs("b1")


def test_who_can_have_no_place_now_leaves_the_reservation_to_the_next() -> None:
    world = Waiting(4, 4)
    world.gang("r", 8, 1)
    world.gang("large", 8, 1)
    world.step(10.0)
    world.gang("g", 4, 1)
    world.change(server("s1", 4, rack="/r0", state=ServerState.DRAINING))
    world.step(BOUND_S + 10.0)
    assert list(world.reserved) == ["g"]
    world.change(server("s1", 4, rack="/r0"))
    world.end("g")
    world.step(world.now_s + 60.0)
    assert list(world.reserved) == ["large"]


def test_what_is_kept_is_shown() -> None:
    world = filled(runs=("runtime:4000",))
    world.step(100.0 + BOUND_S)
    (shown,) = world.engine.reservations()
    assert (shown.job_id, shown.vc, shown.gpus, shown.kept_gpus, shown.over_quota) == ("g", "root.a", 4, 2, False)
    assert shown.servers == (("s1", 4, 2),)
    assert (shown.since_s, shown.ready_s, shown.awaited) == (100.0 + BOUND_S, 4_000.0, ("r5", "r6"))
    outlook = world.engine.outlook("g")
    assert outlook is not None
    assert outlook.starts_in_s == 4_000.0 - world.now_s
    assert outlook.job_ids == ("r5", "r6")


def test_a_gang_is_due_behind_single_containers_that_want_the_same() -> None:
    """Who asks for containers one by one gets no reservation, and does not keep the gang after it from one."""
    world = Waiting(4)
    world.gang("a1", 4, 1, "root.b")
    world.singles("plain", 1, 1, priority=1)
    world.one("gang")
    world.step(world.now_s + BOUND_S)
    assert list(world.reserved) == ["gang"]


def test_who_waits_behind_one_that_went_in_vain_is_looked_at_all_the_same() -> None:
    """The first of the line finds no place while a server drains, and then ends."""
    world = Waiting(4, 4)
    world.gang("r", 8, 1)
    for name in ("first", "second"):
        world.gang(name, 8, 1)
    world.change(server("s1", 4, rack="/r0", state=ServerState.DRAINING))
    world.step(BOUND_S)
    assert world.reserved == {}
    world.end("first")
    world.change(server("s1", 4, rack="/r0"))
    world.step(BOUND_S + 60.0)
    assert list(world.reserved) == ["second"]


def test_many_who_can_have_no_place_now_do_not_hide_who_can() -> None:
    """A queue's gangs for which only a server that drains is large enough waited longer than one for which others would do."""
    world = Waiting(4, 16)
    world.one("r")
    world.gang("rest", 1, 3)
    world.gang("all", 1, 16)
    for turn in range(3 * LOOKED_AT_MAX):
        world.gang(f"large{turn}", 1, 5 + turn % 12, "root.a")
    world.step(10.0)
    world.gang("g", 4, 1, "root.a", "locality:0")
    world.change(server("s1", 16, rack="/r0", state=ServerState.DRAINING))
    world.step(10.0 + BOUND_S + 12 * REPLAN_MIN_S)
    assert list(world.reserved) == ["g"]


def test_the_wait_goes_on_while_the_resource_manager_is_lost() -> None:
    """What was kept is let go, as all that was decided; who waits is looked at all the same."""
    world = filled()
    world.step(100.0 + BOUND_S)
    assert world.kept("g") == 2
    world.apply(ResourceManagerLost(now_s=world.now_s))
    assert (world.kept("g"), world.engine.reservations()) == (0, ())
    assert world.engine.audit() == []
    assert "root.a" in world.engine._core.reservations.overdue


def test_so_does_the_wait_of_who_has_not_waited_too_long_yet() -> None:
    world = filled()
    world.apply(ResourceManagerLost(now_s=world.now_s))
    assert world.engine.audit() == []
    assert world.engine._core.reservations.agenda.next_s() == 100.0 + BOUND_S
