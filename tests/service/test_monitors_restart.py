"""Node monitors and a service that was started anew: whose turn it is to speak is nobody's to choose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from grpc import StatusCode, aio

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from tests.service.raw_monitor import RawMonitor, sample
from yarn_gpu_sched.model.health import Telemetry
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.monitors import link as monitor_link

Link = Callable[[], RawLink]
Monitor = Callable[[], RawMonitor]


@pytest.fixture
def settings() -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, local_monitors=True)


@pytest.fixture
def monitor(channel: aio.Channel) -> Monitor:
    return lambda: RawMonitor(channel)


def telemetry(service: Service, host: str) -> Telemetry:
    views, _ = service.engine.hosts(only=host)
    return views[0].record.telemetry if views else Telemetry.NONE


@pytest.mark.parametrize(
    ("spoken", "host"),
    [
        ("gpu-1.example.org", "gpu-1"),
        ("gpu-1", "gpu-1.example.org"),
        ("gpu-1", "GPU-1"),
        ("Gpu-1", "gpu-1.Example.org"),
    ],
)
async def test_c27_a_monitor_that_came_before_the_resource_manager_speaks_for_the_server_that_is_meant(
    service: Service, link: Link, monitor: Monitor, spoken: str, host: str
) -> None:
    early = await monitor().hello(spoken)
    await early.tell(sample(0))
    await until(lambda: telemetry(service, spoken.lower()) is Telemetry.LIVE)
    await link().open(changes.server(f"{host}:45454"))
    await until(lambda: service.engine.host_of(f"{host}:45454") == host)
    await early.tell(sample(0))
    status, why = await early.ended()
    assert status is StatusCode.ABORTED
    assert host in why
    again = await monitor().hello(spoken)
    await again.tell(sample(0))
    await until(lambda: telemetry(service, host) is Telemetry.LIVE)
    assert [view.host for view in service.engine.hosts()[0]] == [host]
    assert list(service.fleet.hosts) == [host]


async def test_a_monitor_that_says_hello_and_nothing_else_again_and_again_is_silent(
    service: Service, link: Link, monitor: Monitor, clock: FakeClock
) -> None:
    await link().open(changes.server("gpu-1:45454"))
    await settled(service)
    one = await monitor().hello()
    await one.tell(sample(0))
    await until(lambda: telemetry(service, "gpu-1") is Telemetry.LIVE)
    for _ in range(5):
        one = await monitor().hello()
        clock.advance(10.0)
    await until(lambda: telemetry(service, "gpu-1") is Telemetry.SILENT)
    await one.tell(sample(0))
    await until(lambda: telemetry(service, "gpu-1") is Telemetry.LIVE)


async def test_streams_that_say_nothing_leave_room_for_others(
    service: Service, link: Link, monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_link, "UNADMITTED_MAX", 2)
    mute = [monitor(), monitor()]
    await until(lambda: service._monitors._unadmitted == 2)
    code, why = await monitor().ended()
    assert (code, "3 are about to be" in why) == (StatusCode.RESOURCE_EXHAUSTED, True)
    await mute[0].hello("gpu-7")
    monkeypatch.setattr(monitor_link, "MONITORS_MAX", 2)
    code, why = await monitor().ended()
    assert (code, "1 monitors are connected" in why) == (StatusCode.RESOURCE_EXHAUSTED, True)
    mute[1].cancel()
    await until(lambda: service._monitors._unadmitted == 0)
    await monitor().hello("gpu-8")
    await link().open(changes.server("gpu-1:45454"))
    await settled(service)
