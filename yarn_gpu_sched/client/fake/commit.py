"""Carrying out decisions in memory: all of one is checked first, then all of it is done, or none."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from yarn_gpu_sched.client.fake.world import KnownJob, World, ask_key
from yarn_gpu_sched.protocol.v1 import ask_pb2, container_pb2, decision_pb2, job_pb2, server_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from yarn_gpu_sched.client.fake.world import AskKey
    from yarn_gpu_sched.protocol.v1 import link_pb2


ORDERED_CONTAINERS_MAX = 16_384
SLOTS_MAX = 64
"""GPU indices of a server: with a node monitor they are slots, of which some may have lost their cards."""


class RefusedError(Exception):
    """The decision cannot be committed: the outcome's code and one sentence."""

    def __init__(self, code: decision_pb2.OutcomeCode.ValueType, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def commit(world: World, gang: decision_pb2.PlaceGang, id_prefix: str) -> list[str]:
    """Commit the gang and return its container ids in order; `RefusedError` leaves all as it was."""
    check(world, gang)
    made = [_container(world, gang, assignment, id_prefix) for assignment in gang.assignments]
    for container in made:
        world.hold(container)
    _answer_asks(world, gang)
    return [container.container_id for container in made]


def refuse(world: World, order: decision_pb2.RefuseJob) -> list[link_pb2.Change]:
    """End a job that can never run; returns what changed."""
    if order.job_id not in world.jobs:
        raise RefusedError(decision_pb2.OUTCOME_CODE_NO_ATTEMPT, f"job {order.job_id} is not known")
    return world.end(order.job_id, job_pb2.JOB_END_KILLED, order.diagnostics)


def requeue(world: World, order: decision_pb2.RequeueJob) -> list[link_pb2.Change]:
    """End what a job runs, so that it starts anew as a whole; returns what changed."""
    _may_start_anew(_current(world, order.job_id, order.attempt))
    return world.start_anew(order.job_id)


def warn(world: World, order: decision_pb2.WarnJob) -> None:
    """Tell a job's master which of its containers will be stopped: those named, or all, for the job is to start anew."""
    known = _current(world, order.job_id, order.attempt)
    if not order.container_ids:
        _may_start_anew(known)
    told = decision_pb2.WarnJob()
    told.CopyFrom(order)
    del told.container_ids[:]
    told.container_ids.extend(_live(world, order.job_id, order.container_ids) or _live_of(world, order.job_id))
    world.warn(told)


def stop(world: World, order: decision_pb2.StopContainers) -> list[link_pb2.Change]:
    """Stop single containers, none of them the master's; returns what changed."""
    _current(world, order.job_id, order.attempt)
    if not order.container_ids:
        raise RefusedError(decision_pb2.OUTCOME_CODE_INVALID, "container_ids is empty")
    gone = _live(world, order.job_id, order.container_ids)
    for container_id in gone:
        if world.containers[container_id].application_master:
            detail = f"container {container_id} is the master of job {order.job_id}"
            raise RefusedError(decision_pb2.OUTCOME_CODE_INVALID, detail)
    return [change for container_id in gone for change in world.release(container_id, lost=True)]


def _may_start_anew(known: KnownJob) -> None:
    if known.job.one_attempt:
        detail = f"job {known.job.job_id} has one attempt only: its end would be the job's"
        raise RefusedError(decision_pb2.OUTCOME_CODE_INVALID, detail)


def _live(world: World, job_id: str, named: Iterable[str]) -> list[str]:
    """Return what an order names, each once; `RefusedError` if one of them is not the job's, or not any more."""
    live = set(_live_of(world, job_id))
    once = list(dict.fromkeys(named))
    if len(once) > ORDERED_CONTAINERS_MAX:
        detail = f"{len(once)} containers, at most {ORDERED_CONTAINERS_MAX} would be right"
        raise RefusedError(decision_pb2.OUTCOME_CODE_INVALID, detail)
    for container_id in once:
        if container_id not in live:
            detail = f"container {container_id} is no live container of job {job_id}"
            raise RefusedError(decision_pb2.OUTCOME_CODE_INVALID, detail)
    return once


def _live_of(world: World, job_id: str) -> list[str]:
    return [container.container_id for container in world.of_job(job_id)]


def _current(world: World, job_id: str, attempt: int) -> KnownJob:
    known = world.jobs.get(job_id)
    if known is None or known.job.attempt != attempt:
        raise RefusedError(decision_pb2.OUTCOME_CODE_NO_ATTEMPT, f"job {job_id} has no current attempt {attempt}")
    return known


def check(world: World, gang: decision_pb2.PlaceGang) -> None:
    """Raise `RefusedError` for the first thing that stands in the gang's way; change nothing."""
    known = _current(world, gang.job_id, gang.attempt)
    if not gang.assignments:
        raise RefusedError(decision_pb2.OUTCOME_CODE_INVALID, "assignments is empty")
    _check_asks(known.asks, gang.assignments)
    on_server: dict[str, list[decision_pb2.Assignment]] = defaultdict(list)
    for assignment in gang.assignments:
        on_server[assignment.server_id].append(assignment)
    for server_id, assignments in on_server.items():
        _check_server(world, server_id, assignments)


def _check_asks(asks: dict[AskKey, ask_pb2.Ask], assignments: Sequence[decision_pb2.Assignment]) -> None:
    for key, count in Counter(ask_key(assignment.key) for assignment in assignments).items():
        ask = asks.get(key)
        if ask is None or ask.count < count:
            detail = f"key {key}: {count} assigned, {ask.count if ask else 0} asked"
            raise RefusedError(decision_pb2.OUTCOME_CODE_NO_ASK, detail)
    for assignment in assignments:
        if asks[ask_key(assignment.key)].resource != assignment.resource:
            detail = f"key {ask_key(assignment.key)}: the assigned resource is not the asked one"
            raise RefusedError(decision_pb2.OUTCOME_CODE_NO_ASK, detail)


def _check_server(world: World, server_id: str, assignments: Sequence[decision_pb2.Assignment]) -> None:
    server = world.servers.get(server_id)
    if server is None or server.state != server_pb2.SERVER_STATE_RUNNING:
        detail = f"server {server_id} is not there or takes no containers"
        raise RefusedError(decision_pb2.OUTCOME_CODE_SERVER_GONE, detail)
    used = world.used(server_id)
    for kind in ("memory_mb", "vcores", "gpus"):
        wanted = sum(getattr(a.resource, kind) for a in assignments)
        free = getattr(server.capacity, kind) - getattr(used, kind)
        if wanted > free:
            detail = f"server {server_id}: {kind} {wanted} assigned, {free} free"
            raise RefusedError(decision_pb2.OUTCOME_CODE_NO_FIT, detail)
    for problem in _index_problems(world, server, assignments):
        raise RefusedError(decision_pb2.OUTCOME_CODE_NO_FIT, f"server {server_id}: {problem}")


def _index_problems(
    world: World, server: server_pb2.Server, assignments: Sequence[decision_pb2.Assignment]
) -> Iterator[str]:
    held = world.held_gpus(server.server_id)
    for assignment in assignments:
        indices = list(assignment.gpu_indices)
        if len(indices) != assignment.resource.gpus:
            yield f"{len(indices)} GPU indices for {assignment.resource.gpus} GPUs"
        for index in indices:
            if index >= SLOTS_MAX:
                yield f"GPU {index} does not exist, the last slot of a server is {SLOTS_MAX - 1}"
            if index in held:
                yield f"GPU {index} is held already"
            held.add(index)


def _container(
    world: World,
    gang: decision_pb2.PlaceGang,
    assignment: decision_pb2.Assignment,
    id_prefix: str,
) -> container_pb2.Container:
    world.containers_made += 1
    ask = world.jobs[gang.job_id].asks[ask_key(assignment.key)]
    return container_pb2.Container(
        container_id=f"{id_prefix}_{world.containers_made:06d}",
        job_id=gang.job_id,
        attempt=gang.attempt,
        server_id=assignment.server_id,
        resource=assignment.resource,
        gpu_indices=assignment.gpu_indices,
        application_master=ask.application_master,
        key=assignment.key,
    )


def _answer_asks(world: World, gang: decision_pb2.PlaceGang) -> None:
    asks = world.jobs[gang.job_id].asks
    for assignment in gang.assignments:
        key = ask_key(assignment.key)
        asks[key].count -= 1
        if not asks[key].count:
            del asks[key]
