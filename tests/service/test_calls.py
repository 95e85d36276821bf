"""Every reading call: right answers, clear refusals, pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

import grpc
import pytest
from google.protobuf.message import Message
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import BOUND_S, Ended, RawLink, ended_by
from yarn_gpu_sched import __version__
from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX
from yarn_gpu_sched.protocol.v1 import cluster_pb2, cluster_pb2_grpc, job_pb2, jobs_pb2, jobs_pb2_grpc, preemption_pb2
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.pages import page_token

Link = Callable[[], RawLink]
Code = grpc.StatusCode

UNARY = [
    "JobsService/ListJobs",
    "JobsService/GetJob",
    "JobsService/GetWaitingReason",
    "ClusterService/GetCluster",
    "ClusterService/ListServers",
    "ClusterService/ListVirtualClusters",
    "PreemptionService/GetPreemption",
    "PreemptionService/SetPreemptionMode",
    "PreemptionService/PreviewPreemption",
    "PreemptionService/ReportCheckpoint",
]
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
STREAMING = ["JobsService/WatchJobs"]


async def refused(channel: aio.Channel, method: str, data: bytes) -> Ended:
    """Make a call with raw bytes and return how it was refused."""
    path = f"/yarn_gpu_sched.v1.{method}"
    try:
        if method in STREAMING:
            streaming: aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
            await streaming(data, timeout=20).read()
        else:
            unary: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
            await unary(data, timeout=20)
    except aio.AioRpcError as error:
        return ended_by(error)
    raise AssertionError(f"{method} took {data[:20]!r}")


@pytest.mark.parametrize("method", [*UNARY, *STREAMING])
@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff", b"\x0a\x10half", b"\x0a\x02\xc3\x28\x12\x02\xc3\x28"], ids=["no", "half", "utf"]
)
async def test_garbage_is_refused_and_a_good_call_follows(
    service: Service, channel: aio.Channel, method: str, data: bytes
) -> None:
    if method in ("ClusterService/GetCluster", "PreemptionService/GetPreemption") and data != b"\xff\xff\xff":
        data = b"\x0a\x10half"  # a message without fields takes any text
    ended = await refused(channel, method, data)
    assert (ended.code, ended.reason) == (Code.INVALID_ARGUMENT, "UNREADABLE_MESSAGE")
    assert ended.sentence.startswith(f"the {len(data)} bytes received are no yarn_gpu_sched.v1.")
    await settled(service)
    await jobs_pb2_grpc.JobsServiceStub(channel).ListJobs(jobs_pb2.ListJobsRequest())


@pytest.mark.parametrize("method", [*UNARY, *STREAMING])
async def test_a_request_too_large_is_refused(service: Service, channel: aio.Channel, method: str) -> None:
    ended = await refused(channel, method, b"\x0a" + b"\x00" * (MESSAGE_BYTES_MAX + 1))
    assert ended.code is Code.RESOURCE_EXHAUSTED
    assert "larger than max" in ended.sentence
    await settled(service)


async def test_calls_at_once_are_bounded(settings: Settings, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.service.server.CALLS_MAX", 3)
    small = Service(settings, clock)
    await small.start()
    async with aio.insecure_channel(f"127.0.0.1:{small.port}") as channel:
        path = "/yarn_gpu_sched.v1.JobsService/WatchJobs"
        watching: aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        calls = [watching(b"") for _ in range(3)]
        await until(lambda: len(small.watchers) == 3)
        ended = await refused(channel, "ClusterService/GetCluster", b"")
        assert ended.code is Code.RESOURCE_EXHAUSTED
        for call in calls:
            call.cancel()
        await until(lambda: len(small.watchers) == 0)
        stub = cluster_pb2_grpc.ClusterServiceStub(channel)
        async with asyncio.timeout(BOUND_S):
            while not await _answers(stub):
                await asyncio.sleep(0.01)
    await small.stop()


async def _answers(stub: cluster_pb2_grpc.ClusterServiceAsyncStub) -> bool:
    try:
        await stub.GetCluster(cluster_pb2.GetClusterRequest())
    except aio.AioRpcError as error:
        if error.code() is Code.RESOURCE_EXHAUSTED:
            return False
        raise
    return True


async def test_an_unknown_method_is_unimplemented(channel: aio.Channel) -> None:
    assert (await refused(channel, "JobsService/DeleteJob", b"")).code is Code.UNIMPLEMENTED


BAD_FIELDS: dict[str, tuple[Message, str]] = {
    "PreemptionService/SetPreemptionMode": (preemption_pb2.SetPreemptionModeRequest(reason="why"), "mode"),
    "PreemptionService/PreviewPreemption": (preemption_pb2.PreviewPreemptionRequest(), "job_id"),
    "PreemptionService/ReportCheckpoint": (preemption_pb2.ReportCheckpointRequest(job_id="j" * 257), "job_id"),
    "JobsService/GetJob": (jobs_pb2.GetJobRequest(), "job_id"),
    "JobsService/GetWaitingReason": (jobs_pb2.GetWaitingReasonRequest(job_id="j" * 257), "job_id"),
    "JobsService/WatchJobs": (jobs_pb2.WatchJobsRequest(virtual_cluster="v" * 1_025), "virtual_cluster"),
    "JobsService/ListJobs": (jobs_pb2.ListJobsRequest(page_size=1_001), "page_size"),
    "ClusterService/ListServers": (cluster_pb2.ListServersRequest.FromString(b"\x12\x01%"), "page_token"),
    "ClusterService/ListVirtualClusters": (
        cluster_pb2.ListVirtualClustersRequest.FromString(b"\x12\x04gA=="),
        "page_token",
    ),
}


@pytest.mark.parametrize("method", BAD_FIELDS)
async def test_a_bad_field_is_named(channel: aio.Channel, method: str) -> None:
    request, field = BAD_FIELDS[method]
    ended = await refused(channel, method, request.SerializeToString())
    assert (ended.code, ended.reason, ended.fields) == (Code.INVALID_ARGUMENT, "BAD_FIELD", [field])
    assert "must be" in ended.sentence


async def test_an_unknown_state_is_a_bad_field(channel: aio.Channel) -> None:
    ended = await refused(channel, "JobsService/ListJobs", b"\x08\x63")
    assert ended.fields == ["state"]


@pytest.mark.parametrize(
    "method",
    [
        "JobsService/GetJob",
        "JobsService/GetWaitingReason",
        "PreemptionService/PreviewPreemption",
        "PreemptionService/ReportCheckpoint",
    ],
)
async def test_an_unknown_job_is_not_found(channel: aio.Channel, method: str) -> None:
    request = jobs_pb2.GetJobRequest(job_id="job-\x1b[31m")
    ended = await refused(channel, method, request.SerializeToString())
    assert (ended.code, ended.reason) == (Code.NOT_FOUND, "UNKNOWN_JOB")
    assert "\x1b" not in ended.sentence


@pytest.fixture
def jobs(channel: aio.Channel) -> jobs_pb2_grpc.JobsServiceAsyncStub:
    return jobs_pb2_grpc.JobsServiceStub(channel)


@pytest.fixture
def cluster(channel: aio.Channel) -> cluster_pb2_grpc.ClusterServiceAsyncStub:
    return cluster_pb2_grpc.ClusterServiceStub(channel)


async def test_a_job_is_shown_with_its_containers(
    service: Service, link: Link, jobs: jobs_pb2_grpc.JobsServiceAsyncStub
) -> None:
    await link().open(changes.server(), changes.job(tags=["gang:1"]), changes.container(gpu_indices=(1, 3)))
    await settled(service)
    answer = await jobs.GetJob(jobs_pb2.GetJobRequest(job_id="job-1"))
    assert [list(container.gpu_indices) for container in answer.job.containers] == [[1, 3]]
    assert answer.job.job.user == "ada"
    assert answer.job.job.submit_time.seconds == 1_790_000_000
    assert answer.job.used.gpus == 2


async def test_why_a_job_waits(service: Service, link: Link, jobs: jobs_pb2_grpc.JobsServiceAsyncStub) -> None:
    await link().open(changes.server(gpus=2), changes.job(tags=["gang:4x1"]), changes.asks(count=4), settle_s=60.0)
    await settled(service)
    answer = await jobs.GetWaitingReason(jobs_pb2.GetWaitingReasonRequest(job_id="job-1"))
    assert answer.state == job_pb2.JOB_STATE_PENDING
    assert answer.waiting.gpus_asked == 4
    assert answer.waiting.gpus_free == 2
    assert answer.waiting.sentence


async def test_a_page_follows_a_page(service: Service, link: Link, jobs: jobs_pb2_grpc.JobsServiceAsyncStub) -> None:
    await link().open(*[changes.job(f"job-{index:03}") for index in range(250)])
    await settled(service)
    seen: list[str] = []
    token = ""
    for size in (100, 100, 100):
        answer = await jobs.ListJobs(jobs_pb2.ListJobsRequest(page_size=size, page_token=token))
        assert answer.total_size == 250
        assert not any(view.containers for view in answer.jobs)
        seen += [view.job.job_id for view in answer.jobs]
        token = answer.next_page_token
    assert token == ""
    assert seen == [f"job-{index:03}" for index in range(250)]


async def test_a_full_last_page_names_no_next_one(
    service: Service, link: Link, jobs: jobs_pb2_grpc.JobsServiceAsyncStub
) -> None:
    await link().open(*[changes.job(f"job-{index:03}") for index in range(100)])
    await settled(service)
    answer = await jobs.ListJobs(jobs_pb2.ListJobsRequest())
    assert (len(answer.jobs), answer.next_page_token) == (100, "")


async def test_a_page_of_jobs_after_one_that_is_forgotten_is_refused(channel: aio.Channel) -> None:
    request = jobs_pb2.ListJobsRequest(page_token=page_token("job-gone"))
    ended = await refused(channel, "JobsService/ListJobs", request.SerializeToString())
    assert (ended.code, ended.fields) == (Code.INVALID_ARGUMENT, ["page_token"])
    assert ended.sentence.endswith("list again from the start")


async def test_jobs_are_chosen_by_state_and_virtual_cluster(
    service: Service, link: Link, jobs: jobs_pb2_grpc.JobsServiceAsyncStub
) -> None:
    await link().open(
        changes.server(),
        changes.job("job-1"),
        changes.job("job-2", vc="root.other"),
        changes.container(job_id="job-1"),
        changes.job("job-3"),
        changes.ended("job-3"),
    )
    await settled(service)

    async def found(**fields: object) -> list[str]:
        request = jobs_pb2.ListJobsRequest(**fields)  # type: ignore[arg-type] # checked by protobuf
        return [view.job.job_id for view in (await jobs.ListJobs(request)).jobs]

    assert await found(state=job_pb2.JOB_STATE_RUNNING) == ["job-1"]
    assert await found(state=job_pb2.JOB_STATE_ENDED) == ["job-3"]
    assert await found(virtual_cluster="root.other") == ["job-2"]
    assert await found(state=job_pb2.JOB_STATE_PENDING, virtual_cluster=changes.VC) == []


async def test_a_page_is_cut_where_its_message_would_grow_too_large(
    service: Service, link: Link, cluster: cluster_pb2_grpc.ClusterServiceAsyncStub
) -> None:
    servers = [changes.server(f"gpu-{index:04}:1", gpus=64, rack="/" + "r" * 1_000) for index in range(1_000)]
    await link().open(*servers[:500], *servers[500:])
    await settled(service)
    seen: list[str] = []
    token, pages = "", 0
    while token or not pages:
        answer = await cluster.ListServers(cluster_pb2.ListServersRequest(page_size=1_000, page_token=token))
        assert answer.ByteSize() <= MESSAGE_BYTES_MAX
        seen += [view.server.server_id for view in answer.servers]
        token, pages = answer.next_page_token, pages + 1
    assert seen == [f"gpu-{index:04}:1" for index in range(1_000)]
    assert pages > 1


async def test_a_job_too_large_to_show_says_so(
    service: Service, link: Link, jobs: jobs_pb2_grpc.JobsServiceAsyncStub
) -> None:
    await link().open(changes.job(), *changes.many_containers(4_500))
    await settled(service)
    with pytest.raises(aio.AioRpcError) as caught:
        await jobs.GetJob(jobs_pb2.GetJobRequest(job_id="job-1"))
    ended = ended_by(caught.value)
    assert (ended.code, ended.reason) == (Code.RESOURCE_EXHAUSTED, "ANSWER_TOO_LARGE")
    assert "4500 containers" in ended.sentence


async def test_a_page_after_a_row_that_is_gone(
    service: Service, link: Link, cluster: cluster_pb2_grpc.ClusterServiceAsyncStub
) -> None:
    await link().open(changes.server("gpu-1:1"), changes.server("gpu-3:1"))
    await settled(service)
    request = cluster_pb2.ListServersRequest(page_token=page_token("gpu-2:1"))
    assert [view.server.server_id for view in (await cluster.ListServers(request)).servers] == ["gpu-3:1"]


async def test_the_cluster_and_its_virtual_clusters(
    service: Service, link: Link, cluster: cluster_pb2_grpc.ClusterServiceAsyncStub
) -> None:
    await link().open(
        changes.server(gpus=8),
        changes.virtual_cluster(),
        changes.job(),
        changes.container(gpu_indices=(0, 1)),
        epoch=3,
        agent="test 1",
    )
    await settled(service)
    totals = await cluster.GetCluster(cluster_pb2.GetClusterRequest())
    assert (totals.cluster_id, totals.connected, totals.epoch) == ("c1", True, 3)
    assert (totals.capacity.gpus, totals.used.gpus, totals.servers) == (8, 2, 1)
    assert (totals.service_version, totals.resource_manager_agent) == (__version__, "test 1")
    assert abs(totals.service_time.ToNanoseconds() / 1e9 - time.time()) < 60
    uses = await cluster.ListVirtualClusters(cluster_pb2.ListVirtualClustersRequest())
    (use,) = uses.virtual_clusters
    assert (use.virtual_cluster.path, use.virtual_cluster.quota_gpus, use.used.gpus) == (changes.VC, 8, 2)
    assert not use.virtual_cluster.HasField("maximum_gpus")


async def test_a_failure_of_ours_is_logged_and_hidden(
    service: Service, channel: aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("secret of the house")

    monkeypatch.setattr(service.engine, "cluster", fail, raising=False)
    ended = await refused(channel, "ClusterService/GetCluster", b"")
    assert (ended.code, ended.reason) == (Code.INTERNAL, "INTERNAL")
    assert "secret" not in ended.sentence


async def test_health_and_reflection(channel: aio.Channel) -> None:
    check: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/grpc.health.v1.Health/Check")
    asked = health_pb2.HealthCheckRequest(service="yarn_gpu_sched.v1.JobsService")
    health = health_pb2.HealthCheckResponse.FromString(await check(asked.SerializeToString()))
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    call: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(REFLECTION)()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString())
    listed = reflection_pb2.ServerReflectionResponse.FromString(cast("bytes", await call.read()))
    names = {service.name for service in listed.list_services_response.service}
    assert {
        f"yarn_gpu_sched.v1.{name}" for name in ("ResourceManagerLinkService", "JobsService", "ClusterService")
    } < names
    call.cancel()
