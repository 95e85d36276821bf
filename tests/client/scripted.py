"""Real gRPC servers on loopback whose answers a test writes."""

# ruff: noqa: N802, ARG002 - names and parameters of the methods are those of the protocol

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import code_pb2, status_pb2  # type: ignore[import-untyped] # ships no py.typed
from grpc_status import rpc_status

from yarn_gpu_sched.protocol.v1 import (
    cluster_pb2,
    cluster_pb2_grpc,
    decision_pb2,
    jobs_pb2,
    jobs_pb2_grpc,
    link_pb2,
    link_pb2_grpc,
    preemption_pb2,
    preemption_pb2_grpc,
)

SESSION_ID = "session-1"
WAIT_S = 20.0


def await_condition(holds: Callable[[], bool]) -> None:
    """Look until it holds; bounded."""
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline_s, "it does not hold"
        time.sleep(0.01)


@contextmanager
def serving(*add: Callable[[grpc.Server], None], port: int = 0) -> Iterator[str]:
    """Serve what ``add`` adds; yields the address."""
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    for each in add:
        each(server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield f"127.0.0.1:{bound}"
    finally:
        server.stop(grace=0).wait()


def abort_richly(context: grpc.ServicerContext, code: int, message: str, *details: Message) -> None:
    """End the call with a rich status."""
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    context.abort_with_status(rpc_status.to_status(status))


class ScriptedJobs(jobs_pb2_grpc.JobsServiceServicer):
    """Answers with what the test put in; counts calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.deadlines_s: list[float] = []
        self.pages: dict[str, jobs_pb2.ListJobsResponse] = {}
        self.answer_job: Callable[[jobs_pb2.GetJobRequest, grpc.ServicerContext], jobs_pb2.GetJobResponse | None] = (
            lambda _request, _context: jobs_pb2.GetJobResponse()
        )
        self.watched: list[jobs_pb2.WatchJobsResponse] = []
        self.watch_over = threading.Event()

    def add(self, server: grpc.Server) -> None:
        jobs_pb2_grpc.add_JobsServiceServicer_to_server(self, server)

    def ListJobs(self, request: jobs_pb2.ListJobsRequest, context: grpc.ServicerContext) -> jobs_pb2.ListJobsResponse:
        self.calls.append(f"ListJobs {request.page_token!r}")
        self.deadlines_s.append(context.time_remaining())
        return self.pages[request.page_token]

    def GetJob(self, request: jobs_pb2.GetJobRequest, context: grpc.ServicerContext) -> jobs_pb2.GetJobResponse:
        self.calls.append("GetJob")
        self.deadlines_s.append(context.time_remaining())
        return self.answer_job(request, context) or jobs_pb2.GetJobResponse()

    def ListDelays(
        self, request: jobs_pb2.ListDelaysRequest, context: grpc.ServicerContext
    ) -> jobs_pb2.ListDelaysResponse:
        self.calls.append(f"ListDelays {request.virtual_cluster!r}")
        self.deadlines_s.append(context.time_remaining())
        return jobs_pb2.ListDelaysResponse(rows=[jobs_pb2.DelayRow(virtual_cluster="root.a", size="1", waits=2)])

    def GetWaitingReason(
        self, request: jobs_pb2.GetWaitingReasonRequest, context: grpc.ServicerContext
    ) -> jobs_pb2.GetWaitingReasonResponse:
        abort_richly(context, code_pb2.NOT_FOUND, f"job {request.job_id!r} is not known")
        raise AssertionError("abort raises")

    def WatchJobs(
        self, request: jobs_pb2.WatchJobsRequest, context: grpc.ServicerContext
    ) -> Iterator[jobs_pb2.WatchJobsResponse]:
        context.add_callback(self.watch_over.set)
        yield from self.watched
        self.watch_over.wait(WAIT_S)


class ScriptedCluster(cluster_pb2_grpc.ClusterServiceServicer):
    """Two servers on two pages, one virtual cluster."""

    def add(self, server: grpc.Server) -> None:
        cluster_pb2_grpc.add_ClusterServiceServicer_to_server(self, server)

    def GetCluster(
        self, request: cluster_pb2.GetClusterRequest, context: grpc.ServicerContext
    ) -> cluster_pb2.GetClusterResponse:
        return cluster_pb2.GetClusterResponse(cluster_id="c", servers=2)

    def ListServers(
        self, request: cluster_pb2.ListServersRequest, context: grpc.ServicerContext
    ) -> cluster_pb2.ListServersResponse:
        page = int(request.page_token or 0)
        answer = cluster_pb2.ListServersResponse(next_page_token="1" if page == 0 else "", total_size=2)
        answer.servers.add().server.server_id = f"s{page}"
        return answer

    def ListVirtualClusters(
        self, request: cluster_pb2.ListVirtualClustersRequest, context: grpc.ServicerContext
    ) -> cluster_pb2.ListVirtualClustersResponse:
        answer = cluster_pb2.ListVirtualClustersResponse(total_size=1)
        answer.virtual_clusters.add().virtual_cluster.path = "root.default"
        return answer


class ScriptedPreemption(preemption_pb2_grpc.PreemptionServiceServicer):
    """Is never there: counts who asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def add(self, server: grpc.Server) -> None:
        preemption_pb2_grpc.add_PreemptionServiceServicer_to_server(self, server)

    def SetPreemptionMode(
        self, request: preemption_pb2.SetPreemptionModeRequest, context: grpc.ServicerContext
    ) -> preemption_pb2.SetPreemptionModeResponse:
        self._refuse(context, "SetPreemptionMode")
        raise AssertionError("abort raises")

    def ReportCheckpoint(
        self, request: preemption_pb2.ReportCheckpointRequest, context: grpc.ServicerContext
    ) -> preemption_pb2.ReportCheckpointResponse:
        self._refuse(context, "ReportCheckpoint")
        raise AssertionError("abort raises")

    def GetPreemption(
        self, request: preemption_pb2.GetPreemptionRequest, context: grpc.ServicerContext
    ) -> preemption_pb2.GetPreemptionResponse:
        self._refuse(context, "GetPreemption")
        raise AssertionError("abort raises")

    def PreviewPreemption(
        self, request: preemption_pb2.PreviewPreemptionRequest, context: grpc.ServicerContext
    ) -> preemption_pb2.PreviewPreemptionResponse:
        self._refuse(context, "PreviewPreemption")
        raise AssertionError("abort raises")

    def _refuse(self, context: grpc.ServicerContext, name: str) -> None:
        self.calls.append(name)
        context.abort(grpc.StatusCode.UNAVAILABLE, "going down")


class ScriptedLink(link_pb2_grpc.ResourceManagerLinkServiceServicer):
    """The service's side of the link as far as a test drives it: what arrived, and what to say."""

    def __init__(self, *, heartbeat_s: float = 0.2) -> None:
        self.heard: queue.Queue[link_pb2.ConnectRequest] = queue.Queue()
        self.to_say: queue.Queue[link_pb2.ConnectResponse | BaseException] = queue.Queue()
        self.sessions = 0
        self.silent = threading.Event()
        self.mute = False
        self.refusal: tuple[int, str] | None = None
        self._heartbeat_s = heartbeat_s

    def add(self, server: grpc.Server) -> None:
        link_pb2_grpc.add_ResourceManagerLinkServiceServicer_to_server(self, server)

    def Connect(
        self, request_iterator: Iterator[link_pb2.ConnectRequest], context: grpc.ServicerContext
    ) -> Iterator[link_pb2.ConnectResponse]:
        if self.refusal:
            abort_richly(context, *self.refusal)
        if self.mute:
            ended_early = threading.Event()
            context.add_callback(ended_early.set)
            ended_early.wait(WAIT_S)
            return
        self.sessions += 1
        ended = threading.Event()
        threading.Thread(target=self._hear, args=(request_iterator, ended), daemon=True).start()
        yield link_pb2.ConnectResponse(registered=link_pb2.Registered(session_id=f"session-{self.sessions}"))
        while not ended.is_set():
            try:
                said = self.to_say.get(timeout=self._heartbeat_s)
            except queue.Empty:
                if not self.silent.is_set():
                    yield link_pb2.ConnectResponse(heartbeat=link_pb2.Heartbeat())
                continue
            if isinstance(said, BaseException):
                context.abort(grpc.StatusCode.UNAVAILABLE, str(said))
            yield said

    def _hear(self, requests: Iterator[link_pb2.ConnectRequest], ended: threading.Event) -> None:
        try:
            for request in requests:
                self.heard.put(request)
        except grpc.RpcError:
            pass  # the other side ended the call
        finally:
            ended.set()

    def next(self, kind: str) -> link_pb2.ConnectRequest:
        """Return the next message of this kind; heartbeats in between are passed over."""
        while True:
            request = self.heard.get(timeout=WAIT_S)
            if request.WhichOneof("message") == kind:
                return request
            assert request.WhichOneof("message") == "heartbeat", request

    def decide(self, *decisions: decision_pb2.Decision) -> None:
        self.to_say.put(link_pb2.ConnectResponse(decisions=link_pb2.Decisions(decisions=decisions)))


def place(
    decision_id: int, *assignments: decision_pb2.Assignment, job_id: str = "job-1", **more: object
) -> decision_pb2.Decision:
    """Return a decision of the first session and epoch 1."""
    gang = decision_pb2.PlaceGang(job_id=job_id, attempt=1, assignments=assignments)
    fields: dict[str, object] = {"session_id": SESSION_ID, "epoch": 1, **more}
    return decision_pb2.Decision(decision_id=decision_id, place_gang=gang, **fields)  # type: ignore[arg-type]  # fields come from the caller, by name
