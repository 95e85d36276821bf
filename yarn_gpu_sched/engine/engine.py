"""The engine: its one door, and what may be read of it."""

from collections.abc import Callable, Collection
from itertools import chain
from typing import Any

from yarn_gpu_sched.engine import (
    ahead,
    containers,
    deciding,
    foretelling,
    gathering,
    health,
    health_views,
    jobs,
    links,
    marks,
    outcomes,
    preempting,
    reading,
    repair,
    servers,
    settling,
    snapshot,
)
from yarn_gpu_sched.engine.audit import audit
from yarn_gpu_sched.engine.commands import AnyCommand, HealthChanged, JobTouched
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.counters import Counters
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    CheckpointReported,
    ContainerReleased,
    ContainerSeen,
    Event,
    GpusReported,
    HealthRestored,
    IdleReported,
    JobChanged,
    JobEnded,
    Marked,
    OutcomeReported,
    Pass,
    PreemptionModeChanged,
    ResourceManagerLost,
    ResourceManagerRegistered,
    ServerChanged,
    ServerRemoved,
    SnapshotEnded,
    TelemetryChanged,
    VirtualClusterChanged,
    VirtualClusterRemoved,
)
from yarn_gpu_sched.engine.outlook import outlook
from yarn_gpu_sched.engine.settings import EngineSettings
from yarn_gpu_sched.engine.views import (
    ClusterView,
    DelayRow,
    GangPlaces,
    HealthCounts,
    HostView,
    JobView,
    Outlook,
    PreemptionPreview,
    PreemptionView,
    ReservationView,
    ServerView,
    VirtualClusterUse,
)
from yarn_gpu_sched.engine.waiting import waiting_reason
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.delay import Delays
from yarn_gpu_sched.model.health import KeptHost, MarkAction
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.laws import Broken
from yarn_gpu_sched.model.reason import WaitingReason
from yarn_gpu_sched.model.server import UNKNOWN_RACK
from yarn_gpu_sched.policy import Policy

Handler = Callable[[Core, Any], None]

_HANDLERS: dict[type[Event], Handler] = {
    ResourceManagerRegistered: links.on_registered,
    SnapshotEnded: links.on_snapshot_ended,
    ResourceManagerLost: links.on_lost,
    ServerChanged: servers.on_server_changed,
    ServerRemoved: servers.on_server_removed,
    VirtualClusterChanged: servers.on_virtual_cluster_changed,
    VirtualClusterRemoved: servers.on_virtual_cluster_removed,
    PreemptionModeChanged: preempting.on_mode_changed,
    CheckpointReported: preempting.on_checkpoint_reported,
    IdleReported: preempting.on_idle_reported,
    JobChanged: jobs.on_job_changed,
    AsksChanged: jobs.on_asks_changed,
    ContainerSeen: containers.on_container_seen,
    ContainerReleased: containers.on_container_released,
    JobEnded: jobs.on_job_ended,
    OutcomeReported: outcomes.on_outcome_reported,
    TelemetryChanged: health.on_telemetry_changed,
    GpusReported: health.on_gpus_reported,
    Marked: marks.on_marked,
    HealthRestored: marks.on_health_restored,
    Pass: deciding.on_pass,
}


class Engine:
    """Scheduling state and who changes it. The contract is the docstring of this package. ``core`` is for `restore` alone.

    ``policy`` decides in place of the one that the settings name; a snapshot does not hold it.
    """

    def __init__(
        self, settings: EngineSettings | None = None, core: Core | None = None, policy: Policy | None = None
    ) -> None:
        self._core = core or Core(settings or EngineSettings(), policy)

    @classmethod
    def restore(cls, taken: bytes, policy: Policy | None = None) -> "Engine":
        """Make an engine of a `snapshot`. Raises ValueError if it cannot be read."""
        core = snapshot.restore(taken, policy)
        return cls(core.settings, core)

    @property
    def settings(self) -> EngineSettings:
        """The settings that it was made with."""
        return self._core.settings

    @property
    def counters(self) -> Counters:
        """How much it has done."""
        return self._core.counters

    def apply(self, event: Event) -> list[AnyCommand]:
        """Change the state by one event; return what is to be done, in order, the touched jobs last."""
        core = self._core
        core.counters.events += 1
        if event.now_s > core.now_s:
            settling.advance(core, event.now_s)
            if core.resting:
                deciding.end_pauses(core)
        if (due_s := core.health.agenda.next_s()) is not None and due_s <= core.now_s:
            health.let_time_pass(core)
        core.unexamined = True
        _HANDLERS[type(event)](core, event)
        if core.state.tenants.changed:
            core.follow_use()
        commands, core.commands = core.commands, []
        for job_id in core.touched:
            commands.append(JobTouched(job_id=job_id))
        core.touched.clear()
        for host in core.health.touched:
            commands.append(HealthChanged(host=host))
        core.health.touched.clear()
        return commands

    def next_wake_s(self) -> float | None:
        """Say when another `Pass` could decide differently without any other event; None if never."""
        core = self._core
        if core.limits_stale:
            core.follow_limits()
        health_s = core.health.agenda.next_s()
        if not core.session.deciding:
            return health_s
        if core.changed_partitions or (core.unexamined and core.queue.anybody()):
            return core.now_s
        times: list[float] = []
        if core.ladder.timers and (relaxes_s := core.ladder.next_s()) is not None:
            times.append(relaxes_s)
        if core.policy_wake_s is not None:
            times.append(core.policy_wake_s)
        preemption = core.preemption
        looks = (
            preemption.look_s,
            preemption.agenda.next_s(),
            core.reservations.agenda.next_s(),
            core.reservations.again.next_s(),
            health_s,
        )
        times += [look_s for look_s in looks if look_s is not None]
        times += [heap[0][0] for heap in (core.resting, core.expiring) if heap]
        if not core.session.settled:
            times.append(core.session.settles_at_s)
        if core.degraded or core.ahead or core.gathering:
            times += chain(repair.wakes_s(core), ahead.wakes_s(core), gathering.wakes_s(core))
        return min(times) if times else None

    @property
    def deciding(self) -> bool:
        """Whether a pass may decide: a resource manager is connected, and its snapshot is whole."""
        return self._core.session.deciding

    def cluster(self) -> ClusterView:
        """Show the cluster as a whole."""
        return reading.cluster_view(self._core)

    def job(self, job_id: str, now_s: float | None = None) -> JobView | None:
        """Show a job with its containers; None if it is not known. ``now_s``: the time, where it is later than the last event."""
        settling.settle(self._core)
        record = self._core.state.jobs.get(job_id)
        now_us = settling.at_us(self._core, now_s)
        return None if record is None else reading.job_view(self._core, record, now_us, with_containers=True)

    def jobs(
        self,
        state: JobState | None = None,
        vc: str = "",
        after: str = "",
        limit: int = 100,
        *,
        now_s: float | None = None,
    ) -> tuple[list[JobView], int]:
        """Show jobs in order of submission, without containers: a page after a job, and how many there are in all."""
        settling.settle(self._core)
        return reading.job_views(self._core, state, vc, after, limit, settling.at_us(self._core, now_s))

    def waiting(self, job_id: str) -> WaitingReason | None:
        """Say why a job waits; None if it is not known or waits for nothing."""
        record = self._core.state.jobs.get(job_id)
        return None if record is None else waiting_reason(self._core, record)

    def outlook(self, job_id: str, now_s: float = 0.0) -> Outlook | None:
        """Say what would let a waiting job go on, and when, seen from ``now_s``; None if it is not known or waits for nothing."""
        record = self._core.state.jobs.get(job_id)
        return None if record is None else outlook(self._core, record, max(now_s, self._core.now_s))

    def preemption(self) -> PreemptionView:
        """Show whether preemption is armed, and who is stopped for whom."""
        return foretelling.preemption_view(self._core)

    def reservations(self) -> tuple[ReservationView, ...]:
        """Show what is kept for gangs that have waited too long, in the order in which it is kept."""
        return foretelling.reservation_views(self._core)

    def held(self) -> dict[str, tuple[tuple[str, int], ...]]:
        """Say for which jobs idle GPUs are held because others are stopped for them: on which servers, and the mask of the GPUs."""
        return foretelling.held(self._core)

    def preempt_preview(self, job_id: str) -> PreemptionPreview | None:
        """Say whom a job would have stopped, or why nobody is (law 7); None if it is not known. Nothing is changed."""
        settling.settle(self._core)
        record = self._core.state.jobs.get(job_id)
        return None if record is None else foretelling.preview(self._core, record)

    def waited(self, job_id: str) -> Delays:
        """Say how long the last attempt of a job that started has waited, by cause; for nothing if it is not known."""
        record = self._core.state.jobs.get(job_id)
        return Delays() if record is None else record.wait.delays

    def delays(self, vc: str = "", now_s: float | None = None) -> list[DelayRow]:
        """Show how long jobs waited and why, by virtual cluster and size, in this order; of one virtual cluster, or of all."""
        return settling.delay_rows(self._core, vc, settling.at_us(self._core, now_s))

    def servers(self, after: str = "", limit: int = 100) -> tuple[list[ServerView], int]:
        """Show servers in order of their ids: a page after a server, and how many there are in all."""
        return reading.server_views(self._core, after, limit)

    @property
    def servers_without_domain(self) -> int:
        """Count the servers with GPUs of which nobody has said in which rack they are."""
        return sum(use.gpus > 0 and use.server.rack == UNKNOWN_RACK for use in self._core.state.servers.values())

    def hosts(self, after: str = "", limit: int = 100, only: str = "") -> tuple[list[HostView], int]:
        """Show the health of servers in order of their hosts: a page after a host, or only one; and how many there are in all."""
        return health_views.host_views(self._core, after, limit, only)

    def host_of(self, server_id: str) -> str:
        """Name the host of a server; empty if it is not known."""
        use = self._core.state.servers.get(server_id)
        return "" if use is None else use.server.host

    def has_host(self, host: str) -> bool:
        """Tell whether any server is on a host."""
        return any(use.server.host == host for use in self._core.index.named(host))

    def host_named(self, name: str) -> str:
        """Find the host that is meant by a name in any case, short or full; empty if none is, or more than one."""
        return health_views.host_named(self._core, name)

    def container(self, container_id: str) -> Container | None:
        """Show a live container."""
        return self._core.state.containers.get(container_id)

    def gang_places(self, job_id: str, others: Collection[str]) -> GangPlaces:
        """Say where the members of a job's gang are, and those of its other containers that are named."""
        return health_views.gang_places(self._core, job_id, others)

    def containers_on(self, host: str) -> list[Container]:
        """List the live containers on a host."""
        return health_views.containers_on(self._core, host)

    def not_seen_free(self, host: str) -> list[str]:
        """List the containers that are gone from a host and whose GPUs no reading has shown free since."""
        return health_views.not_seen_free(self._core, host)

    def foretell_mark(self, host: str, action: MarkAction, slot: int | None) -> list[str]:
        """Say what an operator's word would change, one sentence each; nothing if it is so already."""
        return marks.foretell(self._core, host, action, slot)

    def health_counts(self) -> HealthCounts:
        """Count GPUs by health and servers by telemetry."""
        return health_views.health_counts(self._core)

    def kept_health(self) -> tuple[KeptHost, ...]:
        """List what is known of servers and GPUs and should outlast a restart (see `HealthRestored`)."""
        return marks.kept(self._core)

    def virtual_clusters(self, after: str = "", limit: int = 100) -> tuple[list[VirtualClusterUse], int]:
        """Show virtual clusters in order of their paths: a page after a path, and how many there are in all."""
        return reading.virtual_cluster_views(self._core, after, limit)

    def audit(self) -> list[Broken]:
        """Check the laws; an empty list if all hold."""
        settling.settle(self._core)
        return audit(self._core)

    def snapshot(self) -> bytes:
        """Write the whole state down, the same bytes for the same state."""
        return snapshot.take(self._core)

    def digest(self) -> str:
        """Hash the whole state (law 11): equal for engines that would decide alike."""
        return snapshot.digest(self._core)
