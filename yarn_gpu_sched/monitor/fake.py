"""Fakes for tests, of integrators too: a service that hears a monitor and orders it about, GPUs that are as they are told to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

import grpc
import grpc.aio
import msgspec

from yarn_gpu_sched.monitor.reading import Failure, GpuReading, GpusReading, HostReading, Xid
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb
from yarn_gpu_sched.protocol.v1 import monitor_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WAIT_S = 10.0


class FakeGpus:
    """A server's GPUs. ``gpus`` may be changed at any time; ``failure`` is said instead while it is set."""

    def __init__(self, gpus: Sequence[GpuReading] = ()) -> None:
        self.gpus = list(gpus)
        self.failure: Failure | None = None
        self.reads = 0
        self._xids: list[Xid] = []
        self._xids_told = 0

    async def read(self) -> GpusReading:
        """See `agent.GpuReader`."""
        self.reads += 1
        xids, self._xids = tuple(self._xids), []
        if self.failure is not None:
            return GpusReading(gpus=None, failure=self.failure, xids=xids)
        return GpusReading(gpus=tuple(self.gpus), xids=xids)

    async def close(self) -> None:
        """See `agent.GpuReader`."""

    def change(self, place: int, **fields: object) -> None:
        """Let the GPU at this place be otherwise."""
        self.gpus[place] = msgspec.structs.replace(self.gpus[place], **fields)

    def remove(self, place: int) -> GpuReading:
        """Let a GPU vanish: those behind it move up."""
        gone = self.gpus.pop(place)
        self.gpus = [msgspec.structs.replace(gpu, index=index) for index, gpu in enumerate(self.gpus)]
        return gone

    def xid(self, uuid: str, number: int) -> None:
        """Let the driver report an error once."""
        self._xids_told += 1
        self._xids.append(Xid(uuid, number, self._xids_told))


class FakeHost:
    """A server beside its GPUs."""

    def __init__(self, reading: HostReading | None = None) -> None:
        self.reading = reading or HostReading(cpu_percent=10.0, memory_used_mb=1_000, memory_total_mb=8_000)

    def read(self) -> HostReading:
        """See `agent.HostReader`."""
        return self.reading


class Heard:
    """One stream of a monitor: what it said, and what it is ordered."""

    def __init__(self, hello: pb.Hello) -> None:
        self.hello = hello
        self.told: list[pb.Telemetry] = []
        self.orders: asyncio.Queue[pb.ReportResponse | None] = asyncio.Queue(1_024)
        self.ended = False
        self._ordered = 0

    def order(self, *bindings: pb.Binding, gone: Sequence[str] = (), all_: bool | None = None) -> int:
        """Order something; the first order lists all. Returns its number."""
        self._ordered += 1
        lists_all = self._ordered == 1 if all_ is None else all_
        message = pb.ReportResponse(sequence=self._ordered, all=lists_all, bindings=bindings, gone_container_ids=gone)
        self.orders.put_nowait(message)
        return self._ordered

    def end(self) -> None:
        """End the stream."""
        self.orders.put_nowait(None)

    def gpus(self) -> dict[int, pb.GpuSample]:
        """Return the GPUs as the monitor told of them, by slot."""
        return {sample.slot: sample for told in self.told for sample in told.gpus}

    def cards(self) -> list[pb.Card]:
        """Return the list of cards that was told last."""
        told = [each for each in self.told if each.cards or each.no_cards]
        return list(told[-1].cards if told else self.hello.cards)


class FakeService(monitor_pb2_grpc.MonitorServiceServicer):
    """The service's side of the protocol on a port of loopback. ``streams`` are all that were begun, the present one last."""

    def __init__(self, bindings: Sequence[pb.Binding] = (), port: int = 0) -> None:
        self.bindings = list(bindings)
        self.streams: list[Heard] = []
        self.port = port
        self.lists_all = True
        """The first order of a stream lists all bindings, as it should."""
        self._server: grpc.aio.Server | None = None
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        monitor_pb2_grpc.add_MonitorServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Listen no more. May be called again."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0)

    @property
    def target(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def heard(self) -> Heard:
        """The present stream."""
        return self.streams[-1]

    async def Report(  # noqa: N802 - the protocol's name
        self, requests: AsyncIterator[pb.ReportRequest], _context: object
    ) -> AsyncIterator[pb.ReportResponse]:
        """See monitor.proto."""
        first = await anext(requests)
        heard = Heard(first.hello)
        self.streams.append(heard)
        heard.order(*self.bindings, all_=self.lists_all)
        await self._notify()
        reading = asyncio.ensure_future(self._hear(heard, requests))
        try:
            while (order := await heard.orders.get()) is not None:
                yield order
        finally:
            heard.ended = True
            reading.cancel()

    async def _hear(self, heard: Heard, requests: AsyncIterator[pb.ReportRequest]) -> None:
        async for request in requests:
            heard.told.append(request.telemetry)
            await self._notify()
        heard.end()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
        """Wait until something is so that depends on what was heard. TimeoutError if it does not become so."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)
