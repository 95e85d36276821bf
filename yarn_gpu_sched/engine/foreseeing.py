"""What is known to come of the plans under way: what those leave who are stopped for gangs, and what these gangs take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.planning import parts_of
from yarn_gpu_sched.engine.repair import holds_of
from yarn_gpu_sched.model.server_use import Part

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core

Parts = tuple[list[Part], list[Part]]
"""What is given up, and what is taken."""

NOTHING_FORESEEN: Parts = ([], [])


def foreseen(core: Core, job_id: str) -> Parts:
    """Say what those leave who are stopped for gangs other than a job's, and what these gangs take of it."""
    leave: list[Part] = []
    take: list[Part] = []
    for plan in core.preemption.plans.values():
        if plan.job_id == job_id:
            continue
        for victim in plan.victims:
            record = core.state.jobs.get(victim.job_id)
            if record is not None and record.job.attempt == victim.attempt and record.end is None:
                named = victim.container_ids
                held = [one for one in record.containers.values() if not named or one.container_id in named]
                leave += [part for part in parts_of(core, held) if part.use.usable and not part.use.irregular]
        kept = {part.use.server_id: part.mask for part in _held_by(core, plan.job_id)}
        for need in plan.needs:
            mask = need.mask & ~kept.get(need.server_id, 0)
            use = core.state.servers.get(need.server_id)
            if use is not None and mask:
                take.append(Part(use, 0, 0, mask, mask.bit_count()))
    return leave, take


def _held_by(core: Core, job_id: str) -> list[Part]:
    """List what is held for a job, a part a server."""
    held: dict[str, Part] = {}
    for hold in holds_of(core, core.state.jobs[job_id]):
        for part in hold.parts:
            known = held.setdefault(part.use.server_id, Part(part.use, 0, 0, 0, 0))
            known.mask |= part.mask
    return list(held.values())
