"""Watching jobs: all at first, then changes, coalesced and bounded."""

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import BOUND_S, RawLink, ended_by
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.protocol.v1 import job_pb2, jobs_pb2, jobs_pb2_grpc
from yarn_gpu_sched.service import FakeClock, Service, Settings

Link = Callable[[], RawLink]
Watch = Callable[..., "Watched"]


class Watched:
    """One call of WatchJobs."""

    def __init__(self, channel: aio.Channel, request: jobs_pb2.WatchJobsRequest) -> None:
        self.call = jobs_pb2_grpc.JobsServiceStub(channel).WatchJobs(request)

    async def next(self) -> job_pb2.JobView:
        answer = await asyncio.wait_for(self.call.read(), BOUND_S)
        assert isinstance(answer, jobs_pb2.WatchJobsResponse)
        return answer.job

    async def names(self, count: int) -> list[str]:
        return [(await self.next()).job.job_id for _ in range(count)]

    async def refused(self) -> tuple[grpc.StatusCode, str]:
        try:
            while await asyncio.wait_for(self.call.read(), BOUND_S) is not aio.EOF:
                pass
        except aio.AioRpcError as error:
            ended = ended_by(error)
            return ended.code, ended.reason
        raise AssertionError("the call ended well")


@pytest_asyncio.fixture
async def watch(channel: aio.Channel) -> AsyncIterator[Watch]:
    watched: list[Watched] = []

    def begin(**fields: str) -> Watched:
        watched.append(Watched(channel, jobs_pb2.WatchJobsRequest(**fields)))
        return watched[-1]

    yield begin
    for one in watched:
        one.call.cancel()


async def test_every_job_is_sent_once_and_then_only_what_changes(
    service: Service, clock: FakeClock, link: Link, watch: Watch
) -> None:
    one = await link().open(changes.server(), *[changes.job(f"job-{index:03}") for index in range(250)])
    await settled(service)
    watched = watch()
    assert await watched.names(250) == [f"job-{index:03}" for index in range(250)]
    await one.batch(changes.ended("job-007"))
    await settled(service)
    clock.advance(0.1)
    view = await watched.next()
    assert (view.job.job_id, view.state) == ("job-007", job_pb2.JOB_STATE_ENDED)


async def test_a_job_that_changes_often_is_sent_at_most_once_in_100_ms(
    service: Service, clock: FakeClock, link: Link, watch: Watch
) -> None:
    one = await link().open(changes.server(), changes.job(), changes.job("job-2"))
    await settled(service)
    watched = watch()
    await watched.names(2)
    for index in range(50):
        await one.batch(changes.container(f"container-{index}", gpu_indices=()))
    await until(lambda: (view := service.engine.job("job-1")) and len(view.containers) == 50)
    clock.advance(0.1)
    assert len((await watched.next()).containers) == 50
    await one.batch(changes.ended("job-2"))
    await until(lambda: service.driver.queued == 0)
    clock.advance(0.1)
    assert (await watched.next()).job.job_id == "job-2"


async def test_one_job_and_one_virtual_cluster(service: Service, clock: FakeClock, link: Link, watch: Watch) -> None:
    one = await link().open(changes.job("job-1"), changes.job("job-2", vc="root.other"), changes.job("job-3"))
    await settled(service)
    by_job, by_vc = watch(job_id="job-3"), watch(virtual_cluster="root.other")
    assert await by_job.names(1) == ["job-3"]
    assert await by_vc.names(1) == ["job-2"]
    await one.batch(*[changes.ended(f"job-{index}") for index in (1, 2, 3)])
    await settled(service)
    clock.advance(0.1)
    assert (await by_job.next()).state == job_pb2.JOB_STATE_ENDED
    assert (await by_vc.next()).job.job_id == "job-2"


async def test_a_job_may_be_watched_before_it_is_known(
    service: Service, clock: FakeClock, link: Link, watch: Watch
) -> None:
    watched = watch(job_id="job-9")
    await until(lambda: len(service.watchers) == 1)
    await until(lambda: clock._timers)
    await link().open(changes.job("job-9"))
    await settled(service)
    clock.advance(0.1)
    assert await watched.names(1) == ["job-9"]


async def test_a_job_forgotten_between_two_pages_hides_no_other(
    service: Service, link: Link, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    await link().open(*[changes.job(f"job-{index:03}") for index in range(150)])
    engine = await settled(service)
    job = engine.job
    asked: list[str] = []

    def forgetful(job_id: str) -> JobView | None:
        """Forget the last job of the first page as soon as it was sent."""
        asked.append(job_id)
        return None if asked.count("job-099") > 1 and job_id == "job-099" else job(job_id)

    monkeypatch.setattr(engine, "job", forgetful, raising=False)
    assert await watch().names(150) == [f"job-{index:03}" for index in range(150)]
    assert asked.count("job-099") > 1


async def test_an_enormous_job_is_sent_without_its_containers(service: Service, link: Link, watch: Watch) -> None:
    await link().open(changes.job(), changes.job("job-2"), *changes.many_containers(4_500))
    await settled(service)
    watched = watch()
    view = await watched.next()
    assert (view.job.job_id, len(view.containers), view.used.vcores) == ("job-1", 0, 4_500)
    assert await watched.names(1) == ["job-2"]


async def test_a_watcher_that_leaves_is_forgotten(service: Service, watch: Watch) -> None:
    watched = watch()
    await until(lambda: len(service.watchers) == 1)
    watched.call.cancel()
    await until(lambda: len(service.watchers) == 0)


async def test_the_end_of_the_service_ends_watching(service: Service, watch: Watch) -> None:
    watched = watch()
    await until(lambda: len(service.watchers) == 1)
    service.watchers.close()
    assert await watched.refused() == (grpc.StatusCode.UNAVAILABLE, "STOPPING")


class TestBounds:
    """What may watch, and what it may leave unread."""

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(listen="127.0.0.1:0", audit_every_events=0, watchers_max=2)

    async def test_watchers_are_bounded(self, service: Service, watch: Watch) -> None:
        first, _second = watch(), watch()
        await until(lambda: len(service.watchers) == 2)
        third = watch()
        assert await third.refused() == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WATCHERS")
        first.call.cancel()
        await until(lambda: len(service.watchers) == 1)
        watch()
        await until(lambda: len(service.watchers) == 2)

    async def test_what_a_watcher_leaves_unread_is_bounded(self, service: Service, link: Link, watch: Watch) -> None:
        service.watchers._changed_max = 10
        watched = watch()
        await until(lambda: len(service.watchers) == 1)
        await link().open(*[changes.job(f"job-{index}") for index in range(20)])
        await settled(service)
        assert await watched.refused() == (grpc.StatusCode.RESOURCE_EXHAUSTED, "READS_TOO_SLOWLY")
        await until(lambda: len(service.watchers) == 0)
