"""Jobs are stopped for a gang within its quota (law 7): warned first, then stopped whole, and what they leave is held for it.

What the gang takes that is free already is held from the beginning. When the grace ends all conditions are looked at again, and
who is not needed any more is spared. The gang starts as soon as it finds a place beside what is held for it; who waits that long in
vain, or wants something else meanwhile, gives up what is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine import reserving
from yarn_gpu_sched.engine.causes import headroom
from yarn_gpu_sched.engine.commands import StopContainers, WarnJob
from yarn_gpu_sched.engine.events import CheckpointReported, IdleReported, PreemptionModeChanged
from yarn_gpu_sched.engine.keeping import hand_over, keep, kept_for, let_go, place_beside_kept
from yarn_gpu_sched.engine.loans import safe_until_s
from yarn_gpu_sched.engine.preemption import OBSERVED_AGAIN_S, WINDOW_S, watch_waiting
from yarn_gpu_sched.engine.promises import kept_back_no_more
from yarn_gpu_sched.engine.reclaiming import Condition, Failing, Found, is_crowded, prove_again, reclaim
from yarn_gpu_sched.engine.repair import is_occupied, order_anew
from yarn_gpu_sched.engine.victims import Candidate
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.preemption import Mode, Plan, Preempted, Victim
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.placement import Placement, Portion

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.queue import Line
    from yarn_gpu_sched.engine.repair import Place
    from yarn_gpu_sched.model.job_record import JobRecord

# Who waits for it


def waiting(core: Core) -> list[JobWant]:
    """List the wants for which others may be stopped, as far as their waiting goes: of each line the first.

    And note when the next of them will have waited long enough: nothing else but an event makes it anybody's turn.
    """
    preemption = core.preemption
    preemption.look_s = None
    if preemption.off or not core.session.settled or core.now_s < preemption.quiet_until_s:
        return []
    wants: list[JobWant] = []
    for (path, partition), lines in core.queue.standing.items():
        room = headroom(core, path[-1], partition)
        for line in lines.values():
            if 0 < line.gpus <= room or line.demand.held_for:
                want = _first(core, line, room)
                if want is not None:
                    wants.append(want)
    return [want for want in wants if is_crowded(core, want.partition)]


def _first(core: Core, line: Line, room: float) -> JobWant | None:
    """Give the first want of a line if others may be stopped for it, as far as its waiting goes; ``room``: within the quota."""
    if not line.blocked or line.forbidden is not None or _is_fruitless(core, line):
        return None
    if line.demand.held_for in core.preemption.plans or room + line.any_want().held.gpus < line.gpus:
        return None
    record = line.first()
    want = None if record is None else record.want
    if not isinstance(want, JobWant) or not want.gang or want.job_id in core.ahead:
        return None
    due_s = want.record.tenure.due_s(core.settings.preempt_after_s)
    if due_s is not None and due_s > core.now_s:
        look_s = core.preemption.look_s
        core.preemption.look_s = due_s if look_s is None else min(due_s, look_s)
        return None
    return None if due_s is None else want


def _is_fruitless(core: Core, line: Line) -> bool:
    """Tell whether nothing has happened since it was found that stopping others would not help a line."""
    if line.fruitless is None:
        return False
    stamp, until_s = line.fruitless
    return stamp == core.preemption.stamp(line.demand.partition) and core.now_s < until_s


def begin(core: Core, want: JobWant) -> int:
    """Look whom to stop for a want, and warn them, or only note it; return the decisions made."""
    found = reclaim(core, want)
    if isinstance(found, Found) and core.preemption.mode is Mode.ON:
        found = within_rate(core, len(found.victims)) or found
    if isinstance(found, Failing):
        _look_again(core, want, found)
        return 0
    record = want.record
    if core.preemption.mode is Mode.OBSERVE:
        core.preemption.observed[want.job_id] = core.now_s
        record.tenure.again_s = core.now_s + max(core.settings.preempt_after_s, OBSERVED_AGAIN_S)
        core.preemption.agenda.note(record.tenure.again_s, want.job_id)
        core.counters.observed += 1
        return 0
    if want.job_id in core.reservations.by_job:
        reserving.end(core, want.job_id)
    plan = core.preemption.plans[want.job_id] = plan_of(core, want, found)
    _keep(core, record, plan)
    core.changed(record)
    if plan.grace_until_s > core.now_s:
        core.preemption.agenda.note(plan.grace_until_s, want.job_id)
        return sum(_warn(core, plan, victim) for victim in plan.victims)
    return _stop(core, record, plan, found)


def _look_again(core: Core, want: JobWant, failing: Failing) -> None:
    preemption = core.preemption
    too_many = failing.condition is Condition.RATE and failing.again_s is None
    if too_many or failing.condition in (Condition.NO_VICTIM, Condition.TOO_FEW):
        until_s = float("inf") if failing.again_s is None else failing.again_s
        want.line.fruitless = (preemption.stamp(want.partition), until_s)
    if failing.again_s is not None:
        preemption.agenda.note(failing.again_s, want.job_id)


def within_rate(core: Core, victims: int) -> Failing | None:
    """Hold so many victims against the most of a minute, None if they are within it; who is warned and not yet stopped counts."""
    preemption, most = core.preemption, core.settings.preempt_victims_per_minute
    warned = sum(len(plan.victims) for plan in preemption.plans.values() if plan.stopped_s is None)
    stopped = preemption.stopped_since(core.now_s)
    if warned + stopped + victims <= most:
        return None
    said = f"{stopped} were stopped in the last minute and {warned} are warned; {victims} more would be over {most} a minute"
    again_s = preemption.stopped_s[0] + WINDOW_S if preemption.stopped_s else None
    return Failing(Condition.RATE, said, again_s)


def plan_of(core: Core, want: JobWant, found: Found) -> Plan:
    """Write down what was found."""
    return Plan(
        job_id=want.job_id,
        attempt=want.record.job.attempt,
        partition=want.partition,
        level=int(found.placement_level),
        victims=tuple(_victim(one) for one in found.victims),
        needs=found.needs,
        decided_s=core.now_s,
        grace_until_s=core.now_s + core.settings.preempt_grace_s,
        in_use=found.in_use,
        usable=found.usable,
    )


def _victim(one: Candidate) -> Victim:
    record = one.borrowed.record
    assert record.started_s is not None
    return Victim(
        record.job.job_id, record.job.attempt, one.gpus, one.cost, record.started_s, one.borrowed.container_ids
    )


def _warn(core: Core, plan: Plan, victim: Victim) -> int:
    seconds = core.settings.preempt_grace_s
    text = f"is stopped in {seconds:g} s for job {plan.job_id}, unless that finds room before"
    decision_id = _order(core, victim, warning=True)
    core.commands.append(
        WarnJob(
            decision_id=decision_id,
            job_id=victim.job_id,
            attempt=victim.attempt,
            container_ids=victim.container_ids,
            diagnostics=text,
        )
    )
    core.changed(core.state.jobs[victim.job_id])
    return 1


def _order(core: Core, victim: Victim, *, warning: bool) -> int:
    """Note an order that holds nothing, and whose outcome is awaited."""
    decision = Decision(core.next_decision_id, victim.job_id, victim.attempt)
    decision.warning, decision.stops = warning, not warning
    core.next_decision_id += 1
    core.state.begin(decision)
    return decision.decision_id


# What becomes of it


def tend(core: Core, place: Place) -> int:
    """Look after the plans: start gangs that have room, stop victims whose grace has ended, let go of what is void."""
    going = []
    for job_id in sorted(core.preemption.plans):
        plan, record = core.preemption.plans[job_id], core.state.jobs[job_id]
        _outlast_clearing(core, plan)
        if _ends_s(plan) > core.now_s:
            core.preemption.agenda.note(_ends_s(plan), job_id)  # it may have been looked at in between
        if record.gang_under_way:
            continue
        if _is_over(core, record, plan):
            end(core, record, plan)
        else:
            _keep(core, record, plan)
            going.append((record, plan))
    return sum(_go_on(core, record, plan, place) for record, plan in going)  # only when all have what is theirs


def _outlast_clearing(core: Core, plan: Plan) -> None:
    """Hold on while GPUs that were given back for the gang have not been seen free, until that is cause for an alarm.

    And no longer than for one that was given back last: whatever comes and goes on these GPUs, others wait for them too.
    """
    if plan.hold_until_s is None or plan.hold_until_s > core.now_s or plan.stopped_s is None:
        return
    most_s = plan.stopped_s + core.settings.preempt_hold_s + core.settings.zombie_alarm_s
    times = [
        gpu.not_free_since_s + core.settings.zombie_alarm_s
        for need in plan.needs
        if (use := core.state.servers.get(need.server_id)) is not None and use.fitness.busy & need.mask
        for gpu in core.health.hosts[use.server.host].gpus
        if gpu.not_free_since_s is not None and not gpu.alarmed and need.mask >> gpu.slot & 1
    ]
    plan.hold_until_s = min(most_s, max(times, default=plan.hold_until_s))


def _ends_s(plan: Plan) -> float:
    """Say when the grace ends, or else the hold."""
    return plan.grace_until_s if plan.hold_until_s is None else plan.hold_until_s


def _is_over(core: Core, record: JobRecord, plan: Plan) -> bool:
    """Tell whether a plan has come to its end: the gang runs, or wants nothing or something else, or waited in vain."""
    if record.gang_placed or record.end is not None or record.refusal or record.job.attempt != plan.attempt:
        return True
    if plan.hold_until_s is not None and plan.hold_until_s <= core.now_s:
        return True
    if plan.stopped_s is None and core.preemption.mode is not Mode.ON:
        return True
    paused = record.backoff_until_s > core.now_s
    return not paused and not (isinstance(record.want, JobWant) and record.want.gang)


def _go_on(core: Core, record: JobRecord, plan: Plan, place: Place) -> int:
    want = record.want if isinstance(record.want, JobWant) and record.want.line.forbidden is None else None
    if want is not None and (decided := give(core, want, place)):
        return decided
    if plan.stopped_s is not None or plan.grace_until_s > core.now_s:
        return 0
    found = None if want is None else prove_again(core, want, plan, kept_for(core, record))
    if not isinstance(found, Found) or not found.victims:  # what others leave may be enough by now
        end(core, record, plan)
        return 0
    return _stop(core, record, plan, found)


def _keep(core: Core, record: JobRecord, plan: Plan) -> None:
    """Keep of what the gang takes all that is free by now."""
    keep(core, record, plan.needs, plan.hold_until_s or plan.grace_until_s + core.settings.preempt_hold_s)


def give(core: Core, want: JobWant, place: Place) -> int:
    """Place a gang for which others are stopped, on what is held for it or anywhere; return the decisions made."""
    record = want.record
    placement = _proven(core, want)
    if placement is None:
        placement = place_beside_kept(core, want)
    if placement is None:
        return 0
    hand_over(core, record)
    return place(core, want, placement)


def _proven(core: Core, want: JobWant) -> Placement | None:
    """Give the place that was proven for a gang, if all of it is held by now."""
    plan = core.preemption.plans[want.job_id]
    total = sum(need.memory_mb for need in plan.needs), sum(need.vcores for need in plan.needs), plan.gpus
    if plan.stopped_s is None or want.held != Resource(*total) or any(map(is_occupied, kept_for(core, want.record))):
        return None
    servers = core.state.servers
    portions = [Portion(servers[need.server_id], *one) for need in plan.needs for one in need.portions]
    return Placement(Level(plan.level), portions) if plan.gpus == want.gpus else None


def _stop(core: Core, record: JobRecord, plan: Plan, found: Found) -> int:
    """Stop the victims that are still needed, and hold what the gang takes by now."""
    plan.victims, plan.needs, plan.level = (
        tuple(_victim(one) for one in found.victims),
        found.needs,
        int(found.placement_level),
    )
    plan.stopped_s = core.now_s
    plan.hold_until_s = core.now_s + core.settings.preempt_hold_s
    core.preemption.agenda.note(plan.hold_until_s, plan.job_id)
    let_go(core, record)
    _keep(core, record, plan)
    for one in found.victims:
        _stop_one(core, record, plan, one)
    return len(found.victims)


def _stop_one(core: Core, record: JobRecord, plan: Plan, one: Candidate) -> None:
    victim = one.borrowed.record
    core.preemption.stopped_s.append(core.now_s)
    core.counters.preempted += 1
    lost_gpu_s = one.gpus * (core.now_s - safe_until_s(victim, core.now_s))
    if (
        not victim.tenure.preempted or victim.tenure.preempted[-1].at_s != core.now_s
    ):  # several of its containers count once
        victim.tenure.preempted += (Preempted(core.now_s, plan.job_id, record.job.vc, lost_gpu_s),)
    if not one.borrowed.single:
        text = (
            f"preempted for job {plan.job_id} of {record.job.vc}, which is within its quota: it starts anew as a whole"
        )
        order_anew(core, victim, text, preempted_by=plan.job_id)
    else:
        text = f"preempted for job {plan.job_id} of {record.job.vc}, which is within its quota"
        order = _victim(one)
        core.commands.append(
            StopContainers(
                decision_id=_order(core, order, warning=False),
                job_id=order.job_id,
                attempt=order.attempt,
                container_ids=order.container_ids,
                diagnostics=text,
            )
        )
    core.changed(victim)


def end(core: Core, record: JobRecord, plan: Plan) -> None:
    """Let go of what is held, and spare who was only warned; others may be stopped for the same gang only after it waited anew."""
    del core.preemption.plans[plan.job_id]
    core.preemption.agenda.strike(plan.job_id)
    let_go(core, record)
    if record.tenure.ready_s is not None:
        record.tenure.again_s = core.now_s + core.settings.preempt_after_s
        if record.want is not None:  # nobody need look for one that runs
            core.preemption.agenda.note(record.tenure.again_s, plan.job_id)
    core.preemption.changed(plan.partition)
    core.changed(record)
    kept_back_no_more(core, plan)


def warning_refused(core: Core, record: JobRecord) -> None:
    """Follow a resource manager that does not warn a victim, and would not stop it either: its plan is looked at again at once."""
    record.tenure.unstoppable = True
    for plan in core.preemption.plans.values():
        if plan.stopped_s is None and any(victim.job_id == record.job.job_id for victim in plan.victims):
            plan.grace_until_s = core.now_s


def stop_refused(record: JobRecord) -> None:
    """Follow a resource manager that does not stop a victim: nobody tries again in this attempt."""
    if not record.tenure.unstoppable:  # of several containers that count once the first refusal tells it
        record.tenure.preempted = record.tenure.preempted[:-1]
    record.tenure.unstoppable = True


def on_checkpoint_reported(core: Core, event: CheckpointReported) -> None:
    """Note that a running job has written down what it has done."""
    record = core.running.get(event.job_id)
    if record is not None:
        record.tenure.checkpoint_s = core.now_s
        core.preemption.job_changed(event.job_id, record.job.vc)
        core.touched[event.job_id] = None


def on_idle_reported(core: Core, event: IdleReported) -> None:
    """Note that a running job uses none of its GPUs, or does again: whoever is idle counts as borrowed."""
    record = core.running.get(event.job_id)
    if record is not None and record.tenure.idle != event.idle:
        record.tenure.idle = event.idle
        core.preemption.any_idle = core.preemption.any_idle or event.idle
        core.preemption.use_changed(record.job.vc)
        core.preemption.changed_everywhere()
        core.touched[event.job_id] = None


def on_mode_changed(core: Core, event: PreemptionModeChanged) -> None:
    """Arm it, watch it or switch it off. What was not yet stopped is spared at once if it is not armed any more."""
    preemption, mode = core.preemption, event.mode
    preemption.mode, preemption.why = mode, event.why
    preemption.agenda.clear()
    if mode is not Mode.OBSERVE:
        preemption.observed.clear()
        for record in core.state.jobs.values():
            record.tenure.again_s = 0.0  # once it is armed, nobody waits because somebody was only looked for
    watch_all(core)
    for job_id, plan in list(preemption.plans.items()):
        if plan.stopped_s is None and mode is not Mode.ON:
            end(core, core.state.jobs[job_id], plan)


def watch_all(core: Core) -> None:
    """Look at all who wait when they have waited long enough, and at the plans when they go on."""
    preemption = core.preemption
    for job_id, plan in preemption.plans.items():
        preemption.agenda.note(_ends_s(plan), job_id)
    for record in core.state.jobs.values() if core.by_vc else ():
        if isinstance(record.want, JobWant):
            watch_waiting(core, record, record.want)
    waiting(core)
    if preemption.quiet_until_s > core.now_s and not preemption.off:
        preemption.agenda.note(preemption.quiet_until_s, "")
