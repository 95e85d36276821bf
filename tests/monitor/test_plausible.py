"""Impossible values are dropped and named, and nothing else is."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from tests.monitor.simulation import Simulation, event
from yarn_gpu_sched.monitor.plausible import RULES, cleaned
from yarn_gpu_sched.monitor.reading import GpuLink, GpuProcess, GpuReading, LinkKind
from yarn_gpu_sched.monitor.simulated.state import Holder

GOOD = GpuReading(
    uuid="GPU-1",
    index=0,
    model="Tesla T4",
    minor=3,
    pci_bus_id="00000000:06:00.0",
    memory_used_mb=100,
    memory_total_mb=15360,
    sm_percent=100,
    memory_percent=0,
    temperature_c=0,
    power_w=70.5,
    throttle_reasons=("hw_slowdown", "bit_12"),
    ecc_corrected=10**6,
    ecc_uncorrected=0,
    mig_enabled=True,
    mig_devices=7,
    processes=(GpuProcess(1, 100), GpuProcess(4_194_304, None)),
    links=(GpuLink("GPU-2", LinkKind.NVLINK, 18),),
)


def test_what_is_possible_stays_as_it_is() -> None:
    assert cleaned(GOOD) is GOOD
    nothing = GpuReading(uuid="GPU-1", index=0)
    assert cleaned(nothing) is nothing


IMPOSSIBLE: list[tuple[str, object]] = [
    ("model", "Tesla \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
    ("model", "x" * 97),
    ("model", "Tesla\n"),
    ("minor", 4_294_967_295),
    ("pci_bus_id", "\x00"),
    ("memory_total_mb", 0),
    ("memory_total_mb", 1 << 44),
    ("memory_used_mb", 15361),
    ("memory_used_mb", -1),
    ("sm_percent", 101),
    ("sm_percent", 4_294_967_295),
    ("memory_percent", -1),
    ("temperature_c", -1),
    ("temperature_c", 4_294_967_295),
    ("temperature_c", 151),
    ("power_w", math.nan),
    ("power_w", math.inf),
    ("power_w", 4_294_967.295),
    ("throttle_reasons", tuple(f"bit_{bit}" for bit in range(64))),
    ("ecc_corrected", (1 << 64) - 1),
    ("ecc_uncorrected", (1 << 64) - 1),
    ("links", (GpuLink("GPU-2", LinkKind.NVLINK, 1000),)),
]


@pytest.mark.parametrize(("field", "value"), IMPOSSIBLE)
def test_c19_impossible_value_is_dropped_and_named(field: str, value: object) -> None:
    found = cleaned(msgspec.structs.replace(GOOD, **{field: value}))
    assert found == msgspec.structs.replace(GOOD, **{field: None, "bad_fields": (field,)})


def test_c19_each_rule_can_be_broken() -> None:
    assert {field for field, _value in IMPOSSIBLE} == set(RULES)


def test_c19_processes_that_cannot_be_are_dropped_one_by_one() -> None:
    processes = (GpuProcess(6_498_025_472, 5), GpuProcess(0, 5), GpuProcess(7, 15361), GpuProcess(8, 15360))
    found = cleaned(msgspec.structs.replace(GOOD, processes=processes))
    assert found.processes == (GpuProcess(7, None), GpuProcess(8, 15360))
    assert found.bad_fields == ("processes.memory_mb", "processes.pid")


def test_c19_impossible_number_of_mig_devices_is_none() -> None:
    found = cleaned(msgspec.structs.replace(GOOD, mig_devices=4_294_967_295))
    assert (found.mig_devices, found.mig_enabled, found.bad_fields) == (0, True, ("mig_devices",))


def test_c19_used_memory_is_not_compared_with_a_total_that_is_impossible() -> None:
    found = cleaned(msgspec.structs.replace(GOOD, memory_total_mb=-5, memory_used_mb=10))
    assert (found.memory_used_mb, found.memory_total_mb, found.bad_fields) == (10, None, ("memory_total_mb",))


def test_c19_impossible_numbers_of_a_driver_cost_their_fields_alone(tmp_path: Path) -> None:
    values = {
        "sm_percent": 4_294_967_295,
        "memory_used_mb": 9_223_372_036_854_775_792,
        "temperature_c": -1,
        "model": "Tesla \xf8\xff",
        "pid": 6_498_025_472,
    }
    simulation = Simulation(
        tmp_path,
        "2xV100",
        event("impossible", 0, gpu=1, values=values),
        scan=lambda _server: [Holder(4711, "", (1,))],
    )
    good, raw = simulation.gpus(1)
    assert cleaned(good) == good
    assert raw.model == "Tesla \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    bad = cleaned(raw)
    assert set(bad.bad_fields) == {"sm_percent", "memory_used_mb", "temperature_c", "model", "processes.pid"}
    assert (bad.sm_percent, bad.memory_used_mb, bad.temperature_c, bad.model) == (None,) * 4
    assert bad.processes == ()
    assert (bad.memory_percent, bad.memory_total_mb, bad.ecc_corrected) == (41, 32768, 0)
