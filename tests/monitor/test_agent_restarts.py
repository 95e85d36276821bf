"""Monitor and service come and go: what is told then, and what stays."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.monitor.server import process, uuid
from tests.monitor.watched import CONTAINER, Server, binding, watched_server
from yarn_gpu_sched.monitor.fake import FakeService
from yarn_gpu_sched.monitor.reading import Failure, FailureKind, GpusReading
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with watched_server(tmp_path) as made:
        yield made


async def test_c16_while_gpus_cannot_be_read_from_the_start_cards_are_those_of_before_and_none_has_vanished(
    server: Server,
) -> None:
    server.start()
    await server.heard()
    await server.kill()
    server.gpus.failure = Failure(FailureKind.NO_DRIVER)
    server.start()
    await server.service.until(lambda: len(server.service.streams) == 2 and bool(server.told))
    assert [card.index for card in server.service.heard.hello.cards] == [0, 1, 2, 3]
    assert not server.told[0].cards
    assert server.told[0].failure.kind == pb.READ_FAILURE_KIND_NO_DRIVER


async def test_its_first_word_waits_for_the_first_reading_and_says_which_cards_there_are(server: Server) -> None:
    read, allowed = server.gpus.read, asyncio.Event()

    async def slowly() -> GpusReading:
        await allowed.wait()
        return await read()

    server.gpus.read = slowly  # type: ignore[method-assign] # slower, for once
    server.start()
    await asyncio.sleep(0.2)
    assert not server.service.streams
    allowed.set()
    await server.service.until(lambda: bool(server.service.streams))
    assert [card.index for card in server.service.heard.hello.cards] == [0, 1, 2, 3]


async def test_c20_an_xid_while_the_service_is_away_is_told_with_its_age(server: Server) -> None:
    server.start()
    await server.heard()
    await server.advance(2)
    port = server.service.port
    await server.service.close()
    server.gpus.xid(uuid(2), 79)
    await server.advance(2)
    for used_mb in range(100, 200, 10):
        server.gpus.change(0, memory_used_mb=used_mb)
        await server.advance(5)
    async with FakeService(port=port) as server.service:
        for _ in range(200):
            if server.service.streams and any(told.xids for told in server.told):
                break
            await server.advance(0.5)
            await asyncio.sleep(0.05)
        (xid,) = [each for told in server.told for each in told.xids]
        assert (xid.slot, xid.xid) == (2, 79)
        assert xid.age_s > 50
        assert sum(told.dropped for told in server.told) >= 8
        assert server.service.heard.gpus()[0].memory_used_mb == 190
        assert server.told[0].age_s < 2
        await server.kill()


async def test_killed_and_started_again_it_has_the_same_slots_and_bindings(server: Server) -> None:
    server.service.bindings = [binding(0, 3)]
    server.start()
    await server.heard()
    await server.advance_until(f"(self.directory / 'bindings' / '{CONTAINER}').exists()")
    content = (server.directory / "bindings" / CONTAINER).read_text()
    await server.kill()
    server.gpus.remove(1)
    server.gpus.change(0, processes=(process(5, CONTAINER),), memory_used_mb=9_000)
    server.start()
    await server.heard(2)
    await server.advance_until("len(self.service.heard.gpus()) == 3")
    assert set(server.service.heard.gpus()) == {0, 2, 3}
    assert (server.directory / "bindings" / CONTAINER).read_text() == content
    assert not any(told.refusals for told in server.told)


async def test_a_service_that_breaks_off_is_told_everything_again_on_the_next_stream(server: Server) -> None:
    server.start()
    await server.heard()
    await server.advance_until("len(self.service.heard.gpus()) == 4")
    server.service.heard.end()
    await server.advance_until("len(self.service.streams) == 2 and len(self.service.heard.gpus()) == 4")
    assert server.told[0].sequence == 1
    assert server.told[-1].orders_seen <= 1


async def test_a_second_monitor_of_a_vanished_card_shows_the_empty_slot(server: Server) -> None:
    server.start()
    await server.heard()
    server.gpus.remove(1)
    await server.advance_until("not self.service.heard.cards()[1].HasField('index')")
    assert [card.index for card in server.service.heard.cards()] == [0, 0, 1, 2]


async def test_the_service_may_be_away_from_the_start(tmp_path: Path) -> None:
    async with FakeService() as service:
        port = service.port
    absent = FakeService(port=port)
    server = Server(absent, tmp_path)
    agent = server.start()
    await server.advance(10)
    assert agent.shown.levels["ygs_monitor_connected"] == 0
    assert len(agent.slots.cards) == 4
    async with absent:
        for _ in range(200):
            if absent.streams and absent.heard.gpus():
                break
            await server.advance(0.5)
            await asyncio.sleep(0.05)
        assert len(absent.heard.cards()) == 4
        await server.kill()


async def test_an_error_of_any_part_ends_the_whole(server: Server) -> None:
    agent = server.start()
    await server.heard()

    async def broken() -> GpusReading:
        raise RuntimeError("a fault of the monitor")

    server.gpus.read = broken  # type: ignore[method-assign] # broken for this test
    await server.advance(2)
    assert server._running is not None
    assert server._running.done()
    with contextlib.suppress(ExceptionGroup):
        await server._running
    assert agent is server.agent
