"""By how much a want exceeds quotas, maxima and what a user may use, and which jobs' ends would help against that."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.model.server_use import Part
from yarn_gpu_sched.model.shares import lineage
from yarn_gpu_sched.model.tenants import VirtualClusterRecord

GPUS, MEMORY, VCORES = "GPUs", "MB of memory", "vcores"


_AMOUNTS: dict[str, Callable[[Part], int]] = {
    GPUS: lambda part: part.gpus,
    MEMORY: lambda part: part.memory_mb,
    VCORES: lambda part: part.vcores,
}


class Excess(NamedTuple):
    """A limit of a queue that a want exceeds: ``most`` are allowed, ``amount`` more would do. Of ``user`` alone, if one is told."""

    path: str
    partition: str
    unit: str
    used: int
    most: int
    amount: int
    user: str | None = None

    def relief(self, record: JobRecord, parts: Iterable[Part]) -> int:
        """Say how much of it the end of a job takes away that holds these parts."""
        job = record.job
        if self.user is not None:
            return record.used_gpus if (job.vc, job.user) == (self.path, self.user) else 0
        if job.vc != self.path and not job.vc.startswith(f"{self.path}."):
            return 0
        amount = _AMOUNTS[self.unit]
        return sum(amount(part) for part in parts if part.use.server.partition == self.partition)


def over_limits(core: Core, want: JobWant) -> list[Excess]:
    """List the limits that forbid a want, the lowest queue's first; as in `limits.forbidden`, but all of them."""
    if not core.state.tenants.watched:
        return []
    return _over_user(core, want) + over_maxima(core, want, want.partition)


def over_maxima(core: Core, want: JobWant, partition: str) -> list[Excess]:
    """List the maxima that a want would exceed in a partition, the lowest queue's first."""
    found: list[Excess] = []
    record: VirtualClusterRecord | None = core.state.tenants.get(want.vc)
    while record is not None:
        found += _over_own(core, record, want, partition)
        record = record.above
    return found


def over_quota(core: Core, want: JobWant) -> list[Excess]:
    """List the quotas that a want would exceed, the lowest queue's first."""
    found = []
    for path in reversed(lineage(want.vc)):
        quota = core.in_force.limits(path, want.partition).quota_gpus
        used = core.state.tenants.get(path).gpus_used(want.partition)
        used -= want.held.gpus if want.held_in == want.partition else 0
        if quota is not None and used + want.gpus > quota:
            found.append(Excess(path, want.partition, GPUS, used, quota, used + want.gpus - quota))
    return found


def _over_user(core: Core, want: JobWant) -> list[Excess]:
    most = core.in_force.settings(want.vc).max_gpus_per_user
    if most is None or not want.gpus:
        return []
    user = want.record.job.user
    used = core.state.tenants.get(want.vc).gpus_of(user) - want.held.gpus
    over = used + want.gpus - most
    return [Excess(want.vc, want.partition, GPUS, used, most, over, user)] if over > 0 else []


def _over_own(core: Core, record: VirtualClusterRecord, want: JobWant, partition: str) -> list[Excess]:
    limits = core.in_force.limits(record.path, partition)
    use, total = record.uses.get(partition), want.total
    held = want.held if partition == want.held_in else NOTHING
    has = NOTHING if use is None else Resource(use.memory_mb, use.vcores, use.gpus).minus(held)
    found = []
    for unit, asked, used, most in zip(
        (GPUS, MEMORY, VCORES),
        (total.gpus, total.memory_mb, total.vcores),
        (has.gpus, has.memory_mb, has.vcores),
        (limits.maximum_gpus, limits.maximum_mb, limits.maximum_vcores),
        strict=True,
    ):
        if asked and most is not None and used + asked > most:
            found.append(Excess(record.path, partition, unit, used, most, used + asked - most))
    return found
