"""Where the NodeManager assigns GPUs itself, that is what counts."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.monitor.server import gpu, gpus, process, uuid
from tests.monitor.test_bindings import Room, all_, bound, name, order
from tests.monitor.watched import CONTAINER, Server, binding
from yarn_gpu_sched.monitor.assigned import NodeManagerWatch
from yarn_gpu_sched.monitor.fake import FakeService
from yarn_gpu_sched.monitor.node_manager import Device, NodeDevices, NodeManagerSilent
from yarn_gpu_sched.monitor.slots import Slots


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    made = Room(tmp_path / "bindings")
    yield made
    for each in made.all:
        each.close()


async def test_a_container_waits_for_the_node_manager_and_gets_what_that_assigned(room: Room) -> None:
    monitor = room.monitor()
    await monitor.follow({})
    await monitor.carry_out(all_(bound(1, 0), bound(2)))
    assert set(room.files()) == {name(2)}, "one without GPUs waits for nobody"
    assert monitor.waits_for_node_manager
    await monitor.follow({name(1): [3]})
    assert room.files()[name(1)].startswith(uuid(3))
    assert monitor.held[name(1)] == {3}


async def test_what_is_assigned_otherwise_is_told_anew(room: Room) -> None:
    monitor = room.monitor()
    await monitor.carry_out(all_(bound(1, 0)))
    await monitor.follow({name(1): [2]})
    assert room.files()[name(1)].startswith(uuid(2))


async def test_gpus_that_it_assigned_and_somebody_holds_are_refused(room: Room) -> None:
    monitor = room.monitor()
    await monitor.follow({})
    room.change(3, processes=(process(99),))
    await monitor.carry_out(all_(bound(1, 0)))
    await monitor.follow({name(1): [3]})
    assert room.files()[name(1)].startswith("!GPU 3: held by process 99")


async def test_one_that_went_while_it_waited_gets_no_file(room: Room) -> None:
    monitor = room.monitor()
    await monitor.follow({})
    await monitor.carry_out(all_(bound(1, 0), bound(2, 1)))
    await monitor.carry_out(order(gone=(1,)))
    await monitor.follow({name(1): [3], name(2): [1]})
    assert set(room.files()) == {name(2)}


async def test_when_it_assigns_no_longer_what_was_decided_counts(room: Room) -> None:
    monitor = room.monitor()
    await monitor.follow({})
    await monitor.carry_out(all_(bound(1, 0)))
    await monitor.follow(None)
    assert room.files()[name(1)].startswith(uuid(0))


def devices(**assigned: int) -> NodeDevices:
    total = tuple(Device(number, number) for number in range(4))
    return NodeDevices(total, {each: (Device(number, number),) for each, number in assigned.items()})


async def test_while_it_is_silent_what_it_told_last_holds_and_that_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    slots = Slots(None)
    slots.place(gpus(4))
    answers: list[NodeDevices | None] = [devices(c1=2)]

    def answer(_address: str) -> NodeDevices | None:
        if not answers:
            raise NodeManagerSilent("no answer")
        return answers.pop()

    watch = NodeManagerWatch("http://nowhere", slots, answer)
    for _ in range(3):
        await watch.ask()
        assert watch.assigned == {"c1": [2]}
    assert capsys.readouterr().out.count("node_manager") == 1
    answers.append(None)
    await watch.ask()
    assert watch.assigned is None
    watch.close()


async def test_c18_a_count_that_differs_from_the_cards_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    slots = Slots(None)
    slots.place([gpu(0, 0), gpu(2, 1), gpu(3, 2)])
    watch = NodeManagerWatch("http://nowhere", slots, lambda _address: devices())
    await watch.ask()
    assert "gives out 4 GPUs, this server has 3" in capsys.readouterr().out
    watch.close()


@pytest.fixture
def node_manager() -> Iterator[dict[str, object]]:
    """Run a NodeManager that answers with what the dictionary holds; its address is there too."""
    said: dict[str, object] = {"assigned": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            total = [{"index": number, "minorNumber": number} for number in range(4)]
            body = json.dumps({"totalGpuDevices": total, "assignedGpuDevices": said["assigned"]}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    said["address"] = f"http://127.0.0.1:{server.server_port}"
    yield said
    server.shutdown()
    server.server_close()
    thread.join()


async def test_the_service_is_told_and_the_file_follows(node_manager: dict[str, object], tmp_path: Path) -> None:
    async with FakeService([binding(0)]) as service:
        server = Server(service, tmp_path)
        server.start(node_manager=node_manager["address"])
        await server.heard()
        await server.advance(2)
        file = tmp_path / "bindings" / CONTAINER
        assert not file.exists()
        assert server.told[-1].assigns
        node_manager["assigned"] = [{"index": 1, "minorNumber": 1, "containerId": CONTAINER}]
        await server.advance_until(f"(self.directory / 'bindings' / '{CONTAINER}').exists()")
        assert file.read_text().startswith(uuid(1))
        await server.advance_until("bool(self.told[-1].assigned)")
        (assigned,) = server.told[-1].assigned
        assert (assigned.container_id, list(assigned.slots)) == (CONTAINER, [1])
        await server.kill()
        await asyncio.sleep(0)
