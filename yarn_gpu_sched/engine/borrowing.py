"""What is borrowed: a queue's jobs are charged to its quota in order of their start, and what does not fit is borrowed.

A job counts as a whole, so one that straddles the quota is borrowed whole; containers of an application without a gang are charged
one by one. Only worked out when somebody asks.
"""

from typing import NamedTuple

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.shares import ROOT, lineage

NOT_STARTED = float("inf")


class Holding(NamedTuple):
    """The GPUs of a partition that a job holds: ``singles`` one by one, each container's, if it has no gang."""

    record: JobRecord
    partition: str
    gpus: int
    singles: tuple[int, ...]

    @property
    def place(self) -> tuple[float, float, str]:
        """Its place in the order of start; who holds something and does not run yet comes after those that run."""
        started_s = self.record.started_s
        return (NOT_STARTED if started_s is None else started_s, *self.record.order)


class Charged(NamedTuple):
    """A holding, and how much of it is borrowed by the queue that was asked about."""

    holding: Holding
    borrowed_gpus: int


def holdings(core: Core) -> list[Holding]:
    """List who holds GPUs, in order of start."""
    held: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for use in core.state.servers.values():
        if not use.gpus_used:
            continue
        partition = use.server.partition
        for container in use.containers.values():
            if container.resource.gpus:
                held.setdefault((container.job_id, partition), []).append(
                    (container.container_id, container.resource.gpus)
                )
        for decision_id, part in use.in_flight.items():
            if part.gpus:  # it has no containers yet: it comes after those that live
                job_id = core.state.decisions[decision_id].job_id
                held.setdefault((job_id, partition), []).append((f"~{decision_id:020}", part.gpus))
    return sorted(
        (_holding(core.state.jobs[job_id], partition, amounts) for (job_id, partition), amounts in held.items()),
        key=lambda one: (one.place, one.partition),
    )


def _holding(record: JobRecord, partition: str, amounts: list[tuple[str, int]]) -> Holding:
    singles = tuple(gpus for _, gpus in sorted(amounts)) if record.gang is None else ()
    return Holding(record, partition, sum(gpus for _, gpus in amounts), singles)


def by_queue(held: list[Holding]) -> dict[tuple[str, str], list[Holding]]:
    """Sort what is held by queue and partition; a job counts in its queue and in those above it, the root included."""
    queues: dict[tuple[str, str], list[Holding]] = {}
    for one in held:
        for path in {ROOT: None} | dict.fromkeys(lineage(one.record.job.vc)):
            queues.setdefault((path, one.partition), []).append(one)
    return queues


def charge(held: list[Holding], quota_gpus: int | None) -> list[Charged]:
    """Charge what is held, in this order, to a quota; without one nothing is borrowed."""
    if quota_gpus is None:
        return [Charged(one, 0) for one in held]
    left = quota_gpus
    charged = []
    for one in held:
        borrowed = 0
        for gpus in one.singles or (one.gpus,):
            if gpus <= left:
                left -= gpus
            else:
                borrowed += gpus
        charged.append(Charged(one, borrowed))
    return charged
