"""A pass: refusals first, then the policy's intents, each checked before it becomes a command."""

from collections.abc import Callable, Iterator
from heapq import heappop
from itertools import chain, repeat
from typing import Any, TypeGuard

from yarn_gpu_sched.engine import ahead, passing, preempting, repair, reserving
from yarn_gpu_sched.engine.commands import PlaceGang, RefuseJob
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.dealing import deal
from yarn_gpu_sched.engine.events import Pass
from yarn_gpu_sched.engine.finding import keeps_ceiling
from yarn_gpu_sched.engine.gathering import form
from yarn_gpu_sched.engine.masters import masters_admit
from yarn_gpu_sched.engine.overdue import end_overdue
from yarn_gpu_sched.engine.pass_view import PassView, may_stop
from yarn_gpu_sched.engine.refusing import check_all
from yarn_gpu_sched.engine.want import FREE, JobWant, reach_of, shape_of
from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.assignment import ANYWHERE, Assignment
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server_use import Part
from yarn_gpu_sched.placement import Placement, Reach
from yarn_gpu_sched.policy import Intent, Place, Preempt, Reclaim, Refuse, View, Wait, WakeAt, Want

INTENTS_PER_DECISION_MAX = 64
"""Intents that a pass may look at for each decision that it may make."""


def on_pass(core: Core, _event: Pass) -> None:
    """Decide."""
    if not core.session.deciding:
        return
    core.counters.passes += 1
    if core.limits_stale or core.resting or core.changed_partitions or core.ladder.timers or core.expiring:
        _wake(core)
    if (core.session.settled or core.session.settle(core.now_s)) and core.to_check:
        check_all(core)
    decided = _refuse_all(core) if core.to_refuse else 0
    if core.gathering:
        form(core)
    core.preemption.pass_by(core.now_s)
    if core.degraded or core.ahead or core.preemption.plans or core.settings.reserve_after_s:
        decided += _tend(core)
    _ask_policy(core, decided)
    if core.settings.reserve_after_s and core.by_vc:
        reserving.reserve(core)
        if core.reservations.by_job:
            passing.let_pass(core, _place)
            core.unexamined = core.unexamined or core.queue.anybody()  # what is kept elsewhere now may leave room


def _ask_policy(core: Core, decided: int) -> None:
    """Carry out what the policy wants until it wants nothing more, or the pass has decided as much as it may."""
    decisions_max = core.settings.decisions_per_pass_max
    intents_max = decisions_max * INTENTS_PER_DECISION_MAX
    view: View = PassView(core)
    core.policy_wake_s = None
    intents = 0
    while decided < decisions_max and intents < intents_max:
        for intent in core.policy.decide(view):
            intents += 1
            decided += _carry_out(core, intent)
            if decided >= decisions_max or intents >= intents_max:
                break
        if not _wake_freed(core):
            core.unexamined = decided >= decisions_max or intents >= intents_max
            break


def _wake_freed(core: Core) -> bool:
    """Bring back whom limits forbid nothing more, and who waits for spare memory or vcores; tell if anybody may be ready.

    All that was placed is held against limits here at once: until then only those are whose turn it is.
    """
    may_be_ready = False
    if core.state.tenants.changed:
        core.follow_use()
        may_be_ready = core.queue.anybody()
    return may_be_ready or (core.queue.waits_for_spare and _wake_spare(core))


def _wake_spare(core: Core) -> bool:
    """Bring back who waits for spare memory or vcores; tell if anybody."""
    woken = [core.queue.wake_spare(name) for name in core.index.partitions]
    return any(woken)


def end_pauses(core: Core) -> None:
    """Bring back whose pause is over."""
    while core.resting and core.resting[0][0] <= core.now_s:
        _, job_id = heappop(core.resting)
        record = core.state.jobs.get(job_id)
        if record is not None and record.backoff is not None and record.backoff.until_s <= core.now_s:
            core.changed(record)
            if record.refusal and not record.decisions:
                core.to_refuse[job_id] = None


def _wake(core: Core) -> None:
    """Bring back who waited for time, for servers or for other limits."""
    if core.limits_stale:
        core.follow_limits()
    end_pauses(core)
    end_overdue(core)
    for job_id in core.ladder.due(core.now_s):
        core.changed(core.state.jobs[job_id])
    if core.changed_partitions:
        core.follow_servers()
        reserving.servers_changed(core)
        for partition in core.changed_partitions:
            core.queue.wake_partition(partition)
        core.changed_partitions.clear()


def _tend(core: Core) -> int:
    """Look after degraded gangs and what is held; what ends there leaves room under limits."""
    decided = repair.tend(core, _place) + ahead.tend(core, _place) + preempting.tend(core, _place)
    if core.settings.reserve_after_s and core.by_vc:
        decided += reserving.tend(core, _place)
    if core.state.tenants.changed:
        core.follow_use()
    return decided


def _refuse_all(core: Core) -> int:
    decided = 0
    to_refuse, core.to_refuse = core.to_refuse, {}
    for job_id in to_refuse:
        record = core.state.jobs[job_id]
        if record.backoff_until_s > core.now_s:
            core.to_refuse[job_id] = None
            continue
        decision = Decision(core.next_decision_id, job_id, record.job.attempt)
        core.next_decision_id += 1
        core.state.begin(decision)
        core.commands.append(RefuseJob(decision_id=decision.decision_id, job_id=job_id, diagnostics=record.refusal))
        core.counters.refusals += 1
        core.changed(record)
        decided += 1
    return decided


def _carry_out(core: Core, intent: Intent) -> int:
    """Check an intent and do it; return the decisions made."""
    return _CARRIED_OUT[type(intent)](core, intent)


def _reject(core: Core) -> int:
    core.counters.rejected += 1
    return 0


def _is_current(want: Want) -> TypeGuard[JobWant]:
    """Tell whether a want is one of this engine's, and still what its job wants."""
    return isinstance(want, JobWant) and want.record.want is want


def _on_place(core: Core, intent: Place) -> int:
    want = intent.want
    if not _is_current(want):
        return _reject(core)
    if not core.may_go_on(want.line) or (want.line.barred and _is_barred(want, intent.placement)):
        return _reject(core)
    if want.gang and want.job_id in core.ahead:
        return ahead.give(core, want, _place)
    if want.demand.held_for:
        give = preempting.give if want.job_id in core.preemption.plans else reserving.give
        return give(core, want, _place)
    return _place(core, want, intent.placement)


def _is_barred(want: JobWant, placement: Placement) -> bool:
    """Tell whether a place is in a partition that lends, but not to this want."""
    return any(use.server.partition in want.line.barred for use, _, _ in placement.portions)


def _on_wait(core: Core, intent: Wait) -> int:
    want = intent.want
    if not _is_current(want) or core.queue.is_blocked(want):
        return _reject(core)
    core.queue.block(want, for_masters=want.application_master and not masters_admit(core, want))
    return 0


def _on_refuse(core: Core, intent: Refuse) -> int:
    want = intent.want
    if not _is_current(want) or core.queue.is_blocked(want):
        return _reject(core)
    core.refuse(want.record, intent.diagnostics)
    if want.record.refusal:
        return _refuse_all(core)
    core.queue.block(want, for_masters=False)
    return _reject(core)


def _on_reclaim(core: Core, intent: Reclaim) -> int:
    want = intent.want
    if (
        not _is_current(want)
        or not want.gang
        or want.job_id in core.preemption.plans
        or want.line.forbidden is not None
    ):
        return _reject(core)
    return passing.pass_within_quota(core, want, _place) or preempting.begin(core, want)


def _on_wake_at(core: Core, intent: WakeAt) -> int:
    """Note when the policy wants another pass; one at once would never end."""
    if not core.now_s < intent.time_s < float("inf"):
        return _reject(core)
    core.policy_wake_s = intent.time_s
    return 0


def _on_preempt(core: Core, intent: Preempt) -> int:
    """Order a running gang to be stopped."""
    record = core.running.get(intent.job_id)
    if record is None or not _is_current(intent.want) or not may_stop(core, record):
        return _reject(core)
    by = intent.want.job_id
    repair.order_anew(core, record, f"stopped for job {by}: it starts anew as a whole", preempted_by=by)
    core.changed(record)
    return 1


_CARRIED_OUT: dict[type[Intent], Callable[[Core, Any], int]] = {
    Place: _on_place,
    Preempt: _on_preempt,
    Reclaim: _on_reclaim,
    Refuse: _on_refuse,
    Wait: _on_wait,
    WakeAt: _on_wake_at,
}


def _place(core: Core, want: JobWant, placement: Placement) -> int:
    """Take the place in a transaction, all of it or nothing, and send the decision."""
    record = want.record
    if want.application_master and len(want.kinds) > 1:
        return ahead.place_with_gang(core, want, placement, _place)
    decision = _decision(core, want, placement)
    if decision is None:
        core.queue.block(want, for_masters=False)
        return _reject(core)
    core.next_decision_id += 1
    core.counters.decisions += 1
    core.state.begin(decision)
    core.commands.append(
        PlaceGang(
            decision_id=decision.decision_id,
            job_id=decision.job_id,
            attempt=decision.attempt,
            assignments=decision.assignments,
            level=decision.level,
        )
    )
    if want.gang:
        core.gang_decided(record)
    else:
        core.changed(record)
    return 1


def _decision(core: Core, want: JobWant, placement: Placement) -> Decision | None:
    """Check that a placement is all of the want and still free, and take it; None if not."""
    demand = want.demand
    if sum([portion.containers for portion in placement.portions]) != want.containers:
        return None
    if demand.ceiling is not ANYWHERE and not keeps_ceiling(core, demand, placement):
        return None
    waiting = _by_kind(want)
    assignments: list[Assignment] = []
    parts: list[Part] = []
    with core.state.transaction() as plan:
        for use, place, count in placement.portions:
            _, gpus, memory_mb, vcores = demand.kinds[place]
            mask, each = deal(use, gpus, count)
            part = Part(use, count * memory_mb, count * vcores, mask, count * gpus)
            if not plan.take(part):
                return None
            parts.append(part)
            server_id = use.server_id
            assignments += [
                Assignment(key, server_id, resource, indices)
                for indices, (key, resource) in zip(each, waiting[place], strict=False)
            ]
        if len(assignments) != want.containers or (demand.application_master and not masters_admit(core, want)):
            return None
        plan.commit()
    return Decision(
        core.next_decision_id,
        want.job_id,
        want.record.job.attempt,
        tuple(assignments),
        placement.level,
        parts=parts if len(demand.kinds) == 1 else _merged(parts),
        gang=want.gang,
        application_master=demand.application_master,
        members=want.asked,
        total=want.total,
    )


def _by_kind(want: JobWant) -> list[Iterator[tuple[RequestKey, Resource]]]:
    """List the containers of each kind that wait to be dealt out, in key order: of which ask, and what each gets.

    Kinds of one size are told apart by where they may go.
    """
    if len(want.members) == 1:
        ask, count = want.members[0]
        return [repeat((ask.key, ask.resource), count)]
    asked: dict[tuple[tuple[int, ...], Reach], list[Iterator[tuple[RequestKey, Resource]]]] = {}
    for ask, count in want.members:
        alike = (shape_of(ask.resource), reach_of(ask, want.record))
        asked.setdefault(alike, []).append(repeat((ask.key, ask.resource), count))
    kinds = want.demand.kinds
    reach = want.demand.reach or (FREE,) * len(kinds)
    return [chain.from_iterable(asked[kind[1:], each]) for kind, each in zip(kinds, reach, strict=True)]


def _merged(parts: list[Part]) -> list[Part]:
    """Join what several kinds take on one server."""
    merged: dict[str, Part] = {}
    for part in parts:
        known = merged.get(part.use.server_id)
        if known is None:
            merged[part.use.server_id] = part
        else:
            merged[part.use.server_id] = Part(
                part.use,
                known.memory_mb + part.memory_mb,
                known.vcores + part.vcores,
                known.mask | part.mask,
                known.gpus + part.gpus,
            )
    return list(merged.values())
