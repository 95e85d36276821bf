"""What a policy may ask "what if" about several wants at once: places taken, running gangs stopped, and all of it undone."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.dealing import lowest
from yarn_gpu_sched.engine.finding import find
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.server_use import Part, mask_of
from yarn_gpu_sched.placement import Placement
from yarn_gpu_sched.policy import Want


class EnginePlan:
    """See `yarn_gpu_sched.policy.Plan`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._transaction = core.state.transaction()

    def __enter__(self) -> Self:
        self._transaction.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._transaction.__exit__(kind, error, traceback)

    def find(self, want: Want) -> Placement | None:
        """Find a place beside what was taken."""
        assert isinstance(want, JobWant)
        self._core.counters.searches += 1
        return find(self._core, want.demand, want.line.barred)

    def take(self, want: Want, placement: Placement) -> bool:
        """Take it that the want has this place."""
        checkpoint = self._transaction.checkpoint()
        for use, kind, count in placement.portions:
            _, gpus, memory_mb, vcores = want.kinds[kind]
            mask, _ = lowest(use.free_mask, gpus, count)
            if not self._transaction.take(Part(use, count * memory_mb, count * vcores, mask, count * gpus)):
                self._transaction.rollback(checkpoint)
                return False
        return True

    def find_without(self, want: Want, surplus: list[str]) -> tuple[Placement | None, list[str]]:
        """Find a place where running gangs may be stopped, and say which; take it that these are stopped.

        The first of them alone is tried, then twice as many, and so on.
        """
        checkpoint = self._transaction.checkpoint()
        held: dict[str, list[Part]] = {}
        placement: Placement | None = None
        while placement is None and len(held) < len(surplus):
            for job_id in surplus[len(held) : max(1, 2 * len(held))]:
                held[job_id] = parts_of(self._core, self._core.state.jobs[job_id].containers.values())
                for part in held[job_id]:
                    self._transaction.release(part)
            placement = self.find(want)
        self._transaction.rollback(checkpoint)
        if placement is None:
            return None, []
        victims = _needed(want, placement, held)
        for job_id in victims:
            for part in held[job_id]:
                self._transaction.release(part)
        return placement, victims


def parts_of(core: Core, containers: Iterable[Container]) -> list[Part]:
    """Add up what containers hold on each server."""
    parts: dict[str, Part] = {}
    for container in containers:
        resource = container.resource
        part = parts.get(container.server_id)
        if part is None:
            part = parts[container.server_id] = Part(core.state.servers[container.server_id], 0, 0, 0, 0)
        part.memory_mb += resource.memory_mb
        part.vcores += resource.vcores
        part.mask |= mask_of(container.gpu_indices)
        part.gpus += resource.gpus
    return list(parts.values())


def _needed(want: Want, placement: Placement, held: dict[str, list[Part]]) -> list[str]:
    """Choose, in their order, gangs that hold what the place needs beside what is free there: each of them is needed."""
    lacking: dict[str, list[int]] = {}
    for use, kind, count in placement.portions:
        free = [-use.gpus_free, -use.memory_free_mb, -use.vcores_free]
        left = lacking.setdefault(use.server_id, free)
        for place, amount in enumerate(want.kinds[kind][1:]):
            left[place] += count * amount
    victims = []
    for job_id, parts in held.items():
        if any(amount > 0 for part in parts for amount in lacking.get(part.use.server_id, ())):
            victims.append(job_id)
            _count(parts, lacking, -1)
    for job_id in victims[::-1]:
        _count(held[job_id], lacking, 1)
        if any(amount > 0 for part in held[job_id] for amount in lacking.get(part.use.server_id, ())):
            _count(held[job_id], lacking, -1)
        else:
            victims.remove(job_id)
    return victims


def _count(parts: list[Part], lacking: dict[str, list[int]], sign: int) -> None:
    """Add what parts hold to what is lacking on their servers, or take it off."""
    for part in parts:
        left = lacking.get(part.use.server_id)
        if left is not None:
            left[0] += sign * part.gpus
            left[1] += sign * part.memory_mb
            left[2] += sign * part.vcores
