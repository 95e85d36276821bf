"""Who is on simulated cards: real processes, by their environment; and a look through a folder like `/proc`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from yarn_gpu_sched.monitor.simulated.opening import open_server
from yarn_gpu_sched.monitor.simulated.processes import HOLDERS_MAX, Scanner
from yarn_gpu_sched.monitor.simulated.server import SimulatedServer
from yarn_gpu_sched.monitor.simulated.spec import parse
from yarn_gpu_sched.monitor.simulated.state import Holder

CONTAINER = "container_1410901177871_0001_01_000005"
SERVER = SimulatedServer(parse("1xP400+3xV100", "s1"))


def write(proc: Path, pid: int, **environment: str) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "environ").write_bytes(b"".join(f"{name}={value}\0".encode() for name, value in environment.items()))


def numbers(proc: Path, devices: str, **environment: str) -> tuple[int, ...]:
    write(proc, 7, CONTAINER_ID=CONTAINER, CUDA_VISIBLE_DEVICES=devices, **environment)
    found = Scanner("s1", proc)(SERVER)
    assert [holder.pid for holder in found] == ([7] if found else [])
    return found[0].numbers if found else ()


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        (SERVER.cards[2].uuid, (2,)),
        (f"{SERVER.cards[2].uuid},{SERVER.cards[1].uuid}", (2, 1)),
        (SERVER.cards[2].uuid[:12], (2,)),
        ("GPU-", ()),
        (f"{SERVER.cards[1].uuid},nobody,{SERVER.cards[2].uuid}", (1,)),
        (f"{SERVER.cards[1].uuid},{SERVER.cards[1].uuid}", (1,)),
    ],
)
def test_cards_are_named_by_uuid_as_for_cuda(tmp_path: Path, devices: str, expected: tuple[int, ...]) -> None:
    assert numbers(tmp_path, devices) == expected


@pytest.mark.parametrize(
    ("devices", "by_bus", "fastest_first"),
    [("0", (0,), (1,)), ("1,2", (1, 2), (2, 3)), ("3", (3,), (0,)), ("3,4,1", (3,), (0,))],
)
def test_c21_indices_follow_nvidia_smi_only_when_the_environment_says_so(
    tmp_path: Path, devices: str, by_bus: tuple[int, ...], fastest_first: tuple[int, ...]
) -> None:
    assert numbers(tmp_path / "a", devices, CUDA_DEVICE_ORDER="PCI_BUS_ID") == by_bus
    assert numbers(tmp_path / "b", devices) == fastest_first


def test_a_place_says_nothing_of_whose_it_is(tmp_path: Path) -> None:
    """Containers of another cluster on this machine, on a host of the same name."""
    write(tmp_path, 7, CONTAINER_ID=CONTAINER, CUDA_VISIBLE_DEVICES="0", NM_HOST="s1")
    write(tmp_path, 8, CONTAINER_ID=CONTAINER, CUDA_VISIBLE_DEVICES="0", NM_HOST="s1", YGS_SIMULATED="/other")
    write(tmp_path, 9, CONTAINER_ID=CONTAINER, CUDA_VISIBLE_DEVICES="0", NM_HOST="s1", YGS_SIMULATED="/mine")
    assert [holder.pid for holder in Scanner("s1", tmp_path, Path("/mine"))(SERVER)] == [9]


@pytest.mark.parametrize(
    ("environment", "here"),
    [
        ({"NM_HOST": "S1"}, True),
        ({}, True),
        ({"NM_HOST": "s2"}, False),
        ({"CONTAINER_ID": ""}, False),
    ],
)
def test_containers_of_other_hosts_are_left_out(tmp_path: Path, environment: dict[str, str], *, here: bool) -> None:
    write(tmp_path, 7, **{"CONTAINER_ID": CONTAINER, "CUDA_VISIBLE_DEVICES": SERVER.cards[0].uuid, **environment})
    assert bool(Scanner("s1", tmp_path)(SERVER)) == here


def test_process_without_a_container_or_without_devices_holds_nothing(tmp_path: Path) -> None:
    write(tmp_path, 7, CUDA_VISIBLE_DEVICES=SERVER.cards[0].uuid)
    write(tmp_path, 8, CONTAINER_ID=CONTAINER)
    (tmp_path / "9").mkdir()
    (tmp_path / "self").mkdir()
    assert Scanner("s1", tmp_path)(SERVER) == []


def test_index_means_the_card_that_had_it_when_the_process_started(tmp_path: Path) -> None:
    events = [{"what": "vanish", "at_s": 100, "gpu": 0}]
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"events": events}))
    server = SimulatedServer(parse("3xT4"), scenario, clock=lambda: 10_000.0)
    proc = tmp_path / "proc"
    tick_s = os.sysconf("SC_CLK_TCK")
    for pid, started_s in ((7, 10_050), (8, 10_150)):
        write(proc, pid, CONTAINER_ID=CONTAINER, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
        fields = ["S", *["0"] * 18, str((started_s - 1000) * tick_s), *["0"] * 30]
        (proc / str(pid) / "stat").write_text(f"{pid} (a ) name) {' '.join(fields)}\n")
    (proc / "stat").write_text("cpu 1 2 3\nbtime 1000\n")
    assert [(holder.pid, holder.numbers) for holder in Scanner("", proc)(server)] == [(7, (1,)), (8, (2,))]


def test_holders_are_bounded(tmp_path: Path) -> None:
    for pid in range(1, HOLDERS_MAX + 10):
        write(tmp_path, pid, CONTAINER_ID=CONTAINER, CUDA_VISIBLE_DEVICES=SERVER.cards[0].uuid)
    assert len(Scanner("s1", tmp_path)(SERVER)) == HOLDERS_MAX


def test_real_process_is_found_while_it_runs() -> None:
    host = f"only-{os.getpid()}"
    environment = {"CONTAINER_ID": CONTAINER, "CUDA_VISIBLE_DEVICES": SERVER.cards[3].uuid, "NM_HOST": host}
    with subprocess.Popen(["/bin/sleep", "60"], env=environment) as sleeper:
        try:
            found: list[Holder] = []
            while not found:  # until it runs its own program, it has our environment
                found = Scanner(host)(SERVER)
                found = [holder for holder in found if holder.pid == sleeper.pid]
        finally:
            sleeper.kill()
    assert found == [Holder(sleeper.pid, CONTAINER, (3,))]
    assert [holder for holder in Scanner(host)(SERVER) if holder.pid == sleeper.pid] == []


def test_clusters_side_by_side_have_cards_of_their_own(tmp_path: Path) -> None:
    """Hosts of the same name on one machine: nobody's process is taken to be on the other's card."""
    one, other = (open_server("4xV100", None, tmp_path / name, "gpu-a1") for name in ("one", "other"))
    assert not {card.uuid for card in one.cards} & {card.uuid for card in other.cards}
    again = open_server("4xV100", None, tmp_path / "one", "gpu-a1")
    assert [card.uuid for card in again.cards] == [card.uuid for card in one.cards]
