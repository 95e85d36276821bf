"""A real gRPC server on loopback that answers every read with the same canned messages."""

# ruff: noqa: N802, ARG002 - names and parameters of the methods are those of the protocol

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc

from tests.cli.canned_gpus import CannedGpus
from tests.client.scripted import serving
from yarn_gpu_sched import __version__
from yarn_gpu_sched.protocol.v1 import (
    cluster_pb2,
    cluster_pb2_grpc,
    container_pb2,
    gpu_pb2_grpc,
    job_pb2,
    jobs_pb2,
    jobs_pb2_grpc,
    preemption_pb2,
    preemption_pb2_grpc,
    reason_pb2,
    resource_pb2,
    server_pb2,
    virtual_cluster_pb2,
)

APPLICATION = "application_1764450000000_0001"
CONTAINER = "container_e01_1764450000000_0001_01_000002"


def resource(gpus: int = 0, memory_mb: int = 0, vcores: int = 0) -> resource_pb2.Resource:
    return resource_pb2.Resource(gpus=gpus, memory_mb=memory_mb, vcores=vcores)


def job_view(text: str = "training", job_id: str = APPLICATION) -> job_pb2.JobView:
    """Return a pending job with one container; every field that a submitter may fill holds ``text``."""
    job = job_pb2.Job(
        job_id=job_id, virtual_cluster=f"root.{text}", user=text, name=text, tags=[text, "gang:4x2"], attempt=1
    )
    job.submit_time.FromSeconds(1_764_450_000)
    return job_pb2.JobView(
        job=job,
        state=job_pb2.JOB_STATE_PENDING,
        gang_containers=4,
        gpus_pending=8,
        used=resource(2, 256, 1),
        containers=[container(job_id, text)],
        waiting=waiting(text),
        diagnostics=text,
        age_s=754.0,
        delays=reason_pb2.Delays(fair_share_s=600, fragmentation_s=154),
        history=[
            reason_pb2.ReasonSince(code=reason_pb2.WAITING_REASON_CODE_VC_QUOTA, age_s=754),
            reason_pb2.ReasonSince(code=reason_pb2.WAITING_REASON_CODE_FRAGMENTED, age_s=154),
        ],
    )


def container(job_id: str, text: str) -> container_pb2.Container:
    return container_pb2.Container(
        container_id=CONTAINER,
        job_id=job_id,
        attempt=1,
        server_id=f"gpu-a1:45454{text}",
        resource=resource(2, 256, 1),
        gpu_indices=[0, 1],
    )


def waiting(text: str) -> reason_pb2.WaitingReason:
    return reason_pb2.WaitingReason(
        code=reason_pb2.WAITING_REASON_CODE_CLUSTER_FULL,
        sentence=f"8 GPUs in 4 containers are asked, 6 are free on 2 servers {text}",
        gpus_asked=8,
        containers_asked=4,
        gpus_free=6,
        servers_free=2,
    )


def outlook(text: str) -> reason_pb2.Outlook:
    return reason_pb2.Outlook(
        changes=[
            f"in 45 s it may go to level 1 (one RDMA domain), where it would not fit now either {text}",
            f"the end of {APPLICATION}, which holds 2 GPUs, expected in 12 min",
        ],
        when=f"in about 12 min, if {APPLICATION} ends when it said; jobs before it in order are not counted {text}",
        starts_in_s=720.5,
        next_level=1,
        relaxes_in_s=45.0,
        gpus_lacking=2,
        job_ids=[APPLICATION],
        server_ids=[f"gpu-a1{text}"],
    )


def delay_row(vc: str, size: str = "2-4", **fields: int) -> jobs_pb2.DelayRow:
    return jobs_pb2.DelayRow(
        virtual_cluster=vc,
        size=size,
        waits=12,
        delays=reason_pb2.Delays(fair_share_s=600, capacity_s=60, fragmentation_s=300, other_s=40),
        mostly=jobs_pb2.DelayCounts(**fields)
        if fields
        else jobs_pb2.DelayCounts(fair_share=6, capacity=2, fragmentation=3),
        waiting=1,
        waiting_delays=reason_pb2.Delays(fragmentation_s=200),
    )


def server_view(text: str = "") -> cluster_pb2.ServerView:
    server = server_pb2.Server(
        server_id=f"gpu-a1:45454{text}",
        host=f"gpu-a1{text}",
        rack=f"/rack-a{text}",
        partition=text,
        capacity=resource(4, 65_536, 32),
        state=server_pb2.SERVER_STATE_RUNNING,
    )
    gpus = [cluster_pb2.GpuUse(index=0, job_id=f"job{text}", container_id=f"c{text}")]
    gpus += [cluster_pb2.GpuUse(index=index) for index in (1, 2, 3)]
    return cluster_pb2.ServerView(server=server, used=resource(1, 1024, 1), gpus=gpus, containers=1)


def vc_use(text: str = "") -> virtual_cluster_pb2.VirtualClusterUse:
    vc = virtual_cluster_pb2.VirtualCluster(path=f"root.research{text}", quota_gpus=8, running=True)
    return virtual_cluster_pb2.VirtualClusterUse(
        virtual_cluster=vc,
        used=resource(9, 1024, 1),
        jobs_running=1,
        jobs_pending=2,
        shares=[share(text, quota_gpus=8, used_gpus=9, borrowed_gpus=2)],
        warnings=[f"quota 8 GPUs is over its maximum, 4 {text}"] if text else [],
    )


def share(partition: str = "", **fields: int) -> virtual_cluster_pb2.PartitionShare:
    return virtual_cluster_pb2.PartitionShare(partition=partition, **fields)  # type: ignore[arg-type] # its numbers, by name


def preempted(by: str, age_s: float) -> preemption_pb2.Preempted:
    return preemption_pb2.Preempted(age_s=age_s, by_job_id=by, by_virtual_cluster="root.speech", lost_gpu_s=7_200.0)


def preemption_plan(text: str = "") -> preemption_pb2.PreemptionPlan:
    """Return a job that is warned; every name holds ``text``."""
    victim = preemption_pb2.PreemptionVictim(
        job_id=f"victim-1{text}",
        virtual_cluster=f"root.speech{text}",
        user=f"ada{text}",
        gpus=4,
        ran_s=3_600.0,
        lost_gpu_s=7_200.0,
        stopped_before=1,
    )
    return preemption_pb2.PreemptionPlan(
        job_id=f"{APPLICATION}{text}",
        virtual_cluster=f"root.research{text}",
        gpus=4,
        victims=[victim],
        servers=[preemption_pb2.ServerGpus(server_id=f"gpu-a1:45454{text}", gpus=4)],
        stage=preemption_pb2.PREEMPTION_STAGE_WARNED,
        age_s=18.0,
        left_s=12.0,
    )


def reservation(text: str = "", **fields: object) -> cluster_pb2.Reservation:
    """Return what is kept for a gang on two servers; every name holds ``text``."""
    one = cluster_pb2.Reservation(
        job_id=f"{APPLICATION}{text}",
        virtual_cluster=f"root.research{text}",
        partition=text,
        gpus=8,
        kept_gpus=3,
        level=1,
        servers=[
            cluster_pb2.ReservedServer(server_id=f"gpu-a1:45454{text}", gpus=4, kept_gpus=3),
            cluster_pb2.ReservedServer(server_id=f"gpu-a2:45454{text}", gpus=4),
        ],
        age_s=125.0,
        ready_in_s=725.0,
        awaited_job_ids=[f"application_1764450000000_0002{text}", f"application_1764450000000_0003{text}"],
    )
    one.MergeFrom(cluster_pb2.Reservation(**fields))  # type: ignore[arg-type] # checked by protobuf
    return one


@dataclass
class Canned(
    CannedGpus,
    jobs_pb2_grpc.JobsServiceServicer,
    cluster_pb2_grpc.ClusterServiceServicer,
    preemption_pb2_grpc.PreemptionServiceServicer,
):
    """What is answered; a test may change all of it."""

    jobs: list[job_pb2.JobView] = field(default_factory=lambda: [job_view()])
    servers: list[cluster_pb2.ServerView] = field(default_factory=lambda: [server_view()])
    vcs: list[virtual_cluster_pb2.VirtualClusterUse] = field(default_factory=lambda: [vc_use()])
    outlooks: dict[str, reason_pb2.Outlook] = field(default_factory=lambda: {APPLICATION: outlook("")})
    delays: list[jobs_pb2.DelayRow] = field(default_factory=lambda: [delay_row("root.research")])
    cluster_id: str = "c1"
    reservations: list[cluster_pb2.Reservation] = field(default_factory=list)
    reservations_left_out: int = 0
    connected: bool = True
    service_version: str = __version__
    service_ahead_s: float | None = 0.0
    agent: str = f"ygs-rm-shim {__version__} on Hadoop 3.4.2"
    gpus: int = 8
    plan: preemption_pb2.PreemptionPlan = field(default_factory=preemption_plan)
    preview: preemption_pb2.PreviewPreemptionResponse | None = None
    reason: str = "the demonstration"
    not_kept: str = "the service has no state_dir"
    switches: list[preemption_pb2.SetPreemptionModeRequest] = field(default_factory=list)
    checkpoints: list[preemption_pb2.ReportCheckpointRequest] = field(default_factory=list)

    def ListJobs(self, request: jobs_pb2.ListJobsRequest, context: grpc.ServicerContext) -> jobs_pb2.ListJobsResponse:
        listed = [view for view in self.jobs if request.state in (job_pb2.JOB_STATE_UNSPECIFIED, view.state)]
        return jobs_pb2.ListJobsResponse(jobs=listed, total_size=len(listed))

    def GetJob(self, request: jobs_pb2.GetJobRequest, context: grpc.ServicerContext) -> jobs_pb2.GetJobResponse:
        return jobs_pb2.GetJobResponse(job=self._find(request.job_id, context))

    def GetWaitingReason(
        self, request: jobs_pb2.GetWaitingReasonRequest, context: grpc.ServicerContext
    ) -> jobs_pb2.GetWaitingReasonResponse:
        view = self._find(request.job_id, context)
        told = view.waiting if view.HasField("waiting") else None
        answer = jobs_pb2.GetWaitingReasonResponse(state=view.state, waiting=told)
        if told is not None and request.job_id in self.outlooks:
            answer.outlook.CopyFrom(self.outlooks[request.job_id])
        return answer

    def ListDelays(
        self, request: jobs_pb2.ListDelaysRequest, context: grpc.ServicerContext
    ) -> jobs_pb2.ListDelaysResponse:
        rows = [row for row in self.delays if request.virtual_cluster in ("", row.virtual_cluster)]
        return jobs_pb2.ListDelaysResponse(rows=rows)

    def WatchJobs(
        self, request: jobs_pb2.WatchJobsRequest, context: grpc.ServicerContext
    ) -> Iterator[jobs_pb2.WatchJobsResponse]:
        yield from (jobs_pb2.WatchJobsResponse(job=view) for view in self.jobs)

    def GetCluster(
        self, request: cluster_pb2.GetClusterRequest, context: grpc.ServicerContext
    ) -> cluster_pb2.GetClusterResponse:
        answer = cluster_pb2.GetClusterResponse(
            cluster_id=self.cluster_id,
            connected=self.connected,
            settled=True,
            service_version=self.service_version,
            resource_manager_agent=self.agent,
            capacity=resource(self.gpus),
            used=resource(6),
            servers=len(self.servers),
            reservations=self.reservations,
            reservations_left_out=self.reservations_left_out,
        )
        if self.service_ahead_s is not None:
            answer.service_time.FromNanoseconds(time.time_ns() + int(self.service_ahead_s * 1e9))
        return answer

    def ListServers(
        self, request: cluster_pb2.ListServersRequest, context: grpc.ServicerContext
    ) -> cluster_pb2.ListServersResponse:
        return cluster_pb2.ListServersResponse(servers=self.servers)

    def ListVirtualClusters(
        self, request: cluster_pb2.ListVirtualClustersRequest, context: grpc.ServicerContext
    ) -> cluster_pb2.ListVirtualClustersResponse:
        return cluster_pb2.ListVirtualClustersResponse(virtual_clusters=self.vcs)

    def GetPreemption(
        self, request: preemption_pb2.GetPreemptionRequest, context: grpc.ServicerContext
    ) -> preemption_pb2.GetPreemptionResponse:
        switched = preemption_pb2.PreemptionSwitch(reason=self.reason, by="ada")
        switched.time.FromJsonString("2026-09-22T10:00:00.25Z")
        return preemption_pb2.GetPreemptionResponse(
            mode=preemption_pb2.PREEMPTION_MODE_OBSERVE,
            mode_of_settings=preemption_pb2.PREEMPTION_MODE_OFF,
            switched=switched,
            quiet_for_s=100.0,
            stopped_last_minute=2,
            per_minute_max=16,
            stopped=7,
            observed=3,
            plans=[self.plan],
        )

    def SetPreemptionMode(
        self, request: preemption_pb2.SetPreemptionModeRequest, context: grpc.ServicerContext
    ) -> preemption_pb2.SetPreemptionModeResponse:
        self.switches.append(request)
        on = request.mode == preemption_pb2.PREEMPTION_MODE_ON
        return preemption_pb2.SetPreemptionModeResponse(
            before=preemption_pb2.PREEMPTION_MODE_OBSERVE,
            after=request.mode,
            spared=[] if on else self.plan.victims,
            not_kept_because="" if request.dry_run else self.not_kept,
        )

    def PreviewPreemption(
        self, request: preemption_pb2.PreviewPreemptionRequest, context: grpc.ServicerContext
    ) -> preemption_pb2.PreviewPreemptionResponse:
        return self.preview or preemption_pb2.PreviewPreemptionResponse(
            plan=self.plan, hindrances=["preemption is observe"]
        )

    def ReportCheckpoint(
        self, request: preemption_pb2.ReportCheckpointRequest, context: grpc.ServicerContext
    ) -> preemption_pb2.ReportCheckpointResponse:
        self.checkpoints.append(request)
        return preemption_pb2.ReportCheckpointResponse(attempt=request.attempt or 1)

    def _find(self, job_id: str, context: grpc.ServicerContext) -> job_pb2.JobView:
        for view in self.jobs:
            if view.job.job_id == job_id:
                return view
        context.abort(grpc.StatusCode.NOT_FOUND, f"job {job_id} is not known")
        raise AssertionError("abort raises")

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve; yields the address."""

        def add(server: grpc.Server) -> None:
            jobs_pb2_grpc.add_JobsServiceServicer_to_server(self, server)
            cluster_pb2_grpc.add_ClusterServiceServicer_to_server(self, server)
            gpu_pb2_grpc.add_GpuServiceServicer_to_server(self, server)
            preemption_pb2_grpc.add_PreemptionServiceServicer_to_server(self, server)

        with serving(add) as address:
            yield address
