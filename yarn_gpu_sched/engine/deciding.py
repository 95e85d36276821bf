"""A pass: refusals first, then the policy's intents, each checked before it becomes a command."""

from collections.abc import Iterator
from heapq import heappop
from itertools import chain, repeat

from yarn_gpu_sched.engine import ahead, repair
from yarn_gpu_sched.engine.commands import PlaceGang, RefuseJob
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.dealing import lowest
from yarn_gpu_sched.engine.events import Pass
from yarn_gpu_sched.engine.finding import find
from yarn_gpu_sched.engine.gathering import form
from yarn_gpu_sched.engine.refusing import check_all
from yarn_gpu_sched.engine.want import FREE, JobWant, reach_of, shape_of
from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.assignment import Assignment
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server_use import Part
from yarn_gpu_sched.placement import Placement, Reach
from yarn_gpu_sched.policy import Intent, Place, Refuse, View, Wait, Want

INTENTS_PER_DECISION_MAX = 64
"""Intents that a pass may look at for each decision that it may make."""


def on_pass(core: Core, _event: Pass) -> None:
    """Decide."""
    if not core.session.deciding:
        return
    core.counters.passes += 1
    if core.resting or core.changed_partitions:
        _wake(core)
    if core.session.settle(core.now_s) and core.to_check:
        check_all(core)
    decided = _refuse_all(core) if core.to_refuse else 0
    if core.gathering:
        form(core)
    decided += repair.tend(core, _place) + ahead.tend(core, _place)
    decisions_max = core.settings.decisions_per_pass_max
    intents_max = decisions_max * INTENTS_PER_DECISION_MAX
    view: View = PassView(core)
    intents = 0
    while decided < decisions_max and intents < intents_max:
        for intent in core.policy.decide(view):
            intents += 1
            decided += _carry_out(core, intent)
            if decided >= decisions_max or intents >= intents_max:
                break
        woken = [core.queue.wake_spare(partition) for partition in core.index.partitions]
        if not any(woken):
            break


def _wake(core: Core) -> None:
    """Bring back who waited for time or for servers."""
    while core.resting and core.resting[0][0] <= core.now_s:
        _, job_id = heappop(core.resting)
        record = core.state.jobs.get(job_id)
        if record is not None and record.backoff is not None and record.backoff.until_s <= core.now_s:
            core.changed(record)
            if record.refusal and not record.decisions:
                core.to_refuse[job_id] = None
    if core.changed_partitions:
        for partition in core.changed_partitions:
            core.queue.wake_partition(partition)
        core.changed_partitions.clear()


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


class PassView:
    """What a policy may read (see `yarn_gpu_sched.policy.View`)."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def now_s(self) -> float:
        """Time of the pass by the driver's clock."""
        return self._core.now_s

    def next_ready(self) -> Want | None:
        """Give the first ready want."""
        return self._core.queue.first()

    def find(self, want: Want) -> Placement | None:
        """Find a place for all of a want now."""
        core = self._core
        core.counters.searches += 1
        assert isinstance(want, JobWant)
        if want.application_master and not masters_admit(core, want):
            return None
        return find(core, want.demand)


def masters_admit(core: Core, want: JobWant) -> bool:
    """Tell whether one more application master may be placed on the GPU servers; one always may."""
    state, share = core.state, core.settings.am_share
    master = want.members[0][0].resource
    return not state.am_containers or (
        state.am_mb + master.memory_mb <= share * state.gpu_servers_mb
        and state.am_vcores + master.vcores <= share * state.gpu_servers_vcores
    )


def _carry_out(core: Core, intent: Intent) -> int:
    """Check an intent and do it; return the decisions made."""
    want = intent.want
    if not isinstance(want, JobWant) or want.record.want is not want or core.queue.is_blocked(want):
        core.counters.rejected += 1
        return 0
    if isinstance(intent, Place) and want.gang and want.job_id in core.ahead:
        return ahead.give(core, want, _place)
    if isinstance(intent, Place):
        return _place(core, want, intent.placement)
    if isinstance(intent, Wait):
        core.queue.block(want, for_masters=want.application_master and not masters_admit(core, want))
        return 0
    return _refuse(core, want, intent)


def _refuse(core: Core, want: JobWant, intent: Refuse) -> int:
    core.refuse(want.record, intent.diagnostics)
    if want.record.refusal:
        return _refuse_all(core)
    core.counters.rejected += 1
    core.queue.block(want, for_masters=False)
    return 0


def _place(core: Core, want: JobWant, placement: Placement) -> int:
    """Take the place in a transaction, all of it or nothing, and send the decision."""
    record = want.record
    if want.application_master and len(want.kinds) > 1:
        return ahead.place_with_gang(core, want, placement, _place)
    decision = _decision(core, want, placement)
    if decision is None:
        core.counters.rejected += 1
        core.queue.block(want, for_masters=False)
        return 0
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
    waiting = _by_kind(want)
    assignments: list[Assignment] = []
    parts: list[Part] = []
    with core.state.transaction() as plan:
        for use, place, count in placement.portions:
            _, gpus, memory_mb, vcores = demand.kinds[place]
            mask, each = lowest(use.free_mask, gpus, count)
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
