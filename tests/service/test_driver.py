"""The driver: one pass a batch, time never backwards, failures contained, laws sampled."""

import asyncio
from collections.abc import Callable

import grpc
import pytest
from grpc import aio

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.engine import Broken, events
from yarn_gpu_sched.engine.commands import AnyCommand
from yarn_gpu_sched.protocol.v1 import cluster_pb2, cluster_pb2_grpc
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.driver import _Work
from yarn_gpu_sched.service.refusal import Refusal
from yarn_gpu_sched.service.session import BATCHES_MAX

Link = Callable[[], RawLink]


@pytest.fixture
def applied(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[events.AnyEvent]:
    """Every event that the engine of the service is told."""
    told: list[events.AnyEvent] = []
    apply = service.engine.apply

    def spy(event: events.AnyEvent) -> list[AnyCommand]:
        told.append(event)
        return apply(event)

    monkeypatch.setattr(service.engine, "apply", spy, raising=False)
    return told


def kinds(applied: list[events.AnyEvent]) -> list[str]:
    return [type(event).__name__ for event in applied]


async def test_each_batch_is_followed_by_one_pass(service: Service, link: Link, applied: list[events.AnyEvent]) -> None:
    one = link()
    await one.registered()
    await one.batch(changes.server(), changes.job(), snapshot_end=True)
    await one.batch(changes.server("gpu-2:1"), changes.server("gpu-3:1"))
    await until(lambda: len(applied) == 8)
    await settled(service)
    assert kinds(applied) == [
        "ResourceManagerRegistered",
        *("ServerChanged", "JobChanged", "SnapshotEnded", "Pass"),
        *("ServerChanged", "ServerChanged", "Pass"),
    ]


async def test_time_never_runs_backwards(
    service: Service, clock: FakeClock, link: Link, applied: list[events.AnyEvent]
) -> None:
    one = await link().open(changes.server())
    for index in range(10):
        clock._now_s += 1.0 if index % 2 else -1.0
        await one.batch(changes.server(f"gpu-{index}:1"))
        await until(lambda: service.engine.servers()[1] == index + 2)  # noqa: B023 - awaited at once
    times_s = [event.now_s for event in applied]
    assert times_s == sorted(times_s)


async def test_a_pass_comes_when_its_time_has_come(
    service: Service, clock: FakeClock, link: Link, applied: list[events.AnyEvent]
) -> None:
    await link().open(changes.server(gpus=1), changes.job(tags=["gang:8x1"]), changes.asks(count=8), settle_s=2.0)
    await settled(service)
    before = len(applied)
    clock.advance(1.5)
    await settled(service)
    assert len(applied) == before
    clock.advance(0.5)
    await until(lambda: len(applied) > before)
    assert kinds(applied)[before:] == ["Pass"]


async def test_the_event_loop_breathes_within_a_long_batch(
    service: Service, link: Link, applied: list[events.AnyEvent]
) -> None:
    one = await link().open()
    await settled(service)
    before = len(applied)
    seen: set[int] = set()
    await one.batch(*[changes.server(f"gpu-{index}:1") for index in range(2_000)])
    async with asyncio.timeout(20):
        while len(applied) < before + 2_001:
            seen.add(len(applied) - before)
            await asyncio.sleep(0)
    assert len([count for count in seen if 0 < count < 2_000]) >= 5


async def test_a_failure_of_the_engine_ends_the_stream_and_the_next_one_works(
    service: Service, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await link().open(changes.server())
    await settled(service)

    def fail(_event: events.AnyEvent) -> list[AnyCommand]:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(service.engine, "apply", fail, raising=False)
        await one.batch(changes.server("gpu-2:1"))
        ended = await one.end()
        assert (ended.code, ended.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
        await service.driver.settle()
    assert service.metrics.engine_failures._value.get() >= 1
    two = await link().open(changes.server(), changes.job(), changes.asks())
    assert len(await two.decisions()) == 1
    await settled(service)


async def test_while_a_batch_waits_its_stream_is_not_read_on(
    service: Service, link: Link, channel: aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await link().open()
    await settled(service)
    session = service.driver.session
    assert session is not None
    before, go_on, apply_all = session.received, asyncio.Event(), service.driver._apply_all

    async def apply_later(work: _Work) -> None:
        await go_on.wait()
        await apply_all(work)

    monkeypatch.setattr(service.driver, "_apply_all", apply_later)
    for index in range(50):
        await one.batch(changes.server(f"gpu-{index}:1"))
    try:
        # On the same connection: when it is answered, all of the batches are there to be read.
        await cluster_pb2_grpc.ClusterServiceStub(channel).GetCluster(cluster_pb2.GetClusterRequest())
        await until(lambda: session.received >= before + BATCHES_MAX)
        assert session.received == before + BATCHES_MAX
    finally:
        go_on.set()
    await settled(service)
    assert service.engine.servers()[1] == 50


class TestAudit:
    """Laws are checked as events go by."""

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(listen="127.0.0.1:0", audit_every_events=5)

    async def test_once_in_so_many_events(self, service: Service, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = [Broken(2, "sums", "seeded")]
        monkeypatch.setattr(service.engine, "audit", lambda: broken, raising=False)
        one = await link().open()
        for batch in range(3):
            await one.batch(*[changes.server(f"gpu-{batch}-{index}:1") for index in range(5)])
        await until(lambda: service.metrics.broken_laws.labels("2")._value.get() == 3)


async def test_what_others_tell_is_applied_in_its_turn_and_followed_by_a_pass(
    service: Service, link: Link, applied: list[events.AnyEvent]
) -> None:
    await link().open(changes.server())
    await settled(service)
    applied.clear()
    await service.driver.tell(lambda now_s: [events.CheckpointReported(now_s=now_s, job_id="job-1")])
    assert kinds(applied) == ["CheckpointReported", "Pass"]


async def test_who_tells_is_told_what_became_of_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_now_s: float) -> list[events.AnyEvent]:
        raise Refusal(grpc.StatusCode.NOT_FOUND, "not here", "UNKNOWN_JOB")

    with pytest.raises(Refusal, match="not here"):
        await service.driver.tell(refuse)
    assert service.metrics.registry.get_sample_value("ygs_engine_failures_total") == 0

    def fail(_event: events.AnyEvent) -> list[AnyCommand]:
        raise RuntimeError("broken")

    with monkeypatch.context() as broken:
        broken.setattr(service.engine, "apply", fail, raising=False)
        with pytest.raises(Refusal, match="the engine failed"):
            await service.driver.tell(lambda now_s: [events.CheckpointReported(now_s=now_s, job_id="job-1")])
    assert service.metrics.registry.get_sample_value("ygs_engine_failures_total") == 1


async def test_nothing_more_is_told_when_too_much_waits_or_the_service_stops(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarn_gpu_sched.service.driver.WORK_MAX", 0)
    with pytest.raises(Refusal, match="0 pieces of work wait") as refused:
        await service.driver.tell(lambda _now_s: [])
    assert refused.value.reason == "OVERLOADED"
    service.driver.close()
    with pytest.raises(Refusal, match="the service stops"):
        await service.driver.tell(lambda _now_s: [])
