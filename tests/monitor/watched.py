"""One server with its monitor and the service that hears it, for tests of the whole monitor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.monitor.server import gpus, uuid
from yarn_gpu_sched.monitor.agent import Agent
from yarn_gpu_sched.monitor.clock import FakeClock
from yarn_gpu_sched.monitor.fake import FakeGpus, FakeHost, FakeService
from yarn_gpu_sched.monitor.settings import Settings
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb

CONTAINER = "container_1700000000000_0001_01_000002"
JOB = "application_1700000000000_0001"


class Server:
    """One server: its GPUs, its monitor, and the service that hears it."""

    def __init__(self, service: FakeService, directory: Path) -> None:
        self.service = service
        self.clock = FakeClock(1_000.0)
        self.gpus = FakeGpus(gpus(4))
        self.host = FakeHost()
        self.directory = directory
        self.agent: Agent | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self, **settings: object) -> Agent:
        found = {
            "service": self.service.target,
            "host": "gpu1",
            "state_dir": str(self.directory / "state"),
            "binding_dir": str(self.directory / "bindings"),
        }
        chosen = Settings(**(found | settings))  # type: ignore[arg-type] # checked by pydantic
        self.agent = Agent(chosen, self.gpus, self.host, self.clock)
        self._running = asyncio.ensure_future(self.agent.run())
        return self.agent

    async def kill(self) -> None:
        """End it without a word, as kill -9 does."""
        if self._running is not None and self.agent is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
            self.agent.close()
        self._running = None

    async def heard(self, streams: int = 1) -> None:
        """Wait until the service has heard of all GPUs on the so manieth stream."""
        await self.service.until(
            lambda: len(self.service.streams) >= streams and len(self.service.heard.cards()) == 4 and bool(self.told)
        )

    @property
    def told(self) -> list[pb.Telemetry]:
        return self.service.heard.told

    async def advance(self, seconds: float) -> None:
        """Let time pass in steps, so that what runs in threads and over loopback keeps up."""
        for _ in range(round(seconds * 2)):
            await self.clock.advance(0.5)
            await asyncio.sleep(0.005)

    async def advance_until(self, what: str, seconds_max: float = 30) -> float:
        """Let time pass until a condition of `self` holds; return the seconds."""
        passed_s = 0.0
        while not eval(what, {"self": self, "pb": pb, "uuid": uuid}):  # noqa: S307 - written in this file
            assert passed_s < seconds_max, f"never: {what}"
            await self.advance(0.5)
            passed_s += 0.5
        return passed_s


def binding(*slots: int, container_id: str = CONTAINER) -> pb.Binding:
    return pb.Binding(container_id=container_id, job_id=JOB, slots=slots)


@asynccontextmanager
async def watched_server(folder: Path) -> AsyncIterator[Server]:
    """Run the service of a server; the monitor is for the test to start."""
    async with FakeService() as service:
        made = Server(service, folder)
        yield made
        await made.kill()
