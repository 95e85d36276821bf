"""Who borrows and what is in use at one moment, counted anew from what is held and from what queues were told to have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from tests.engine.ledger import up
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

Key = TypeVar("Key", str, tuple[str, str])


class Unit(NamedTuple):
    """What is charged as a whole: a job with a gang, or a container of another."""

    name: str
    record: JobRecord
    gpus: int
    containers: tuple[Container, ...]
    container: bool = False


class Charges:
    """See the module. Queues' quotas are numbers of GPUs of the default partition."""

    def __init__(self, core: Core, told: dict[str, VirtualCluster]) -> None:
        self._core = core
        self._told = dict(told)
        self._held: Counter[tuple[str, str]] = Counter()
        self._kept: Counter[tuple[str, str]] = Counter()
        self._masks: dict[str, int] = {}
        self._fit: dict[str, int] = {}
        self._capacity: dict[str, tuple[str, str, int]] = {}
        self._in_use: Counter[str] = Counter()
        self._usable: Counter[str] = Counter()
        self._promised: dict[str, int] = {}
        for server_id, use in core.state.servers.items():
            server = use.server
            self._masks[server_id] = 0
            if server.state is ServerState.RUNNING and not use.fitness.blocked:
                self._capacity[server_id] = (server.partition, server.domain, use.gpus_healthy)
            self._fit[server_id] = use.capacity_mask & ~(use.fitness.sick | use.fitness.busy)
        self._count_held()
        for server_id, (partition, _, gpus) in self._capacity.items():
            self._usable[partition] += gpus
            self._in_use[partition] += gpus - self._free(server_id, self._masks[server_id])

    def _count_held(self) -> None:
        state = self._core.state
        for one in state.containers.values():
            mask = sum(1 << index for index in one.gpu_indices)
            self._add(one.job_id, one.server_id, mask, one.resource.gpus)
        for decision in state.decisions.values():
            for part in decision.parts:
                self._add(decision.job_id, part.use.server_id, part.mask, part.gpus)
                if decision.hold_until_s is not None:
                    self._kept[decision.job_id, part.use.server.partition] += part.gpus
        for job_id, plan in self._core.preemption.plans.items():
            self._promised[job_id] = plan.gpus

    def _free(self, server_id: str, held: int) -> int:
        """Count the GPUs of a server that are given out and not held: never more than its resource manager leaves."""
        left = self._core.state.servers[server_id].gpus - held.bit_count()  # it may have had more before
        return max(0, min(left, (self._fit[server_id] & ~held).bit_count()))

    def _add(self, job_id: str, server_id: str, mask: int, gpus: int) -> None:
        self._masks[server_id] |= mask
        partition = self._core.state.servers[server_id].server.partition
        for path in up(self._core.state.jobs[job_id].job.vc):
            self._held[path, partition] += gpus

    def joined(self, other: Charges, pick: Callable[[int, int], int]) -> Charges:
        """Give the most, or the least, that there was at two moments."""
        both = Charges(self._core, self._told)
        both._held = _joined(self._held, other._held, pick)
        both._in_use = _joined(self._in_use, other._in_use, pick)
        both._usable = _joined(self._usable, other._usable, pick)
        return both

    def in_use(self, partition: str) -> tuple[int, int]:
        """Count the GPUs of running servers: those in use or held, and all."""
        return self._in_use[partition], self._usable[partition]

    def gpus(self, path: str, partition: str) -> int:
        """Count what a queue uses."""
        return self._held[path, partition]

    def quota(self, path: str) -> int | None:
        """Give a queue's quota."""
        vc = self._told.get(path)
        return None if vc is None else vc.quota_gpus

    def after(self, path: str, record: JobRecord) -> int:
        """Count what a queue uses once a gang has all that it waits for, and others in it have what was promised to them."""
        want = record.want
        assert isinstance(want, JobWant)
        missing = {record.job.job_id: want.gpus} | {
            job_id: gpus for job_id, gpus in self._promised.items() if job_id != record.job.job_id
        }
        found = self._held[path, want.partition]
        for job_id, gpus in missing.items():
            if path in up(self._core.state.jobs[job_id].job.vc) and not self._core.state.jobs[job_id].gang_under_way:
                found += max(0, gpus - self._kept[job_id, want.partition])
        return found

    def kept(self, job_id: str, partition: str) -> int:
        """Count what is held for a job."""
        return self._kept[job_id, partition]

    def borrowed(self, vc: str, partition: str) -> dict[str, Unit]:
        """Charge running jobs to a queue's quota in order of start; what does not fit as a whole is borrowed.

        Whoever uses none of its GPUs is, and charges nothing.
        """
        left = self.quota(vc)
        found: dict[str, Unit] = {}
        if left is None:
            return found
        jobs = self._core.state.jobs.values()
        running = [one for one in jobs if one.job.vc == vc and one.state is JobState.RUNNING]
        for record in sorted(running, key=lambda one: (one.started_s, one.job.submit_time_s, one.job.job_id)):
            for unit in self._units(record, partition):
                if record.tenure.idle:
                    found[unit.name] = unit
                elif unit.gpus <= left:
                    left -= unit.gpus
                else:
                    found[unit.name] = unit
        return found

    def _units(self, record: JobRecord, partition: str) -> list[Unit]:
        servers = self._core.state.servers
        held = [one for _, one in sorted(record.containers.items()) if one.resource.gpus]
        held = [one for one in held if servers[one.server_id].server.partition == partition]
        if record.gang is None:
            return [Unit(one.container_id, record, one.resource.gpus, (one,), container=True) for one in held]
        whole = tuple(record.containers.values())
        return [Unit(record.job.job_id, record, sum(one.resource.gpus for one in held), whole)] if held else []

    def rooms(self, want: JobWant, gone: Iterable[str]) -> dict[str, list[tuple[int, int]]]:
        """Count how many containers of a gang each server could hold now, if some were gone, and when it is empty; by domain."""
        masks = dict.fromkeys(self._masks, 0)
        without = set(gone)
        state = self._core.state
        for one in state.containers.values():
            if one.container_id not in without:
                masks[one.server_id] |= sum(1 << index for index in one.gpu_indices)
        for decision in state.decisions.values():
            for part in decision.parts:
                if decision.hold_until_s is None or decision.job_id != want.job_id:
                    masks[part.use.server_id] |= part.mask
        each = want.kinds[0].gpus
        found: dict[str, list[tuple[int, int]]] = {}
        for server_id, (partition, rack, gpus) in self._capacity.items():
            if partition == want.partition:
                free = self._free(server_id, masks[server_id])
                found.setdefault(rack, []).append((free // each, gpus // each))
        return found


def _joined(one: Counter[Key], other: Counter[Key], pick: Callable[[int, int], int]) -> Counter[Key]:
    return Counter({key: pick(one[key], other[key]) for key in one.keys() | other.keys()})


def apart(one: str, other: str) -> tuple[list[str], list[str]]:
    """List the queues on the way to each that are not above the other too."""
    ones, others = list(up(one)), list(up(other))
    return [path for path in ones if path not in others], [path for path in others if path not in ones]


def place_for(charges: Charges, want: JobWant, gone: Iterable[str]) -> bool:
    """Tell, by counting, whether a gang of equal containers has a place at its level when some containers are gone."""
    domains = charges.rooms(want, gone)
    containers, level = want.containers, int(want.demand.ceiling)
    if level > 1:
        return sum(now for rooms in domains.values() for now, _ in rooms) >= containers
    widths = [_fewest([empty for _, empty in rooms], containers) for rooms in domains.values()]
    width = min([one for one in widths if one is not None], default=0) if level == 0 else None
    fewest = [_fewest([now for now, _ in rooms], containers) for rooms in domains.values()]
    return any(one is not None and (width is None or one <= width) for one in fewest)


def _fewest(rooms: list[int], containers: int) -> int | None:
    """Count the fewest servers that hold so many containers."""
    for count, room in enumerate(sorted(rooms, reverse=True), 1):
        containers -= room
        if containers <= 0:
            return count
    return None
