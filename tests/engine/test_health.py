"""Health of GPUs: what telemetry says becomes a state, and what is not well is not given out. docs/health.md is this in a table."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.engine.monitored import Monitored, xids
from tests.engine.world import ask, server, worker
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.commands import HealthChanged
from yarn_gpu_sched.engine.events import GpusReported, TelemetryChanged
from yarn_gpu_sched.model.health import AT_ONCE, XID_FAULTS, Fault, GpuReport, Health, MarkAction, Telemetry


def test_a_gpu_is_suspect_after_three_bad_readings_and_ok_after_a_minute_of_good_ones() -> None:
    world = Monitored("s1")
    world.reads("s1", 0, Fault.THROTTLED, times=2)
    assert world.health("s1", 0) is Health.OK
    world.reads("s1", 0, Fault.THROTTLED)
    assert (world.health("s1", 0), world.free()) == (Health.SUSPECT, 3)
    world.reads("s1", 0)
    world.wait(58.0)
    assert world.health("s1", 0) is Health.SUSPECT
    world.wait(1.5)
    assert (world.health("s1", 0), world.free()) == (Health.OK, 4)


def test_telemetry_that_flaps_does_not_flap_the_state() -> None:
    world = Monitored("s1")
    states = []
    for number in range(200):
        world.reads("s1", 1, *([Fault.THROTTLED] if number % 2 else []))
        states.append(world.health("s1", 1))
    assert set(states) == {Health.OK}
    world.reads("s1", 1, Fault.THROTTLED, times=3)
    for number in range(200):
        world.reads("s1", 1, *([Fault.THROTTLED] if number % 2 else []))
        states.append(world.health("s1", 1))
    assert Health.OK not in states[200:]  # well for a second is not well for a minute
    assert sum(before is not after for before, after in pairwise(states)) <= 2


def test_a_suspect_gpu_that_stays_bad_is_quarantined_and_comes_back_by_itself() -> None:
    world = Monitored("s1")
    world.reads("s1", 0, Fault.THROTTLED, times=3)
    world.wait(60.0)
    assert (world.health("s1", 0), world.gpu("s1", 0).needs_ack) == (Health.QUARANTINED, False)
    world.reads("s1", 0)
    assert world.health("s1", 0) is Health.RECOVERING
    world.reads("s1", 0, Fault.THROTTLED, times=3)
    assert world.health("s1", 0) is Health.QUARANTINED
    world.reads("s1", 0)
    world.wait(60.0)
    assert world.health("s1", 0) is Health.OK


@pytest.mark.parametrize("xid", sorted(XID_FAULTS))
def test_an_xid_of_broken_hardware_takes_only_that_gpu_out_until_it_is_acknowledged(xid: int) -> None:
    world = Monitored("s1")
    world.report("s1", GpuReport(2, "GPU-s1-2", xids=xids(xid)))
    assert (world.health("s1", 2), world.gpu("s1", 2).needs_ack, world.free()) == (Health.QUARANTINED, True, 3)
    world.reads("s1", 2, times=3)
    world.wait(1_000.0)
    assert world.health("s1", 2) is Health.QUARANTINED
    world.mark("s1", MarkAction.ACK, 2)
    assert world.health("s1", 2) is Health.RECOVERING
    world.wait(60.0)
    assert (world.health("s1", 2), world.free()) == (Health.OK, 4)


def test_an_xid_of_a_program_is_shown_and_changes_nothing() -> None:
    world = Monitored("s1")
    world.report("s1", GpuReport(2, "GPU-s1-2", xids=xids(13, 31, 43)))
    assert (world.health("s1", 2), world.free()) == (Health.OK, 4)
    assert [one.xid for one in world.gpu("s1", 2).gpu.xids] == [13, 31, 43]


def test_c20_two_equal_xids_count_twice_and_an_old_one_does_not_quarantine_again_after_ack() -> None:
    world = Monitored("s1")
    for _ in range(2):
        world.report("s1", GpuReport(0, "GPU-s1-0", xids=xids(79)))
    assert [one.xid for one in world.gpu("s1", 0).gpu.xids] == [79, 79]
    world.mark("s1", MarkAction.ACK)
    world.reads("s1", 0, times=5)
    world.wait(60.0)
    assert world.health("s1", 0) is Health.OK
    world.report(
        "s1", GpuReport(0, "GPU-s1-0", xids=xids(79, at_s=-5.0))
    )  # told again: it is from before the acknowledgement
    assert world.health("s1", 0) is Health.OK
    world.report("s1", GpuReport(0, "GPU-s1-0", xids=xids(79)))
    assert world.health("s1", 0) is Health.QUARANTINED


def test_uncorrectable_ecc_errors_quarantine_until_acknowledged_and_only_new_ones_again() -> None:
    world = Monitored("s1")
    world.report("s1", GpuReport(0, "GPU-s1-0", ecc_uncorrected=3))
    assert (world.health("s1", 0), world.gpu("s1", 0).gpu.faults) == (Health.QUARANTINED, (Fault.ECC_UNCORRECTABLE,))
    world.mark("s1", MarkAction.ACK, 0)
    world.report("s1", GpuReport(0, "GPU-s1-0", ecc_uncorrected=3))
    world.wait(60.0)
    assert world.health("s1", 0) is Health.OK
    world.report("s1", GpuReport(0, "GPU-s1-0", ecc_uncorrected=0))  # the driver was loaded again
    world.report("s1", GpuReport(0, "GPU-s1-0", ecc_uncorrected=1))
    assert world.health("s1", 0) is Health.QUARANTINED


def test_a_gpu_that_vanishes_shrinks_the_server_at_once_and_what_is_over_committed_is_shown() -> None:
    world = Monitored("s1")
    world.submit("j", "gang:1x4")
    world.ask("j", ask(1, worker(4)))
    world.run()
    world.report("s1", world.said("s1", 1, present=False))
    view = world.host("s1")
    assert (view.gpus_counted, view.gpus_healthy, view.gpus_over_committed) == (4, 3, 1)
    assert world.health("s1", 1) is Health.SUSPECT
    assert [one.container_id for one in world.live("j")] == ["k0"]  # what runs goes on
    for _ in range(2):
        world.report("s1", world.said("s1", 1, present=False))
    assert (world.health("s1", 1), world.gpu("s1", 1).needs_ack) == (Health.QUARANTINED, True)
    world.mark("s1", MarkAction.ACK, 1)
    assert world.health("s1", 1) is Health.QUARANTINED  # there is no card to recover
    world.report("s1", world.said("s1", 1))
    world.mark("s1", MarkAction.ACK, 1)
    world.wait(60.0)
    assert (world.health("s1", 1), world.host("s1").gpus_over_committed) == (Health.OK, 0)


def test_yarn_that_counts_a_vanished_gpu_no_more_does_not_lose_another() -> None:
    """The slots stay where they are: 0, 2 and 3 are the three that the node manager counts now."""
    world = Monitored("s1")
    for _ in range(3):
        world.report("s1", world.said("s1", 1, present=False))
    world.change(server("s1", 3))
    world.submit("j", "gang:3x1")
    world.ask("j", ask(3, worker(1)))
    (decision,) = world.decide()
    assert sorted(one.gpu_indices for one in decision.assignments) == [(0,), (2,), (3,)]


def test_another_card_in_a_slot_begins_well() -> None:
    world = Monitored("s1")
    world.report("s1", GpuReport(0, "GPU-s1-0", xids=xids(48), ecc_uncorrected=9))
    world.report("s1", GpuReport(0, "GPU-new", ecc_uncorrected=0))
    assert (world.health("s1", 0), world.gpu("s1", 0).gpu.uuid) == (Health.OK, "GPU-new")


def test_c18_a_gpu_with_mig_is_not_given_out_whole() -> None:
    world = Monitored("s1")
    world.reads("s1", 0, Fault.MIG)
    view = world.host("s1")
    assert (world.health("s1", 0), view.gpus_counted, view.gpus_healthy) == (Health.QUARANTINED, 4, 3)
    world.submit("j", "gang:1x1")
    world.ask("j", ask(1, worker(1)))
    (decision,) = world.decide()
    assert decision.assignments[0].gpu_indices == (1,)
    world.reads("s1", 0)  # slices are gone
    world.wait(60.0)
    assert (world.health("s1", 0), world.gpu("s1", 0).needs_ack) == (Health.OK, False)


def test_zombie_a_gpu_is_not_given_out_again_until_a_reading_after_the_end_shows_it_free() -> None:
    world = Monitored("s1")
    world.submit("old", "gang:1x4")
    world.ask("old", ask(1, worker(4)))
    world.run()
    world.report("s1", GpuReport(0, "GPU-s1-0", occupants=("k0",)))
    world.end("old")
    world.submit("new", "gang:1x4")
    world.ask("new", ask(1, worker(4)))
    assert world.decide() == []
    assert world.gpu("s1", 0).gpu.out
    world.report("s1", GpuReport(0, "GPU-s1-0", occupants=("k0",)), released=("k0",))  # its process is still there
    assert (world.decide(), world.free()) == ([], 3)
    world.report("s1", GpuReport(0, "GPU-s1-0"))
    assert len(world.decide()) == 1


def test_zombie_a_reading_from_before_the_end_frees_nothing() -> None:
    world = Monitored("s1")
    world.submit("old", "gang:1x4")
    world.ask("old", ask(1, worker(4)))
    world.run()
    world.end("old")
    world.report("s1", *(GpuReport(slot, f"GPU-s1-{slot}") for slot in range(4)))
    assert world.free() == 0
    world.report("s1", released=("k0",))
    assert world.free() == 4


def test_zombie_that_does_not_go_is_an_alarm_and_the_gpu_is_well_again_a_minute_after_it_went() -> None:
    world = Monitored("s1")
    world.submit("old", "gang:1x1")
    world.ask("old", ask(1, worker(1)))
    world.run()
    world.report("s1", GpuReport(0, "GPU-s1-0", occupants=("k0",)))
    world.end("old")
    world.wait(59.0)
    assert world.health("s1", 0) is Health.OK
    world.wait(1.0)
    assert (world.health("s1", 0), world.gpu("s1", 0).gpu.faults) == (Health.SUSPECT, (Fault.NOT_FREE,))
    world.report("s1", GpuReport(0, "GPU-s1-0"), released=("k0",))
    world.wait(60.0)
    assert (world.health("s1", 0), world.free()) == (Health.OK, 4)


def test_a_stranger_on_a_free_gpu_keeps_it_from_being_given_out() -> None:
    world = Monitored("s1")
    world.report("s1", GpuReport(3, "GPU-s1-3", occupants=("pid 4711 of root",)))
    assert world.free() == 3
    world.wait(60.0)
    assert world.health("s1", 3) is Health.SUSPECT
    world.report("s1", GpuReport(3, "GPU-s1-3"))
    world.wait(60.0)
    assert (world.health("s1", 3), world.free()) == (Health.OK, 4)


def test_who_holds_a_gpu_may_be_on_it() -> None:
    world = Monitored("s1")
    world.submit("j", "gang:1x2")
    world.ask("j", ask(1, worker(2)))
    world.run()
    world.report("s1", *(GpuReport(slot, f"GPU-s1-{slot}", occupants=("k0",)) for slot in (0, 1)))
    world.wait(1_000.0)
    assert [world.health("s1", slot) for slot in range(4)] == [Health.OK] * 4
    assert world.free() == 2


@pytest.mark.parametrize("telemetry", [Telemetry.SILENT, Telemetry.UNREADABLE])
def test_a_server_without_telemetry_is_unknown_nothing_new_goes_there_and_nothing_is_stopped(
    telemetry: Telemetry,
) -> None:
    world = Monitored("s1")
    world.submit("runs", "gang:1x1")
    world.ask("runs", ask(1, worker(1)))
    world.run()
    for _ in range(3):
        world.telemetry("s1", telemetry, "gone quiet")
    world.submit("waits", "gang:1x1")
    world.ask("waits", ask(1, worker(1)))
    before = len(world.commands)
    world.wait(10_000.0)
    assert [type(one).__name__ for one in world.commands[before:]] == []
    assert (len(world.live("runs")), world.engine.cluster().capacity.gpus) == (1, 4)
    view = world.host("s1")
    assert (view.unknown, view.gpus_healthy, view.record.detail) == (True, 4, "gone quiet")
    world.telemetry("s1")
    world.wait(60.0)
    assert len(world.places) == 2


def test_c16_a_driver_mismatch_of_five_minutes_leaves_the_jobs_and_the_capacity_and_goes_by_itself() -> None:
    world = Monitored("s1", "s2")
    world.submit("runs", "gang:2x4")
    world.ask("runs", ask(2, worker(4)))
    world.run()
    quota_base = world.engine.cluster().capacity.gpus
    for _ in range(2):
        world.telemetry("s1", Telemetry.UNREADABLE, "Driver/library version mismatch")
        world.now_s += 1.0
    assert not world.host("s1").unknown  # no verdict yet
    for _ in range(298):
        world.telemetry("s1", Telemetry.UNREADABLE, "Driver/library version mismatch")
        world.now_s += 1.0
    assert (world.host("s1").unknown, world.host("s1").record.detail) == (True, "Driver/library version mismatch")
    assert (len(world.live("runs")), world.engine.cluster().capacity.gpus) == (2, quota_base)
    world.telemetry("s1")
    world.wait(59.0)
    assert world.host("s1").unknown
    world.wait(1.0)
    assert not world.host("s1").unknown


def test_what_is_due_at_once_is_done_by_the_next_pass_and_wakes_nobody_again() -> None:
    """A GPU that was suspect for long, and reads badly often enough only now: its time has come already."""
    world = Monitored("s1")
    world.reads("s1", 0, Fault.THROTTLED, times=3)
    world.reads("s1", 0)
    world.now_s += 50.0
    world.reads("s1", 0, Fault.THROTTLED, times=3, every_s=0.0)
    assert world.health("s1", 0) is Health.SUSPECT
    world.now_s += 10.0
    world.reads("s1", 0, Fault.THROTTLED, every_s=0.0)
    world.wait(0.0)
    assert world.health("s1", 0) is Health.QUARANTINED
    assert (next_s := world.engine.next_wake_s()) is None or next_s > world.now_s


def test_good_readings_from_before_a_silence_count_no_more() -> None:
    world = Monitored("s1")
    world.reads("s1", 0, Fault.THROTTLED, times=3)
    world.reads("s1", 0)
    world.wait(50.0)
    world.telemetry("s1", Telemetry.SILENT)
    world.wait(50.0)
    assert world.health("s1", 0) is Health.SUSPECT
    world.telemetry("s1")
    world.wait(59.0)
    assert world.health("s1", 0) is Health.SUSPECT
    world.wait(1.0)
    assert world.health("s1", 0) is Health.OK


def test_a_hold_on_a_gpu_that_falls_ill_is_let_go() -> None:
    world = Monitored("s1", "s2")
    world.submit("gang", "gang:2x2")
    world.ask("gang", ask(2, worker(2)))
    world.run()
    lost = world.live("gang")[0]
    world.release(lost.container_id, lost=True)
    world.report(lost.server_id, released=(lost.container_id,))
    held = [one for one in world.engine._core.state.decisions.values() if one.hold_until_s is not None]
    assert [one.parts[0].use.server_id for one in held] == [lost.server_id]
    world.report(lost.server_id, GpuReport(lost.gpu_indices[0], "", xids=xids(79)))
    assert [one for one in world.engine._core.state.decisions.values() if one.hold_until_s is not None] == []
    world.ask("gang", ask(1, worker(2)))
    (decision,) = world.decide()
    assert (
        decision.assignments[0].server_id != lost.server_id
        or lost.gpu_indices[0] not in decision.assignments[0].gpu_indices
    )


def test_the_place_of_a_lost_member_is_held_once_it_is_seen_free() -> None:
    world = Monitored("s1")
    world.submit("gang", "gang:2x2")
    world.ask("gang", ask(2, worker(2)))
    world.run()
    lost = world.live("gang")[0]
    world.release(lost.container_id, lost=True)
    world.submit("other", "gang:1x2")
    world.ask("other", ask(1, worker(2)))
    assert world.decide() == []
    world.report("s1", released=(lost.container_id,))
    assert world.decide() == []  # held for the replacement
    world.ask("gang", ask(1, worker(2)))
    (decision,) = world.decide()
    assert (decision.job_id, decision.assignments[0].gpu_indices) == ("gang", lost.gpu_indices)


def test_a_server_that_nobody_watches_gives_its_gpus_out_at_once() -> None:
    world = Monitored()
    world.up(server("s1"))
    world.submit("old", "gang:1x4")
    world.ask("old", ask(1, worker(4)))
    world.run()
    world.end("old")
    assert world.free() == 4


def test_reports_of_a_host_without_telemetry_are_ignored() -> None:
    engine = Engine()
    assert engine.apply(GpusReported(now_s=0.0, host="s1", gpus=(GpuReport(0, "GPU-a", xids=xids(79)),))) == []
    assert engine.kept_health() == ()


def test_a_valid_reading_of_no_gpus_is_not_a_failure_to_read() -> None:
    """What YARN counts beyond the cards that there are is not given out."""
    world = Monitored()
    world.apply(TelemetryChanged(now_s=0.0, host="s1", telemetry=Telemetry.LIVE, slots=0))
    world.up(server("s1"))
    view = world.host("s1")
    assert (view.unknown, view.gpus_counted, view.gpus_healthy, world.free()) == (False, 4, 0, 0)
    world.apply(TelemetryChanged(now_s=0.0, host="s1", telemetry=Telemetry.LIVE, slots=3))
    assert (world.host("s1").gpus_healthy, world.free()) == (3, 3)


def test_whoever_keeps_health_hears_of_each_change_once() -> None:
    world = Monitored("s1")
    commands = world.apply(GpusReported(now_s=1.0, host="s1", gpus=(GpuReport(0, "GPU-s1-0", xids=xids(79)),)))
    assert commands == [HealthChanged(host="s1")]


def test_a_placement_level_counts_only_healthy_gpus() -> None:
    """With a GPU out on each server a gang of 4 x 1 has its fewest servers at two: it goes there at once."""
    world = Monitored("s1", "s2")
    for host in ("s1", "s2"):
        world.report(host, GpuReport(0, f"GPU-{host}-0", xids=xids(48)))
    assert world.engine._core.index.partition("").gpus == 6
    world.submit("j", "gang:4x1", "locality:0")
    world.ask("j", ask(4, worker(1)))
    assert len(world.decide()) == 1


def test_faults_that_quarantine_at_once_do_so_on_one_reading() -> None:
    assert {Fault.MIG, Fault.OPERATOR, Fault.ECC_UNCORRECTABLE} <= AT_ONCE
    world = Monitored("s1")
    world.reads("s1", 0, Fault.MIG)
    assert world.health("s1", 0) is Health.QUARANTINED
