"""Why a line waits, cheaply and from the state alone: it can be told at any time, the same in every engine in that state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.finding import free_gpus, partitions_of
from yarn_gpu_sched.engine.limits import held_for
from yarn_gpu_sched.engine.masters import masters_admit
from yarn_gpu_sched.model.assignment import ANYWHERE
from yarn_gpu_sched.model.reason import ReasonCode

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.queue import Line


def code_of(core: Core, line: Line) -> ReasonCode:
    """Say why a line waits, not looking for a place: what could be placed in its turn counts as fragmented until it is."""
    demand = line.demand
    if not core.session.connected:
        return ReasonCode.NO_RESOURCE_MANAGER
    if demand.application_master and not masters_admit(core, line.any_want()):
        return ReasonCode.AM_LIMIT
    if not any(core.index.fits_empty(partition, demand.kinds) for partition in partitions_of(core, demand)):
        return ReasonCode.NEVER_FITS_NOW
    if line.forbidden is not None:
        return line.forbidden.code
    if demand.held_for:
        return ReasonCode.HELD if demand.held_for in core.preemption.plans else ReasonCode.RESERVED
    return _by_gpus(core, line)


def _by_gpus(core: Core, line: Line) -> ReasonCode:
    demand = line.demand
    if demand.gpus <= free_gpus(core, demand.partition, line.barred):
        return ReasonCode.FRAGMENTED if demand.gpus else ReasonCode.OTHER_RESOURCES
    if line.barred and demand.gpus <= free_gpus(core, demand.partition):
        return ReasonCode.VC_MAXIMUM
    return ReasonCode.VC_QUOTA if over_quota(core, line) else ReasonCode.CLUSTER_FULL


def over_quota(core: Core, line: Line) -> str:
    """Name the lowest queue whose quota the line's want would exceed; empty if none, or if the policy knows no quotas."""
    partition, gpus = line.demand.partition, line.demand.gpus
    return next((path for path in line.group.path[::-1] if gpus > headroom(core, path, partition)), "")


def headroom(core: Core, path: str, partition: str) -> float:
    """Count the GPUs of a partition that a queue has left of its quota; endless where it has none."""
    quota = core.in_force.limits(path, partition).quota_gpus
    if quota is None:
        return float("inf")
    record = core.state.tenants.by_path.get(path)
    return quota - (0 if record is None else record.gpus_used(partition))


def refined(core: Core, line: Line, code: ReasonCode) -> ReasonCode:
    """Say more exactly what a line waits for that lacks GPUs, or a place for them; of equal cause."""
    demand = line.demand
    if code is ReasonCode.CLUSTER_FULL:
        free = free_gpus(core, demand.partition, line.barred)
        held, unusable = withheld(core, demand.partition)
        if demand.gpus <= free + held:
            reserved = sum(gpus for _, gpus in kept_by_gang(core, demand.partition))
            return ReasonCode.HELD if demand.gpus <= free + held - reserved else ReasonCode.RESERVED
        return ReasonCode.UNHEALTHY if demand.gpus <= free + held + unusable else code
    if code is ReasonCode.FRAGMENTED:
        index = core.index
        if any(index.slots(demand.partition, kind.gpus) < kind.containers for kind in demand.kinds if kind.gpus):
            return code
        if demand.reach:
            return ReasonCode.CONFINED
        return code if demand.ceiling is not ANYWHERE else ReasonCode.OTHER_RESOURCES
    return code


def kept_by_gang(core: Core, partition: str) -> list[tuple[str, int]]:
    """List the gangs which have waited too long and for which GPUs of a partition are kept, with how many."""
    jobs = [one.job_id for one in core.reservations.by_job.values() if one.partition == partition]
    kept = [(job_id, held_for(core.state, core.state.jobs[job_id]).gpus) for job_id in jobs]
    return [(job_id, gpus) for job_id, gpus in kept if gpus]


def withheld(core: Core, partition: str) -> tuple[int, int]:
    """Count the GPUs of a partition that are held for gangs, and those that nobody holds and that are not given out."""
    state = core.state
    held = sum(
        part.gpus
        for decision in state.decisions.values()
        if decision.hold_until_s is not None
        for part in decision.parts
        if part.use.server.partition == partition
    )
    servers = state.servers.values()
    out = sum(
        use.gpus_out if use.usable else max(0, use.gpus - use.gpus_used)
        for use in servers
        if use.server.partition == partition
    )
    return held, out
