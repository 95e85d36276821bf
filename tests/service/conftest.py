"""A real service on a port of its own, with a clock that tests move."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from grpc import aio

from tests.service.raw_link import BOUND_S, RawLink
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.log import configure_logging

if TYPE_CHECKING:
    from yarn_gpu_sched.engine import Engine


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000.0)


@pytest.fixture
def settings() -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0)


@pytest_asyncio.fixture
async def service(settings: Settings, clock: FakeClock) -> AsyncIterator[Service]:
    configure_logging("error")
    one = Service(settings, clock)
    await one.start()
    yield one
    await one.stop()


@pytest_asyncio.fixture
async def channel(service: Service) -> AsyncIterator[aio.Channel]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with aio.insecure_channel(f"127.0.0.1:{service.port}", options=options) as one:
        yield one


@pytest.fixture
def link(channel: aio.Channel) -> Callable[[], RawLink]:
    return lambda: RawLink(channel)


async def until(condition: Callable[[], Any]) -> None:
    """Let the event loop go on until a condition holds; its bound is generous."""
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.001)


async def heard(service: Service, messages: int) -> None:
    """Wait until so many messages of node monitors were taken since the service started."""
    await until(lambda: service.metrics.monitor_messages._value.get() == messages)


async def settled(service: Service) -> "Engine":
    """Wait until all that the current stream said is applied; the engine's laws must hold then."""
    session = service.driver.session
    if session is not None:
        link = RawLink.opened[session.session_id]
        await until(lambda: session.received == link.sequence or session.ended.done())
    await service.driver.settle()
    assert service.engine.audit() == []
    return service.engine
