"""What a driver may show of an engine's state: copies, never the state itself."""

import msgspec

from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job, JobEnd, JobState
from yarn_gpu_sched.model.reason import WaitingReason
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster


class JobView(msgspec.Struct, frozen=True):
    """A job. ``first_seen_s`` and ``ended_s`` are by the driver's clock; ``level`` is None before the gang is placed."""

    job: Job
    state: JobState
    gang_containers: int
    gpus_pending: int
    used: Resource
    first_seen_s: float
    containers: tuple[Container, ...] = ()
    waiting: WaitingReason | None = None
    end: JobEnd | None = None
    diagnostics: str = ""
    ended_s: float | None = None
    level: int | None = None


class GpuUse(msgspec.Struct, frozen=True):
    """Who holds a GPU: both empty if it is free, ``container_id`` empty while the commit is awaited."""

    index: int
    job_id: str = ""
    container_id: str = ""


class ServerView(msgspec.Struct, frozen=True):
    """A server with its use."""

    server: Server
    used: Resource
    gpus: tuple[GpuUse, ...]
    containers: int


class VirtualClusterUse(msgspec.Struct, frozen=True):
    """A virtual cluster with its use."""

    virtual_cluster: VirtualCluster
    used: Resource
    jobs_running: int
    jobs_pending: int


class ClusterView(msgspec.Struct, frozen=True):
    """The cluster as a whole. ``settled``: the servers seen count as all there are."""

    cluster_id: str
    connected: bool
    epoch: int
    capacity: Resource
    used: Resource
    servers: int
    settled: bool
    jobs_pending: int
    jobs_running: int
