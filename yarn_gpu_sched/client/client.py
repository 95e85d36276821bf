"""Reading jobs and the cluster from the scheduling service, and the little that people and jobs tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

import grpc

from yarn_gpu_sched.client.channel import DEFAULT_TARGET, open_channel
from yarn_gpu_sched.client.errors import DeadlineError, from_rpc
from yarn_gpu_sched.client.repeat import repeat_read
from yarn_gpu_sched.protocol.v1 import (
    cluster_pb2,
    cluster_pb2_grpc,
    gpu_pb2,
    gpu_pb2_grpc,
    job_pb2,
    jobs_pb2,
    jobs_pb2_grpc,
    preemption_pb2,
    preemption_pb2_grpc,
    virtual_cluster_pb2,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from yarn_gpu_sched.identity import TlsFiles

Request = TypeVar("Request")
Answer = TypeVar("Answer")

PAGE_SIZE = 500
GPU_PAGE_SIZE = 100
"""Servers of a page that lists all their GPUs."""
PAGES_MAX = 100_000


class Client:
    """Reads jobs, servers, GPUs and virtual clusters, switches preemption, marks servers and GPUs, reports checkpoints.

    Safe to share between threads.

    ``target`` is host:port, or ``unix:/path``; beyond this machine it needs ``tls``, the files of who calls.
    ``timeout_s`` bounds every call together with its repetitions;
    ``attempts_max`` bounds these. Every method raises a `ServiceError` of
    `yarn_gpu_sched.client.errors`. Answers are the protocol's own messages.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        tls: TlsFiles | None = None,
        timeout_s: float = 10.0,
        attempts_max: int = 4,
    ) -> None:
        if timeout_s <= 0:
            raise ValueError(f"timeout_s {timeout_s} must be above 0")
        if attempts_max < 1:
            raise ValueError(f"attempts_max {attempts_max} must be at least 1")
        self.target = target
        self._timeout_s = timeout_s
        self._attempts_max = attempts_max
        self._channel = open_channel(target, tls)
        self._jobs = jobs_pb2_grpc.JobsServiceStub(self._channel)
        self._cluster = cluster_pb2_grpc.ClusterServiceStub(self._channel)
        self._gpus = gpu_pb2_grpc.GpuServiceStub(self._channel)
        self._preemption = preemption_pb2_grpc.PreemptionServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back. Calls under way end as cancelled."""
        self._channel.close()

    def jobs(
        self, *, state: job_pb2.JobState.ValueType = job_pb2.JOB_STATE_UNSPECIFIED, vc: str = ""
    ) -> Iterator[job_pb2.JobView]:
        """Yield jobs in order of submission, without containers, page by page as they are read.

        ``state`` and ``vc`` (queue path) filter; unset means any.
        """
        request = jobs_pb2.ListJobsRequest(state=state, virtual_cluster=vc, page_size=PAGE_SIZE)
        for _ in range(PAGES_MAX):
            answer = self._read(self._jobs.ListJobs, request)
            yield from answer.jobs
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    def job(self, job_id: str) -> job_pb2.JobView:
        """Return one job with its containers; `NotFoundError` if the service knows none."""
        return self._read(self._jobs.GetJob, jobs_pb2.GetJobRequest(job_id=job_id)).job

    def why(self, job_id: str) -> jobs_pb2.GetWaitingReasonResponse:
        """Return the job's state, why it waits and what would change that (absent: it waits for nothing); `NotFoundError`."""
        request = jobs_pb2.GetWaitingReasonRequest(job_id=job_id)
        return self._read(self._jobs.GetWaitingReason, request)

    def delays(self, vc: str = "") -> list[jobs_pb2.DelayRow]:
        """Return how long jobs waited and why, by virtual cluster and size, since the service began; ``vc`` filters."""
        request = jobs_pb2.ListDelaysRequest(virtual_cluster=vc)
        return list(self._read(self._jobs.ListDelays, request).rows)

    def watch(self, job_id: str = "", *, vc: str = "", for_s: float = 3600.0) -> Generator[job_pb2.JobView, None, None]:
        """Yield each matching job now and again whenever it changes, for ``for_s`` seconds.

        Ends quietly after that time; `close()` of what it returns ends it earlier. It is not
        repeated by itself when the service goes away (`UnavailableError`): watch again, all matching jobs come anew.
        """
        call = self._jobs.WatchJobs(jobs_pb2.WatchJobsRequest(job_id=job_id, virtual_cluster=vc), timeout=for_s)
        try:
            for answer in call:
                yield answer.job
        except grpc.RpcError as error:
            typed = from_rpc(error)
            if isinstance(typed, DeadlineError):
                return
            raise typed from error
        finally:
            call.cancel()

    def servers(self) -> Iterator[cluster_pb2.ServerView]:
        """Yield servers in order of their ids, page by page as they are read."""
        request = cluster_pb2.ListServersRequest(page_size=PAGE_SIZE)
        for _ in range(PAGES_MAX):
            answer = self._read(self._cluster.ListServers, request)
            yield from answer.servers
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    def virtual_clusters(self) -> Iterator[virtual_cluster_pb2.VirtualClusterUse]:
        """Yield virtual clusters with their use in order of their paths."""
        request = cluster_pb2.ListVirtualClustersRequest(page_size=PAGE_SIZE)
        for _ in range(PAGES_MAX):
            answer = self._read(self._cluster.ListVirtualClusters, request)
            yield from answer.virtual_clusters
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    def cluster(self) -> cluster_pb2.GetClusterResponse:
        """Return totals and the state of the link to the resource manager."""
        return self._read(self._cluster.GetCluster, cluster_pb2.GetClusterRequest())

    def gpus(self, host: str = "") -> Iterator[gpu_pb2.ServerHealth]:
        """Yield servers with their GPUs, health and use, in order of their hosts, page by page as they are read.

        ``host``: only that server, by its id or host; `NotFoundError` if the service knows none.
        """
        request = gpu_pb2.ListGpusRequest(page_size=GPU_PAGE_SIZE, host=host)
        for _ in range(PAGES_MAX):
            answer = self._read(self._gpus.ListGpus, request)
            yield from answer.servers
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    def idle(self) -> gpu_pb2.ListIdleResponse:
        """Return who holds GPUs without using them, the longest first, and what counts as that."""
        return self._read(self._gpus.ListIdle, gpu_pb2.ListIdleRequest())

    def mark(
        self,
        action: gpu_pb2.MarkAction.ValueType,
        server: str,
        reason: str,
        *,
        gpu: str = "",
        by: str = "",
        dry_run: bool = False,
    ) -> gpu_pb2.MarkResponse:
        """Drain or undrain a server, quarantine or acknowledge a GPU, and return what that changed; or would (``dry_run``).

        ``server`` is its id or host, ``gpu`` a slot or a UUID. Only a dry run goes without ``reason`` and ``by``. It is never
        repeated by itself: another may have said otherwise meanwhile. `NotFoundError`.
        """
        request = gpu_pb2.MarkRequest(action=action, server=server, gpu=gpu, reason=reason, by=by, dry_run=dry_run)
        return self._read(self._gpus.Mark, request, attempts_max=1)

    def preemption(self) -> preemption_pb2.GetPreemptionResponse:
        """Return whether borrowed jobs are stopped for others, why, and what is under way."""
        return self._read(self._preemption.GetPreemption, preemption_pb2.GetPreemptionRequest())

    def set_preemption(
        self, mode: preemption_pb2.PreemptionMode.ValueType, reason: str, *, by: str = "", dry_run: bool = False
    ) -> preemption_pb2.SetPreemptionModeResponse:
        """Switch preemption, and return what that changed; it holds when this returns. ``dry_run``: what it would change.

        ``by`` is shown with the reason, and not checked. It is never repeated by itself: another may have
        switched it meanwhile.
        """
        request = preemption_pb2.SetPreemptionModeRequest(mode=mode, reason=reason, by=by, dry_run=dry_run)
        return self._read(self._preemption.SetPreemptionMode, request, attempts_max=1)

    def preview_preemption(self, job_id: str) -> preemption_pb2.PreviewPreemptionResponse:
        """Return whom a job would have stopped, or which condition fails; nothing is changed. `NotFoundError`."""
        return self._read(self._preemption.PreviewPreemption, preemption_pb2.PreviewPreemptionRequest(job_id=job_id))

    def report_checkpoint(self, job_id: str, attempt: int = 0) -> int:
        """Report that what a job has done until now is written down; return the attempt of which that is noted.

        ``attempt`` 0: whichever runs. `NotFoundError`; `RejectedError` if the job, or this attempt of it, does not run.
        """
        request = preemption_pb2.ReportCheckpointRequest(job_id=job_id, attempt=attempt)
        return self._read(self._preemption.ReportCheckpoint, request).attempt

    def _read(
        self, method: grpc.UnaryUnaryMultiCallable[Request, Answer], request: Request, attempts_max: int = 0
    ) -> Answer:
        call: Callable[[float], Answer] = lambda left_s: method(request, timeout=left_s)  # noqa: E731 - typed here
        return repeat_read(call, timeout_s=self._timeout_s, attempts_max=attempts_max or self._attempts_max)
