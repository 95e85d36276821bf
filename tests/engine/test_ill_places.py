"""Servers where somebody goes on on a GPU that has fallen ill: what they lend, keep and foretell is what really comes free."""

from __future__ import annotations

import pytest

from tests.engine.monitored import Monitored, xids
from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.commands import RequeueJob, WarnJob
from yarn_gpu_sched.engine.events import GpusReported, HealthRestored, TelemetryChanged
from yarn_gpu_sched.model.health import Fault, GpuReport, Health, KeptGpu, KeptHost, MarkAction, Telemetry
from yarn_gpu_sched.model.preemption import Mode

QUICK = EngineSettings(
    policy="philly",
    reserve_after_s=5.0,
    preemption=Mode.ON,
    preempt_after_s=2.0,
    preempt_grace_s=0.0,
    preempt_hold_s=5.0,
    preempt_min_run_s=0.0,
    preempt_pause_s=0.0,
)


def full(quota: int, settings: EngineSettings = QUICK) -> Monitored:
    """Fill a server with four jobs of a queue, of which one runs on a broken GPU."""
    world = Monitored("s1", settings=settings)
    world.configure("root.a", quota_gpus=quota)
    world.configure("root.b", quota_gpus=4)
    for number in range(4):
        world.submit(f"a{number}", "gang:1x1")
        world.ask(f"a{number}", ask(1, worker(1)))
        world.run()
        world.now_s += 1.0
    assert [one.gpu_indices for number in range(4) for one in world.live(f"a{number}")] == [(0,), (1,), (2,), (3,)]
    world.report("s1", GpuReport(0, "GPU-s1-0", xids=xids(79)))
    return world


def test_a_job_on_a_broken_gpu_does_not_keep_a_gang_from_its_reservation() -> None:
    world = full(quota=4)
    world.submit("big", "gang:1x3", vc="root.b")
    world.ask("big", ask(1, worker(3)))
    world.decide()
    world.wait(5.0)
    (reservation,) = world.engine.reservations()
    assert (reservation.job_id, reservation.servers) == ("big", (("s1", 3, 0),))
    assert reservation.awaited == ("a1", "a2", "a3")  # not a0: its GPU is no use to anybody
    for number in (1, 2, 3):
        (one,) = world.live(f"a{number}")
        world.end(f"a{number}")
        world.report("s1", released=(one.container_id,))
        world.submit(f"b{number}", "gang:1x1")
        world.ask(f"b{number}", ask(1, worker(1)))
        world.decide()
    assert [one.gpu_indices for one in world.places[-1].assignments] == [(1, 2, 3)]


def test_a_reservation_awaits_who_holds_healthy_gpus_and_counts_only_those() -> None:
    world = Monitored("s1", settings=QUICK)
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    for name, gpus in (("a1", 2), ("a2", 1), ("a3", 1)):
        world.submit(name, f"gang:1x{gpus}")
        world.ask(name, ask(1, worker(gpus)))
        world.run()
        world.now_s += 1.0
    world.report("s1", GpuReport(0, "GPU-s1-0", xids=xids(79)))
    world.submit("big", "gang:1x3", vc="root.b")
    world.ask("big", ask(1, worker(3)))
    world.decide()
    world.wait(5.0)
    (reservation,) = world.engine.reservations()
    assert reservation.awaited == ("a1", "a2", "a3")


def test_a_server_that_counts_fewer_gpus_than_are_held_there_can_be_reserved() -> None:
    """Its resource manager was told of two GPUs while four jobs ran: once they end it has room for who waits."""
    world = World(QUICK).up(server("s1", 4))
    world.configure("root.a", quota_gpus=4)
    world.configure("root.b", quota_gpus=4)
    for number in range(4):
        world.submit(f"a{number}", "gang:1x1")
        world.ask(f"a{number}", ask(1, worker(1)))
    world.run()
    world.change(server("s1", 2))
    world.submit("big", "gang:1x2", vc="root.b")
    world.ask("big", ask(1, worker(2)))
    world.decide()
    world.now_s += 10.0
    world.decide()
    assert [one.job_id for one in world.engine.reservations()] == ["big"]
    for number in range(4):
        world.end(f"a{number}")
        world.decide()
    assert [one.gpu_indices for one in world.places[-1].assignments] == [(0, 1)]


def test_of_many_who_may_be_stopped_the_cheapest_are_found_where_the_very_cheapest_hold_a_broken_gpu() -> None:
    """By counts alone those on s1 would do, and who is tried one after another then costs more than who is found."""
    world = World(QUICK).up(*(server(name, 2) for name in ("s1", "s2", "s3")), *(server(f"t{n}", 1) for n in range(14)))
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=4)

    def run_on(name: str, host: str, gpus: int = 1) -> None:
        world.submit(name, f"gang:1x{gpus}")
        world.ask(name, ask(1, worker(gpus), at={host: 1}, strict=True))
        world.run()

    run_on("old1", "s3")
    run_on("old2", "s3")
    world.now_s = 290.0
    run_on("wide", "s2", 2)
    for number in range(14):
        run_on(f"t{number}", f"t{number}")
    run_on("on_broken", "s1")
    run_on("beside", "s1")
    world.apply(TelemetryChanged(now_s=world.now_s, host="s1", telemetry=Telemetry.LIVE, slots=2))
    world.apply(GpusReported(now_s=world.now_s, host="s1", gpus=(GpuReport(0, "GPU-a", xids=xids(79)),)))
    world.submit("back", "gang:1x2", vc="root.b")
    world.ask("back", ask(1, worker(2)))
    world.decide()
    world.now_s += 10.0
    world.decide()
    assert {one.job_id for one in world.commands if isinstance(one, RequeueJob)} == {"wide"}


def test_a_job_on_a_broken_gpu_does_not_shield_others_from_being_stopped_and_is_not_stopped_in_vain() -> None:
    world = full(quota=1)
    world.submit("back", "gang:1x2", vc="root.b")
    world.ask("back", ask(1, worker(2)))
    world.decide()
    world.wait(2.0)
    stopped = {one.job_id for one in world.commands if isinstance(one, RequeueJob)}
    assert stopped == {"a2", "a3"}  # the youngest
    (plan,) = world.engine.preemption().plans
    assert plan.servers == (("s1", 2),)


def test_three_gpus_are_not_taken_back_where_one_of_four_is_broken_and_only_two_jobs_borrow_beside_it() -> None:
    world = full(quota=2)  # a0 and a1 are within it
    world.submit("back", "gang:1x3", vc="root.b")
    world.ask("back", ask(1, worker(3)))
    world.decide()
    world.wait(100.0)
    assert not [one for one in world.commands if isinstance(one, RequeueJob | WarnJob)]
    assert world.engine.preempt_preview("back").condition == "too_few"  # type: ignore[union-attr] # the job is known


def test_what_is_held_for_a_gang_is_held_for_a_bounded_time_whatever_comes_and_goes_on_its_gpus() -> None:
    """One alarm time beyond the hold, and not one more for each stranger."""
    world = full(quota=1)
    world.submit("back", "gang:1x2", vc="root.b")
    world.ask("back", ask(1, worker(2)))
    world.decide()
    world.wait(2.0)
    world.run()
    for number in (2, 3):
        world.release_all(f"a{number}")
    began_s = world.now_s
    for turn in range(100):
        strangers = [("?",), ()] if turn % 2 else [(), ("?",)]
        gone = tuple(gpu.gpu.released for gpu in world.host("s1").gpus if gpu.gpu.released)
        world.report(
            "s1",
            *(GpuReport(2 + slot, f"GPU-s1-{2 + slot}", occupants=one) for slot, one in enumerate(strangers)),
            released=gone,
        )
        world.wait(1.0)
        if not world.engine.preemption().plans:
            break
    held_s = world.now_s - began_s
    most_s = QUICK.preempt_hold_s + QUICK.zombie_alarm_s
    assert QUICK.preempt_hold_s < held_s <= most_s + 1.0


@pytest.mark.parametrize("sticky", [(), (Fault.XID_79,)])
def test_what_is_restored_of_a_gpu_that_is_recovering_does_not_let_it_recover_unasked(
    sticky: tuple[Fault, ...],
) -> None:
    world = Monitored("s1")
    world.report("s1", GpuReport(0, "GPU-s1-0", xids=xids(48)))
    world.mark("s1", MarkAction.ACK)
    assert world.health("s1", 0) is Health.RECOVERING
    kept = KeptHost("s1", watched=True, gpus=(KeptGpu(0, "GPU-s1-0", sticky),))
    world.apply(HealthRestored(now_s=world.now_s, hosts=(kept,)))
    world.wait(1_000.0)
    assert world.health("s1", 0) is (Health.QUARANTINED if sticky else Health.OK)


def test_what_is_held_for_a_gang_stays_held_while_a_stranger_is_on_it() -> None:
    world = full(quota=1)
    world.submit("back", "gang:1x2", vc="root.b")
    world.ask("back", ask(1, worker(2)))
    world.decide()
    world.wait(2.0)
    world.run()
    for number in (2, 3):
        world.release_all(f"a{number}")
    for occupied, held in (((3,), 0b0100), ((2,), 0b1100), ((3,), 0b1100)):
        gone = tuple(gpu.gpu.released for gpu in world.host("s1").gpus if gpu.gpu.released)
        said = [GpuReport(slot, f"GPU-s1-{slot}", occupants=("?",) if slot in occupied else ()) for slot in (2, 3)]
        world.report("s1", *said, released=gone)
        assert world.decide() == []
        assert world.engine.held() == {"back": (("s1", held),)}
    world.report("s1", world.said("s1", 3))
    (decision,) = world.decide()
    assert (decision.job_id, decision.assignments[0].gpu_indices) == ("back", (2, 3))


def test_the_place_of_a_lost_member_stays_held_while_a_stranger_is_on_it() -> None:
    world = Monitored("s1")
    world.submit("gang", "gang:2x2")
    world.ask("gang", ask(2, worker(2)))
    world.run()
    lost = world.live("gang")[0]
    world.release(lost.container_id, lost=True)
    world.report("s1", released=(lost.container_id,))
    world.report("s1", GpuReport(lost.gpu_indices[0], "", occupants=("?",)))
    world.ask("gang", ask(1, worker(2)))
    world.submit("other", "gang:1x1")
    world.ask("other", ask(1, worker(1)))
    assert world.decide() == []
    world.report("s1", GpuReport(lost.gpu_indices[0], ""))
    (decision,) = world.decide()
    assert (decision.job_id, decision.assignments[0].gpu_indices) == ("gang", lost.gpu_indices)


@pytest.mark.parametrize(("fault", "present"), [(Fault.MIG, True), (Fault.MIG, False), (Fault.THROTTLED, True)])
def test_what_a_slot_showed_goes_with_the_card_that_is_told_in_another_one(fault: Fault, present: bool) -> None:  # noqa: FBT001 # a column of the table
    world = Monitored("s1")
    world.report("s1", world.said("s1", 0, fault, present=present))
    world.report("s1", GpuReport(3, "GPU-s1-0"))
    gpu = world.gpu("s1", 0).gpu
    assert (gpu.uuid, gpu.levels, gpu.health) == ("", (), Health.OK)
