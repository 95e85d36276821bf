"""What may be shown of preemption: what is under way, and whom a job would have stopped, by the search that would do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.keeping import kept_for
from yarn_gpu_sched.engine.loans import safe_until_s
from yarn_gpu_sched.engine.preempting import plan_of, within_rate
from yarn_gpu_sched.engine.reclaiming import Condition, Failing, reclaim
from yarn_gpu_sched.engine.repair import holds_of
from yarn_gpu_sched.engine.reserving import in_order, is_over_quota
from yarn_gpu_sched.engine.views import PlanView, PreemptionPreview, PreemptionView, ReservationView, VictimView
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.preemption import Mode, Plan, Victim

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.model.job_record import JobRecord
    from yarn_gpu_sched.model.reservation import Reservation


def stopping(core: Core, record: JobRecord) -> Plan | None:
    """Give the plan by which a job is warned or being stopped; None if there is none."""
    for plan in core.preemption.plans.values():
        if any(one.job_id == record.job.job_id and one.attempt == record.job.attempt for one in plan.victims):
            return plan
    return None


def preemption_view(core: Core) -> PreemptionView:
    """Show whether preemption is armed, and what is under way."""
    preemption = core.preemption
    return PreemptionView(
        mode=preemption.mode,
        why=preemption.why,
        quiet_until_s=preemption.quiet_until_s,
        stopped_last_minute=preemption.stopped_since(core.now_s),
        per_minute_max=core.settings.preempt_victims_per_minute,
        plans=tuple(_plan_view(core, plan) for _, plan in sorted(preemption.plans.items())),
        observed=tuple(preemption.observed.items()),
    )


def reservation_views(core: Core) -> tuple[ReservationView, ...]:
    """Show what is kept for gangs that have waited too long, in the order in which it is kept."""
    return tuple(_reservation_view(core, one) for one in in_order(core))


def _reservation_view(core: Core, one: Reservation) -> ReservationView:
    record = core.state.jobs[one.job_id]
    kept: dict[str, int] = {}
    for part in kept_for(core, record):
        kept[part.use.server_id] = kept.get(part.use.server_id, 0) + part.gpus
    return ReservationView(
        job_id=one.job_id,
        vc=record.job.vc,
        partition=one.partition,
        gpus=one.gpus,
        kept_gpus=sum(kept.values()),
        level=one.level,
        servers=tuple((need.server_id, need.gpus, kept.get(need.server_id, 0)) for need in one.needs),
        since_s=one.since_s,
        ready_s=one.ready_s,
        awaited=one.awaited,
        over_quota=is_over_quota(core, one),
    )


def held(core: Core) -> dict[str, tuple[tuple[str, int], ...]]:
    """Say for which jobs GPUs are held that nobody uses: on which servers, and the mask of the GPUs there."""
    found: dict[str, dict[str, int]] = {}
    for job_id in (*core.preemption.plans, *core.reservations.by_job):
        for hold in holds_of(core, core.state.jobs[job_id]):
            for part in hold.parts:
                if part.mask:
                    servers = found.setdefault(job_id, {})
                    servers[part.use.server_id] = servers.get(part.use.server_id, 0) | part.mask
    return {job_id: tuple(sorted(servers.items())) for job_id, servers in found.items()}


def preview(core: Core, record: JobRecord) -> PreemptionPreview:
    """Say whom a job would have stopped, or which condition fails, with its numbers. Nothing is changed."""
    plan = core.preemption.plans.get(record.job.job_id)
    if plan is not None:
        return PreemptionPreview(_plan_view(core, plan))
    want = record.want
    if not isinstance(want, JobWant) or not want.gang or record.job.job_id in core.ahead:
        sentence = "it does not wait for its gang: only for a gang that is complete others are stopped"
        return PreemptionPreview(condition="not_waiting", sentence=sentence)
    if not core.by_vc:
        sentence = f"policy {core.policy.name} knows no quotas, so nobody borrows"
        return PreemptionPreview(condition="no_quotas", sentence=sentence)
    if want.line.forbidden is not None:
        return PreemptionPreview(condition="forbidden", sentence=want.line.forbidden.sentence)
    found = reclaim(core, want)
    if isinstance(found, Failing):
        return PreemptionPreview(condition=found.condition.value, sentence=found.sentence)
    planned = _plan_view(core, plan_of(core, want, found), proposed=True)
    return PreemptionPreview(planned, hindrances=tuple(_hindrances(core, record, len(found.victims))))


def _hindrances(core: Core, record: JobRecord, victims: int) -> list[str]:
    preemption, settings, now_s = core.preemption, core.settings, core.now_s
    found = []
    if preemption.mode is not Mode.ON:
        why = f" ({preemption.why})" if preemption.why else ""
        found.append(f"preemption is {preemption.mode.value}{why}")
    if not core.session.settled:
        found.append("not all servers may have registered yet")
    if now_s < preemption.quiet_until_s:
        found.append(
            f"nobody is stopped for another {preemption.quiet_until_s - now_s:.0f} s, since a resource manager registered"
        )
    assert record.tenure.ready_s is not None
    left_s = record.tenure.ready_s + settings.preempt_after_s - now_s
    if left_s > 0:
        found.append(
            f"it waits for {now_s - record.tenure.ready_s:.0f} s and must wait for {settings.preempt_after_s:g} s"
        )
    elif preemption.mode is Mode.ON and record.tenure.again_s > now_s:
        found.append(f"it was in vain before, so nobody is stopped for another {record.tenure.again_s - now_s:.0f} s")
    failing = within_rate(core, victims)
    if failing is not None:
        found.append(failing.sentence)
    return found


def _plan_view(core: Core, plan: Plan, *, proposed: bool = False) -> PlanView:
    record = core.state.jobs[plan.job_id]
    stage = "proposed" if proposed else "warned" if plan.stopped_s is None else "stopping"
    return PlanView(
        job_id=plan.job_id,
        vc=record.job.vc,
        gpus=plan.gpus,
        level=plan.level,
        victims=tuple(_victim_view(core, victim) for victim in plan.victims),
        servers=tuple((need.server_id, need.mask.bit_count()) for need in plan.needs),
        stage=stage,
        decided_s=plan.decided_s,
        until_s=None if proposed else plan.grace_until_s if plan.stopped_s is None else plan.hold_until_s,
    )


def _victim_view(core: Core, victim: Victim) -> VictimView:
    record = core.state.jobs.get(victim.job_id)
    if record is None or record.started_s is None or record.job.attempt != victim.attempt:
        vc, user, before = (
            ("", "", 0) if record is None else (record.job.vc, record.job.user, len(record.tenure.preempted))
        )
        return VictimView(victim.job_id, vc, user, victim.gpus, 0.0, 0.0, before, victim.container_ids)
    return VictimView(
        job_id=victim.job_id,
        vc=record.job.vc,
        user=record.job.user,
        gpus=victim.gpus,
        ran_s=core.now_s - record.started_s,
        lost_gpu_s=victim.gpus * (core.now_s - safe_until_s(record, core.now_s)),
        stopped_before=len(record.tenure.preempted),
        container_ids=victim.container_ids,
    )


CONDITIONS = ("not_waiting", "no_quotas", "forbidden", *(condition.value for condition in Condition))
"""All that `PreemptionPreview.condition` may be."""
