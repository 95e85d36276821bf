"""`Client.gpus`, `Client.idle` and `Client.mark`."""

# ruff: noqa: N802, ARG002 - names and parameters of the methods are those of the protocol

from collections.abc import Iterator

import grpc
import pytest

from tests.client.scripted import WAIT_S, serving
from yarn_gpu_sched.client import Client, UnavailableError
from yarn_gpu_sched.protocol.v1 import gpu_pb2, gpu_pb2_grpc


class Scripted(gpu_pb2_grpc.GpuServiceServicer):
    """Three servers on two pages; marks are not taken the first time."""

    def __init__(self) -> None:
        self.second_page = "more"
        self.asked: list[tuple[str, str]] = []
        self.marks: list[gpu_pb2.MarkRequest] = []

    def add(self, server: grpc.Server) -> None:
        gpu_pb2_grpc.add_GpuServiceServicer_to_server(self, server)

    def ListGpus(self, request: gpu_pb2.ListGpusRequest, context: grpc.ServicerContext) -> gpu_pb2.ListGpusResponse:
        self.asked.append((request.host, request.page_token))
        if request.page_token:
            return gpu_pb2.ListGpusResponse(servers=[gpu_pb2.ServerHealth(host="c")], total_size=3)
        servers = [gpu_pb2.ServerHealth(host=host) for host in "ab"]
        return gpu_pb2.ListGpusResponse(servers=servers, next_page_token=self.second_page, total_size=3)

    def ListIdle(self, request: gpu_pb2.ListIdleRequest, context: grpc.ServicerContext) -> gpu_pb2.ListIdleResponse:
        return gpu_pb2.ListIdleResponse(jobs=[gpu_pb2.IdleJob(job_id="j")], idle_after_s=1_800)

    def Mark(self, request: gpu_pb2.MarkRequest, context: grpc.ServicerContext) -> gpu_pb2.MarkResponse:
        self.marks.append(request)
        if len(self.marks) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        return gpu_pb2.MarkResponse(kept=True)


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
def client(scripted: Scripted) -> Iterator[Client]:
    with serving(scripted.add) as address, Client(address, timeout_s=WAIT_S) as made:
        yield made


def test_servers_come_page_by_page(scripted: Scripted, client: Client) -> None:
    servers = client.gpus("some")
    assert next(servers).host == "a"
    assert scripted.asked == [("some", "")], "the next page is read when it is wanted"
    assert [one.host for one in servers] == ["b", "c"]
    assert scripted.asked == [("some", ""), ("some", "more")]


def test_idle_jobs_are_read(client: Client) -> None:
    assert [job.job_id for job in client.idle().jobs] == ["j"]


def test_what_an_operator_says_is_never_repeated_by_itself(scripted: Scripted, client: Client) -> None:
    with pytest.raises(UnavailableError):
        client.mark(gpu_pb2.MARK_ACTION_ACK, "a", "why", gpu="2", by="ada")
    assert client.mark(gpu_pb2.MARK_ACTION_DRAIN, "a", "", dry_run=True).kept
    first, second = scripted.marks
    assert (first.server, first.reason, first.gpu, first.by, first.dry_run) == ("a", "why", "2", "ada", False)
    assert (second.action, second.dry_run) == (gpu_pb2.MARK_ACTION_DRAIN, True)
