"""Limits that forbid a want although there may be room: maxima of queues, all the way up, and what one user may use."""

from collections.abc import Iterable
from typing import NamedTuple

from yarn_gpu_sched.engine.in_force import InForce, Limits
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.model.tenants import Tenants, Use, VirtualClusterRecord

NO_USE = Use()


class Forbidden(NamedTuple):
    """What forbids it: the queue whose limit it is, and the limit in words. It holds until that queue uses less."""

    code: ReasonCode
    path: str
    sentence: str


def forbidden(tenants: Tenants, in_force: InForce, want: JobWant) -> Forbidden | None:
    """Say which limit a want would exceed, the lowest queue's first; None if none. Only what is asked counts."""
    if not in_force.limited:
        return None
    user = _over_user(tenants.by_path[want.vc], in_force, want)
    if user is not None:
        return user
    return over_maximum(tenants, in_force, want, want.partition)


def barred(tenants: Tenants, in_force: InForce, want: JobWant, lending: Iterable[str]) -> tuple[str, ...]:
    """List the partitions that lend, but where the want would exceed a maximum: what it has there is charged there."""
    return tuple([name for name in lending if over_maximum(tenants, in_force, want, name) is not None])


def over_maximum(tenants: Tenants, in_force: InForce, want: JobWant, partition: str) -> Forbidden | None:
    """Say which queue's maximum a want would exceed in a partition, the lowest queue's first; None if none."""
    total, held = want.total, want.held if partition == want.held_in else NOTHING
    for path, limits in in_force.bounds(want.vc, partition):
        over = _exceeded(total, tenants.by_path[path].uses.get(partition, NO_USE), held, limits)
        if over is not None:
            sentence = f"queue {path} uses {over.used} of the {over.most} {over.unit} that it may use"
            return Forbidden(ReasonCode.VC_MAXIMUM, path, sentence)
    return None


def room_for(tenants: Tenants, in_force: InForce, want: JobWant) -> int | None:
    """Say how many GPUs may be held for a want by all limits; None: there is no limit. None may if it exceeds memory or vcores."""
    room: list[int] = []
    most = in_force.settings(want.vc).max_gpus_per_user
    if most is not None:
        room.append(most - tenants.by_path[want.vc].gpus_of(want.record.job.user) + want.held.gpus)
    for path, limits in in_force.bounds(want.vc, want.held_in):
        use = tenants.by_path[path].uses.get(want.held_in, NO_USE)
        over = _exceeded(want.total, use, want.held, limits)
        if over is not None and over.unit != "GPUs":
            return 0
        if limits.maximum_gpus is not None:
            room.append(limits.maximum_gpus - use.gpus + want.held.gpus)
    return max(0, min(room)) if room else None


class _Over(NamedTuple):
    """A maximum that is exceeded."""

    asked: int
    used: int
    most: int
    unit: str


def _exceeded(total: Resource, use: Use, held: Resource, limits: Limits) -> _Over | None:
    """Say which maximum would be exceeded beside what is used but for what is held for it; what is not asked exceeds none."""
    most = limits.maximum_gpus
    if most is not None and total.gpus and use.gpus - held.gpus + total.gpus > most:
        return _Over(total.gpus, use.gpus - held.gpus, most, "GPUs")
    most = limits.maximum_mb
    if most is not None and total.memory_mb and use.memory_mb - held.memory_mb + total.memory_mb > most:
        return _Over(total.memory_mb, use.memory_mb - held.memory_mb, most, "MB of memory")
    most = limits.maximum_vcores
    if most is not None and total.vcores and use.vcores - held.vcores + total.vcores > most:
        return _Over(total.vcores, use.vcores - held.vcores, most, "vcores")
    return None


def _over_user(record: VirtualClusterRecord, in_force: InForce, want: JobWant) -> Forbidden | None:
    most = in_force.settings(record.path).max_gpus_per_user
    if most is None or not want.gpus:
        return None
    user = want.record.job.user
    used = record.gpus_of(user) - want.held.gpus
    if used + want.gpus <= most:
        return None
    sentence = f"user {user} uses {used} GPUs in {record.path}, where a user may use {most}"
    return Forbidden(ReasonCode.USER_LIMIT, record.path, sentence)


def over_job_limit(state: ClusterState, in_force: InForce, want: JobWant) -> str:
    """Say what one job may use of GPUs in its virtual cluster, if it would use more with what it wants; empty if not.

    A gang that is larger by itself is refused; this keeps a job that asks one container after the other from growing beyond it.
    What is held for the job is for what it wants, and does not count beside that.
    """
    most = in_force.settings(want.vc).max_gpus_per_job
    if most is None or not want.gpus:
        return ""
    used = used_by_job(state, want.record)
    if used + want.gpus <= most:
        return ""
    return f"it uses {used} GPUs, and a job of queue {want.vc} may use {most} (ygs.max-gpus-per-job)"


def used_by_job(state: ClusterState, record: JobRecord) -> int:
    """Count the GPUs that a job uses, without those that are only held for it."""
    return record.used_gpus - held_for(state, record).gpus


def held_for(state: ClusterState, record: JobRecord) -> Resource:
    """Add up what is held for a job."""
    decisions = [state.decisions[decision_id] for decision_id in record.decisions]
    total = NOTHING
    for one in decisions:
        if one.hold_until_s is not None:
            total = total.plus(one.held)
    return total


def never_allowed(in_force: InForce, vc: str, partition: str, total: Resource, gpus_at_once: int) -> str:
    """Say which limit a want exceeds that would be the only one of its virtual cluster; empty if none: it may come to run."""
    most = in_force.settings(vc).max_gpus_per_job
    if most is not None and gpus_at_once > most:
        return f"asks {gpus_at_once} GPUs at once, a job of queue {vc} may use {most} (ygs.max-gpus-per-job)"
    for path, limits in in_force.bounds(vc, partition) if in_force.limited else ():
        over = _exceeded(total, NO_USE, NOTHING, limits)
        if over is not None:
            return f"asks {over.asked} {over.unit} at once, queue {path} may use {over.most}"
    return ""
