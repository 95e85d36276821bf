"""`nvidia-smi` on simulated cards: what it prints, and that it says the same as the library."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from defusedxml import ElementTree

from tests.monitor.simulation import Simulation, event
from yarn_gpu_sched.monitor.simulated.install import install
from yarn_gpu_sched.monitor.simulated.opening import open_server
from yarn_gpu_sched.monitor.simulated.scenario import BadScenario
from yarn_gpu_sched.monitor.simulated.smi import answer
from yarn_gpu_sched.monitor.simulated.spec import BadSpec
from yarn_gpu_sched.monitor.simulated.state import Holder


def parsed(text: str) -> list[Element]:
    return list(ElementTree.fromstring(text, forbid_dtd=False).findall("gpu"))


def said(simulation: Simulation, *arguments: str, code: int = 0) -> str:
    found, text = answer(simulation.server, arguments)
    assert found == code, text
    return text


def rows(simulation: Simulation, fields: str, form: str = "csv,noheader,nounits") -> list[list[str]]:
    text = said(simulation, f"--query-gpu={fields}", f"--format={form}")
    return [line.split(", ") for line in text.splitlines()]


def test_xml_says_the_same_as_the_library(tmp_path: Path) -> None:
    events = [event("ecc", 1, gpu=0, corrected=7, uncorrected=1), event("throttle", 1, gpu=1, reasons=["hw_slowdown"])]
    holders = [Holder(4711, "container_1_0001_01_000002", (1,))]
    simulation = Simulation(tmp_path, "1xA100+3xV100", *events, scan=lambda _server: holders, minors=[3, 0, 1, 2])
    by_library = simulation.gpus(5)
    by_program = parsed(said(simulation, "-x", "-q"))
    assert len(by_program) == len(by_library) == 4
    for gpu, element in zip(by_library, by_program, strict=True):
        expected = {
            "product_name": gpu.model,
            "uuid": gpu.uuid,
            "minor_number": str(gpu.minor),
            "pci/pci_bus_id": gpu.pci_bus_id,
            "fb_memory_usage/total": f"{gpu.memory_total_mb} MiB",
            "fb_memory_usage/used": f"{gpu.memory_used_mb} MiB",
            "utilization/gpu_util": f"{gpu.sm_percent} %",
            "utilization/memory_util": f"{gpu.memory_percent} %",
            "temperature/gpu_temp": f"{gpu.temperature_c} C",
            "gpu_power_readings/power_draw": f"{gpu.power_w:.2f} W",
            "ecc_errors/volatile/dram_correctable": str(gpu.ecc_corrected),
            "ecc_errors/volatile/dram_uncorrectable": str(gpu.ecc_uncorrected),
            "mig_mode/current_mig": {None: "N/A", False: "Disabled", True: "Enabled"}[gpu.mig_enabled],
        }
        assert {path: element.findtext(path) for path in expected} == expected
        active = {one.tag for one in element.iterfind("clocks_event_reasons/*") if one.text == "Active"}
        assert active == {f"clocks_event_reason_{reason}" for reason in gpu.throttle_reasons or ()}
        pids = [one.findtext("pid") for one in element.iterfind("processes/process_info")]
        assert pids == [str(process.pid) for process in gpu.processes or ()]


def test_csv_with_and_without_header_and_units(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "2xT4")
    assert said(simulation, "--query-gpu=index,memory.used,utilization.gpu", "--format=csv") == (
        "index, memory.used [MiB], utilization.gpu [%]\n0, 4 MiB, 0 %\n1, 4 MiB, 0 %\n"
    )
    assert rows(simulation, "index,gpu_name", "csv,noheader") == [["0", "Tesla T4"], ["1", "Tesla T4"]]
    assert rows(simulation, "memory.total,power.draw,count") == [["15360", "10.50", "2"]] * 2
    assert said(simulation, "--query-gpu=memory.total", "--format=csv,nounits") == "memory.total [MiB]\n15360\n15360\n"


def test_processes_are_listed_with_their_cards(tmp_path: Path) -> None:
    holders = [Holder(11, "c", (0, 1)), Holder(12, "c", (1,))]
    simulation = Simulation(tmp_path, "2xT4", scan=lambda _server: holders)
    text = said(simulation, "--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits")
    first, second = simulation.uuid(0), simulation.uuid(1)
    assert text == f"11, {first}, 9216\n11, {second}, 4608\n12, {second}, 4608\n"


def test_cards_are_listed_and_chosen(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "2xA100", event("mig", 0, gpu=1, devices=2))
    lines = said(simulation, "-L").splitlines()
    assert lines[0] == f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {simulation.uuid(0)})"
    assert ["MIG" in line for line in lines] == [False, False, True, True]
    for name in ("1", simulation.uuid(1), "00000000:09:00.0"):
        assert said(simulation, "-i", name, "--query-gpu=index", "--format=csv,noheader") == "1\n"
    assert said(simulation, "--id=0", "-L") == lines[0] + "\n"


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ([], "knows --format"),
        (["-z"], "-z"),
        (["-q"], "-q with -x"),
        (["--query-gpu=foo", "--format=csv"], 'Field "foo" is not a valid field'),
        (["--query-gpu=index"], "csv"),
        (["--query-gpu=index", "--format=csv,pretty"], "noheader"),
        (["-L", "-i", "7"], "'7'"),
        (["-L", "-i"], "''"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, arguments: list[str], right: str) -> None:
    assert right in said(Simulation(tmp_path, "1xT4"), *arguments, code=2)


def test_c16_trouble_of_the_driver_is_said_on_standard_output(tmp_path: Path) -> None:
    events = [
        event(what, at_s, until_s=at_s + 5) for what, at_s in (("mismatch", 10), ("no_driver", 20), ("no_devices", 30))
    ]
    simulation = Simulation(tmp_path, "2xV100", *events)
    for seconds, code, words in (
        (11, 18, "Driver/library version mismatch"),
        (21, 9, "couldn't communicate with the NVIDIA driver"),
        (31, 6, "No devices were found"),
        (36, 0, "<attached_gpus>2</attached_gpus>"),
    ):
        simulation.at(seconds)
        assert words in said(simulation, "-x", "-q", code=code)


def test_program_hangs_with_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(tmp_path, "1xT4", event("hang", until_s=20))
    simulation.now_s += 15

    def pass_by(_seconds: float) -> None:
        simulation.now_s += 1

    monkeypatch.setattr("yarn_gpu_sched.monitor.simulated.smi.time.sleep", pass_by)
    assert "GPU 0" in said(simulation, "-L")
    assert simulation.server.seconds == 20


def test_vanished_card_is_lost_first_and_the_others_are_counted_anew(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "3xT4", event("vanish", gpu=1, renumber_after_s=5))
    simulation.at(11)
    assert "GPU is lost" in said(simulation, "-L", code=15)
    simulation.at(16)
    assert rows(simulation, "index,uuid") == [["0", simulation.uuid(0)], ["1", simulation.uuid(2)]]


def test_c17_what_is_not_available_is_said_so(tmp_path: Path) -> None:
    fields = [
        "sm_percent",
        "memory_used_mb",
        "minor",
        "ecc_corrected",
        "processes",
        "temperature_c",
        "throttle_reasons",
    ]
    simulation = Simulation(tmp_path, "1xT4", event("missing", 0, gpu=0, fields=fields))
    (gpu,) = parsed(said(simulation, "-x", "-q"))
    for path in ("utilization/gpu_util", "fb_memory_usage/used", "fb_memory_usage/free", "minor_number", "processes"):
        assert gpu.findtext(path) == "N/A"
    assert rows(simulation, "utilization.gpu,memory.used,clocks_event_reasons.active") == [["[N/A]"] * 3]


def test_c19_impossible_numbers_are_printed_as_they_are(tmp_path: Path) -> None:
    values = {"sm_percent": 4_294_967_295, "pid": 6_498_025_472, "temperature_c": -1, "memory_used_mb": 1 << 62}
    holders = [Holder(11, "c", (0,))]
    simulation = Simulation(
        tmp_path, "1xT4", event("impossible", 0, gpu=0, values=values), scan=lambda _server: holders
    )
    (gpu,) = parsed(said(simulation, "-x", "-q"))
    assert gpu.findtext("utilization/gpu_util") == "4294967295 %"
    assert gpu.findtext("temperature/gpu_temp") == "-1 C"
    assert gpu.findtext("fb_memory_usage/used") == f"{1 << 42} MiB"
    assert gpu.findtext("processes/process_info/pid") == "6498025472"


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # As a NodeManager runs it: from anywhere, with an environment that knows nothing of this package.
    return subprocess.run(
        [program, *arguments], cwd="/", env={"PATH": os.defpath}, capture_output=True, check=False, timeout=60
    )


def test_installed_program_answers_and_agrees_with_the_monitor(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, "2xV100")
    program = install(tmp_path / "a folder's bin", "2xV100", simulation.file, tmp_path, "s1")
    assert program.name == "nvidia-smi"
    found = run(program, "-x", "-q")
    assert (found.returncode, found.stderr) == (0, b"")
    cards = open_server("2xV100", simulation.file, tmp_path, "s1").cards
    assert [gpu.findtext("uuid") for gpu in parsed(found.stdout.decode())] == [card.uuid for card in cards]
    assert run(program, "-z").returncode == 2


def test_c19_installed_program_prints_bytes_that_are_no_utf_8(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"events": [event("impossible", 0, gpu=0, values={"model": "Tesla \xf8\xff"})]}))
    program = install(tmp_path, "1xT4", scenario, tmp_path, "s1")
    assert run(program, "-L").stdout.startswith(b"GPU 0: Tesla \xf8\xff (UUID")


def test_program_that_could_not_answer_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(BadSpec):
        install(tmp_path, "4xVoodoo", None, None, "s1")
    with pytest.raises(BadScenario):
        install(tmp_path, "4xV100", tmp_path / "none.toml", None, "s1")
    assert list(tmp_path.iterdir()) == []


def test_program_loads_nothing_that_makes_it_slow(tmp_path: Path) -> None:
    program = install(tmp_path, "1xT4", None, None, "s1")
    traced = program.with_name("traced")
    traced.write_text(program.read_text().replace(" -P -m ", " -P -X importtime -m "))
    traced.chmod(0o755)
    loaded = {line.rsplit(b"|", 1)[-1].strip().decode() for line in run(traced, "-L").stderr.splitlines()}
    assert "yarn_gpu_sched.monitor.simulated.smi_xml" in loaded
    assert not loaded & {"pynvml", "ctypes", "asyncio", "grpc", "pydantic", "defusedxml", "argparse", "subprocess"}
