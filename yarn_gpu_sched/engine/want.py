"""What a job must have at once: its application master, its gang, or its next single container."""

from functools import lru_cache
from typing import Any, NamedTuple

from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.assignment import ANYWHERE, Level
from yarn_gpu_sched.model.job_record import JobRecord, ask_key
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.reach import Reach


class Demand(NamedTuple):
    """What makes two wants equal: equal demands find the same place, so one of them is examined for all.

    ``reach`` says of each kind where it may go, and is empty where all may go anywhere; ``ceiling``: no looser level. ``held_for``
    names the job where others are stopped for it: it waits for what they leave, alone.
    """

    partition: str
    kinds: tuple[Kind, ...]
    application_master: bool
    reach: tuple[Reach, ...] = ()
    ceiling: Level = ANYWHERE
    held_for: str = ""

    @property
    def confined(self) -> bool:
        """Whether some place that is free may still not do."""
        return bool(self.reach) or self.ceiling is not ANYWHERE

    @property
    def unconfined(self) -> "Demand":
        """The same for whoever may go anywhere."""
        if not self.reach and self.ceiling is ANYWHERE:
            return self
        return Demand(self.partition, self.kinds, self.application_master)

    @property
    def containers(self) -> int:
        """Count the containers."""
        return _sums(self.kinds)[0]

    @property
    def gpus(self) -> int:
        """Count the GPUs."""
        return _sums(self.kinds)[1].gpus

    @property
    def total(self) -> Resource:
        """Add up all containers."""
        return _sums(self.kinds)[1]


@lru_cache(maxsize=4_096)
def _sums(kinds: tuple[Kind, ...]) -> tuple[int, Resource]:
    """Count the containers and add up what they want: few kinds are asked again and again."""
    containers = memory_mb = vcores = gpus = 0
    for kind in kinds:
        containers += kind.containers
        memory_mb += kind.containers * kind.memory_mb
        vcores += kind.containers * kind.vcores
        gpus += kind.containers * kind.gpus
    return containers, Resource(memory_mb, vcores, gpus)


class JobWant:
    """A want of a job (see `yarn_gpu_sched.policy.Want`): so many containers of each of its asks.

    All that follows from these is made once, not whenever a place is found. ``asked`` names the asks as a decision does; ``line``
    belongs to the queue, ``fits`` to the ladder: whether a domain would hold it if it were empty, None where no timer runs.
    ``held``: what is held for it already, since others are stopped for it or since it has waited too long, and ``held_in`` which
    partition: its own, or one that lends.
    """

    __slots__ = (
        "application_master",
        "asked",
        "containers",
        "demand",
        "fits",
        "gang",
        "held",
        "held_in",
        "job_id",
        "kinds",
        "line",
        "members",
        "partition",
        "record",
        "total",
    )

    def __init__(self, record: JobRecord, demand: Demand, members: list[tuple[Ask, int]], *, gang: bool) -> None:
        self.record = record
        self.job_id = record.job.job_id
        self.demand = demand
        self.partition, self.kinds, self.application_master = demand[:3]
        self.containers, self.total = _sums(demand.kinds)
        self.members = members
        self.asked = tuple([(ask_key(ask), count) for ask, count in members])
        self.gang = gang
        self.held = NOTHING
        self.held_in = demand.partition
        self.line: Any = None
        self.fits: bool | None = None

    @property
    def gpus(self) -> int:
        """The GPUs of all of it."""
        return self.total.gpus

    @property
    def with_gang(self) -> bool:
        """Whether it is a gang, or a master that is placed only where its gang fits too (see `ahead`)."""
        return self.gang or (self.application_master and len(self.kinds) > 1)

    @property
    def follows_gang(self) -> bool:
        """Whether its gang was placed before."""
        return self.record.gang_placed

    @property
    def job(self) -> JobRecord:
        """What may be known of the job."""
        return self.record

    @property
    def vc(self) -> str:
        """Its virtual cluster."""
        return self.record.job.vc


def want_of(record: JobRecord) -> JobWant | None:
    """Say what a job must have next; None if it asks nothing, or not yet all of its gang."""
    waits_for_gang = record.gang is not None and not record.gang_placed
    first: Ask | None = None
    for ask in record.asks:
        if record.pending(ask) <= 0:
            continue
        if ask.application_master:
            return JobWant(record, _master(ask, record), [(ask, 1)], gang=False)
        if record.gather_until_s is None or not ask.resource.gpus:
            first = first or ask
    if first is None:
        return None
    if not waits_for_gang:
        return JobWant(record, single(first, record), [(first, 1)], gang=False)
    members = None if record.gang_under_way else gang_members(record)
    return JobWant(record, whole(members, record), members, gang=True) if members else None


def _master(ask: Ask, record: JobRecord) -> Demand:
    """Describe a master; beside one with GPUs there must be room for the GPUs of its gang, if their shape is known."""
    tag = record.gang
    if not ask.resource.gpus or tag is None or tag.gpus_each is None or record.gang_placed:
        return single(ask, record)
    gang_reach = Reach(excluded=record.blacklist) if record.blacklist else FREE
    own = (Kind(1, *shape_of(ask.resource)), reach_of(ask, record))
    both = sorted((own, (Kind(tag.gpu_containers, tag.gpus_each, 0, 0), gang_reach)), key=_largest_first)
    reach = tuple(each for _, each in both)
    free = all(each is FREE for each in reach)
    kinds = tuple(kind for kind, _ in both)
    return Demand(ask.partition, kinds, True, () if free else reach, record.ceiling)  # noqa: FBT003 - a field, by place


def _largest_first(both: tuple[Kind, Reach]) -> tuple[int, ...]:
    return tuple(-amount for amount in both[0][1:])


def single(ask: Ask, record: JobRecord) -> Demand:
    """Describe one container of an ask."""
    resource = ask.resource
    kind = Kind(1, resource.gpus, resource.memory_mb, resource.vcores)
    reach = reach_of(ask, record)
    return Demand(ask.partition, (kind,), ask.application_master, () if reach is FREE else (reach,))


def whole(members: list[tuple[Ask, int]], record: JobRecord) -> Demand:
    """Describe a gang: its containers by kind and by where they may go, the largest first."""
    if len(members) == 1:
        ask, count = members[0]
        return _alike(ask.partition, count, ask.resource, reach_of(ask, record), record.ceiling)
    counts: dict[tuple[tuple[int, int, int], Reach], int] = {}
    for ask, count in members:
        key = (shape_of(ask.resource), reach_of(ask, record))
        counts[key] = counts.get(key, 0) + count
    ordered = sorted(counts.items(), reverse=True)
    kinds = tuple(Kind(count, *shape) for (shape, _), count in ordered)
    reach = tuple(reach for (_, reach), _ in ordered)
    free = all(each is FREE for each in reach)
    return Demand(members[0][0].partition, kinds, False, () if free else reach, record.ceiling)  # noqa: FBT003 - a field, by place


@lru_cache(maxsize=4_096)
def _alike(partition: str, containers: int, resource: Resource, reach: Reach, ceiling: Level) -> Demand:
    """Describe a gang of containers that are all alike: few such are asked again and again."""
    kinds = (Kind(containers, *shape_of(resource)),)
    return Demand(partition, kinds, False, () if reach is FREE else (reach,), ceiling)  # noqa: FBT003 - a field, by place


def shape_of(resource: Resource) -> tuple[int, int, int]:
    """Give what tells one kind from another: GPUs, memory in MB, vcores."""
    return (resource.gpus, resource.memory_mb, resource.vcores)


FREE = Reach()
NEAR_MAX = 64
"""Servers of a gang near which what comes after it is placed; of a larger one the first."""

NEAR_CONTAINERS_MAX = 1_024
"""Of a job with more containers nothing is near: looking through them for each new one would cost too much."""


def reach_of(ask: Ask, record: JobRecord) -> Reach:
    """Say where the containers of an ask may go; `FREE` is anywhere."""
    if ask.places:
        return Reach(tuple((one.place, one.count) for one in ask.places), ask.strict, record.blacklist)
    if record.gang_placed and not ask.application_master and len(record.containers) <= NEAR_CONTAINERS_MAX:
        near = sorted({one.server_id for one in record.containers.values() if not one.application_master})[:NEAR_MAX]
        if near:
            return Reach(tuple((server_id, 1) for server_id in near), False, record.blacklist)  # noqa: FBT003 - a field, by place
    return Reach(excluded=record.blacklist) if record.blacklist else FREE


def gang_members(record: JobRecord) -> list[tuple[Ask, int]] | None:
    """Take the gang's containers from the job's asks, in key order; None while there are too few of a sort."""
    tag = record.gang
    assert tag is not None
    if tag.implied:
        return _first(record, tag.containers, plain=False)
    if tag.gpus_each is None:
        return _first(record, tag.containers - record.served, plain=None)
    with_gpus = _first(record, tag.gpu_containers, plain=False)
    if with_gpus is None or not tag.plain:
        return with_gpus
    plain = _first(record, tag.plain - record.served, plain=True)
    return None if plain is None else [*with_gpus, *plain]


def _first(record: JobRecord, containers: int, *, plain: bool | None) -> list[tuple[Ask, int]] | None:
    members = []
    left = containers
    for ask in record.asks:
        if left <= 0:
            break
        if not ask.application_master and (plain is None or plain == (ask.resource.gpus == 0)):
            count = min(left, record.pending(ask))
            if count:
                members.append((ask, count))
                left -= count
    return None if left > 0 else members
