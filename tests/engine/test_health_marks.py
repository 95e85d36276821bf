"""What operators say of servers and GPUs, and what outlasts a restart."""

from __future__ import annotations

from tests.engine.monitored import Monitored, xids
from tests.engine.world import ask, server, worker
from yarn_gpu_sched.engine.events import HealthRestored
from yarn_gpu_sched.model.health import Fault, GpuReport, Health, MarkAction, Telemetry


def test_draining_lets_what_runs_go_on_and_undraining_brings_the_server_back() -> None:
    world = Monitored("s1")
    world.submit("runs", "gang:1x1")
    world.ask("runs", ask(1, worker(1)))
    world.run()
    assert world.engine.foretell_mark("s1", MarkAction.DRAIN, None) == [
        "nothing new is placed on s1; what runs there goes on"
    ]
    world.mark("s1", MarkAction.DRAIN)
    assert world.engine.foretell_mark("s1", MarkAction.DRAIN, None) == []
    world.change(server("s2", 1))
    world.submit("fills", "gang:1x1")
    world.ask("fills", ask(1, worker(1)))
    world.run()
    world.submit("waits", "gang:1x1")
    world.ask("waits", ask(1, worker(1)))
    assert (world.decide(), len(world.live("runs"))) == ([], 1)
    assert world.why("waits").startswith("unhealthy: ")
    world.mark("s1", MarkAction.UNDRAIN)
    assert len(world.decide()) == 1


def test_who_does_not_fit_on_what_is_well_is_told_what_is_not() -> None:
    world = Monitored("s1")
    world.submit("waits", "gang:1x4")
    world.ask("waits", ask(1, worker(4)))
    world.mark("s1", MarkAction.QUARANTINE, 1)
    assert world.decide() == []
    said = world.why("waits")
    assert said.startswith("never_fits_now: ")
    assert "1 GPUs are not given out, because they or their servers are not well, or drain" in said
    world.mark("s1", MarkAction.DRAIN)
    assert "; 4 GPUs are not given out" in world.why("waits")


def test_an_operator_takes_one_gpu_out_and_gives_it_back() -> None:
    world = Monitored("s1")
    world.mark("s1", MarkAction.QUARANTINE, 1)
    assert (world.health("s1", 1), world.gpu("s1", 1).gpu.faults, world.free()) == (
        Health.QUARANTINED,
        (Fault.OPERATOR,),
        3,
    )
    world.reads("s1", 1, times=4)
    world.wait(1_000.0)
    assert world.health("s1", 1) is Health.QUARANTINED
    world.mark("s1", MarkAction.ACK, 1)
    world.wait(60.0)
    assert world.free() == 4


def test_what_operators_said_and_what_waits_for_them_outlasts_a_restart() -> None:
    world = Monitored("s1", "s2")
    world.mark("s2", MarkAction.DRAIN)
    world.mark("s1", MarkAction.QUARANTINE, 1)
    world.report("s1", GpuReport(2, "GPU-s1-2", xids=xids(79), ecc_uncorrected=0))
    kept = world.engine.kept_health()
    again = Monitored()
    again.apply(HealthRestored(now_s=0.0, hosts=kept))
    again.up(server("s1"), server("s2"))
    assert again.engine.kept_health() == kept
    assert (again.host("s1").unknown, again.host("s2").unknown) == (True, True)  # until their monitors speak
    for host in ("s1", "s2"):
        again.telemetry(host)
    assert [again.health("s1", slot) for slot in range(3)] == [Health.OK, Health.QUARANTINED, Health.QUARANTINED]
    again.submit("j", "gang:8x1")
    again.ask("j", ask(2, worker(1)))
    assert again.free() == 2
    again.mark("s2", MarkAction.UNDRAIN)
    assert again.free() == 6


def test_a_monitor_that_is_given_up_leaves_its_gpus_as_healthy() -> None:
    world = Monitored("s1")
    world.telemetry("s1", Telemetry.SILENT)
    assert world.engine.foretell_mark("s1", MarkAction.ACK, None) == [
        "the monitor of s1 is given up: its GPUs count as healthy until one speaks again"
    ]
    world.mark("s1", MarkAction.ACK)
    assert (world.host("s1").record.telemetry, world.free()) == (Telemetry.NONE, 4)
