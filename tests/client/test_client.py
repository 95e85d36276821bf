import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2, error_details_pb2  # type: ignore[import-untyped] # ships no py.typed

from tests.client.scripted import WAIT_S, ScriptedCluster, ScriptedJobs, ScriptedPreemption, abort_richly, serving
from yarn_gpu_sched.client import (
    Client,
    DeadlineError,
    FieldViolation,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    RejectedError,
    ServiceError,
    UnavailableError,
)
from yarn_gpu_sched.protocol.v1 import job_pb2, jobs_pb2, preemption_pb2


def view(job_id: str) -> job_pb2.JobView:
    return job_pb2.JobView(job=job_pb2.Job(job_id=job_id))


def never_answer(context: grpc.ServicerContext) -> None:
    ended = threading.Event()
    context.add_callback(ended.set)
    ended.wait(WAIT_S)


def aborting(code: grpc.StatusCode, message: str) -> Callable[[object, grpc.ServicerContext], None]:
    def abort(_request: object, context: grpc.ServicerContext) -> None:
        context.abort(code, message)

    return abort


@pytest.fixture
def jobs() -> ScriptedJobs:
    return ScriptedJobs()


@pytest.fixture
def target(jobs: ScriptedJobs) -> Iterator[str]:
    with serving(jobs.add, ScriptedCluster().add) as address:
        yield address


@pytest.fixture
def client(target: str) -> Iterator[Client]:
    with Client(target, timeout_s=WAIT_S) as made:
        yield made


def test_delays_are_asked_for_one_virtual_cluster_or_all(jobs: ScriptedJobs, client: Client) -> None:
    assert [(row.virtual_cluster, row.waits) for row in client.delays("root.a")] == [("root.a", 2)]
    assert [(row.virtual_cluster, row.waits) for row in client.delays()] == [("root.a", 2)]
    assert jobs.calls == ["ListDelays 'root.a'", "ListDelays ''"]
    assert all(0 < deadline_s < WAIT_S + 1 for deadline_s in jobs.deadlines_s)


def test_pages_follow_each_other_and_are_fetched_only_when_read(jobs: ScriptedJobs, client: Client) -> None:
    jobs.pages = {
        "": jobs_pb2.ListJobsResponse(jobs=[view("a"), view("b")], next_page_token="p2"),  # noqa: S106 - names a page
        "p2": jobs_pb2.ListJobsResponse(jobs=[view("c")], next_page_token="p3"),  # noqa: S106 - names a page
        "p3": jobs_pb2.ListJobsResponse(jobs=[view("d")]),
    }
    listing = client.jobs()
    assert next(listing).job.job_id == "a"
    assert jobs.calls == ["ListJobs ''"]
    assert [each.job.job_id for each in listing] == ["b", "c", "d"]
    assert jobs.calls == ["ListJobs ''", "ListJobs 'p2'", "ListJobs 'p3'"]


def test_a_switch_is_never_repeated_by_itself_and_a_checkpoint_is() -> None:
    """Another operator may have switched it back meanwhile."""
    preemption = ScriptedPreemption()
    with serving(preemption.add) as address, Client(address, attempts_max=3) as client:
        with pytest.raises(UnavailableError):
            client.set_preemption(preemption_pb2.PREEMPTION_MODE_ON, "why")
        with pytest.raises(UnavailableError):
            client.report_checkpoint("job-1")
    assert preemption.calls == ["SetPreemptionMode"] + 3 * ["ReportCheckpoint"]


def test_servers_and_virtual_clusters_are_paged_too(client: Client) -> None:
    assert [each.server.server_id for each in client.servers()] == ["s0", "s1"]
    assert [each.virtual_cluster.path for each in client.virtual_clusters()] == ["root.default"]
    assert client.cluster().servers == 2


def test_every_call_carries_the_deadline(jobs: ScriptedJobs, client: Client) -> None:
    jobs.pages = {"": jobs_pb2.ListJobsResponse()}
    list(client.jobs())
    client.job("x")
    assert all(0 < left_s < WAIT_S + 1 for left_s in jobs.deadlines_s)
    assert len(jobs.deadlines_s) == 2


def test_no_answer_in_time_is_a_deadline_error(jobs: ScriptedJobs, target: str) -> None:
    jobs.answer_job = lambda _request, context: never_answer(context)
    with Client(target, timeout_s=0.3) as client, pytest.raises(DeadlineError):
        client.job("x")
    assert jobs.calls == ["GetJob"]


def test_a_read_is_repeated_while_the_service_is_unavailable(jobs: ScriptedJobs, client: Client) -> None:
    def second_time_lucky(_request: jobs_pb2.GetJobRequest, context: grpc.ServicerContext) -> jobs_pb2.GetJobResponse:
        if len(jobs.calls) < 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        return jobs_pb2.GetJobResponse(job=view("x"))

    jobs.answer_job = second_time_lucky
    assert client.job("x").job.job_id == "x"
    assert len(jobs.calls) == 3


def test_repetitions_are_bounded(jobs: ScriptedJobs, target: str) -> None:
    jobs.answer_job = aborting(grpc.StatusCode.UNAVAILABLE, "never")
    with Client(target, timeout_s=WAIT_S, attempts_max=2) as client, pytest.raises(UnavailableError, match="never"):
        client.job("x")
    assert len(jobs.calls) == 2


def test_repetitions_end_with_the_deadline_of_the_whole_call(jobs: ScriptedJobs, target: str) -> None:
    jobs.answer_job = aborting(grpc.StatusCode.UNAVAILABLE, "never")
    started_s = time.monotonic()
    with Client(target, timeout_s=0.5, attempts_max=1000) as client, pytest.raises(ServiceError):
        client.job("x")
    assert time.monotonic() - started_s < 5


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (grpc.StatusCode.NOT_FOUND, NotFoundError),
        (grpc.StatusCode.INVALID_ARGUMENT, InvalidRequestError),
        (grpc.StatusCode.FAILED_PRECONDITION, RejectedError),
        (grpc.StatusCode.ABORTED, RejectedError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, OverloadedError),
        (grpc.StatusCode.INTERNAL, ServiceError),
    ],
)
def test_what_repeating_cannot_help_is_not_repeated(
    jobs: ScriptedJobs, client: Client, code: grpc.StatusCode, expected: type[ServiceError]
) -> None:
    jobs.answer_job = aborting(code, "no")
    with pytest.raises(expected) as caught:
        client.job("x")
    assert type(caught.value) is expected
    assert (caught.value.code, caught.value.message) == (code, "no")
    assert len(jobs.calls) == 1


def test_the_rich_status_is_kept(jobs: ScriptedJobs, client: Client) -> None:
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="page_size", description="5000 is too many; at most 1000")
    reason = error_details_pb2.ErrorInfo(reason="BAD_FIELD", domain="yarn_gpu_sched")
    jobs.answer_job = lambda _request, context: abort_richly(
        context, code_pb2.INVALID_ARGUMENT, "page_size", reason, bad
    )
    with pytest.raises(InvalidRequestError) as caught:
        client.job("x")
    assert caught.value.violations == (FieldViolation("page_size", "5000 is too many; at most 1000"),)
    assert caught.value.reason == "BAD_FIELD"
    assert caught.value.status is not None
    assert len(caught.value.status.details) == 2


def test_a_rich_status_that_cannot_be_read_leaves_the_plain_one(jobs: ScriptedJobs, client: Client) -> None:
    def garbage(_request: jobs_pb2.GetJobRequest, context: grpc.ServicerContext) -> jobs_pb2.GetJobResponse:
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff\xff"),))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "plain")

    jobs.answer_job = garbage
    with pytest.raises(InvalidRequestError, match="plain") as caught:
        client.job("x")
    assert caught.value.violations == ()
    assert caught.value.status is None


def test_why_raises_not_found(client: Client) -> None:
    with pytest.raises(NotFoundError, match="'nobody' is not known"):
        client.why("nobody")


def test_watch_yields_what_comes_and_ends_quietly_at_its_time(jobs: ScriptedJobs, client: Client) -> None:
    jobs.watched = [jobs_pb2.WatchJobsResponse(job=view("a")), jobs_pb2.WatchJobsResponse(job=view("b"))]
    assert [each.job.job_id for each in client.watch(for_s=0.5)] == ["a", "b"]


def test_leaving_a_watch_ends_it_at_the_service(jobs: ScriptedJobs, client: Client) -> None:
    jobs.watched = [jobs_pb2.WatchJobsResponse(job=view("a"))]
    watching = client.watch(for_s=WAIT_S)
    assert next(watching).job.job_id == "a"
    watching.close()
    assert jobs.watch_over.wait(WAIT_S)


def test_nobody_there_is_unavailable_soon() -> None:
    started_s = time.monotonic()
    with Client("127.0.0.1:1", timeout_s=WAIT_S, attempts_max=2) as client, pytest.raises(UnavailableError):
        client.cluster()
    assert time.monotonic() - started_s < WAIT_S / 2


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"timeout_s": -1}, {"attempts_max": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Client(**wrong)
