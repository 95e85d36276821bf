"""What quotas promise to gangs for which others are being stopped: nothing else of their queues uses it up (law 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.causes import headroom
from yarn_gpu_sched.engine.limits import held_for
from yarn_gpu_sched.model.shares import lineage

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.want import JobWant
    from yarn_gpu_sched.model.preemption import Plan


def uses_up(core: Core, want: JobWant) -> bool:
    """Tell whether a want would take a queue over its quota together with a gang that is yet to get what others leave for it."""
    plans = [
        plan for plan in core.preemption.plans.values() if plan.stopped_s is not None and plan.job_id != want.job_id
    ]
    if not any(_is_in_its_way(core, want, plan) for plan in plans):
        return False
    core.preemption.held_back[want.partition] = None
    return True


def _is_in_its_way(core: Core, want: JobWant, plan: Plan) -> bool:
    record = core.state.jobs[plan.job_id]
    if plan.partition != want.partition or record.gang_under_way or record.gang_placed:
        return False
    asked = want.gpus - want.held.gpus + plan.gpus - held_for(core.state, record).gpus
    shared = set(lineage(record.job.vc)).intersection(lineage(want.vc))
    return any(headroom(core, path, plan.partition) < asked for path in shared)


def kept_back_no_more(core: Core, plan: Plan) -> None:
    """Let those go on that were held back for a plan which has come to its end."""
    if plan.partition in core.preemption.held_back:
        del core.preemption.held_back[plan.partition]
        core.queue.wake_partition(plan.partition)
