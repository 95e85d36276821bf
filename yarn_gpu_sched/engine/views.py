"""What a driver may show of an engine's state: copies, never the state itself."""

import msgspec

from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.delay import Delays
from yarn_gpu_sched.model.health import GpuRecord, Health, HostRecord, Telemetry
from yarn_gpu_sched.model.job import Job, JobEnd, JobState
from yarn_gpu_sched.model.preemption import Mode, Preempted
from yarn_gpu_sched.model.reason import ReasonSince, WaitingReason
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster


class VictimView(msgspec.Struct, frozen=True):
    """A job that is stopped, or would be, for another: whole, or the containers that are named.

    It has run for ``ran_s`` in this attempt, and would lose ``lost_gpu_s`` GPU-seconds: what it did since its last checkpoint.
    ``stopped_before``: how often it was stopped already.
    """

    job_id: str
    vc: str
    user: str
    gpus: int
    ran_s: float
    lost_gpu_s: float
    stopped_before: int
    container_ids: tuple[str, ...] = ()


class PlanView(msgspec.Struct, frozen=True):
    """Jobs that are stopped for a gang, or would be; ``servers`` with the GPUs that it gets there, ``level`` that of the place.

    ``stage``: "proposed", "warned" until ``until_s``, or "stopping", and what they leave is held until then.
    """

    job_id: str
    vc: str
    gpus: int
    level: int
    victims: tuple[VictimView, ...]
    servers: tuple[tuple[str, int], ...]
    stage: str
    decided_s: float
    until_s: float | None = None


class PreemptionPreview(msgspec.Struct, frozen=True):
    """Whom a job would have stopped. ``plan`` is None if nobody may be: ``condition`` and ``sentence`` say why.

    ``hindrances``: a sentence for each that keeps it from being done now, although somebody is found.
    """

    plan: PlanView | None = None
    condition: str = ""
    sentence: str = ""
    hindrances: tuple[str, ...] = ()


class PreemptionView(msgspec.Struct, frozen=True):
    """Whether preemption is armed, why, and what is under way. ``quiet_until_s``: nobody is stopped before.

    ``stopped_last_minute`` jobs, or single containers, were stopped in the last minute, at most ``per_minute_max`` are.
    ``observed``: for which gangs that wait it was observed that others would be stopped, and when last.
    """

    mode: Mode
    why: str
    quiet_until_s: float
    stopped_last_minute: int
    per_minute_max: int
    plans: tuple[PlanView, ...] = ()
    observed: tuple[tuple[str, float], ...] = ()


class ReservationView(msgspec.Struct, frozen=True):
    """Places that are kept for a gang which has waited too long; ``servers`` with the GPUs that it takes there, and those kept.

    Kept since ``since_s``; all of it is expected to be free at ``ready_s`` (None: nobody knows), when the ``awaited`` jobs end, of
    which the first are named. ``over_quota``: it would borrow, so jobs within their quotas go first.
    """

    job_id: str
    vc: str
    partition: str
    gpus: int
    kept_gpus: int
    level: int
    servers: tuple[tuple[str, int, int], ...]
    since_s: float
    ready_s: float | None
    awaited: tuple[str, ...]
    over_quota: bool


class JobView(msgspec.Struct, frozen=True):
    """A job. ``first_seen_s`` and ``ended_s`` are by the driver's clock; ``level`` is None before the gang is placed.

    ``preempted``: when and for whom it was stopped; ``stopped_for``: the job for which it is warned or being stopped now, and
    ``stopped_at_s`` when that will be, or was.
    """

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
    preempted: tuple[Preempted, ...] = ()
    stopped_for: str = ""
    stopped_at_s: float | None = None


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


class HealthCounts(msgspec.Struct, frozen=True):
    """GPUs by health, servers with GPUs by telemetry, GPUs that were given back and are not seen free, drained servers."""

    health: dict[Health, int]
    telemetry: dict[Telemetry, int]
    not_free: int
    drained: int


class GpuView(msgspec.Struct, frozen=True):
    """One slot of a server: what is known of it, and who holds it. ``needs_ack``: it stays out until an operator says so."""

    gpu: GpuRecord
    needs_ack: bool
    job_id: str = ""
    container_id: str = ""
    vc: str = ""


class Place(msgspec.Struct, frozen=True):
    """Where a container is. ``domain`` is empty if nobody knows it."""

    container_id: str
    host: str
    domain: str
    gpu_indices: tuple[int, ...]


class GangPlaces(msgspec.Struct, frozen=True):
    """Where a job's containers are: the members of its gang in order of rank, and all others. ``whole``: all members are there."""

    members: tuple[Place, ...]
    whole: bool
    others: tuple[Place, ...] = ()
    vc: str = ""


class HostView(msgspec.Struct, frozen=True):
    """The health of one server; its GPUs are in ``gpus``, not in ``record``.

    ``gpus_over_committed``: GPUs that containers hold beyond those that are healthy.
    """

    host: str
    server_id: str
    record: HostRecord
    unknown: bool
    gpus_counted: int
    gpus_healthy: int
    gpus_over_committed: int
    gpus: tuple[GpuView, ...]


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
