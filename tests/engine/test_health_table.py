"""docs/health.md says what the engine does: each fault is tried out, and each default is that of the settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.engine.monitored import Monitored, xids
from yarn_gpu_sched.model.health import STICKY, XID_FAULTS, Fault, GpuReport, Health, MarkAction
from yarn_gpu_sched.monitor.settings import Settings as MonitorSettings
from yarn_gpu_sched.service import Settings
from yarn_gpu_sched.service.monitors.telemetry import SLOWED_BY_HARDWARE

TEXT = (Path(__file__).parents[2] / "docs" / "health.md").read_text(encoding="utf-8")
HOST, SLOT = "s1", 0
READINGS = 3
STAYS_S = 60.0
XIDS = {fault: xid for xid, fault in XID_FAULTS.items()}


def rows(heading: str) -> list[list[str]]:
    """Read the table below a heading, without its head."""
    part = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table[1:]]


FAULTS = {row[0].strip("`"): row[1:] for row in rows("Faults")}


def test_every_fault_and_no_other_has_a_row() -> None:
    assert list(FAULTS) == [fault.value for fault in Fault]


def bad_reading(world: Monitored, fault: Fault) -> None:
    """Let the monitor say once, or an operator, that a GPU has this fault."""
    well = world.said(HOST, SLOT)
    if fault is Fault.OPERATOR:
        world.mark(HOST, MarkAction.QUARANTINE, SLOT)
        return
    reports = {
        Fault.ECC_UNCORRECTABLE: GpuReport(SLOT, well.uuid, ecc_uncorrected=1),
        Fault.VANISHED: world.said(HOST, SLOT, present=False),
        Fault.NOT_FREE: GpuReport(SLOT, well.uuid, occupants=("process 4711 of root",)),
    }
    seen = xids(XIDS[fault]) if fault in XIDS else ()
    world.report(HOST, reports.get(fault) or GpuReport(SLOT, well.uuid, faults=() if seen else (fault,), xids=seen))


@pytest.mark.parametrize("fault", Fault)
def test_each_fault_does_what_its_row_says(fault: Fault) -> None:
    _, first, third, stays, server, _, back = FAULTS[fault.value]
    world = Monitored(HOST)
    states = []
    for number in range(READINGS):
        bad_reading(world, fault)
        if number in (0, READINGS - 1):
            states.append(world.health(HOST, SLOT))
    world.wait(STAYS_S)
    states.append(world.health(HOST, SLOT))
    assert [state.value for state in states] == [first, third, stays]
    assert "healthy GPU fewer" in server
    assert (world.host(HOST).gpus_healthy, world.host(HOST).gpus_counted, world.free()) == (3, 4, 3)
    assert fault in world.gpu(HOST, SLOT).gpu.faults
    assert world.gpu(HOST, SLOT).needs_ack == ("`ygs ack`" in back) == (fault in STICKY)


@pytest.mark.parametrize("fault", Fault)
def test_each_fault_goes_as_its_row_says(fault: Fault) -> None:
    world = Monitored(HOST)
    for _ in range(READINGS):
        bad_reading(world, fault)
    world.wait(STAYS_S)
    world.reads(HOST, SLOT, times=2)
    world.wait(STAYS_S)
    if "`ygs ack`" in FAULTS[fault.value][-1]:
        assert world.health(HOST, SLOT) is Health.QUARANTINED, "not by itself"
        world.mark(HOST, MarkAction.ACK, SLOT)
        assert world.health(HOST, SLOT) is Health.RECOVERING
        world.wait(STAYS_S)
    assert (world.health(HOST, SLOT), world.free()) == (Health.OK, 4)


def test_the_reasons_of_throttling_are_those_that_are_listed() -> None:
    (line,) = [line for line in TEXT.splitlines() if line.startswith("- `throttled`")]
    assert set(re.findall(r"`(hw_\w+)`", line)) == SLOWED_BY_HARDWARE


def test_the_defaults_are_those_of_the_settings() -> None:
    service, monitor = Settings(), MonitorSettings()
    said = {name: row[1] for row in rows("Defaults") for name in re.findall(r"`([a-z_]+)`", row[2])}
    for name, words in said.items():
        value = getattr(service, name, None)
        value = getattr(monitor, name) if value is None else value
        shown = f"{value / 60:g} min" if name == "idle_after_s" else value if isinstance(value, str) else f"{value:g}"
        assert re.search(rf"\b{shown}\b", words), (name, words, value)
    health = {name for name in Settings.model_fields if name.startswith(("gpu_", "idle_", "monitor_silent"))}
    assert health <= said.keys()
