"""The NVML reader, through the installed pynvml, over simulated cards."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pynvml
import pytest

from tests.monitor.simulation import Simulation, event
from yarn_gpu_sched.monitor import nvml
from yarn_gpu_sched.monitor.nvml import NvmlSource
from yarn_gpu_sched.monitor.plausible import cleaned
from yarn_gpu_sched.monitor.reading import XIDS_MAX, FailureKind, GpuProcess, LinkKind
from yarn_gpu_sched.monitor.simulated.device_calls import DEVICE_CALLS
from yarn_gpu_sched.monitor.simulated.library import put_under_pynvml
from yarn_gpu_sched.monitor.simulated.state import Holder


def test_what_a_card_tells(tmp_path: Path) -> None:
    holder = Holder(4711, "container_1_0001_01_000002", (1,))
    idle, busy = Simulation(tmp_path, "2xA100", scan=lambda _server: [holder]).gpus(5)
    assert (idle.index, idle.minor, idle.model) == (0, 0, "NVIDIA A100-SXM4-40GB")
    assert idle.pci_bus_id == "00000000:06:00.0"
    assert (idle.sm_percent, idle.memory_percent, idle.processes) == (0, 0, ())
    assert (idle.throttle_reasons, busy.throttle_reasons) == (("gpu_idle",), ())
    assert (busy.sm_percent, busy.memory_percent) == (87, 41)
    assert (busy.memory_used_mb, busy.memory_total_mb) == (4 + 40960 * 60 // 100, 40960)
    assert (busy.temperature_c, busy.power_w) == (34 + 38 * 87 // 100, 338.4)
    assert (busy.ecc_corrected, busy.ecc_uncorrected) == (0, 0)
    assert (busy.mig_enabled, busy.mig_devices) == (False, 0)
    assert busy.processes == (GpuProcess(4711, 40960 * 60 // 100),)
    assert cleaned(busy) == busy


def test_links_of_a_mesh_are_counted_one_by_one(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "8xV100")
    first = simulation.gpus(0)[0]
    assert first.links is not None
    links = {link.uuid: (link.kind, link.lanes) for link in first.links}
    assert [links[simulation.uuid(number)] for number in range(1, 8)] == [
        (LinkKind.NVLINK, 1),
        (LinkKind.NVLINK, 1),
        (LinkKind.NVLINK, 2),
        (LinkKind.NVLINK, 2),
        (LinkKind.SYSTEM, 0),
        (LinkKind.SYSTEM, 0),
        (LinkKind.SYSTEM, 0),
    ]


def test_links_through_switches_reach_everybody(tmp_path: Path) -> None:
    for gpu in Simulation(tmp_path, "8xH100").gpus(0):
        assert gpu.links is not None
        assert [(link.kind, link.lanes) for link in gpu.links] == [(LinkKind.NVLINK, 18)] * 7


def test_links_through_switches_are_as_many_as_either_has(tmp_path: Path) -> None:
    assert [[link.lanes for link in gpu.links or ()] for gpu in Simulation(tmp_path, "1xA100+1xH100+1xT4").gpus(0)] == [
        [12, 0],
        [12, 0],
        [0, 0],
    ]


def test_driver_that_knows_processes_by_an_older_call_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in DEVICE_CALLS if name.endswith("RunningProcesses_v3")]:
        monkeypatch.setitem(DEVICE_CALLS, name.replace("_v3", "_v2"), DEVICE_CALLS[name])
        monkeypatch.delitem(DEVICE_CALLS, name)
    simulation = Simulation(tmp_path, "1xT4", scan=lambda _server: [Holder(4711, "", (0,))])
    assert simulation.gpus(0)[0].processes == (GpuProcess(4711, 9216),)


def test_without_nvlink_the_way_through_pcie_is_told(tmp_path: Path) -> None:
    first = Simulation(tmp_path, "5xT4").gpus(0)[0]
    assert first.links is not None
    assert [link.kind for link in first.links] == [LinkKind.SINGLE, LinkKind.NODE, LinkKind.NODE, LinkKind.SYSTEM]


def test_what_a_model_has_not_is_not_available(tmp_path: Path) -> None:
    display = Simulation(tmp_path, "1xP400").gpus(0)[0]
    assert (display.sm_percent, display.memory_percent, display.power_w, display.processes) == (None,) * 4
    assert (display.ecc_corrected, display.ecc_uncorrected, display.mig_enabled) == (None,) * 3
    assert display.throttle_reasons is None
    assert (display.memory_total_mb, display.temperature_c, display.bad_fields) == (2048, 34, ())


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_UNKNOWN, 777])
@pytest.mark.parametrize(
    "field",
    [
        "memory_used_mb",
        "sm_percent",
        "temperature_c",
        "power_w",
        "throttle_reasons",
        "ecc_corrected",
        "ecc_uncorrected",
        "mig_enabled",
        "processes",
    ],
)
def test_call_that_fails_costs_its_own_field_of_its_own_gpu(tmp_path: Path, field: str, code: int) -> None:
    simulation = Simulation(tmp_path, "2xA100", event("missing", gpu=1, fields=[field], code=code, until_s=20))
    before, after = simulation.gpus(5), simulation.gpus(15)
    assert after[0] == before[0]
    told = {"memory_used_mb": {"memory_used_mb", "memory_total_mb"}, "sm_percent": {"sm_percent", "memory_percent"}}
    absent = {name for name in before[1].__struct_fields__ if getattr(after[1], name) != getattr(before[1], name)}
    assert absent == told.get(field, {field})
    assert all(getattr(after[1], name) is None for name in absent)
    assert simulation.gpus(25) == before


def test_what_cannot_be_read_at_first_is_read_when_it_can(tmp_path: Path) -> None:
    events = [event("missing", 0, gpu=0, fields=["model", "minor"], code=999, until_s=10)]
    simulation = Simulation(tmp_path, "1xT4", *events)
    assert (simulation.gpus(5)[0].model, simulation.gpus(5)[0].minor) == (None, None)
    assert (simulation.gpus(15)[0].model, simulation.gpus(15)[0].minor) == ("Tesla T4", 0)


def test_gpu_that_does_not_say_who_it_is_leaves_its_index_free(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "3xT4", event("missing", 0, gpu=1, fields=["uuid"], code=999, until_s=10))
    assert [gpu.index for gpu in simulation.gpus(5)] == [0, 2]
    assert [gpu.index for gpu in simulation.gpus(15)] == [0, 1, 2]


def test_vanished_gpu_is_missing_and_the_others_are_counted_anew(tmp_path: Path) -> None:
    events = [event("vanish", gpu=1, renumber_after_s=5, until_s=100)]
    simulation = Simulation(tmp_path, "4xV100", *events)
    uuids = [gpu.uuid for gpu in simulation.gpus(5)]
    left = [uuids[0], uuids[2], uuids[3]]
    found = simulation.gpus(11)
    assert [(gpu.index, gpu.uuid) for gpu in found] == list(zip((0, 2, 3), left, strict=True))
    for seconds in range(12, 30):
        simulation.at(seconds)
    found = simulation.gpus(31)
    assert [(gpu.index, gpu.uuid) for gpu in found] == list(zip((0, 1, 2), left, strict=True))
    assert all(link.uuid != uuids[1] for gpu in found for link in gpu.links or ())
    for seconds in range(100, 200):
        found = simulation.gpus(seconds)
    assert [(gpu.index, gpu.uuid) for gpu in found] == list(enumerate(uuids))


def test_missing_gpu_is_looked_for_more_and_more_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(tmp_path, "2xT4", event("vanish", gpu=1))
    simulation.at(5)
    begun: list[float] = []
    init = pynvml.nvmlInit

    def seen() -> None:
        begun.append(simulation.now_s)
        init()

    monkeypatch.setattr(pynvml, "nvmlInit", seen)
    for seconds in range(10, 400):
        assert len(simulation.gpus(seconds)) == 1
    pauses = [after - before for before, after in pairwise(begun)]
    assert pauses == sorted(pauses)
    assert max(pauses) == 60
    assert len(begun) < 15


def test_gpus_that_are_all_lost_are_gone_and_no_failure(tmp_path: Path) -> None:
    events = [event("vanish", gpu=gpu, renumber_after_s=1000) for gpu in (0, 1)]
    simulation = Simulation(tmp_path, "2xT4", *events)
    simulation.at(5)
    assert [simulation.gpus(seconds) for seconds in (10, 12, 14)] == [(), (), ()]


def test_c16_driver_mismatch_fails_the_whole_reading_and_passes_by_itself(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "4xV100", event("mismatch", until_s=310))
    before = simulation.gpus(5)
    for seconds in (10, 11, 309):
        reading = simulation.at(seconds)
        assert reading.gpus is None
        assert reading.failure is not None
        assert reading.failure.kind is FailureKind.DRIVER_MISMATCH
        assert "version mismatch. (NVML code 18)" in reading.failure.detail
    assert simulation.gpus(311) == before


def test_c16_driver_that_goes_amid_a_reading_fails_the_whole_reading(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "2xT4", event("missing", gpu=1, fields=["power_w"], code=18, until_s=20))
    before = simulation.gpus(5)
    failure = simulation.at(11).failure
    assert failure is not None
    assert failure.kind is FailureKind.DRIVER_MISMATCH
    assert simulation.gpus(21) == before


def test_c16_no_driver_and_no_devices_have_their_own_names(tmp_path: Path) -> None:
    events = [event("no_driver", until_s=20), event("no_devices", 30, until_s=40)]
    simulation = Simulation(tmp_path, "4xV100", *events)
    before = simulation.gpus(5)
    kinds = []
    for seconds in (15, 25, 35, 45):
        failure = simulation.at(seconds).failure
        kinds.append(failure.kind if failure is not None else None)
    assert kinds == [FailureKind.NO_DRIVER, None, FailureKind.NO_DEVICES, None]
    assert simulation.gpus(46) == before


def test_c16_valid_reading_of_no_gpus_is_another_thing(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "0")
    assert simulation.gpus(0) == ()
    reading = simulation.new_source(expects_gpus=True).read()
    assert reading.gpus is None
    assert reading.failure is not None
    assert reading.failure.kind is FailureKind.NO_DEVICES


def test_c18_mig_is_told_and_slices_are_no_gpus(tmp_path: Path) -> None:
    cut, whole = Simulation(tmp_path, "2xA100", event("mig", 0, gpu=0, devices=3)).gpus(1)
    assert (cut.index, cut.mig_enabled, cut.mig_devices) == (0, True, 3)
    assert (cut.sm_percent, cut.memory_percent) == (None, None)
    assert cut.memory_total_mb == 40960
    assert (whole.index, whole.mig_enabled, whole.mig_devices, whole.sm_percent) == (1, False, 0, 0)


def test_c20_xids_are_events_and_two_equal_ones_are_two(tmp_path: Path) -> None:
    events = [event("xid", 10, gpu=2, xid=48), event("xid", 10, gpu=2, xid=48), event("xid", 11, gpu=0, xid=79)]
    simulation = Simulation(tmp_path, "4xV100", *events)
    assert simulation.at(5).xids == ()
    told = [(xid.uuid, xid.xid, xid.number) for xid in simulation.at(12).xids]
    first, third = simulation.uuid(0), simulation.uuid(2)
    assert told == [(third, 48, 1), (third, 48, 2), (first, 79, 3)]
    assert simulation.at(13).xids == ()


def test_c20_xid_is_told_though_the_gpu_vanishes_with_it(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "2xV100", event("xid", gpu=1, xid=79), event("vanish", gpu=1))
    uuid = simulation.gpus(5)[1].uuid
    reading = simulation.at(11)
    assert [(xid.uuid, xid.xid) for xid in reading.xids] == [(uuid, 79)]
    assert reading.gpus is not None
    assert [gpu.index for gpu in reading.gpus] == [0]
    assert simulation.at(12).xids == ()


def test_c20_xid_that_waits_while_the_library_is_opened_anew_is_told(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "2xV100", event("vanish", gpu=1), event("xid", 12, gpu=0, xid=48))
    simulation.gpus(5)
    simulation.gpus(11)
    assert [xid.xid for xid in simulation.at(12.5).xids] == [48]


def test_c20_more_xids_than_one_reading_has_are_in_the_next(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "1xV100", *[event("xid", gpu=0, xid=48)] * (XIDS_MAX + 10))
    simulation.at(5)
    assert [len(simulation.at(seconds).xids) for seconds in (11, 12, 13)] == [XIDS_MAX, 10, 0]


def test_driver_that_lets_no_gpu_be_asked_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(tmp_path, "2xT4")

    def refuse(_index: int) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", refuse)
    failure = simulation.at(0).failure
    assert failure is not None
    assert (failure.kind, failure.detail) == (
        FailureKind.UNREADABLE,
        "the driver tells of 2 GPUs and lets none be asked",
    )
    monkeypatch.undo()
    assert len(simulation.gpus(1)) == 2


def test_c21_index_is_the_order_of_nvidia_smi_whatever_the_minors(tmp_path: Path) -> None:
    gpus = Simulation(tmp_path, "1xP400+4xV100", minors=[3, 0, 1, 2, 4]).gpus(0)
    assert [(gpu.index, gpu.minor) for gpu in gpus] == [(0, 3), (1, 0), (2, 1), (3, 2), (4, 4)]
    assert [gpu.model for gpu in gpus] == ["Quadro P400", *["Tesla V100-SXM2-32GB"] * 4]
    assert len({gpu.uuid for gpu in gpus}) == 5


def test_no_library_at_all_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    put_under_pynvml(None)
    reading = NvmlSource().read()
    assert reading.gpus is None
    assert reading.failure is not None
    assert reading.failure.kind is FailureKind.NO_DRIVER


def test_answer_that_takes_all_memory_is_unreadable_and_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(tmp_path, "2xT4")

    def exhaust(_handle: object) -> dict[str, object]:
        raise MemoryError

    monkeypatch.setattr(nvml, "read_fields", exhaust)
    failure = simulation.at(0).failure
    assert failure is not None
    assert (failure.kind, failure.detail) == (FailureKind.UNREADABLE, "the driver's answer takes too much memory")
    monkeypatch.undo()
    assert len(simulation.gpus(1)) == 2


def test_more_gpus_than_a_server_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(tmp_path, "1xT4")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1_000_000)
    failure = simulation.at(0).failure
    assert failure is not None
    assert (failure.kind, "1000000 GPUs" in failure.detail) == (FailureKind.UNREADABLE, True)
