"""What Prometheus reads: the DCGM exporter's names and labels, and nothing that is not available."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.monitor.server import gpu, uuid
from yarn_gpu_sched.monitor.metrics import (
    COUNTS,
    GPU_LABELS,
    GPU_SERIES,
    LEVELS,
    Exporter,
    GpuShown,
    Shown,
    ShownCollector,
)
from yarn_gpu_sched.monitor.reading import GpuReading


def samples(shown: Shown) -> dict[tuple[str, str], float]:
    """Return values by series and slot, field or cause."""
    found = {}
    for family in ShownCollector(lambda: shown).collect():
        for sample in family.samples:
            labels = sample.labels
            found[sample.name, labels.get("slot", labels.get("cause", "")) + labels.get("field", "")] = sample.value
    return found


FULL = gpu(
    0,
    sm_percent=91,
    memory_percent=40,
    memory_used_mb=1_000,
    memory_total_mb=32_768,
    temperature_c=61,
    power_w=250.5,
    ecc_corrected=3,
    ecc_uncorrected=1,
)


def test_each_value_has_the_name_that_the_dcgm_exporter_gives_it() -> None:
    found = samples(Shown("gpu1", (GpuShown(0, FULL, xid=79),)))
    assert {name: value for (name, slot), value in found.items() if slot == "0"} == {
        "DCGM_FI_DEV_GPU_UTIL": 91,
        "DCGM_FI_DEV_MEM_COPY_UTIL": 40,
        "DCGM_FI_DEV_FB_USED": 1_000,
        "DCGM_FI_DEV_FB_FREE": 31_768,
        "DCGM_FI_DEV_GPU_TEMP": 61,
        "DCGM_FI_DEV_POWER_USAGE": 250.5,
        "DCGM_FI_DEV_XID_ERRORS": 79,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 3,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 1,
    }


def test_c17_what_is_not_available_has_no_sample() -> None:
    found = samples(Shown("gpu1", (GpuShown(0, GpuReading(uuid="GPU-a", index=0)),)))
    assert not [name for name, slot in found if slot == "0"]


def test_labels_are_those_of_the_dcgm_exporter_with_job_container_and_vc() -> None:
    shown = GpuShown(2, gpu(5, 1, minor=3), "application_1", "container_1", "root.research")
    (family, *_) = ShownCollector(lambda: Shown("gpu1", (shown,))).collect()
    assert family.samples[0].labels == {
        "gpu": "1",
        "UUID": uuid(5),
        "pci_bus_id": "00000000:15:00.0",
        "device": "nvidia3",
        "modelName": "Tesla V100-SXM2-32GB",
        "Hostname": "gpu1",
        "slot": "2",
        "job_id": "application_1",
        "container_id": "container_1",
        "vc": "root.research",
    }
    assert set(GPU_LABELS) == family.samples[0].labels.keys()


def test_the_monitor_itself_is_shown() -> None:
    shown = Shown(
        "gpu1",
        counts=dict.fromkeys(COUNTS, 2),
        levels=dict.fromkeys(LEVELS, 3),
        bad_fields={(1, "memory_used_mb"): 4},
        failed_reads={"timed_out": 5},
    )
    found = samples(shown)
    assert {name for (name, _), value in found.items() if value == 2} == {f"{name}_total" for name in COUNTS}
    assert {name for (name, _), value in found.items() if value == 3} == set(LEVELS)
    assert found["ygs_monitor_bad_fields_total", "1memory_used_mb"] == 4
    assert found["ygs_monitor_reads_failed_total", "timed_out"] == 5


def test_it_is_read_over_http() -> None:
    shown = Shown("gpu1", (GpuShown(0, FULL),), counts={"ygs_monitor_reads": 7})
    exporter = Exporter("127.0.0.1:0", lambda: shown)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=5) as answer:
            families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
    finally:
        exporter.close()
    assert families["DCGM_FI_DEV_GPU_UTIL"].samples[0].value == 91
    assert families["ygs_monitor_reads"].samples[0].value == 7
    assert {name for name, _, _ in GPU_SERIES} < families.keys()


def test_the_collector_can_be_registered() -> None:
    registry = CollectorRegistry()
    registry.register(ShownCollector(lambda: Shown("gpu1")))
    assert registry.get_sample_value("ygs_monitor_connected") == 0


def test_who_connects_and_asks_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.exporter.exporter.TIMEOUT_S", 0.05)
    exporter = Exporter("127.0.0.1:0", lambda: Shown("gpu1"))
    try:
        with socket.create_connection(("127.0.0.1", exporter.port), timeout=10) as connection:
            assert connection.recv(1) == b""
    finally:
        exporter.close()
