"""What nvidia-smi writes in XML, field by field, and the cases that broke others."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.monitor.smi_output import UUIDS, gpu, log
from yarn_gpu_sched.monitor.reader import completed
from yarn_gpu_sched.monitor.reading import PROCESSES_MAX, GpuProcess, GpuReading, GpusReading
from yarn_gpu_sched.monitor.smi_xml import Unreadable, read_xml

PLAIN = GpuReading(
    uuid=UUIDS[0],
    index=0,
    model="Tesla V100-SXM2-32GB",
    minor=0,
    pci_bus_id="00000000:21:00.0",
    memory_used_mb=1024,
    memory_total_mb=32510,
    sm_percent=35,
    memory_percent=12,
    temperature_c=41,
    power_w=55.12,
    throttle_reasons=("sw_power_cap",),
    ecc_corrected=1,
    ecc_uncorrected=0,
    processes=(GpuProcess(4711, 1000),),
)


def read(*gpus: str) -> tuple[GpuReading, ...]:
    found = read_xml(log(*gpus)).gpus
    assert found is not None
    return found


def differing(one: GpuReading, other: GpuReading) -> dict[str, object]:
    return {
        name: getattr(other, name)
        for name in GpuReading.__struct_fields__
        if getattr(one, name) != getattr(other, name)
    }


def test_all_fields_are_read() -> None:
    other = msgspec.structs.replace(PLAIN, uuid=UUIDS[1], index=1, minor=1, pci_bus_id="00000000:22:00.0")
    assert read(gpu(0), gpu(1)) == (PLAIN, other)


def test_newer_drivers_names_are_read() -> None:
    event = "clocks_event_reason_display_clocks_setting"
    changes = {
        "clocks_throttle_reason": "clocks_event_reason",
        "<clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>": f"<{event}>Active</{event}>",
        "power_readings": "gpu_power_readings",
        "power_draw": "instant_power_draw",
        "<single_bit><device_memory>1</device_memory><total>1</total></single_bit>": "<sram_correctable>2</sram_correctable>"
        "<dram_correctable>3</dram_correctable><sram_uncorrectable_parity>1</sram_uncorrectable_parity>",
        "<double_bit><device_memory>0</device_memory><total>0</total></double_bit>": "<dram_uncorrectable>4</dram_uncorrectable>"
        "<sram_uncorrectable_secded>N/A</sram_uncorrectable_secded>",
    }
    (found,) = read(gpu(0, changes))
    assert differing(PLAIN, found) == {
        "throttle_reasons": ("display_clock_setting", "sw_power_cap"),
        "ecc_corrected": 5,
        "ecc_uncorrected": 5,
    }


ABSENT = {
    "utilisation": ({"35 %": "N/A"}, {"sm_percent": None}),
    "memory utilisation": ({"12 %": "[Unknown Error]"}, {"memory_percent": None}),
    "no single_bit": (
        {"<single_bit><device_memory>1</device_memory><total>1</total></single_bit>": ""},
        {"ecc_corrected": None},
    ),
    "no volatile": ({"<volatile>": "<v>", "</volatile>": "</v>"}, {"ecc_corrected": None, "ecc_uncorrected": None}),
    "used": ({"1024 MiB": "N/A"}, {"memory_used_mb": None}),
    "total": ({"32510 MiB": "Insufficient Permissions"}, {"memory_total_mb": None}),
    "pid": ({"<pid>4711": "<pid>[Not Supported]"}, {"processes": None}),
    "used by a process": ({"1000 MiB": "N/A"}, {"processes": (GpuProcess(4711, None),)}),
    "minor": ({"<minor_number>0": "<minor_number>N/A"}, {"minor": None}),
    "temperature": ({"41 C": "N/A"}, {"temperature_c": None}),
    "fahrenheit": ({"41 C": "105 F"}, {"temperature_c": None}),
    "power": ({"55.12 W": "N/A"}, {"power_w": None}),
    "name": ({"Tesla V100-SXM2-32GB": "[N/A]"}, {"model": None}),
    "empty": ({"35 %": "", "41 C": " "}, {"sm_percent": None, "temperature_c": None}),
    "reasons": ({"Not Active": "N/A", "Active": "N/A"}, {"throttle_reasons": None}),
    "bus": ({"<pci_bus_id>00000000:21:00.0": "<pci_bus_id>N/A", 'id="00000000:21:00.0"': ""}, {"pci_bus_id": None}),
}


@pytest.mark.parametrize("case", ABSENT)
def test_c17_field_that_is_not_available_is_absent_never_zero_and_the_gpu_stays(case: str) -> None:
    changes, lost = ABSENT[case]
    broken, whole = read(gpu(0, changes), gpu(1))
    assert differing(PLAIN, broken) == lost
    assert whole.sm_percent == 35


def test_c17_nobody_is_claimed_to_be_there_or_not_where_processes_are_not_told() -> None:
    part = gpu(0).split("<processes>")[1].split("</processes>")[0]
    assert read(gpu(0, {part: "N/A"}))[0].processes is None
    assert read(gpu(0, {part: ""}))[0].processes == ()
    assert read(gpu(0, {f"<processes>{part}</processes>": ""}))[0].processes is None
    two = part + part.replace("4711", "[Not Supported]") + part.replace("4711", "4712")
    found = read(gpu(0, {part: two}))[0].processes
    assert [process.pid for process in found or ()] == [4711, 4712]


@pytest.mark.parametrize(
    "text",
    [
        log(gpu(0, {"</supported_clocks>": "</supported_clocks></supported_clocks>"})),
        log(gpu(0, {"</supported_mem_clock>": "</supported_mem_clock></supported_mem_clock>"}), gpu(1)),
        log(gpu(0), gpu(1))[: len(log(gpu(0), gpu(1))) // 2],
        log(gpu(0), gpu(1)).removesuffix("</nvidia_smi_log>\n"),
        "",
        "\0",
        "<nvidia_smi_log/>",
        "<html><gpu/></html>",
        "Failed to initialize NVML: Unknown Error",
    ],
)
def test_c17_broken_xml_is_dropped_whole(text: str) -> None:
    with pytest.raises(Unreadable):
        read_xml(text)


@pytest.mark.parametrize(
    "text",
    [
        log(gpu(0), attached=2),
        log(attached=1),
        log(gpu(0), gpu(0)),
        log(gpu(0, {UUIDS[0]: "[Unknown Error]"})),
        log(*[gpu(0, {UUIDS[0]: f"GPU-{number}"}) for number in range(65)]),
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><nvidia_smi_log><attached_gpus>&b;</attached_gpus></nvidia_smi_log>',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><nvidia_smi_log>&a;</nvidia_smi_log>',
        "<nvidia_smi_log>" + "<gpu>" * 5000,
    ],
)
def test_output_that_contradicts_itself_or_attacks_is_dropped_whole(text: str) -> None:
    with pytest.raises(Unreadable):
        read_xml(text)


def test_valid_reading_of_no_gpus_is_no_failure() -> None:
    assert read_xml(log()) == GpusReading(gpus=())


def test_gpu_that_does_not_say_who_it_is_leaves_the_others_their_places() -> None:
    found = read(gpu(0), gpu(1, {UUIDS[1]: "GPU is lost"}), gpu(2))
    assert [(each.uuid, each.index) for each in found] == [(UUIDS[0], 0), (UUIDS[2], 2)]


def test_warnings_around_the_log_cost_nothing() -> None:
    assert read_xml(log(gpu(0)) + "WARNING: infoROM is corrupted at gpu 0000:21:00.0\n").gpus == (PLAIN,)


def test_c18_mig_parent_is_told_as_such_and_slices_are_no_gpus() -> None:
    mig = gpu(
        0,
        {
            "<current_mig>N/A": "<current_mig>Enabled",
            "<mig_devices>None": "<mig_devices>"
            + "".join(
                f"<mig_device><index>{slot}</index><uuid>MIG-{slot}</uuid><fb_memory_usage><used>7 MiB</used>"
                "</fb_memory_usage></mig_device>"
                for slot in range(3)
            ),
            "35 %": "N/A",
            "12 %": "N/A",
        },
    )
    parent, plain = read(mig, gpu(1, {"<current_mig>N/A": "<current_mig>Disabled"}))
    assert differing(PLAIN, parent) == {
        "mig_enabled": True,
        "mig_devices": 3,
        "sm_percent": None,
        "memory_percent": None,
    }
    assert (plain.mig_enabled, plain.mig_devices, plain.sm_percent) == (False, 0, 35)


def test_c19_impossible_numbers_are_dropped_by_gpu_and_field_and_all_else_goes_on() -> None:
    changes = {
        "35 %": "4294967295 %",
        "1024 MiB": "9223372036854775792 MiB",
        "41 C": "-1 C",
        "<pid>4711": "<pid>6498025472",
        "V100": "\udcf8\udcff".encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
    }
    reading = completed(GpusReading(gpus=read(gpu(0, changes), gpu(1))))
    assert reading.gpus is not None
    bad, good = reading.gpus
    assert set(bad.bad_fields) == {"sm_percent", "memory_used_mb", "temperature_c", "processes.pid", "model"}
    assert (bad.sm_percent, bad.memory_used_mb, bad.temperature_c, bad.model) == (None, None, None, None)
    assert (bad.memory_total_mb, bad.power_w) == (32510, 55.12)
    assert (good.bad_fields, good.sm_percent) == ((), 35)


def test_processes_are_bounded() -> None:
    entry = gpu(0).split("<processes>\n")[1].split("    </processes>")[0]
    many = "".join(entry.replace("4711", str(number)) for number in range(PROCESSES_MAX + 10))
    found = read(gpu(0, {entry: many}))[0].processes
    assert found is not None
    assert len(found) == PROCESSES_MAX


UNITS = {
    "minor": "",
    "memory_used_mb": "MiB|MB",
    "memory_total_mb": "MiB|MB",
    "sm_percent": "%",
    "memory_percent": "%",
    "temperature_c": "C",
    "ecc_corrected": "",
    "ecc_uncorrected": "",
}
TEXT = log(gpu(0), gpu(1), gpu(2))
JUNK = st.sampled_from(
    [
        "N/A",
        "[N/A]",
        "[Not Supported]",
        "[Unknown Error]",
        "24576",
        "-1 %",
        "</gpu>",
        "<gpu>",
        "&x;",
        "\0",
        "<",
        "9" * 30,
    ]
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = TEXT
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 1, 5, 200])))
        text = text[:start] + draw(JUNK | st.text(max_size=3)) + text[end:]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@fuzzed(250, 3_000)
@given(text=mutated() | st.text(max_size=100))
def test_cut_or_mutated_xml_is_read_or_refused_and_nothing_invented(text: str) -> None:
    try:
        reading = read_xml(text)
    except Unreadable:
        return
    assert reading.gpus is not None
    for each in reading.gpus:
        assert each.uuid in text
        assert all(_stands_in(text, getattr(each, field), unit) for field, unit in UNITS.items())
        assert each.model is None or each.model in text.replace("\r", "\n")
    judged = completed(msgspec.structs.replace(reading, gpus=tuple(_alone(each) for each in reading.gpus)))
    assert all(each.sm_percent is None or 0 <= each.sm_percent <= 100 for each in judged.gpus or ())


def _stands_in(text: str, number: int | None, unit: str) -> bool:
    return number is None or re.search(rf">\s*-?0*{abs(number)} ?({unit})?\s*<", text) is not None


def _alone(gpu_reading: GpuReading) -> GpuReading:
    """Leave the processes out: /proc is not what is drawn here."""
    return msgspec.structs.replace(gpu_reading, processes=None)


@fuzzed(60, 1_000)
@given(cut=st.integers(0, len(TEXT) - 2))
def test_c17_file_cut_anywhere_is_dropped_whole(cut: int) -> None:
    with pytest.raises(Unreadable):
        read_xml(TEXT[:cut])
