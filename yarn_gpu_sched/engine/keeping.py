"""Free places that are kept for a gang, until it has all that it takes: what others leave for it is kept as it comes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.dealing import lowest
from yarn_gpu_sched.engine.ends import unwatched
from yarn_gpu_sched.engine.finding import find_quietly, partitions_of
from yarn_gpu_sched.engine.repair import begin_hold, free_hold, holds_of
from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.assignment import Assignment
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server_use import Part, indices_of

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.want import JobWant
    from yarn_gpu_sched.model.job_record import JobRecord
    from yarn_gpu_sched.model.preemption import Need
    from yarn_gpu_sched.placement import Placement

_ANY_KEY = RequestKey(0)


def kept_for(core: Core, record: JobRecord) -> list[Part]:
    """List what is kept for a job."""
    return [part for hold in holds_of(core, record) for part in hold.parts]


def keep(core: Core, record: JobRecord, needs: Iterable[Need], until_s: float, gpus_max: int | None = None) -> None:
    """Keep of what a gang takes all that is free by now, at most so many GPUs; its want knows of it from then on."""
    kept: dict[str, Part] = {}
    for part in kept_for(core, record):
        known = kept.setdefault(part.use.server_id, Part(part.use, 0, 0, 0, 0))
        known.memory_mb += part.memory_mb
        known.vcores += part.vcores
        known.mask |= part.mask
        known.gpus += part.gpus
    left = None if gpus_max is None else gpus_max - sum(part.gpus for part in kept.values())
    parts = []
    for need in needs:
        more = _free_part(core, need, kept.get(need.server_id), left)
        if more is not None:
            parts.append(more)
            left = None if left is None else left - more.gpus
    if parts:
        where = tuple(map(_assignment, parts))
        begin_hold(core, Decision(0, record.job.job_id, record.job.attempt, where, parts=parts), until_s - core.now_s)
        core.changed(record)


def _free_part(core: Core, need: Need, kept: Part | None, gpus_max: int | None) -> Part | None:
    use = core.state.servers.get(need.server_id)
    if use is None or not use.usable:
        return None
    kept = kept or Part(use, 0, 0, 0, 0)
    gpus = max(0, need.gpus - kept.gpus if gpus_max is None else min(gpus_max, need.gpus - kept.gpus))
    mask = need.mask & use.free_mask if need.mask else use.free_mask
    mask, _ = lowest(mask, min(gpus, mask.bit_count(), use.gpus_free), 1)
    memory_mb, vcores = need.memory_mb, need.vcores
    if gpus_max is not None and need.gpus:  # who may keep only some GPUs keeps only what goes with those
        share = kept.gpus + mask.bit_count()
        memory_mb, vcores = memory_mb * share // need.gpus, vcores * share // need.gpus
    memory_mb = max(0, min(memory_mb - kept.memory_mb, use.memory_free_mb))
    vcores = max(0, min(vcores - kept.vcores, use.vcores_free))
    return Part(use, memory_mb, vcores, mask, mask.bit_count()) if mask or memory_mb or vcores else None


def _assignment(part: Part) -> Assignment:
    return Assignment(
        _ANY_KEY, part.use.server_id, Resource(part.memory_mb, part.vcores, part.gpus), indices_of(part.mask)
    )


def hand_over(core: Core, record: JobRecord) -> None:
    """Free what is kept for a job whose gang is placed at once, by the want at hand."""
    for hold in holds_of(core, record):
        free_hold(core, hold)


def let_go(core: Core, record: JobRecord) -> None:
    """Keep nothing more for a job; what it wants from then on knows that."""
    if holds_of(core, record):
        hand_over(core, record)
        core.changed(record)


def place_beside_kept(core: Core, want: JobWant) -> Placement | None:
    """Find a place for a gang on what is kept for it, or anywhere."""
    with unwatched(core, partitions_of(core, want.demand)), core.state.transaction() as plan:
        for part in kept_for(core, want.record):
            plan.release(part)
        return find_quietly(core, want.demand, want.line.barred)
