"""What operators see and say, in a terminal of 80 columns, with the product's own service, a resource manager and two monitors."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.cli.terminal import Ended, run_in_terminal
from tests.cli.test_listings import FORBIDDEN, HOSTILE
from tests.client.real_service import real_service
from tests.client.scripted import await_condition
from tests.service.played_monitor import ThreadedMonitor, sample, threaded_monitor
from yarn_gpu_sched.client import Client, FakeResourceManager
from yarn_gpu_sched.protocol.v1 import gpu_pb2, monitor_pb2

COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
WAIT_S = 60.0
JOB = "application_1764450000000_0001"
WHY = ("--reason", "new fan", "--by", "ada")


@dataclass
class World:
    """A service with two servers of four GPUs; the job holds all of the first, and uses one."""

    address: str
    client: Client
    first: ThreadedMonitor
    second: ThreadedMonitor

    def run(self, *arguments: str, **options: Any) -> Ended:  # noqa: ANN401 - of `run_in_terminal`
        return run_in_terminal(*arguments, "--service", self.address, **options)

    def show(self, *arguments: str) -> str:
        ended = self.run(*arguments)
        assert ended.exit_code == 0, ended.shown
        shown = COLOUR.sub("", ended.shown)
        assert FORBIDDEN.findall(shown) == []
        assert max(map(cell_len, shown.splitlines())) <= 80
        return " ".join(shown.split())

    def read(self, *arguments: str) -> Any:  # noqa: ANN401 - whatever the document holds
        return json.loads(self.run(*arguments, "--json").shown)

    def gpu(self, host: str, slot: int) -> gpu_pb2.GpuStatus:
        (server,) = self.client.gpus(host)
        return server.gpus[slot]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    options = ("--local-monitors", "true", "--state-dir", str(tmp_path / "state"), "--idle-after-s", "1")
    with (
        real_service(tmp_path, *options) as address,
        FakeResourceManager(address) as rm,
        Client(address, timeout_s=WAIT_S) as client,
        threaded_monitor(address, "gpu-a1", simulated=True) as first,
        threaded_monitor(address, "gpu-a2") as second,
    ):
        rm.wait(lambda: client.cluster().connected, timeout_s=WAIT_S)
        rm.add_virtual_cluster("root.research", quota_gpus=8)
        rm.add_server("gpu-a1")
        rm.submit(JOB, vc="root.research", tags=["gang:1x4"], user=HOSTILE)
        rm.ask(JOB, 1, gpus=4)
        rm.wait(lambda: len(rm.containers(JOB)) == 1, timeout_s=WAIT_S)
        rm.add_server("gpu-a2")
        await_condition(lambda: len(list(client.gpus())) == 2)
        one = World(address, client, first, second)
        (held,) = rm.containers(JOB)
        process = [monitor_pb2.GpuProcess(pid=4_711, container_id=held.container_id, command=HOSTILE)]
        use = (97, 2, 0, None)
        first.tell(*(sample(slot, sm_percent=each, processes=process) for slot, each in enumerate(use)), age_s=0.1)
        await_condition(lambda: one.gpu("gpu-a1", 0).HasField("sample"))
        yield one


def test_top_is_shown_until_it_is_interrupted_and_leaves_the_terminal_as_it_was(world: World) -> None:
    ended = world.run("top", "--every", "0.5", interrupt_at="simulated")
    assert ended.exit_code == 0
    assert "\x1b[?1049h" in ended.shown
    assert ended.shown.rstrip().endswith("\x1b[?1049l")
    assert JOB in ended.shown


def test_top_of_a_cluster_without_gpus_and_of_a_service_that_is_gone(tmp_path: Path) -> None:
    with real_service(tmp_path) as address:
        assert run_in_terminal("top", "--once", "--service", address).shown.startswith("0 servers, 0 GPUs")
    assert run_in_terminal("top", "--service", address).exit_code == 4


def test_top_shows_use_by_server_and_by_job(world: World) -> None:
    shown = world.show("top", "--once")
    assert "2 servers, 8 GPUs: 4 held, 4 simulated" in shown
    assert "gpu-a1 (simulated GPUs): 4 of 4 GPUs healthy" in shown
    assert f"0 97% 3M/16G used ok {JOB} research" in shown
    assert f"3 \N{EN DASH} 3M/16G \N{EN DASH} ok {JOB} research" in shown
    assert f"{JOB} 4 33% 12M/64G 2 " in world.show("top", "--once", "--by", "job")
    assert "gpu-a2" not in world.show("top", "--once", "--server", "GPU-A1")
    (server,) = world.read("top", "--server", "gpu-a1:45454")["servers"]
    assert [gpu["reading"]["sm_percent"] for gpu in server["gpus"]] == [97, 2, 0, None]
    assert world.run("top", "--once", "--server", "nobody").exit_code == 3


def test_idle_shows_who_holds_gpus_without_using_them(world: World) -> None:
    await_condition(lambda: len(world.client.idle().jobs) == 1)
    await_condition(lambda: world.client.idle().jobs[0].idle_gpus == 2)
    shown = world.show("idle")
    assert f"{JOB} 4 2 1 " in shown
    assert shown.endswith("idle: used less than 5 % for 1s")
    (job,) = world.read("idle")["jobs"]
    assert (job["gpus"], job["idle_gpus"], job["unknown_gpus"], job["hosts"]) == (4, 2, 1, ["gpu-a1"])


def test_a_server_is_drained_and_placed_on_again(world: World) -> None:
    foretold = world.show("drain", "GPU-A1", "--dry-run")
    assert foretold.startswith("would change: nothing new is placed on gpu-a1; what runs there goes on")
    assert foretold.endswith(f"runs there, and goes on: {JOB} nothing was changed")
    assert "HEALTH" not in world.show("servers")
    assert world.show("drain", "gpu-a1", *WHY).endswith("it survives a restart of the service")
    assert "gpu-a1 drained by ada, " in world.show("servers")
    assert world.show("drain", "gpu-a1", *WHY).startswith("it is so already")
    assert world.show("undrain", "gpu-a1:45454", *WHY).startswith("gpu-a1 is placed on again")
    assert "HEALTH" not in world.show("servers")


def test_a_gpu_is_taken_out_and_acknowledged(world: World) -> None:
    said = world.show("quarantine", "gpu-a1", "3", *WHY)
    assert said.startswith("GPU 3 of gpu-a1 is given to nobody until it is acknowledged; it is ok now")
    assert f"runs there, and goes on: {JOB}" in said
    world.second.tell(xids=[monitor_pb2.XidEvent(slot=2, xid=79)])
    await_condition(lambda: world.gpu("gpu-a2", 2).needs_ack)
    shown = world.show("servers")
    assert "1 out, 1 over" in shown
    assert "gpu-a2:45454 /rack-a running 0/4 0-1,3 1 out" in shown, "a GPU that is not well is not free"
    assert re.search(
        r"gpu-a1 3 quarantined for \d+s: operator by ada, \S+Z: new fan, waits for ygs ack; held by", shown
    )
    assert re.search(r"gpu-a2 2 quarantined for \d+s: xid_79, waits for ygs ack", shown)
    assert world.show("ack", "gpu-a2", "GPU-gpu-a2-2", *WHY).startswith("GPU 2 of gpu-a2: xid_79 is acknowledged")
    assert world.gpu("gpu-a2", 2).health == gpu_pb2.GPU_HEALTH_RECOVERING
    assert world.show("ack", "gpu-a2", *WHY).startswith("nothing waits for that")
    assert world.read("ack", "gpu-a1", *WHY)["changes"] == [
        "GPU 3 of gpu-a1: operator is acknowledged; it recovers once it reads well"
    ]


def test_what_is_not_there_or_not_right_has_its_exit_code(world: World) -> None:
    assert world.run("drain", "nobody", *WHY).exit_code == 3
    wrong = world.run("quarantine", "gpu-a1", "7", *WHY)
    assert (wrong.exit_code, "slots: 0, 1, 2, 3" in wrong.shown) == (5, True)
    assert world.run("quarantine", "gpu-a1", *WHY).exit_code == 2
    hostile = world.run("drain", HOSTILE.replace("\0", ""), *WHY)
    assert (hostile.exit_code, FORBIDDEN.findall(hostile.shown)) == (3, [])
