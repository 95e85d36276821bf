"""A node monitor that says exactly what a test wants, for the service's side of the stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import grpc
from grpc import aio

from tests.service.raw_link import BOUND_S
from yarn_gpu_sched.protocol.v1 import monitor_pb2, monitor_pb2_grpc

HOST = "gpu-1"


def cards(count: int = 4, host: str = HOST, **more: Any) -> list[monitor_pb2.Card]:  # noqa: ANN401 - fields of a message
    """Make the cards of a server."""
    return [monitor_pb2.Card(slot=n, uuid=f"GPU-{host}-{n}", index=n, model="V100", **more) for n in range(count)]


def sample(slot: int, **more: Any) -> monitor_pb2.GpuSample:  # noqa: ANN401 - fields of a message
    """Make a sample of a GPU that is well, and free unless said otherwise."""
    fields: dict[str, Any] = {"memory_used_mb": 4, "memory_total_mb": 16_384, "sm_percent": 0, **more}
    return monitor_pb2.GpuSample(slot=slot, **fields)


def held(slot: int, *container_ids: str, **more: Any) -> monitor_pb2.GpuSample:  # noqa: ANN401 - fields of a message
    """Make a sample of a GPU that processes of containers hold."""
    processes = [
        monitor_pb2.GpuProcess(pid=100 + number, container_id=name, memory_mb=9_000)
        for number, name in enumerate(container_ids)
    ]
    return sample(slot, **{"memory_used_mb": 9_000, "sm_percent": 90, "processes": processes, **more})


class RawMonitor:
    """One stream of a monitor."""

    def __init__(self, channel: aio.Channel) -> None:
        self._call: Any = monitor_pb2_grpc.MonitorServiceStub(channel).Report()
        self.sequence = 0
        self.orders: list[monitor_pb2.ReportResponse] = []

    async def hello(self, host: str = HOST, **more: Any) -> RawMonitor:  # noqa: ANN401 - fields of a message
        """Say hello, with 4 cards unless said otherwise, and take the first order."""
        fields: dict[str, Any] = {
            "protocol_version": 1,
            "host": host,
            "agent": "test",
            "push_every_s": 5.0,
            "cards": cards(host=host),
            **more,
        }
        await self.write(monitor_pb2.ReportRequest(hello=monitor_pb2.Hello(**fields)))
        await self.order()
        return self

    async def write(self, message: monitor_pb2.ReportRequest) -> None:
        async with asyncio.timeout(BOUND_S):
            await self._call.write(message)

    async def tell(self, *gpus: monitor_pb2.GpuSample, **more: Any) -> None:  # noqa: ANN401 - fields of a message
        """Send the next message of telemetry."""
        self.sequence += 1
        fields: dict[str, Any] = {"sequence": self.sequence, "orders_seen": self.seen, "gpus": gpus, **more}
        await self.write(monitor_pb2.ReportRequest(telemetry=monitor_pb2.Telemetry(**fields)))

    @property
    def seen(self) -> int:
        """Number of the last order taken."""
        return self.orders[-1].sequence if self.orders else 0

    async def order(self) -> monitor_pb2.ReportResponse:
        """Take the next order."""
        async with asyncio.timeout(BOUND_S):
            message: monitor_pb2.ReportResponse = await self._call.read()
        assert isinstance(message, monitor_pb2.ReportResponse), "the stream has ended"
        self.orders.append(message)
        return message

    async def ordered(self, condition: Callable[[monitor_pb2.ReportResponse], object]) -> monitor_pb2.ReportResponse:
        """Take orders until one is as wanted."""
        while not condition(message := await self.order()):
            pass
        return message

    async def ended(self) -> tuple[grpc.StatusCode, str]:
        """Wait until the stream has ended; say how. What was ordered before that is taken: gRPC tells the end after it."""
        async with asyncio.timeout(BOUND_S):
            with contextlib.suppress(aio.AioRpcError):
                while isinstance(message := await self._call.read(), monitor_pb2.ReportResponse):
                    self.orders.append(message)
            return await self._call.code(), await self._call.details()

    def cancel(self) -> None:
        """Go away."""
        self._call.cancel()
