"""Node monitors that come late, in great numbers, or say nothing: what is kept for them and of them has bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc import StatusCode, aio

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from tests.service.raw_monitor import HOST, RawMonitor, held, sample
from yarn_gpu_sched.engine.views import HostView
from yarn_gpu_sched.model.health import Telemetry
from yarn_gpu_sched.service import FakeClock, Service, Settings

Link = Callable[[], RawLink]
Monitor = Callable[[], RawMonitor]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=1, local_monitors=True, state_dir=str(tmp_path))


@pytest.fixture
def monitor(channel: aio.Channel) -> Monitor:
    return lambda: RawMonitor(channel)


@asynccontextmanager
async def started(settings: Settings) -> AsyncIterator[tuple[Service, aio.Channel]]:
    """Run another service, as after a restart."""
    service = Service(settings, FakeClock(1_000.0))
    await service.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{service.port}") as channel:
            yield service, channel
    finally:
        await service.stop()


def host(service: Service) -> HostView:
    (view,) = service.engine.hosts(only=HOST)[0]
    return view


async def test_a_container_that_ends_after_a_restart_before_its_monitor_is_heard_keeps_no_gpu(
    settings: Settings,
) -> None:
    there = changes.server(), changes.job(), changes.container()
    async with started(settings) as (service, channel):
        await RawLink(channel).open(*there)
        await settled(service)
        await (await RawMonitor(channel).hello()).tell(held(0, "container-1"))
        await until(lambda: host(service).record.telemetry is Telemetry.LIVE)
    async with started(settings) as (service, channel):
        resource_manager = await RawLink(channel).open(*there, epoch=2)
        await settled(service)
        await resource_manager.batch(changes.released())
        await settled(service)
        assert host(service).gpus[0].gpu.out
        one = await RawMonitor(channel).hello()
        assert list(one.orders[0].gone_container_ids) == ["container-1"]
        await one.tell(sample(0))
        await until(lambda: not host(service).gpus[0].gpu.out)


async def test_more_monitors_than_there_may_be_are_refused(
    service: Service, monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarn_gpu_sched.service.monitors.link.MONITORS_MAX", 2)
    first = await monitor().hello("gpu-1")
    await monitor().hello("gpu-2")
    code, sentence = await monitor().ended()
    assert (code, sentence.startswith("2 monitors are connected")) == (StatusCode.RESOURCE_EXHAUSTED, True)
    first.cancel()
    await until(lambda: service.fleet.connected == 1)
    await monitor().hello("gpu-3")


async def test_who_connects_and_says_nothing_is_sent_away(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.service.monitors.link.HELLO_WAIT_S", 0.01)
    assert await monitor().ended() == (StatusCode.ABORTED, "no hello within 0.01 s")


async def test_of_too_many_servers_the_one_that_was_heard_longest_ago_is_forgotten(
    service: Service, clock: FakeClock, monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarn_gpu_sched.service.monitors.fleet.HOSTS_MAX", 2)
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        await monitor().hello(name)
        clock.advance(1.0)
    assert list(service.fleet.hosts) == ["gpu-2", "gpu-3"]
