"""Holds what is under way for gangs, for which others are stopped, against law 7, as far as the state alone shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.reclaiming import PERCENT
from yarn_gpu_sched.engine.repair import holds_of
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.preemption import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.model.job_record import JobRecord
    from yarn_gpu_sched.model.preemption import Plan


def plan_faults(core: Core) -> Iterator[str]:
    """Say what is wrong with the plans, each and together."""
    preemption, settings = core.preemption, core.settings
    stopped_lately, most = preemption.stopped_since(core.now_s), settings.preempt_victims_per_minute
    if stopped_lately > most:
        yield f"{stopped_lately} were stopped in a minute, at most {most} may be"
    stopped: dict[tuple[str, tuple[str, ...]], str] = {}
    for job_id, plan in preemption.plans.items():
        record = core.state.jobs.get(job_id)
        if record is None or plan.job_id != job_id:
            yield f"for job {job_id} others are stopped, and it is not known"
            continue
        yield from (f"job {job_id}: {fault}" for fault in _faults(core, record, plan))
        for victim in plan.victims:
            other = stopped.setdefault((victim.job_id, victim.container_ids), job_id)
            if other != job_id or victim.job_id == job_id:
                yield f"{victim.job_id} is stopped for {job_id} and for {other}"
    for job_id, record in core.state.jobs.items():
        if (times := len(record.tenure.preempted)) > settings.preempt_spare_after:
            yield f"job {job_id} was stopped {times} times, and is spared after {settings.preempt_spare_after}"


def _faults(core: Core, record: JobRecord, plan: Plan) -> Iterator[str]:
    settings = core.settings
    if PERCENT * plan.in_use < settings.preempt_threshold_percent * plan.usable or not plan.victims:
        yield f"{plan.victims} are stopped for it, with {plan.in_use} of {plan.usable} GPUs in use"
    ready_s = record.tenure.ready_s
    if record.job.attempt == plan.attempt and (ready_s is None or ready_s + settings.preempt_after_s > plan.decided_s):
        yield f"it waits complete since {ready_s}, and others were to be stopped at {plan.decided_s}"
    by = {one.by_job_id for one in record.tenure.preempted}
    for victim in plan.victims:
        if victim.started_s + settings.preempt_min_run_s > plan.decided_s:
            yield f"{victim.job_id} runs since {victim.started_s}, and was to be stopped at {plan.decided_s}"
        if victim.job_id in by:
            yield f"{victim.job_id} has had it stopped, and is stopped for it"
    if plan.stopped_s is None and core.preemption.mode is not Mode.ON:
        yield f"others are warned, and preemption is {core.preemption.mode.value}"
    if (plan.stopped_s is None) != (plan.hold_until_s is None):
        yield f"its victims were stopped at {plan.stopped_s}, and their places are held until {plan.hold_until_s}"
    want = record.want
    if isinstance(want, JobWant) and want.gang and want.demand.held_for != plan.job_id:
        yield "others are stopped for it, and it waits among those who know nothing of it"
    yield from _held_beyond(core, record, plan)


def _held_beyond(core: Core, record: JobRecord, plan: Plan) -> Iterator[str]:
    """Say what is held that the proven place does not take."""
    needs = {need.server_id: need for need in plan.needs}
    for hold in holds_of(core, record):
        for part in hold.parts:
            need = needs.get(part.use.server_id)
            if need is None or part.mask & ~need.mask or part.memory_mb > need.memory_mb or part.vcores > need.vcores:
                yield f"on server {part.use.server_id} {part} is held, and {need} is what it takes"
