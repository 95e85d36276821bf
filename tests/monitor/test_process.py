"""`ygs monitor` as a real process over simulated GPUs, killed without warning in between."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.monitor.test_bindings import bound, name
from yarn_gpu_sched.embedded.ports import free_port
from yarn_gpu_sched.monitor.fake import FakeService
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb

HOST = "gpu1-of-a-test"
REPOSITORY = Path(__file__).resolve().parents[2]
WAIT_S = 30.0


class Machine:
    """A server with simulated GPUs; what was started is killed at the end."""

    def __init__(self, service: FakeService, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self.scenario = folder / "scenario.json"
        self.bindings = folder / "bindings"
        self.started: list[subprocess.Popen[bytes]] = []
        self.happen()

    def happen(self, *events: dict[str, object]) -> None:
        new = self.scenario.with_suffix(".new")
        new.write_text(json.dumps({"events": events}))
        new.replace(self.scenario)

    def start(self, *flags: str) -> subprocess.Popen[bytes]:
        settings = {
            "service": self.service.target,
            "host": HOST,
            "state-dir": str(self.folder / "state"),
            "binding-dir": str(self.bindings),
            "simulate": "4xV100",
            "scenario": str(self.scenario),
            "read-every-s": "0.2",
            "push-every-s": "0.5",
        }
        words = [word for key, value in settings.items() for word in (f"--{key}", value)]
        program = "from yarn_gpu_sched.cli import main; main()"
        return self._run([sys.executable, "-c", program, "monitor", *words, *flags], {})

    def container(self, number: int, gpus: str) -> subprocess.Popen[bytes]:
        """Start a process of a container on GPUs."""
        environment = {"CONTAINER_ID": name(number), "CUDA_VISIBLE_DEVICES": gpus, "NM_HOST": HOST}
        return self._run([sys.executable, "-c", "import time; time.sleep(600)"], environment)

    def _run(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{len(self.started)}.log").open("wb")
        everything = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment}
        with log:
            started = subprocess.Popen(command, env=everything, stderr=log, stdout=log)
        self.started.append(started)
        return started

    async def until_all_are_known(self, streams: int = 1) -> None:
        await self.service.until(
            lambda: (
                len(self.service.streams) >= streams
                and len(self.service.heard.cards()) == 4
                and bool(self.service.heard.gpus())
            ),
            WAIT_S,
        )

    async def file(self, number: int) -> str:
        path = self.bindings / name(number)
        async with asyncio.timeout(WAIT_S):
            while not path.exists():
                await asyncio.sleep(0.02)
        return path.read_text()

    def clear(self) -> None:
        for started in self.started:
            with contextlib.suppress(ProcessLookupError):
                started.kill()
            started.wait(10)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    async with FakeService() as service:
        made = Machine(service, tmp_path)
        yield made
        made.clear()


def uuids(machine: Machine) -> list[str]:
    return [card.uuid for card in machine.service.heard.cards()]


def children_of(started: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(started.pid).children(recursive=True)


async def ended(processes: list[psutil.Process]) -> None:
    async with asyncio.timeout(10):
        while any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes):
            await asyncio.sleep(0.02)


async def test_killed_and_started_again_slots_and_bindings_are_the_same_though_a_card_vanished(
    machine: Machine,
) -> None:
    machine.service.bindings = [bound(1, 0, 3, rank=0, world_size=1, hosts=[HOST])]
    first = machine.start()
    await machine.until_all_are_known()
    before, content = uuids(machine), await machine.file(1)
    assert content.startswith(f"{before[0]},{before[3]}\n")
    assert machine.service.heard.hello.simulated
    machine.container(1, content.partition("\n")[0])
    await machine.service.until(lambda: bool(machine.service.heard.gpus()[3].processes), WAIT_S)
    assert machine.service.heard.gpus()[3].processes[0].container_id == name(1)
    children = children_of(first)
    assert children
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    await ended(children)
    machine.happen({"what": "vanish", "at_s": 0, "gpu": 1})
    machine.start()
    await machine.until_all_are_known(2)
    await machine.service.until(lambda: set(machine.service.heard.gpus()) == {0, 2, 3}, WAIT_S)
    assert uuids(machine) == before
    indices = [card.index if card.HasField("index") else None for card in machine.service.heard.cards()]
    assert indices == [0, None, 1, 2]
    assert await machine.file(1) == content
    assert not any(told.refusals for told in machine.service.heard.told)


async def test_a_service_that_is_killed_and_comes_back_is_told_everything(machine: Machine) -> None:
    machine.start()
    await machine.until_all_are_known()
    port = machine.service.port
    await machine.service.close()
    machine.happen({"what": "xid", "at_s": 0, "gpu": 2, "xid": 79})
    async with FakeService(port=port) as machine.service:
        await machine.until_all_are_known()
        await machine.service.until(lambda: set(machine.service.heard.gpus()) == {0, 1, 2, 3}, WAIT_S)
        await machine.service.until(lambda: any(told.xids for told in machine.service.heard.told), WAIT_S)


async def test_c16_a_hung_driver_is_told_and_the_monitor_goes_on(machine: Machine) -> None:
    machine.start("--read-timeout-s", "0.5")
    await machine.until_all_are_known()
    machine.happen({"what": "hang", "at_s": 0})
    heard = machine.service.heard
    await machine.service.until(lambda: heard.told[-1].failure.kind == pb.READ_FAILURE_KIND_TIMED_OUT, WAIT_S)
    count = len(heard.told)
    heard.order(bound(7))
    assert (await machine.file(7)).startswith("\n"), "orders are carried out all the same"
    await machine.service.until(lambda: len(heard.told) >= count + 3, WAIT_S)
    assert heard.told[-1].age_s > 0.5
    machine.happen()
    await machine.service.until(lambda: not heard.told[-1].HasField("failure"), WAIT_S)
    assert len(machine.service.streams) == 1


async def test_a_zombie_refuses_the_next_container_and_is_ended_where_configured(machine: Machine) -> None:
    machine.start("--end-strays", "true")
    await machine.until_all_are_known()
    zombie = machine.container(3, uuids(machine)[2])
    await machine.service.until(lambda: bool(machine.service.heard.gpus()[2].processes), WAIT_S)
    assert zombie.wait(WAIT_S) == -signal.SIGTERM
    await machine.service.until(lambda: not machine.service.heard.gpus()[2].processes, WAIT_S)


async def test_nobody_of_this_servers_containers_is_ended_where_the_slots_may_be_others_than_before(
    machine: Machine,
) -> None:
    machine.service.bindings = [bound(1, 2)]
    first = machine.start("--end-strays", "true")
    await machine.until_all_are_known()
    held = machine.container(1, uuids(machine)[2])
    await machine.service.until(lambda: bool(machine.service.heard.gpus()[2].processes), WAIT_S)
    first.kill()
    first.wait(10)
    (machine.folder / "state" / "slots.json").unlink()
    machine.happen({"what": "vanish", "at_s": 0, "gpu": 0})
    machine.start("--end-strays", "true")
    await machine.service.until(lambda: len(machine.service.streams) == 2, WAIT_S)
    heard = machine.service.heard
    await machine.service.until(lambda: set(heard.gpus()) == {0, 1, 2}, WAIT_S)
    assert heard.gpus()[1].processes[0].container_id == name(1), "its card has another slot"
    zombie = machine.container(3, heard.cards()[2].uuid)
    assert await asyncio.to_thread(zombie.wait, WAIT_S) == -signal.SIGTERM
    assert held.poll() is None


async def test_a_gpu_that_somebody_else_holds_is_refused(machine: Machine) -> None:
    machine.start()
    await machine.until_all_are_known()
    zombie = machine.container(3, uuids(machine)[2])
    await machine.service.until(lambda: bool(machine.service.heard.gpus()[2].processes), WAIT_S)
    machine.service.heard.order(bound(4, 1, 2))
    assert (await machine.file(4)).startswith(f"!GPU 2: held by process {zombie.pid} ")
    await machine.service.until(lambda: any(told.refusals for told in machine.service.heard.told), WAIT_S)
    assert zombie.poll() is None, "nobody is ended unless that is configured"


async def test_sigterm_stops_it_with_its_child_and_its_metrics_are_read_before(machine: Machine) -> None:
    port = free_port()
    started = machine.start("--metrics-listen", f"127.0.0.1:{port}")
    await machine.until_all_are_known()

    def read() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    assert "DCGM_FI_DEV_GPU_UTIL{" in await asyncio.to_thread(read)
    children = children_of(started)
    started.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(started.wait, WAIT_S) == 0
    await ended(children)


async def test_a_scenario_that_is_none_ends_it_with_1(machine: Machine) -> None:
    machine.happen({"what": "vanish", "at_s": 0, "gpu": 9})
    started = machine.start()
    assert await asyncio.to_thread(started.wait, WAIT_S) == 1
    assert "events[0].gpu: 9: right would be 0 to 3" in (machine.folder / "0.log").read_text()
