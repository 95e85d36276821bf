"""The stream comes back by itself, with pauses that grow, and believes only what keeps to the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from yarn_gpu_sched.monitor import stream as stream_module
from yarn_gpu_sched.monitor.clock import FakeClock
from yarn_gpu_sched.monitor.fake import FakeService
from yarn_gpu_sched.monitor.ring import Event, Ring
from yarn_gpu_sched.monitor.stream import BACKOFF_MAX_S, BACKOFF_MIN_S, STEADY_S, CarriedOut, Stream
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb


class PausedClock(FakeClock):
    """A clock whose waits are over at once, and remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self.most = 8

    async def wait(self, seconds: float, event: asyncio.Event | None = None) -> None:
        assert event is None, "the stream waits for nothing else"
        self.pauses.append(seconds)
        if len(self.pauses) >= self.most:
            await asyncio.Event().wait()
        await asyncio.sleep(0.001)


class Line:
    """A stream by itself, and what it was ordered."""

    def __init__(self, service: FakeService) -> None:
        self.clock = PausedClock()
        self.ring = Ring(16)
        self.orders: list[pb.ReportResponse] = []
        self.renewed = 0
        self.hold = asyncio.Event()
        self.hold.set()
        self.stream = Stream(service.target, self.ring, self.clock, self.hello, self.renew, self.carry_out, lambda: 1.0)

    def hello(self) -> pb.Hello:
        return pb.Hello(protocol_version=1, host="gpu1")

    def renew(self) -> None:
        self.renewed += 1

    async def carry_out(self, order: pb.ReportResponse) -> None:
        await self.hold.wait()
        self.orders.append(order)

    def heard(self, service: FakeService, *, streams: int = 1, slots: int = 0) -> bool:
        return len(service.streams) == streams and len(service.heard.gpus()) >= slots

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.002)


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with FakeService() as made:
        yield made


@pytest.fixture
async def line(service: FakeService) -> AsyncIterator[Line]:
    made = Line(service)
    running = asyncio.ensure_future(made.stream.run())
    yield made
    assert not running.done()
    running.cancel()
    await asyncio.wait({running})


async def test_orders_are_carried_out_in_turn(line: Line, service: FakeService) -> None:
    await service.until(lambda: bool(service.streams))
    line.hold.clear()
    for number in range(5):
        service.heard.order(pb.Binding(container_id=f"c{number}"))
    await asyncio.sleep(0.05)
    assert line.stream.carried_out == CarriedOut(1, 0)
    line.hold.set()
    await line.until(lambda: line.stream.carried_out == CarriedOut(1, 6))
    assert [order.sequence for order in line.orders] == [1, 2, 3, 4, 5, 6]
    assert line.stream.connected


async def test_each_stream_is_renewed_numbered_from_1_and_nothing_is_seen_of_the_one_before(
    line: Line, service: FakeService
) -> None:
    await service.until(lambda: bool(service.streams) and bool(service.heard.told))
    line.stream.seen = line.stream.carried_out
    service.heard.end()
    await service.until(lambda: len(service.streams) == 2 and bool(service.heard.told))
    assert line.renewed == 2
    assert service.heard.told[0].sequence == 1
    assert service.heard.told[0].orders_seen == 0


@pytest.mark.parametrize(
    "wrong",
    [
        pb.ReportResponse(sequence=3),
        pb.ReportResponse(sequence=1, all=True, gone_container_ids=["c"]),
        pb.ReportResponse(sequence=0),
    ],
)
async def test_orders_out_of_sequence_begin_the_stream_anew(
    line: Line, service: FakeService, wrong: pb.ReportResponse
) -> None:
    await line.until(lambda: len(line.orders) == 1)
    service.heard.orders.put_nowait(wrong)
    await service.until(lambda: len(service.streams) == 2)
    assert wrong not in line.orders


def broken(_now_s: float) -> pb.Telemetry:
    raise stream_module.Broken("for this test")


async def test_one_that_is_stopped_just_when_its_stream_ends_does_stop(service: FakeService) -> None:
    for turns in range(12):
        line = Line(service)
        running = asyncio.ensure_future(line.stream.run())
        await line.until(partial(bool, line.orders))
        line.hold.clear()
        service.heard.order()
        await asyncio.sleep(0.01)
        # Two tasks of the stream are ended by the one that fails; so many turns later it is stopped from outside.
        line.ring.take = broken  # type: ignore[method-assign, assignment] # breaks the stream from within
        line.ring.send()
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        done, _ = await asyncio.wait({running}, timeout=2)
        assert done


async def test_pauses_grow_to_a_bound_and_are_jittered(service: FakeService) -> None:
    await service.close()
    line = Line(service)
    line.stream._jitter = iter([0.0, 1.0] * 20).__next__
    with pytest.MonkeyPatch.context() as context:
        context.setattr(stream_module, "CONNECT_S", 0.01)
        running = asyncio.ensure_future(line.stream.run())
        await line.until(lambda: len(line.clock.pauses) == line.clock.most)
        running.cancel()
        await asyncio.wait({running})
    wanted = [min(BACKOFF_MIN_S * 2**number, BACKOFF_MAX_S) * (0.5, 1.0)[number % 2] for number in range(8)]
    assert line.clock.pauses == pytest.approx(wanted)


async def test_after_a_steady_stream_the_pause_is_short_again(line: Line, service: FakeService) -> None:
    for number in range(1, 4):
        await service.until(partial(line.heard, service, streams=number))
        service.heard.end()
    await line.until(lambda: len(line.clock.pauses) == 3)
    await service.until(lambda: len(service.streams) == 4)
    await line.clock.advance(STEADY_S)
    service.heard.end()
    await line.until(lambda: len(line.clock.pauses) == 4)
    assert line.clock.pauses == pytest.approx([0.2, 0.4, 0.8, 0.2])


async def test_why_the_service_does_not_hear_is_said_once(
    service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    await service.close()
    line = Line(service)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(stream_module, "CONNECT_S", 0.01)
        running = asyncio.ensure_future(line.stream.run())
        await line.until(lambda: len(line.clock.pauses) == line.clock.most)
        running.cancel()
        await asyncio.wait({running})
    assert capsys.readouterr().out.count("service_lost") == 1


async def test_an_event_that_may_not_have_arrived_is_told_again_however_late_the_service_comes_back(
    line: Line, service: FakeService
) -> None:
    await service.until(lambda: bool(service.streams))
    line.ring.put_event(Event(line.clock.now_s(), pb.XidEvent(slot=1, xid=79)))
    line.ring.send()
    await service.until(lambda: any(told.xids for told in service.heard.told))
    port = service.port
    await service.close()
    await line.until(lambda: not line.stream.connected)
    line.clock.most = 1_000
    await line.clock.advance(3_600)
    async with FakeService(port=port) as again:
        await again.until(lambda: bool(again.streams) and any(told.xids for told in again.heard.told))
        (xid,) = [each for told in again.heard.told for each in told.xids]
        assert (xid.slot, xid.xid, xid.age_s) == (1, 79, 3_600)


async def test_what_waits_goes_out_in_order(line: Line, service: FakeService) -> None:
    await service.until(lambda: bool(service.streams))
    for slot in range(3):
        line.ring.put_sample(pb.GpuSample(slot=slot))
        line.ring.send()
        await service.until(partial(line.heard, service, slots=slot + 1))
    assert [told.sequence for told in service.heard.told] == list(range(1, len(service.heard.told) + 1))
    await line.until(lambda: line.stream.pushes_total == len(service.heard.told))  # it counts when its write is over
