"""Cards that change their slots, go and come back: what waits for an operator goes with them."""

from __future__ import annotations

import pytest

from tests.engine.monitored import Monitored, xids
from tests.engine.world import server
from yarn_gpu_sched.engine.events import HealthRestored, TelemetryChanged
from yarn_gpu_sched.model.health import Fault, GpuReport, Health, MarkAction, Telemetry


@pytest.mark.parametrize("slots", [(0, 2, 1, 3), (3, 2, 1, 0), (0, None, 1, 2), (0, None, 2, 1), (None, 3, 0, 1)])
@pytest.mark.parametrize("restarted", [False, True])
def test_what_waits_for_an_operator_goes_with_its_card_into_another_slot(
    slots: tuple[int | None, ...], *, restarted: bool
) -> None:
    """Cards change slots when the monitor has lost its state directory, and when people move them."""
    world = Monitored("s1")
    world.report("s1", GpuReport(2, "GPU-s1-2", xids=xids(79)))
    world.mark("s1", MarkAction.QUARANTINE, 3)
    if restarted:
        kept = world.engine.kept_health()
        world = Monitored()
        world.apply(HealthRestored(now_s=world.now_s, hosts=kept))
        world.up(server("s1"))
        world.apply(TelemetryChanged(now_s=world.now_s, host="s1", telemetry=Telemetry.LIVE, slots=4))
    for shift in (slots, (0, 1, 2, 3)):
        world.report("s1", *(GpuReport(new, f"GPU-s1-{old}") for old, new in enumerate(shift) if new is not None))
        where = {gpu.gpu.uuid: gpu.gpu for gpu in world.host("s1").gpus if gpu.gpu.uuid}
        out = {uuid: gpu.sticky for uuid, gpu in where.items() if gpu.health is not Health.OK}
        assert out == {"GPU-s1-2": (Fault.XID_79,), "GPU-s1-3": (Fault.OPERATOR,)}
        assert where["GPU-s1-3"].mark is not None
        assert world.free() <= 2


def test_a_card_that_was_out_and_went_is_out_when_it_comes_back_also_after_a_restart() -> None:
    world = Monitored("s1")
    world.report("s1", GpuReport(2, "GPU-s1-2", xids=xids(79)))
    world.report("s1", GpuReport(2, "GPU-new"))
    assert (world.health("s1", 2), world.free()) == (Health.OK, 4)
    kept = world.engine.kept_health()
    again = Monitored("s1")
    again.report("s1", GpuReport(2, "GPU-new"))
    again.apply(HealthRestored(now_s=again.now_s, hosts=kept))
    for one in (world, again):
        one.report("s1", GpuReport(1, "GPU-s1-2"))
        assert (one.health("s1", 1), one.health("s1", 2), one.free()) == (Health.QUARANTINED, Health.OK, 3)
        one.mark("s1", MarkAction.ACK, 1)
        one.report("s1", GpuReport(1, "GPU-s1-2"))
        one.wait(61.0)
        one.report("s1", GpuReport(1, "GPU-s1-1"), GpuReport(3, "GPU-s1-2"))
        assert (one.health("s1", 3), one.free()) == (Health.OK, 4)


def test_cards_without_end_in_one_slot_are_remembered_to_a_bound() -> None:
    world = Monitored("s1")
    for number in range(200):
        world.report("s1", GpuReport(0, f"GPU-{number}", xids=xids(79)))
    assert len(world.host("s1").record.away) == 64
