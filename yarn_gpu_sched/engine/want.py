"""What a job must have at once: its application master, its gang, or its next single container."""

from typing import Any, NamedTuple

from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.job_record import JobRecord, ask_key
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.placement.kind import Kind


class Demand(NamedTuple):
    """What makes two wants equal: equal demands find the same place, so one of them is examined for all."""

    partition: str
    kinds: tuple[Kind, ...]
    application_master: bool

    @property
    def containers(self) -> int:
        """Count the containers."""
        return sum(kind.containers for kind in self.kinds)

    @property
    def gpus(self) -> int:
        """Count the GPUs."""
        return sum(kind.containers * kind.gpus for kind in self.kinds)

    @property
    def total(self) -> Resource:
        """Add up all containers."""
        memory_mb = vcores = gpus = 0
        for kind in self.kinds:
            memory_mb += kind.containers * kind.memory_mb
            vcores += kind.containers * kind.vcores
            gpus += kind.containers * kind.gpus
        return Resource(memory_mb, vcores, gpus)


class JobWant:
    """A want of a job (see `yarn_gpu_sched.policy.Want`): so many containers of each of its asks.

    All that follows from these is made once, not whenever a place is found. ``asked`` names the asks as a decision does; ``line``
    belongs to the queue.
    """

    __slots__ = (
        "application_master",
        "asked",
        "containers",
        "demand",
        "gang",
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
        self.partition, self.kinds, self.application_master = demand
        self.containers = demand.containers
        self.total = demand.total
        self.members = members
        self.asked = tuple([(ask_key(ask), count) for ask, count in members])
        self.gang = gang
        self.line: Any = None

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
            return JobWant(record, single(ask), [(ask, 1)], gang=False)
        first = first or ask
    if first is None:
        return None
    if not waits_for_gang:
        return JobWant(record, single(first), [(first, 1)], gang=False)
    members = None if record.gang_under_way else gang_members(record)
    return JobWant(record, whole(members), members, gang=True) if members else None


def single(ask: Ask) -> Demand:
    """Describe one container of an ask."""
    resource = ask.resource
    kind = Kind(1, resource.gpus, resource.memory_mb, resource.vcores)
    return Demand(ask.partition, (kind,), ask.application_master)


def whole(members: list[tuple[Ask, int]]) -> Demand:
    """Describe a gang: its containers by kind, the largest first."""
    counts: dict[tuple[int, int, int], int] = {}
    for ask, count in members:
        resource = ask.resource
        shape = (resource.gpus, resource.memory_mb, resource.vcores)
        counts[shape] = counts.get(shape, 0) + count
    kinds = tuple(Kind(count, *shape) for shape, count in sorted(counts.items(), reverse=True))
    return Demand(members[0][0].partition, kinds, application_master=False)


def gang_members(record: JobRecord) -> list[tuple[Ask, int]] | None:
    """Take the gang's containers from the job's asks, in key order; None while there are too few of a sort."""
    tag = record.gang
    assert tag is not None
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
