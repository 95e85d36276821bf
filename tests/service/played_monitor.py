"""Node monitors that say what a test has them say: over a channel of asyncio's, or from a thread of its own."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from grpc import aio

from yarn_gpu_sched.protocol.v1 import monitor_pb2, monitor_pb2_grpc

GPUS = 4


def card(slot: int, host: str = "gpu-a1", **fields: Any) -> monitor_pb2.Card:  # noqa: ANN401 - fields of Card
    return monitor_pb2.Card(
        **{"slot": slot, "uuid": f"GPU-{host}-{slot}", "index": slot, "model": "V100", "memory_mb": 16_384, **fields}
    )


def hello(host: str, cards: list[monitor_pb2.Card] | None = None, *, simulated: bool = False) -> monitor_pb2.Hello:
    return monitor_pb2.Hello(
        protocol_version=1,
        host=host,
        agent="a test",
        cards=[card(slot, host) for slot in range(GPUS)] if cards is None else cards,
        simulated=simulated,
        push_every_s=5,
    )


def sample(slot: int, **fields: Any) -> monitor_pb2.GpuSample:  # noqa: ANN401 - fields of GpuSample
    """Return what was read of a GPU; a field that is None is not available."""
    read = {
        "sm_percent": 0,
        "memory_used_mb": 3,
        "memory_total_mb": 16_384,
        "temperature_c": 41,
        "power_w": 52,
        **fields,
    }
    return monitor_pb2.GpuSample(slot=slot, **{name: value for name, value in read.items() if value is not None})


class Numbered:
    """Numbers messages as the protocol wants it."""

    def __init__(self) -> None:
        self._sequence = 0

    def telemetry(self, **fields: Any) -> monitor_pb2.ReportRequest:  # noqa: ANN401 - fields of Telemetry
        self._sequence += 1
        return monitor_pb2.ReportRequest(telemetry=monitor_pb2.Telemetry(sequence=self._sequence, **fields))


class PlayedMonitor:
    """A monitor on asyncio's side; `start` has it read its cards once, and nothing else."""

    def __init__(self, channel: aio.Channel, host: str) -> None:
        self.host = host
        self.call = monitor_pb2_grpc.MonitorServiceStub(channel).Report()
        self._numbered = Numbered()

    async def start(self, **fields: Any) -> PlayedMonitor:  # noqa: ANN401 - fields of the hello
        await self.call.write(monitor_pb2.ReportRequest(hello=hello(self.host, **fields)))
        await self.call.read()
        await self.tell()
        return self

    async def tell(self, *samples: monitor_pb2.GpuSample, **fields: Any) -> None:  # noqa: ANN401 - fields of Telemetry
        await self.call.write(self._numbered.telemetry(gpus=samples, **fields))


class ThreadedMonitor:
    """A monitor for tests that do not run on asyncio's loop."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.messages: queue.SimpleQueue[monitor_pb2.ReportRequest | None] = queue.SimpleQueue()
        self._numbered = Numbered()

    def tell(self, *samples: monitor_pb2.GpuSample, **fields: Any) -> None:  # noqa: ANN401 - fields of Telemetry
        self.messages.put(self._numbered.telemetry(gpus=samples, **fields))


@contextmanager
def threaded_monitor(address: str, host: str, **fields: Any) -> Iterator[ThreadedMonitor]:  # noqa: ANN401 - fields of the hello
    """Speak for a server until the block ends; the service has taken its hello when it begins."""
    monitor = ThreadedMonitor(host)
    monitor.messages.put(monitor_pb2.ReportRequest(hello=hello(host, **fields)))
    monitor.tell()
    with grpc.insecure_channel(address) as channel:
        call = monitor_pb2_grpc.MonitorServiceStub(channel).Report(iter(monitor.messages.get, None))
        next(call)
        try:
            yield monitor
        finally:
            monitor.messages.put(None)
            call.cancel()
