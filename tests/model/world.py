"""A cluster's state by hand: jobs, containers and decisions without an engine that makes them."""

from __future__ import annotations

from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.assignment import Assignment
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.decision import AskKey, Decision
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.model.server_use import Part, mask_of
from yarn_gpu_sched.placement import FreeIndex

KEY = RequestKey(1)
MASTER = Resource(512, 1)
CPU_SHARE = 0.1

Seat = tuple[str, Resource, tuple[int, ...]]
"""Server, what a container gets there, its GPUs."""


def empty_state() -> ClusterState:
    """Make a state without servers, with a real index."""
    return ClusterState(FreeIndex(), CPU_SHARE)


def put(state: ClusterState, container_id: str, job_id: str, server_id: str, resource: Resource, *gpus: int) -> None:
    """Add a live container that is no master."""
    state.add_container(Container(container_id, job_id, 1, server_id, resource, gpus, key=KEY))


def put_master(state: ClusterState, container_id: str, job_id: str, server_id: str) -> None:
    """Add a live master."""
    state.add_container(Container(container_id, job_id, 1, server_id, MASTER, application_master=True))


def decide(
    state: ClusterState, decision_id: int, job_id: str, *seats: Seat, master: bool = False, attempt: int = 1
) -> Decision:
    """Take the seats, a part a server, and begin the decision that holds them; each must be free."""
    assignments = tuple(Assignment(KEY, server_id, resource, gpus) for server_id, resource, gpus in seats)
    decision = Decision(decision_id, job_id, attempt, assignments)
    decision.application_master = master
    decision.members = _members(seats, master=master)
    decision.parts = _parts(state, seats)
    decision.total = NOTHING
    for _, resource, _ in seats:
        decision.total = decision.total.plus(resource)
    with state.transaction() as plan:
        for part in decision.parts:
            assert plan.take(part)
        plan.commit()
    state.begin(decision)
    return decision


def _members(seats: tuple[Seat, ...], *, master: bool) -> tuple[tuple[AskKey, int], ...]:
    counts: dict[Resource, int] = {}
    for _, resource, _ in seats:
        counts[resource] = counts.get(resource, 0) + 1
    return tuple(((KEY, resource, master), count) for resource, count in counts.items())


def _parts(state: ClusterState, seats: tuple[Seat, ...]) -> list[Part]:
    parts: dict[str, Part] = {}
    for server_id, resource, gpus in seats:
        part = parts.setdefault(server_id, Part(state.servers[server_id], 0, 0, 0, 0))
        part.memory_mb += resource.memory_mb
        part.vcores += resource.vcores
        part.gpus += resource.gpus
        part.mask |= mask_of(gpus)
    return list(parts.values())


def job(state: ClusterState, job_id: str, vc: str = "root.a") -> None:
    """Add a job that is not known yet."""
    state.add_job(Job(job_id, vc), 0.0)
