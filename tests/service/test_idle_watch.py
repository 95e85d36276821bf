"""Who holds GPUs without using them: shown, warned of, or made to give way, as the settings say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from grpc import aio

from tests.service import changes
from tests.service.conftest import heard, settled, until
from tests.service.raw_link import RawLink
from tests.service.raw_monitor import RawMonitor, held
from yarn_gpu_sched.protocol.v1 import gpu_pb2, gpu_pb2_grpc
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.driver import Events

Link = Callable[[], RawLink]


@pytest.fixture(params=["show", "warn", "preempt"])
def settings(request: pytest.FixtureRequest) -> Settings:
    return Settings(
        listen="127.0.0.1:0",
        audit_every_events=0,
        local_monitors=True,
        idle_jobs=request.param,
        idle_after_s=60.0,
        monitor_silent_after_s=3_600.0,
    )


async def idle(channel: aio.Channel) -> list[gpu_pb2.IdleJob]:
    answer = await gpu_pb2_grpc.GpuServiceStub(channel).ListIdle(gpu_pb2.ListIdleRequest())
    return list(answer.jobs)


async def reads(service: Service, one: RawMonitor, *percents: int | None) -> None:
    """Have the monitor read its GPUs, and wait until the service knows."""
    count = service.metrics.monitor_messages._value.get()
    samples = [held(slot, "container-1", sm_percent=percent) for slot, percent in enumerate(percents)]
    await one.tell(*samples)
    await heard(service, count + 1)


async def test_a_job_is_idle_when_none_of_its_gpus_was_used_for_long_enough(
    service: Service, clock: FakeClock, link: Link, channel: aio.Channel
) -> None:
    await link().open(changes.server(), changes.job(tags=["gang:1x2"]), changes.container(gpu_indices=(0, 1)))
    await settled(service)
    one = await RawMonitor(channel).hello()
    await reads(service, one, 1, 2)
    clock.advance(59.0)
    assert await idle(channel) == []
    clock.advance(1.0)
    (job,) = await idle(channel)
    assert (job.job_id, job.user, job.gpus, job.idle_gpus, job.idle_s) == ("job-1", "ada", 2, 2, 60.0)
    assert list(job.hosts) == ["gpu-1"]
    clock.advance(10.0)
    follow = service.settings.idle_jobs
    record = service.engine._core.state.jobs["job-1"]
    await until(lambda: service._idle_watch.idle.get("job-1") is (follow == "preempt"))
    assert record.tenure.idle is (follow == "preempt")
    (job,) = await idle(channel)
    assert (job.warned, job.preemptable) == (follow != "show", follow == "preempt")
    assert service.metrics.idle_jobs._value.get() == 1
    await reads(service, one, 90, 2)
    assert [(job.idle_gpus, job.gpus) for job in await idle(channel)] == [(1, 2)]
    clock.advance(10.0)
    await until(lambda: not record.tenure.idle)
    assert service._idle_watch.idle == {}


async def test_c17_nobody_is_called_idle_of_whose_gpus_nobody_can_tell(
    service: Service, clock: FakeClock, link: Link, channel: aio.Channel
) -> None:
    await link().open(changes.server(), changes.job(), changes.container(gpu_indices=(0, 1)))
    await settled(service)
    one = await RawMonitor(channel).hello()
    await reads(service, one, 0, None)
    clock.advance(120.0)
    (job,) = await idle(channel)
    assert (job.idle_gpus, job.unknown_gpus) == (1, 1)
    assert service._idle_watch.idle == {}


async def test_what_was_idle_before_a_job_had_it_does_not_count(
    service: Service, clock: FakeClock, link: Link, channel: aio.Channel
) -> None:
    resource_manager = await link().open(changes.server())
    one = await RawMonitor(channel).hello()
    await reads(service, one, 0, 0, 0, 0)
    clock.advance(1_000.0)
    await resource_manager.heartbeat()
    resource_manager = await link().open(changes.server(), changes.job(), changes.container(gpu_indices=(0,)), epoch=2)
    await settled(service)
    assert await idle(channel) == []
    clock.advance(61.0)
    assert [job.job_id for job in await idle(channel)] == ["job-1"]


async def test_who_uses_its_gpus_again_while_the_engine_is_being_told_is_not_left_idle(
    service: Service, clock: FakeClock, link: Link, channel: aio.Channel
) -> None:
    """The engine may be busy for longer than from one look to the next."""
    await link().open(changes.server(), changes.job(), changes.container(gpu_indices=(0,)))
    await settled(service)
    one = await RawMonitor(channel).hello()
    may_tell, watch, tell = asyncio.Event(), service._idle_watch, service.driver.tell

    async def late(make: Events) -> None:
        await may_tell.wait()
        await tell(make)

    watch._tell = late
    await reads(service, one, 1)
    clock.advance(70.0)
    await reads(service, one, 90)
    clock.advance(10.0)
    may_tell.set()
    await until(lambda: watch._telling is None or watch._telling.done())
    clock.advance(10.0)
    await until(lambda: watch._telling is None or watch._telling.done())
    assert service.engine._core.state.jobs["job-1"].tenure.idle is False
    assert watch.idle == {}
