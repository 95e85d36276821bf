"""What nvidia-smi writes as CSV."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.monitor.smi_output import UUIDS
from yarn_gpu_sched.monitor.reading import GpuReading
from yarn_gpu_sched.monitor.smi_csv import read_csv
from yarn_gpu_sched.monitor.smi_xml import Unreadable

HEAD = (
    "index, name, uuid, memory.total [MiB], memory.used [MiB], utilization.gpu [%], temperature.gpu, power.draw [W]\n"
)
PLAIN = GpuReading(
    uuid=UUIDS[0],
    index=0,
    model="NVIDIA A10",
    memory_total_mb=24576,
    memory_used_mb=512,
    sm_percent=7,
    temperature_c=40,
    power_w=60.5,
)


def row(number: int, rest: str = "24576 MiB, 512 MiB, 7 %, 40, 60.50 W") -> str:
    return f"{number}, NVIDIA A10, {UUIDS[number]}, {rest}\n"


def read(text: str) -> tuple[GpuReading, ...]:
    found = read_csv(text).gpus
    assert found is not None
    return found


def test_columns_are_read_by_their_names() -> None:
    assert read(HEAD + row(0)) == (PLAIN,)
    turned = (
        "uuid, utilization.gpu [%], unknown.column, index\r\n" + f"{UUIDS[1]}, 3 %, x, 1\r\n{UUIDS[0]}, 4 %, y, 0\r\n"
    )
    assert [(gpu.index, gpu.uuid, gpu.sm_percent, gpu.model) for gpu in read(turned)] == [
        (1, UUIDS[1], 3, None),
        (0, UUIDS[0], 4, None),
    ]


def test_units_may_be_left_out() -> None:
    assert read(re.sub(r" \[.*?\]", "", HEAD) + row(0, "24576, 512, 7, 40, 60.50")) == (PLAIN,)


def test_c17_fields_that_are_not_available_are_absent_never_zero() -> None:
    text = f"uuid, utilization.gpu [%], memory.used [MiB], power.draw [W], memory.total [MiB]\n{UUIDS[0]}, "
    (gpu,) = read(text + "[N/A], [Not Supported], [Unknown Error], 24576\n")
    assert gpu == GpuReading(uuid=UUIDS[0], index=0, memory_total_mb=24576)


def test_other_columns_are_read() -> None:
    head = "gpu_uuid, gpu_bus_id, mig.mode.current, ecc.errors.corrected.volatile.total, ecc.errors.uncorrected.volatile.total"
    (gpu,) = read(f"{head}, utilization.memory [%], count\n{UUIDS[3]}, 00000000:21:00.0, Enabled, 4, 1, 9 %, 1\n")
    assert gpu == GpuReading(
        uuid=UUIDS[3],
        index=0,
        pci_bus_id="00000000:21:00.0",
        mig_enabled=True,
        ecc_corrected=4,
        ecc_uncorrected=1,
        memory_percent=9,
    )


def test_gpu_that_does_not_say_who_it_is_leaves_the_others_their_places() -> None:
    head = "uuid, utilization.gpu [%]\n"
    found = read(f"{head}[Unknown Error], 1 %\n{UUIDS[1]}, 2 %\n")
    assert [(gpu.uuid, gpu.index) for gpu in found] == [(UUIDS[1], 1)]


@pytest.mark.parametrize(
    "text",
    [
        (HEAD + row(0) + row(1))[:-20],
        (HEAD + row(0))[:-1],
        HEAD,
        "",
        "\n",
        "No devices were found\n",
        HEAD + row(0) + row(0),
        HEAD + row(0).replace("0, ", "", 1),
        HEAD + row(0) + row(1).replace("1, NV", "0, NV"),
        HEAD + "\n" + row(0),
        "index, name\n0, NVIDIA A10\n",
        "uuid, count\n" + UUIDS[0] + ", 2\n",
        "uuid\n" + "".join(f"GPU-{number}\n" for number in range(65)),
        "uuid\n[N/A]\n",
    ],
)
def test_c17_output_that_is_cut_or_contradicts_itself_is_dropped_whole(text: str) -> None:
    with pytest.raises(Unreadable):
        read_csv(text)


TEXT = HEAD + row(0) + row(1)
JUNK = st.sampled_from(["[N/A]", "[Not Supported]", ",", "\n", "-1", "9" * 30, " MiB", " %", "\r", "\x85", "٣"])


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = TEXT
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(JUNK | st.text(max_size=2)) + text[start + draw(st.sampled_from([0, 1, 10])) :]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@fuzzed(250, 3_000)
@given(text=mutated() | st.text(max_size=60))
def test_cut_or_mutated_csv_is_read_or_refused_and_nothing_invented(text: str) -> None:
    try:
        found = read(text)
    except Unreadable:
        return
    assert found
    cells = {cell.strip() for line in text.split("\n") for cell in line.split(",")}
    for gpu in found:
        assert gpu.uuid in cells
        numbers = (gpu.memory_total_mb, gpu.memory_used_mb, gpu.sm_percent, gpu.temperature_c)
        said = {int(part[0]) for cell in cells if (part := re.match(r"-?[0-9]{1,20}", cell))}
        assert {number for number in numbers if number is not None} <= said
        assert gpu.model is None or gpu.model in cells
