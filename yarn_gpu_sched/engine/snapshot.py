"""The whole state of an engine, written down and read again.

What follows from the rest (the index, the lines of the queue, sums) is not written; neither are counters. The same state gives the
same bytes, so their hash is the digest of law 11.
"""

import hashlib
from collections import OrderedDict

import msgspec

from yarn_gpu_sched.engine.capacity_seen import Make
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.health import note_time
from yarn_gpu_sched.engine.images import (
    DecisionImage,
    JobImage,
    decision_image,
    job_image,
    restore_decision,
    restore_job,
)
from yarn_gpu_sched.engine.preempting import watch_all
from yarn_gpu_sched.engine.preemption import WINDOW_S
from yarn_gpu_sched.engine.repair import holds_of
from yarn_gpu_sched.engine.settings import EngineSettings
from yarn_gpu_sched.engine.settling import US_PER_S, settle
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.delay import Totals
from yarn_gpu_sched.model.health import HostRecord
from yarn_gpu_sched.model.preemption import Mode, Plan
from yarn_gpu_sched.model.reservation import Reservation
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.policy import Policy

VERSION = 1

Makes = list[tuple[str, list[tuple[Make, int]]]]


class SessionImage(msgspec.Struct, frozen=True):
    """A session, see `yarn_gpu_sched.engine.session.Session`."""

    cluster_id: str
    epoch: int
    start_time_ms: int
    connected: bool
    snapshot_ended: bool
    settled: bool
    settles_at_s: float
    knew_servers: bool
    missing: list[str]
    previous: list[JobImage]
    bound: list[tuple[str, str]]


class PreemptionImage(msgspec.Struct, frozen=True):
    """What is kept of preemption and reservations, see `yarn_gpu_sched.engine.preemption` and `yarn_gpu_sched.engine.reservations`.

    ``looked``: for which reservations nothing was freed since a place was looked for; ``looks``: when it is looked for
    whom, ``again``: in which queues.
    """

    mode: Mode = Mode.OFF
    why: str = ""
    quiet_until_s: float = 0.0
    plans: list[Plan] = []
    stopped_s: list[float] = []
    observed: list[tuple[str, float]] = []
    reservations: list[Reservation] = []
    looked: list[str] = []
    idle_max: list[tuple[str, int]] = []
    looks: list[tuple[str, float]] = []
    again: list[tuple[str, float]] = []
    overdue: list[str] = []


class EngineImage(msgspec.Struct, frozen=True):
    """An engine. Whatever has an id is in its order; ``ended``, ``to_check`` and ``to_refuse`` keep the order they have."""

    version: int
    settings: EngineSettings
    now_s: float
    next_decision_id: int
    session: SessionImage
    servers: list[Server]
    virtual_clusters: list[VirtualCluster]
    jobs: list[JobImage]
    containers: list[Container]
    decisions: list[DecisionImage]
    ended: list[str]
    to_check: list[str]
    to_refuse: list[str]
    resting: list[tuple[float, str]]
    changed_partitions: list[str]
    seen_now: Makes
    seen_most: Makes
    seen_lending: list[str] = []
    seen_peak: list[tuple[str, Make]] = []
    policy_wake_s: float | None = None
    waits: list[tuple[str, str, Totals]] = []
    preemption: PreemptionImage = PreemptionImage()
    hosts: list[HostRecord] = []
    lost: list[Container] = []


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(EngineImage)


def take(core: Core) -> bytes:
    """Write an engine down."""
    settle(core)
    state = core.state
    image = EngineImage(
        version=VERSION,
        settings=core.settings,
        now_s=core.now_s,
        next_decision_id=core.next_decision_id,
        session=_session_image(core),
        servers=[state.servers[server_id].server for server_id in sorted(state.servers)],
        virtual_clusters=_told(state),
        jobs=[job_image(core.waits, state.jobs[job_id]) for job_id in sorted(state.jobs)],
        containers=[state.containers[container_id] for container_id in sorted(state.containers)],
        decisions=[decision_image(state.decisions[decision_id]) for decision_id in sorted(state.decisions)],
        ended=list(core.ended),
        to_check=list(core.to_check),
        to_refuse=list(core.to_refuse),
        resting=sorted(core.resting),
        changed_partitions=sorted(core.changed_partitions),
        seen_now=_makes(core.seen.now),
        seen_most=_makes(core.seen.most),
        seen_lending=sorted(core.seen.lending),
        seen_peak=sorted(core.seen.peak.items()),
        policy_wake_s=core.policy_wake_s,
        waits=[(*key, total) for key, total in sorted(core.waits.totals.items())],
        preemption=_preemption_image(core),
        hosts=[record for _, record in sorted(core.health.hosts.items())],
        lost=[container for _, container in sorted(core.health.lost.items())],
    )
    return _ENCODER.encode(image)


def _preemption_image(core: Core) -> PreemptionImage:
    preemption, now_s = core.preemption, core.now_s
    return PreemptionImage(
        mode=preemption.mode,
        why=preemption.why,
        quiet_until_s=preemption.quiet_until_s,
        plans=[plan for _, plan in sorted(preemption.plans.items())],
        stopped_s=[at_s for at_s in preemption.stopped_s if at_s + WINDOW_S > now_s],
        observed=sorted(preemption.observed.items()),
        reservations=[one for _, one in sorted(core.reservations.by_job.items())],
        looked=_looked(core),
        idle_max=sorted(core.reservations.idle_max.items()),
        looks=core.reservations.agenda.times(),
        again=core.reservations.again.times(),
        overdue=sorted(core.reservations.overdue),
    )


def _looked(core: Core) -> list[str]:
    by_job, stamps = core.reservations.by_job, core.reservations.stamps
    return [
        job_id for job_id, one in sorted(by_job.items()) if stamps.get(job_id) == core.preemption.stamp(one.partition)
    ]


def _told(state: ClusterState) -> list[VirtualCluster]:
    """List the virtual clusters that are configured."""
    records = [record for _, record in sorted(state.virtual_clusters.items())]
    return [record.virtual_cluster for record in records if record.virtual_cluster is not None]


def _session_image(core: Core) -> SessionImage:
    session = core.session
    return SessionImage(
        cluster_id=session.cluster_id,
        epoch=session.epoch,
        start_time_ms=session.start_time_ms,
        connected=session.connected,
        snapshot_ended=session.snapshot_ended,
        settled=session.settled,
        settles_at_s=session.settles_at_s,
        knew_servers=session.knew_servers,
        missing=sorted(session.missing),
        previous=[job_image(core.waits, session.previous[job_id]) for job_id in sorted(session.previous)],
        bound=sorted(session.bound.items()),
    )


def _makes(seen: dict[str, dict[Make, int]]) -> Makes:
    return [(name, sorted(item for item in makes.items() if item[1])) for name, makes in sorted(seen.items())]


def digest(core: Core) -> str:
    """Hash an engine's state."""
    return hashlib.blake2b(take(core), digest_size=16).hexdigest()


def restore(taken: bytes, policy: Policy | None = None) -> Core:
    """Make an engine's parts of what was written down. Raises ValueError if it cannot be read."""
    try:
        image = _DECODER.decode(taken)
    except msgspec.MsgspecError as problem:
        raise ValueError(f"snapshot of {len(taken)} bytes cannot be read: {problem}") from problem
    if image.version != VERSION:
        raise ValueError(f"snapshot has version {image.version}; this program reads version {VERSION}")
    core = Core(image.settings, policy)
    core.now_s = image.now_s
    core.waits.now_us = round(image.now_s * US_PER_S)
    core.next_decision_id = image.next_decision_id
    _restore_session(core, image.session)
    _restore_preemption(core, image.preemption)
    _restore_state(core, image)
    _restore_lists(core, image)
    _restore_looks(core, image.preemption)
    return core


def _restore_session(core: Core, image: SessionImage) -> None:
    session = core.session
    session.cluster_id = image.cluster_id
    session.epoch = image.epoch
    session.start_time_ms = image.start_time_ms
    session.connected = image.connected
    session.snapshot_ended = image.snapshot_ended
    session.settled = image.settled
    session.settles_at_s = image.settles_at_s
    session.knew_servers = image.knew_servers
    session.missing = dict.fromkeys(image.missing)
    session.previous = {job.job.job_id: restore_job(job) for job in image.previous}
    session.bound = dict(image.bound)


def _restore_preemption(core: Core, image: PreemptionImage) -> None:
    preemption = core.preemption
    preemption.mode, preemption.why, preemption.quiet_until_s = image.mode, image.why, image.quiet_until_s
    preemption.plans = {plan.job_id: plan for plan in image.plans}
    preemption.stopped_s.extend(image.stopped_s)
    preemption.observed = dict(image.observed)
    core.reservations.by_job = {one.job_id: one for one in image.reservations}
    core.reservations.idle_max = dict(image.idle_max)


def _restore_looks(core: Core, image: PreemptionImage) -> None:
    """Look for places for gangs when the live one would, and not because they are heard of anew."""
    reservations = core.reservations
    for job_id in image.looked:
        reservations.stamps[job_id] = core.preemption.stamp(reservations.by_job[job_id].partition)
    reservations.agenda.clear()
    for job_id, time_s in image.looks:
        reservations.agenda.note(time_s, job_id)
    for vc, time_s in image.again:
        reservations.again.note(time_s, vc)
    reservations.overdue = dict.fromkeys(image.overdue)


def _restore_state(core: Core, image: EngineImage) -> None:
    state = core.state
    core.health.hosts = {record.host: record for record in image.hosts}
    core.health.lost = {container.container_id: container for container in image.lost}
    for record in image.hosts:
        note_time(core, record)
    for server in image.servers:
        state.put_server(server, core.health.fitness(server.host))
    for virtual_cluster in image.virtual_clusters:
        state.virtual_cluster(virtual_cluster.path).virtual_cluster = virtual_cluster
    for job in image.jobs:
        state.put_job(restore_job(job))
    for container in image.containers:
        state.add_container(container)
    for decision in image.decisions:
        restore_decision(core, decision)


def _restore_lists(core: Core, image: EngineImage) -> None:
    core.ended = OrderedDict.fromkeys(image.ended)
    core.to_check = dict.fromkeys(image.to_check)
    core.to_refuse = dict.fromkeys(image.to_refuse)
    core.resting = list(image.resting)
    core.changed_partitions = dict.fromkeys(image.changed_partitions)
    core.seen.now = {name: dict(makes) for name, makes in image.seen_now}
    core.seen.most = {name: dict(makes) for name, makes in image.seen_most}
    core.seen.lending = dict.fromkeys(image.seen_lending)
    core.seen.peak = dict(image.seen_peak)
    core.policy_wake_s = image.policy_wake_s
    core.waits.totals = {(vc, size): total for vc, size, total in image.waits}
    core.limits_changed()
    for record in core.state.jobs.values():
        core.preemption.any_idle = core.preemption.any_idle or record.tenure.idle
        if record.known:
            core.add_to_order(record)
        if record.gather_until_s is not None:
            core.gathering[record.job.job_id] = None
        if record.degraded_since_s is not None and not record.presumed_ended:
            core.degraded[record.job.job_id] = None
        elif not core.keeps_for(record.job.job_id) and holds_of(core, record):
            core.ahead[record.job.job_id] = None
        core.changed(record)
    core.follow_limits()
    watch_all(core)
    core.unexamined = True
    core.touched.clear()
    core.waits.unsettled.clear()  # why they wait was written down
