"""Limits that forbid a want although there may be room: maxima of queues, all the way up, and what one user may use."""

from collections.abc import Iterable
from typing import NamedTuple

from yarn_gpu_sched.engine.in_force import InForce
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
    total, held = want.total, want.held if partition == want.partition else NOTHING
    for path, limits in in_force.bounds(want.vc, partition):
        use = tenants.by_path[path].uses.get(partition, NO_USE)
        for asked, used, most, unit in (
            (total.gpus, use.gpus - held.gpus, limits.maximum_gpus, "GPUs"),
            (total.memory_mb, use.memory_mb - held.memory_mb, limits.maximum_mb, "MB of memory"),
            (total.vcores, use.vcores - held.vcores, limits.maximum_vcores, "vcores"),
        ):
            if most is not None and asked and used + asked > most:
                sentence = f"queue {path} uses {used} of the {most} {unit} that it may use"
                return Forbidden(ReasonCode.VC_MAXIMUM, path, sentence)
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
    decisions = [state.decisions[decision_id] for decision_id in record.decisions]
    return record.used_gpus - sum(one.held.gpus for one in decisions if one.hold_until_s is not None)


def never_allowed(in_force: InForce, vc: str, partition: str, total: Resource, gpus_at_once: int) -> str:
    """Say which limit a want exceeds that would be the only one of its virtual cluster; empty if none: it may come to run."""
    most = in_force.settings(vc).max_gpus_per_job
    if most is not None and gpus_at_once > most:
        return f"asks {gpus_at_once} GPUs at once, a job of queue {vc} may use {most} (ygs.max-gpus-per-job)"
    for path, limits in in_force.bounds(vc, partition) if in_force.limited else ():
        for asked, maximum, unit in (
            (total.gpus, limits.maximum_gpus, "GPUs"),
            (total.memory_mb, limits.maximum_mb, "MB of memory"),
            (total.vcores, limits.maximum_vcores, "vcores"),
        ):
            if asked and maximum is not None and asked > maximum:
                return f"asks {asked} {unit} at once, queue {path} may use {maximum}"
    return ""
