"""What an engine is told. Every change of scheduling state begins as one of these.

Times are ``now_s``: seconds of the driver's clock, never running backwards. All events are recorded, so a field that is added
later needs a default.
"""

import msgspec

from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.health import GpuReport, KeptHost, Mark, MarkAction, Telemetry
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster


class Event(msgspec.Struct, frozen=True, gc=False, tag=True, kw_only=True):
    """Something happened at ``now_s``."""

    now_s: float


class ResourceManagerRegistered(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """A resource manager opened its link: all that was known of the cluster is void, its snapshot follows.

    ``settle_left_s``: seconds from now until the servers seen count as all there are (law 10). Decisions under way are void.
    The driver has fenced older epochs already.
    """

    cluster_id: str
    epoch: int
    start_time_ms: int = 0
    settle_left_s: float = 0.0


class SnapshotEnded(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """The snapshot is complete: from here on `Pass` may decide."""


class ResourceManagerLost(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """The link is gone. The state stays to be looked at; nothing is decided; decisions under way are void."""


class ServerChanged(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """A server is there, or its rack, partition, capacity or state changed. The same event twice changes nothing."""

    server: Server


class ServerRemoved(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """A server is gone, and with it its containers. Unknown: ignored."""

    server_id: str


class VirtualClusterChanged(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """A virtual cluster is there or changed."""

    virtual_cluster: VirtualCluster


class VirtualClusterRemoved(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """A virtual cluster is gone. Unknown: ignored. Jobs in it keep their place until they end or move."""

    path: str


class JobChanged(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """A job was submitted, or its attempt, VC or activity changed (law 6: twice counts once).

    A higher attempt voids the asks of the one before, and its gang starts anew. A lower one is ignored.
    """

    job: Job


class AsksChanged(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """All pending asks of a job's attempt; replaces what was known. Of an unknown job or an older attempt: ignored.

    Of a newer attempt: it begins with them. A resource manager that changes while it is looked at tells of them first.
    ``blacklist``: hosts and racks on which the application wants nothing.
    """

    job_id: str
    attempt: int
    asks: tuple[Ask, ...]
    blacklist: tuple[str, ...] = ()


class ContainerSeen(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """A live container that no decision of this session made, or news of one that is known (``ending``)."""

    container: Container


class ContainerReleased(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """The server itself has lost the container: what it held is free (law 1). Unknown or twice: ignored (law 6).

    ``lost``: it neither ended well nor was given back: it failed, was killed, or its server was lost.
    """

    container_id: str
    lost: bool = False


class JobEnded(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """A job ended; its containers are released one by one. Unknown or twice: ignored (law 5: one end state)."""

    job_id: str
    end: JobEnd
    diagnostics: str = ""


class OutcomeReported(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """What became of a decision. Of an unknown decision or twice: ignored.

    ``container_ids`` follow the order of the decision's assignments, and are there only if it was committed.
    """

    decision_id: int
    code: OutcomeCode
    container_ids: tuple[str, ...] = ()
    detail: str = ""


class PreemptionModeChanged(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """An operator armed preemption, lets it be watched only, or switched it off; ``why`` is shown."""

    mode: Mode
    why: str = ""


class CheckpointReported(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """What a running job has done until now is safe: stopping it loses only what comes after. Unknown or not running: ignored."""

    job_id: str


class IdleReported(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """A running job uses none of its GPUs, so it counts as borrowed; or it does use some again. Unknown or not running: ignored."""

    job_id: str
    idle: bool


class TelemetryChanged(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """The state of a server's telemetry, told when it changes, and for each failed reading while it is `UNREADABLE`.

    ``detail``: why, to be shown. ``slots``: how many its monitor counts, with those that lost their cards, and ``links``: how well
    the GPUs are connected, a row of scores a slot; None: as before.
    """

    host: str
    telemetry: Telemetry
    detail: str = ""
    slots: int | None = None
    links: tuple[tuple[int, ...], ...] | None = None


class GpusReported(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """What a reading says of a server's GPUs; told where it differs from the one before, and a bad one each time for a while.

    ``released``: containers after whose end the reading was taken. Of a host without telemetry: ignored.
    """

    host: str
    gpus: tuple[GpuReport, ...] = ()
    released: tuple[str, ...] = ()


class Marked(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """An operator said something of a server, or of one of its GPUs by slot. What is so already changes only who said it."""

    host: str
    action: MarkAction
    mark: Mark
    slot: int | None = None


class HealthRestored(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """What was known of servers and GPUs before a restart and outlasts it."""

    hosts: tuple[KeptHost, ...]


class Pass(Event, frozen=True, gc=False, tag=True, kw_only=True):
    """Decide now. The only event that decides."""


AnyEvent = (
    ResourceManagerRegistered
    | SnapshotEnded
    | ResourceManagerLost
    | ServerChanged
    | ServerRemoved
    | VirtualClusterChanged
    | VirtualClusterRemoved
    | PreemptionModeChanged
    | CheckpointReported
    | IdleReported
    | TelemetryChanged
    | GpusReported
    | Marked
    | HealthRestored
    | JobChanged
    | AsksChanged
    | ContainerSeen
    | ContainerReleased
    | JobEnded
    | OutcomeReported
    | Pass
)
