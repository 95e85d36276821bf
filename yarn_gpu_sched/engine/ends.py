"""Whose ends would let a want go on: running jobs are taken away one after another, and all of it is undone.

Those that say how long they run come first, by when they end; then the others, by their start. Nothing of the state changes, and
nothing that a pass reads: it is only done when somebody asks.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.exceeding import Excess
from yarn_gpu_sched.engine.finding import find_quietly, free_gpus, partitions_of
from yarn_gpu_sched.engine.want import Demand
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server_use import Part, mask_of
from yarn_gpu_sched.placement import Placement

TRIED_MAX = 200
"""Running jobs that are looked at; a want that needs more of them to end waits for a time that nobody can tell."""

THINNED_MAX = 32
"""Jobs of which each is tried to be left out: of more, only those are that hold nothing where the want would go."""


class Ending(NamedTuple):
    """A running job, when it ends if it keeps what it says (None: it says nothing, or has run longer), and what that frees."""

    record: JobRecord
    ends_s: float | None
    parts: tuple[Part, ...]
    held: Resource

    def elsewhere(self, server_ids: set[str]) -> "Ending":
        """Leave out what it holds on some servers."""
        if not any(part.use.server_id in server_ids for part in self.parts):
            return self
        return self._replace(parts=tuple(part for part in self.parts if part.use.server_id not in server_ids))


class Ends(NamedTuple):
    """The jobs whose ends are needed, in the order in which they are expected, none if all would not do; how many were tried."""

    needed: tuple[Ending, ...]
    tried: int
    of: int

    @property
    def last_s(self) -> float | None:
        """When the last of them ends; None if that is not known."""
        times = [one.ends_s for one in self.needed]
        known = [one for one in times if one is not None]
        return max(known) if known and len(known) == len(times) else None


class Lacks(NamedTuple):
    """What must be had: a place for a demand, but in no partition that is ``barred``, and that no limit is exceeded."""

    demand: Demand
    barred: tuple[str, ...]
    excesses: Sequence[Excess]


def ends_that_help(core: Core, lacks: Lacks, now_s: float) -> Ends:
    """Find the fewest ends, in their order, after which a demand fits and no limit forbids it."""
    partitions = [name for name in partitions_of(core, lacks.demand) if name not in lacks.barred]
    if any(one.user is not None for one in lacks.excesses):
        partitions = list(core.index.partitions)  # a user may use so many GPUs of all partitions together
    endings = endings_of(core, partitions, now_s)
    tried = endings[:TRIED_MAX]
    with unwatched(core, partitions):
        count = smallest(core, lacks, tried)
        needed = [] if count is None else _thinned(core, lacks, tried[:count])
    return Ends(tuple(needed), len(tried), len(endings))


def end_s(core: Core, record: JobRecord, now_s: float) -> float | None:
    """Say when a running job ends at the latest if it keeps to what it says, or to what its queue or the resource manager says.

    None if nobody does.
    """
    runtime_s, lifetime_s = core.in_force.declared_s(record), record.job.lifetime_s
    if runtime_s is None or record.started_s is None:
        return None
    ends_s = record.started_s + runtime_s
    if lifetime_s is not None:
        ends_s = min(ends_s, record.first_seen_s + lifetime_s)
    return ends_s if ends_s >= now_s else None


def endings_of(core: Core, partitions: list[str], now_s: float) -> list[Ending]:
    """List the running jobs that hold something of these partitions, in the order in which they are expected to end."""
    found = []
    for record in core.running.values():
        parts, held = _held(core, record, partitions[0])
        for partition in partitions[1:]:
            more, amount = _held(core, record, partition)
            parts, held = parts + more, held.plus(amount)
        if parts:
            found.append(Ending(record, end_s(core, record, now_s), parts, held))
    return sorted(found, key=_order)


def _order(one: Ending) -> tuple[bool, float, str]:
    time_s = one.record.started_s if one.ends_s is None else one.ends_s
    return (one.ends_s is None, time_s or 0.0, one.record.job.job_id)


def _held(core: Core, record: JobRecord, partition: str) -> tuple[tuple[Part, ...], Resource]:
    """Give what a job holds in a partition, server by server and in all, until something of the job changes."""
    known = core.preemption.parts.setdefault(record.job.job_id, {})
    found = known.get(partition)
    if found is None:
        parts = tuple(_parts(core, record, partition))
        memory_mb, vcores = sum(one.memory_mb for one in parts), sum(one.vcores for one in parts)
        found = known[partition] = parts, Resource(memory_mb, vcores, sum(one.gpus for one in parts))
    return found


def _parts(core: Core, record: JobRecord, partition: str) -> Iterator[Part]:
    """Add up what a job holds on each server of a partition."""
    parts: dict[str, Part] = {}
    for container in record.containers.values():
        use, resource = core.state.servers[container.server_id], container.resource
        if use.server.partition == partition:
            part = parts.get(container.server_id)
            if part is None:
                part = parts[container.server_id] = Part(use, 0, 0, 0, 0)
            part.memory_mb += resource.memory_mb
            part.vcores += resource.vcores
            part.mask |= mask_of(container.gpu_indices)
            part.gpus += resource.gpus
    yield from parts.values()


@contextmanager
def unwatched(core: Core, partitions: list[str]) -> Iterator[None]:
    """Let nobody who waits for spare memory or vcores hear of what is only tried."""
    known = [core.index.partitions[name] for name in partitions if name in core.index.partitions]
    watched = []
    for one in known:
        one.refresh()
        watched.append(one.watched)
        one.watched = False
    try:
        yield
    finally:
        for one, before in zip(known, watched, strict=True):
            one.refresh()
            one.watched = before


def place_after(core: Core, lacks: Lacks, ended: Sequence[Ending]) -> Placement | None:
    """Find a place for a demand if these jobs had ended, and no limit forbade it then."""
    for excess in lacks.excesses:
        if sum(excess.relief(one.record, one.parts) for one in ended) < excess.amount:
            return None
    with core.state.transaction() as plan:
        for one in ended:
            for part in one.parts:
                plan.release(part)
        return find_quietly(core, lacks.demand, lacks.barred)


def smallest(core: Core, lacks: Lacks, tried: Sequence[Ending]) -> int | None:
    """Say how many of the first ends are enough; None if all of them are not."""
    low = _too_few(core, lacks, tried)
    high, step = low + 1, 1
    while high < len(tried) and place_after(core, lacks, tried[:high]) is None:
        low, high, step = high, high + step, 2 * step
    high = min(high, len(tried))
    if high <= low or place_after(core, lacks, tried[:high]) is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if place_after(core, lacks, tried[:middle]) is None:
            low = middle
        else:
            high = middle
    return high


def _too_few(core: Core, lacks: Lacks, tried: Sequence[Ending]) -> int:
    """Say how many of the first ends do not free enough GPUs, wherever those are."""
    gpus = free_gpus(core, lacks.demand.partition, lacks.barred)
    for count, one in enumerate(tried):
        gpus += one.held.gpus
        if gpus >= lacks.demand.gpus:
            return count
    return len(tried)


def _thinned(core: Core, lacks: Lacks, ended: list[Ending]) -> list[Ending]:
    """Leave out the jobs without whose ends it would do as well, the last ones first."""
    placement = place_after(core, lacks, ended)
    assert placement is not None
    where = {portion.use.server_id for portion in placement.portions}
    near = [
        one
        for one in ended
        if any(part.use.server_id in where for part in one.parts)
        or any(x.relief(one.record, one.parts) for x in lacks.excesses)
    ]
    if place_after(core, lacks, near) is not None:
        ended = near
    if len(ended) > THINNED_MAX:
        return ended
    for one in ended[::-1]:
        fewer = [other for other in ended if other is not one]
        if place_after(core, lacks, fewer) is not None:
            ended = fewer
    return ended
