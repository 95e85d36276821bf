"""A whole monitor over loopback against a service, with GPUs and a clock that are told what to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.monitor.server import gpu, process, uuid
from tests.monitor.watched import CONTAINER, JOB, Server, binding, watched_server
from yarn_gpu_sched.monitor.reading import Failure, FailureKind, GpusReading


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with watched_server(tmp_path) as made:
        yield made


async def test_it_says_who_it_is_and_all_it_knows(server: Server) -> None:
    server.start(push_every_s=7)
    await server.heard()
    await server.advance_until("len(self.service.heard.gpus()) == 4")
    hello = server.service.heard.hello
    assert (hello.protocol_version, hello.host, hello.push_every_s, hello.simulated) == (1, "gpu1", 7.0, False)
    assert hello.agent.startswith("ygs monitor ")
    assert [card.uuid for card in server.service.heard.cards()] == [uuid(number) for number in range(4)]
    assert any(told.host.memory_total_mb == 8_000 for told in server.told)


async def test_messages_are_numbered_and_come_at_least_every_push_every_s(server: Server) -> None:
    server.start()
    await server.heard()
    await server.advance(6)
    count = len(server.told)
    await server.advance(20)
    assert [told.sequence for told in server.told] == list(range(1, len(server.told) + 1))
    assert len(server.told) == count + 4
    assert not server.told[-1].gpus


async def test_a_change_of_state_is_told_with_the_next_reading(server: Server) -> None:
    server.start()
    await server.heard()
    await server.advance(6)
    server.gpus.change(2, processes=(process(99),))
    passed_s = await server.advance_until("len(self.service.heard.gpus()[2].processes) == 1")
    assert passed_s <= 2


async def test_c16_gpus_that_cannot_be_read_are_told_each_reading_and_slots_stay(server: Server) -> None:
    agent = server.start()
    await server.heard()
    await server.advance(2)
    server.gpus.failure = Failure(FailureKind.DRIVER_MISMATCH, "Driver/library version mismatch")
    await server.advance_until("self.told[-1].HasField('failure')")
    count = len(server.told)
    await server.advance(4)
    assert len(server.told) >= count + 3
    assert server.told[-1].age_s >= 3
    server.gpus.failure = None
    await server.advance_until("not self.told[-1].HasField('failure')")
    assert agent.slots.vanished == []
    assert agent.shown.failed_reads == {"driver_mismatch": agent.shown.failed_reads["driver_mismatch"]}


async def test_an_order_is_not_seen_by_a_reading_that_failed(server: Server) -> None:
    agent = server.start()
    await server.heard()
    await server.advance_until("self.told[-1].orders_seen == 1")
    server.gpus.failure = Failure(FailureKind.TIMED_OUT)
    number = server.service.heard.order(gone=[CONTAINER])
    await server.advance(3)
    assert agent.stream.carried_out.order == number
    assert server.told[-1].orders_seen == 1
    server.gpus.failure = None
    await server.advance_until(f"self.told[-1].orders_seen == {number}")


async def test_an_order_becomes_a_file_and_the_reading_after_it_says_so(server: Server) -> None:
    server.start()
    await server.heard()
    await server.advance(2)
    number = server.service.heard.order(binding(0, 3))
    await server.advance_until(
        f"self.told[-1].orders_seen >= {number} or (self.directory / 'bindings' / '{CONTAINER}').exists()"
    )
    content = (server.directory / "bindings" / CONTAINER).read_text()
    assert content.startswith(f"{uuid(0)},{uuid(3)}\n")
    await server.advance_until(f"self.told[-1].orders_seen == {number}")


async def test_when_a_container_is_gone_it_looks_and_tells_at_once(server: Server) -> None:
    server.service.bindings = [binding(1)]
    server.start(read_every_s=60, push_every_s=60)
    await server.heard()
    await server.service.until(lambda: server.told[-1].orders_seen == 1)
    assert (server.directory / "bindings" / CONTAINER).exists()
    reads = server.gpus.reads
    number = server.service.heard.order(gone=[CONTAINER])
    await server.service.until(lambda: server.told[-1].orders_seen == number)
    assert server.gpus.reads == reads + 1
    assert not (server.directory / "bindings" / CONTAINER).exists()
    assert server.clock.now_s() < 1_060, "no timer had to run out"


async def test_orders_seen_counts_only_what_was_done_before_the_reading_began(server: Server) -> None:
    agent = server.start(read_every_s=60, push_every_s=60)
    await server.heard()
    await server.service.until(lambda: server.told[-1].orders_seen == 1)
    read, began, allowed = server.gpus.read, asyncio.Event(), asyncio.Semaphore(0)

    async def slowly() -> GpusReading:
        began.set()
        await allowed.acquire()
        return await read()

    server.gpus.read = slowly  # type: ignore[method-assign] # slower, for once
    looking = asyncio.ensure_future(agent.fresh())
    await began.wait()
    number = server.service.heard.order(gone=["container_1700000000000_0001_01_000009"])
    while agent.stream.carried_out.order < number:
        await asyncio.sleep(0.001)
    allowed.release()
    await looking
    assert agent.stream.seen.order == 1
    allowed.release()
    await server.service.until(lambda: server.told[-1].orders_seen == number)


async def test_a_gpu_that_is_not_free_is_refused_and_reported(server: Server) -> None:
    server.gpus.change(1, processes=(process(99),))
    server.start()
    await server.heard()
    server.service.heard.order(binding(0, 1))
    await server.advance_until("any(told.refusals for told in self.told)")
    (refusal,) = [each for told in server.told for each in told.refusals]
    assert (refusal.container_id, list(refusal.slots)) == (CONTAINER, [1])
    assert (server.directory / "bindings" / CONTAINER).read_text().startswith("!GPU 1: held by process 99")


async def test_a_checkpoint_is_told_and_what_was_seen_before_is_no_news(server: Server) -> None:
    server.service.bindings = [binding(0)]
    server.start()
    await server.heard()
    file = server.directory / "bindings" / "~checkpoints" / CONTAINER
    await server.advance_until(f"(self.directory / 'bindings' / '~checkpoints' / '{CONTAINER}').exists()")
    file.write_text("")
    await server.advance_until("any(told.checkpointed_container_ids for told in self.told)")
    assert [each for told in server.told for each in told.checkpointed_container_ids] == [CONTAINER]
    await server.kill()
    server.start()
    await server.heard(2)
    await server.advance(6)
    assert not any(told.checkpointed_container_ids for told in server.told)


async def test_places_move_and_files_by_place_follow(server: Server) -> None:
    server.service.bindings = [binding(0, 3)]
    server.start(binding_names="index")
    await server.heard()
    file = server.directory / "bindings" / CONTAINER
    await server.advance_until(f"(self.directory / 'bindings' / '{CONTAINER}').exists()")
    assert file.read_text().startswith("0,3\n")
    server.gpus.remove(1)
    await server.advance_until(f"(self.directory / 'bindings' / '{CONTAINER}').read_text().startswith('0,2')")


async def test_a_host_that_hangs_holds_nothing_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.monitor.agent.HOST_WAIT_S", 0.01)
    hang = threading.Event()
    monkeypatch.setattr(server.host, "read", hang.wait)
    server.start()
    await server.heard()
    reads = server.gpus.reads
    await server.advance(5)
    assert server.gpus.reads >= reads + 4
    assert not any(told.HasField("host") for told in server.told)
    hang.set()


async def test_strays_are_counted_once_the_service_has_named_the_containers(server: Server) -> None:
    server.service.lists_all = False
    server.gpus.change(1, processes=(process(99),))
    agent = server.start()
    await server.heard()
    await server.advance(3)
    assert agent.shown.levels["ygs_monitor_strays"] == 0, "not all containers are named yet"
    server.service.heard.order(all_=True)
    await server.advance(3)
    assert agent.shown.levels["ygs_monitor_strays"] == 1
    assert agent.strays.ended_total == 0, "nobody is ended unless that is configured"


async def test_a_stray_that_hangs_holds_nothing_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `/proc` does of a process that the driver holds."""
    server.gpus.change(1, processes=(process(99),))
    hang = threading.Event()
    monkeypatch.setattr("yarn_gpu_sched.monitor.strays.Strays.see", lambda *_: hang.wait())
    server.start(end_strays=True)
    await server.heard()
    reads = server.gpus.reads
    await server.advance(5)
    assert server.gpus.reads >= reads + 4
    hang.set()


async def test_a_gpu_with_a_name_that_is_held_shows_its_job(server: Server) -> None:
    server.service.bindings = [binding(2)]
    agent = server.start()
    await server.heard()
    await server.advance_until("self.agent.shown.gpus and self.agent.shown.gpus[2].job_id")
    assert [(each.slot, each.job_id, each.container_id) for each in agent.shown.gpus][2] == (2, JOB, CONTAINER)
    assert agent.shown.gpus[0].job_id == ""
    assert gpu(2) == agent.shown.gpus[2].gpu


async def test_series_of_impossible_values_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.monitor.agent.BAD_FIELDS_KEPT_MAX", 3)
    agent = server.start()
    await server.heard()
    for turn in range(4):
        server.gpus.change(0, bad_fields=("memory_used_mb", f"a{turn}", f"b{turn}"))
        await server.advance(1)
    assert len(agent.shown.bad_fields) == 3
    assert agent.shown.bad_fields[0, "memory_used_mb"] >= 4
