"""What a driver may show of an engine's state: copies, never the state itself."""

import msgspec

from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.delay import Delays
from yarn_gpu_sched.model.job import Job, JobEnd, JobState
from yarn_gpu_sched.model.reason import ReasonSince, WaitingReason
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
    delays: Delays = Delays()
    history: tuple[ReasonSince, ...] = ()
    delays_in_all: Delays = Delays()


class Outlook(msgspec.Struct, frozen=True):
    """What would let a waiting job go on, and when that may be; the fields are those of the protocol's message.

    ``changes`` are sentences, the nearest change first; ``when`` is one, with its grounds. ``limit_gpus_lacking``: by how much a
    quota or a maximum would have to be larger.
    """

    changes: tuple[str, ...] = ()
    when: str = ""
    starts_in_s: float | None = None
    next_level: int | None = None
    relaxes_in_s: float | None = None
    gpus_lacking: int = 0
    limit_gpus_lacking: int = 0
    job_ids: tuple[str, ...] = ()
    server_ids: tuple[str, ...] = ()


class DelayRow(msgspec.Struct, frozen=True):
    """The waits of a virtual cluster's jobs of one size (see `yarn_gpu_sched.model.delay`).

    ``waits`` have ended, by a start or by the job's end; ``mostly`` counts those by the cause that took longest, in the order
    of `Cause`; ``waiting`` are the jobs that wait now.
    """

    vc: str
    size: str
    waits: int = 0
    delays: Delays = Delays()
    mostly: tuple[int, int, int, int] = (0, 0, 0, 0)
    waiting: int = 0
    waiting_delays: Delays = Delays()


class PartitionShare(msgspec.Struct, frozen=True):
    """What a virtual cluster has and uses of a partition, in GPUs; None: nobody says.

    ``borrowed_gpus``: used by jobs that do not fit into the quota, in order of their start. ``translated``: the quota was set
    in percent or as a weight.
    """

    partition: str
    quota_gpus: int | None
    maximum_gpus: int | None
    used_gpus: int
    borrowed_gpus: int
    translated: bool


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
    shares: tuple[PartitionShare, ...] = ()
    warnings: tuple[str, ...] = ()


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
