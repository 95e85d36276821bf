"""The simulated nvidia-smi, read as the real one would be: it says what NVML says, as far as it says it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.monitor.simulation import Simulation, event
from yarn_gpu_sched.monitor.child import ChildReader, reader_argv
from yarn_gpu_sched.monitor.reading import FailureKind, GpuProcess, GpuReading
from yarn_gpu_sched.monitor.simulated.smi import answer
from yarn_gpu_sched.monitor.simulated.state import Holder
from yarn_gpu_sched.monitor.smi_csv import read_csv
from yarn_gpu_sched.monitor.smi_xml import Unreadable, read_xml

REPOSITORY = str(Path(__file__).resolve().parents[2])
COLUMNS = (
    "index,uuid,name,pci.bus_id,memory.used,memory.total,utilization.gpu,utilization.memory,temperature.gpu,power.draw,"
    "mig.mode.current"
)


def told_by_smi(gpu: GpuReading) -> GpuReading:
    """Leave out what nvidia-smi does not say of a card, or says rounded."""
    power = None if gpu.power_w is None else round(gpu.power_w, 2)
    processes = tuple(GpuProcess(each.pid, each.memory_mb) for each in gpu.processes or ())
    return msgspec.structs.replace(gpu, power_w=power, processes=processes, links=None)


def told_by_csv(gpu: GpuReading) -> GpuReading:
    """Leave out what was not asked for."""
    absent = dict.fromkeys(("minor", "throttle_reasons", "ecc_corrected", "ecc_uncorrected", "processes"))
    return msgspec.structs.replace(gpu, **absent, mig_devices=0)


@pytest.mark.parametrize("form", ["csv", "csv,nounits"])
def test_program_says_what_the_library_says(tmp_path: Path, form: str) -> None:
    events = [event("ecc", 1, gpu=0, corrected=7, uncorrected=1), event("throttle", 1, gpu=1, reasons=["hw_slowdown"])]
    holders = [Holder(4711, "container_1_0001_01_000002", (1,))]
    simulation = Simulation(tmp_path, "1xA100+3xV100", *events, scan=lambda _server: holders, minors=[3, 0, 1, 2])
    by_library = [told_by_smi(gpu) for gpu in simulation.gpus(5)]
    code, text = answer(simulation.server, ["-x", "-q"])
    assert code == 0
    assert list(read_xml(text).gpus or ()) == by_library
    code, text = answer(simulation.server, [f"--query-gpu={COLUMNS}", f"--format={form}"])
    assert code == 0
    assert list(read_csv(text).gpus or ()) == [told_by_csv(gpu) for gpu in by_library]


def test_card_that_is_lost_makes_the_output_unreadable(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "2xV100", event("vanish", 1, gpu=0, renumber_after_s=60))
    simulation.at(5)
    with pytest.raises(Unreadable):
        read_xml(answer(simulation.server, ["-x", "-q"])[1])
    simulation.at(70)
    (left,) = read_xml(answer(simulation.server, ["-x", "-q"])[1]).gpus or ()
    assert (left.uuid, left.index) == (simulation.uuid(1), 0)


async def test_child_reads_by_the_program_where_that_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", REPOSITORY)
    argv = reader_argv(simulate="2xV100", state_dir=tmp_path, host="s1", smi_timeout_s=60.0)
    reader = ChildReader(argv, timeout_s=90.0, start_timeout_s=90.0)
    try:
        reading = await reader.read()
    finally:
        await reader.close()
    assert reading.failure is None
    assert [gpu.index for gpu in reading.gpus or ()] == [0, 1]
    assert all(gpu.links is None and gpu.sm_percent is not None for gpu in reading.gpus or ())


async def test_program_that_hangs_is_told_by_the_child_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", REPOSITORY)
    reader = ChildReader(reader_argv(smi_timeout_s=0.3), timeout_s=60.0, start_timeout_s=60.0)
    try:
        first, pid = await reader.read(), reader.pid
        second = await reader.read()
        assert reader.pid == pid  # nobody had to start it anew
    finally:
        await reader.close()
    for reading in (first, second):
        assert reading.failure is not None
        assert (reading.failure.kind, reading.failure.detail) == (FailureKind.TIMED_OUT, "no answer after 0.3 s")
