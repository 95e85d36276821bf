"""The laws of the cluster's state, as checks that name what they found.

A law is a generator of evidence. `audit` runs all of them; an engine adds its own (see `yarn_gpu_sched.engine.audit`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.model.server_use import ServerUse, mask_of
from yarn_gpu_sched.model.tenants import Masters, VirtualClusterRecord

EVIDENCE_MAX = 20
"""Findings of one law that are reported."""

Subject = TypeVar("Subject")


class Broken(msgspec.Struct, frozen=True):
    """A law that does not hold, and what shows it."""

    law: int
    title: str
    evidence: str


class Laws(Generic[Subject]):
    """A set of laws over one kind of state, in the order in which they were declared."""

    def __init__(self) -> None:
        self._laws: list[tuple[int, str, Callable[[Subject], Iterable[str]]]] = []

    def law(
        self, number: int, title: str
    ) -> Callable[[Callable[[Subject], Iterable[str]]], Callable[[Subject], Iterable[str]]]:
        """Declare a law: the function yields what breaks it."""

        def declare(check: Callable[[Subject], Iterable[str]]) -> Callable[[Subject], Iterable[str]]:
            self._laws.append((number, title, check))
            return check

        return declare

    def broken(self, subject: Subject) -> list[Broken]:
        """Check all laws."""
        found = []
        for number, title, check in self._laws:
            for count, evidence in enumerate(check(subject)):
                if count >= EVIDENCE_MAX:
                    break
                found.append(Broken(number, title, evidence))
        return found


STATE_LAWS: Laws[ClusterState] = Laws()
"""The laws that speak of the cluster's state alone."""

law = STATE_LAWS.law


@law(1, "a GPU has at most one live exclusive holder")
def exclusive(state: ClusterState) -> Iterator[str]:
    """Look at every GPU of every server.

    A container that was only now told of may have the GPU of a decision that is under way: the resource manager will refuse that.
    """
    for server_id, use in state.servers.items():
        live = [(mask_of(one.gpu_indices), one.container_id) for one in use.containers.values()]
        decided = [(part.mask, f"decision {decision_id}") for decision_id, part in use.in_flight.items()]
        for holders in (live, decided):
            for index, held_by in _held_twice(holders):
                yield f"GPU {index} of server {server_id} is held by {held_by}"


def _held_twice(holders: list[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    once = twice = 0
    for mask, _ in holders:
        twice |= once & mask
        once |= mask
    for index in range(twice.bit_length()):
        if twice >> index & 1:
            yield index, sorted(name for mask, name in holders if mask >> index & 1)


@law(1, "a held GPU is not free")
def held_is_not_free(state: ClusterState) -> Iterator[str]:
    """Compare the free GPUs of every server with what its containers and decisions hold."""
    for server_id, use in state.servers.items():
        held = 0
        for container in use.containers.values():
            for index in container.gpu_indices:
                held |= 1 << index
        for part in use.in_flight.values():
            held |= part.mask
        out = use.fitness.sick | use.fitness.busy
        if use.free_mask != use.capacity_mask & ~(held | out):
            yield f"server {server_id} counts GPUs {use.free_mask:b} as free, {held:b} are held and {out:b} are not given out"


@law(2, "per server: allocated + free + unhealthy = capacity")
def server_sums(state: ClusterState) -> Iterator[str]:
    """Count every server anew."""
    for server_id, use in state.servers.items():
        held = NOTHING
        for container in use.containers.values():
            held = held.plus(container.resource)
        for part in use.in_flight.values():
            held = held.plus(Resource(part.memory_mb, part.vcores, part.gpus))
        if held != use.used:
            yield f"server {server_id} counts {use.used} in use, its containers and decisions hold {held}"
        free = max(0, min(use.free_mask.bit_count(), use.gpus - held.gpus))
        if use.gpus_free != free:
            yield f"server {server_id} counts {use.gpus_free} GPUs as free, {free} are"


@law(2, "for the cluster: the servers' sums are the cluster's")
def cluster_sums(state: ClusterState) -> Iterator[str]:
    """Add up all servers."""
    capacity, used = NOTHING, NOTHING
    for use in state.servers.values():
        capacity = capacity.plus(use.server.capacity)
        used = used.plus(use.used)
    if capacity != state.capacity:
        yield f"the cluster counts {state.capacity} as its capacity, its servers have {capacity}"
    if used != state.used:
        yield f"the cluster counts {state.used} in use, on its servers {used} are"


@law(2, "the sums for application masters are those of the servers with GPUs, together and by VC")
def master_sums(state: ClusterState) -> Iterator[str]:
    """Count the masters and the running GPU servers anew."""
    held: dict[str, Masters] = {}
    together, room = Masters(), NOTHING
    for use in state.servers.values():
        if not use.gpus:
            continue
        if use.usable:
            room = room.plus(use.server.capacity)
        for job_id, amount in _masters_on(state, use):
            together.count(amount, 1)
            held.setdefault(state.jobs[job_id].job.vc, Masters()).count(amount, 1)
    whose = [("all", state.masters, together)]
    whose += [(f"VC {path}", one.masters, held.get(path, Masters())) for path, one in state.virtual_clusters.items()]
    for name, counted, are in whose:
        counts, amounts = msgspec.structs.astuple(counted), msgspec.structs.astuple(are)
        if counts != amounts:
            yield f"{name}: MB, vcores and number of masters are counted as {counts} and are {amounts}"
    if (state.gpu_servers_mb, state.gpu_servers_vcores) != (room.memory_mb, room.vcores):
        yield f"running GPU servers are counted with {state.gpu_servers_mb} MB and have {room.memory_mb}"


def _masters_on(state: ClusterState, use: ServerUse) -> Iterator[tuple[str, Resource]]:
    for container in use.containers.values():
        if container.application_master:
            yield container.job_id, container.resource
    for decision_id, part in use.in_flight.items():
        decision = state.decisions[decision_id]
        if decision.application_master:
            yield decision.job_id, Resource(part.memory_mb, part.vcores, part.gpus)


@law(3, "a VC's use is the sum of its jobs' containers, and the sum over VCs is the cluster's")
def virtual_cluster_sums(state: ClusterState) -> Iterator[str]:
    """Add up containers by job, jobs by VC, VCs to the cluster."""
    by_vc: dict[str, Resource] = {}
    for job_id, record in state.jobs.items():
        held = _held_by(state, record)
        if held != record.used:
            yield f"job {job_id} counts {record.used} in use, its containers and decisions hold {held}"
        by_vc[record.job.vc] = by_vc.get(record.job.vc, NOTHING).plus(held)
    total = NOTHING
    for path, virtual_cluster in state.virtual_clusters.items():
        below = by_vc.get(path, NOTHING)
        for under in virtual_cluster.below.values():
            below = below.plus(under.used)
        if virtual_cluster.above is None:
            total = total.plus(virtual_cluster.used)
        if virtual_cluster.used != below:
            yield f"VC {path} counts {virtual_cluster.used} in use, its jobs and the queues below it hold {below}"
    if total != state.used:
        yield f"the cluster counts {state.used} in use, its VCs hold {total}"


def _held_by(state: ClusterState, record: JobRecord) -> Resource:
    held = NOTHING
    for container in record.containers.values():
        held = held.plus(container.resource)
    for decision_id in sorted(record.decisions):
        for part in state.decisions[decision_id].parts:
            if decision_id in part.use.in_flight:
                held = held.plus(Resource(part.memory_mb, part.vcores, part.gpus))
    return held


@law(3, "per partition: a VC uses what its jobs and the queues below it hold there, and each user what its jobs hold")
def partition_sums(state: ClusterState) -> Iterator[str]:
    """Add up containers and decisions by the partitions of their servers."""
    held: dict[tuple[str, str], Resource] = {}
    users: dict[str, dict[tuple[str, str], int]] = {}
    for record in state.jobs.values():
        vc, user = record.job.vc, record.job.user
        for partition, amount in _held_where(state, record):
            held[vc, partition] = held.get((vc, partition), NOTHING).plus(amount)
            if amount.gpus:
                of_vc = users.setdefault(vc, {})
                of_vc[user, partition] = of_vc.get((user, partition), 0) + amount.gpus
    for path, virtual_cluster in state.virtual_clusters.items():
        if virtual_cluster.user_gpus != users.get(path, {}):
            yield f"VC {path} counts GPUs {virtual_cluster.user_gpus} by user and partition, held are {users.get(path, {})}"
        names = {name for below in virtual_cluster.below.values() for name in below.uses} | {*virtual_cluster.uses}
        for partition in sorted(names | {name for vc, name in held if vc == path}):
            below = held.get((path, partition), NOTHING)
            for under in virtual_cluster.below.values():
                below = below.plus(_used_where(under, partition))
            if _used_where(virtual_cluster, partition) != below:
                yield f'VC {path} counts {_used_where(virtual_cluster, partition)} of partition "{partition}", held are {below}'


def _used_where(virtual_cluster: VirtualClusterRecord, partition: str) -> Resource:
    use = virtual_cluster.uses.get(partition)
    return NOTHING if use is None else Resource(use.memory_mb, use.vcores, use.gpus)


def _held_where(state: ClusterState, record: JobRecord) -> Iterator[tuple[str, Resource]]:
    for container in record.containers.values():
        yield state.servers[container.server_id].server.partition, container.resource
    for decision_id in record.decisions:
        for part in state.decisions[decision_id].parts:
            if decision_id in part.use.in_flight:
                yield part.use.server.partition, Resource(part.memory_mb, part.vcores, part.gpus)


@law(4, "a gang is placed with all of its containers or none")
def whole_gangs(state: ClusterState) -> Iterator[str]:
    """Look at every decision that places a gang, and at every gang that is not placed.

    Beside one that no tag declares, containers may live that its job asked for before.
    """
    for decision_id, decision in state.decisions.items():
        members = sum(count for _, count in decision.members)
        if decision.hold_until_s is None and len(decision.assignments) != members:
            yield f"decision {decision_id} places {len(decision.assignments)} of {members} containers"
        held = sum(part.mask.bit_count() for part in decision.parts)
        named = sum(len(one.gpu_indices) for one in decision.assignments if one.server_id not in decision.lost)
        if held != named:
            yield f"decision {decision_id} names {named} GPUs and holds {held}"
    for job_id, record in state.jobs.items():
        if record.gang is None or record.gang.implied or record.gang_placed or record.end is not None:
            continue
        held_members = [
            container.container_id
            for container in record.containers.values()
            if container.gpu_indices and record.is_member(container) and not container.ending
        ]
        if held_members:
            yield f"job {job_id}: its gang is not placed, but {sorted(held_members)} live"


@law(5, "a job is pending, running or ended with a reason; exactly one end state")
def one_state(state: ClusterState) -> Iterator[str]:
    """Look at every job."""
    for job_id, record in state.jobs.items():
        ended = record.state is JobState.ENDED
        if ended != (record.ended_s is not None):
            yield f"job {job_id} is {record.state.value} and its end is at {record.ended_s}"
        if ended and record.asks:
            yield f"job {job_id} has ended and still asks {record.asks}"


@law(6, "the same submission or release counts once")
def counted_once(state: ClusterState) -> Iterator[str]:
    """Compare the three places in which a container is listed, and a decision."""
    on_servers = [key for use in state.servers.values() for key in use.containers]
    of_jobs = [key for record in state.jobs.values() for key in record.containers]
    for where, listed in (("servers", on_servers), ("jobs", of_jobs)):
        if sorted(listed) != sorted(state.containers):
            odd = sorted(set(listed) ^ set(state.containers)) or sorted(listed)
            yield f"the {where} list containers that the cluster does not, or not once: {odd[:EVIDENCE_MAX]}"
    of_decisions = sorted(decision_id for record in state.jobs.values() for decision_id in record.decisions)
    if of_decisions != sorted(state.decisions):
        yield f"jobs have decisions {of_decisions} under way, the cluster {sorted(state.decisions)}"


@law(10, "a recovered job is never refused")
def never_refuse_recovered(state: ClusterState) -> Iterator[str]:
    """Look at every job that is to be refused."""
    for job_id, record in state.jobs.items():
        if record.refusal and record.job.recovered and not record.overdue:
            yield f"job {job_id} was recovered and is refused: {record.refusal}"
