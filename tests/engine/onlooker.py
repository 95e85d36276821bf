"""Looks on while jobs are stopped for others, and says what must never happen then (law 7).

It counts anew, from what is held and from what queues were told to have, and keeps clocks of its own: nothing is asked of the
engine about who borrows, who is within the quota, who waits since when or what was stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.engine.charges import Charges, Unit, apart, place_for
from tests.engine.world import World
from yarn_gpu_sched.engine.commands import AnyCommand, RequeueJob, StopContainers, WarnJob
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.events import (
    CheckpointReported,
    Event,
    JobEnded,
    OutcomeReported,
    Pass,
    PreemptionModeChanged,
    ResourceManagerLost,
    ResourceManagerRegistered,
)
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.preemption import Mode, Plan
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.policy import Intent, Reclaim, View
from yarn_gpu_sched.policy.philly import Philly

MINUTE_S = 60.0
Order = WarnJob | RequeueJob | StopContainers


class Case(NamedTuple):
    """All that was held when it was asked whom to stop for a gang."""

    want: JobWant
    charges: Charges
    plans: dict[str, int]


class Stop(NamedTuple):
    """Who was stopped for whom, when."""

    at_s: float
    victim: str
    by: str


class Seen:
    """What is under way for a gang: since when, and when its victims were stopped."""

    def __init__(self, plan: Plan, begun_s: float) -> None:
        self.plan = plan
        self.begun_s = begun_s
        self.stopped_s = plan.stopped_s

    def is_of(self, plan: Plan) -> bool:
        """Tell whether it is this plan, and not a later one for the same gang; an engine that was restored has another like it."""
        return (self.plan.decided_s, self.plan.attempt) == (plan.decided_s, plan.attempt)


class Onlooker:
    """See the module. ``told`` are the queues as they were configured last, by path."""

    def __init__(self, world: World, told: dict[str, VirtualCluster]) -> None:
        self.world = world
        self.told = told
        self.settings = world.engine.settings
        self.mode = self.settings.preemption
        self.quiet_until_s = 0.0
        self.seen: dict[str, Seen] = {}
        self.stops: list[Stop] = []
        self.times_s: list[float] = []
        self.orders: dict[int, Stop] = {}
        self.warned_s: dict[tuple[str, str, int, tuple[str, ...]], float] = {}
        self.complete_s: dict[tuple[str, int], float] = {}
        self.ran_s: dict[str, float] = {}
        self.before = Charges(self.core, told)
        self.spared: Counter[tuple[str, str]] = Counter()
        self.counted: Counter[str] = Counter()

    @property
    def core(self) -> Core:
        return self.world.engine._core

    @property
    def now_s(self) -> float:
        return self.core.now_s

    # While a pass asks whom to stop

    def ask(self, want: JobWant) -> Case:
        """Note what there is."""
        plans = {job_id: id(plan) for job_id, plan in self.core.preemption.plans.items()}
        return Case(want, Charges(self.core, self.told), plans)

    def answer(self, case: Case) -> None:
        """Hold what was found against what there was."""
        for job_id, plan in self.core.preemption.plans.items():
            if case.plans.get(job_id) == id(plan):
                continue
            assert job_id == case.want.job_id, f"others are stopped for {job_id}, and it was {case.want.job_id}'s turn"
            self.counted["begun"] += 1
            units = self._units(case.charges, plan)
            self._may_begin(case, plan, units)
            self._may_go(case.charges, case.charges, plan, units)
            if not case.plans:
                self._all_are_needed(case, plan, units)

    def _units(self, charges: Charges, plan: Plan) -> list[Unit]:
        """Find what is to be stopped among what borrows."""
        found = []
        for victim in plan.victims:
            record = self.core.state.jobs[victim.job_id]
            of_vc = charges.borrowed(record.job.vc, plan.partition)
            names = victim.container_ids or (victim.job_id,)
            for name in names:
                assert name in of_vc, f"{name} of {record.job.vc} is stopped for {plan.job_id} and does not borrow"
                found.append(of_vc[name])
            gpus = sum(of_vc[name].gpus for name in names)
            assert victim.gpus == gpus, f"{victim} is borrowed with {gpus} GPUs"
        return found

    def _may_begin(self, case: Case, plan: Plan, units: Sequence[Unit]) -> None:
        assert self.mode is Mode.ON, f"preemption is {self.mode}"
        assert self.now_s >= self.quiet_until_s, "somebody is stopped just after the start"
        record = case.want.record
        since_s = self.complete_s[plan.job_id, record.job.attempt]
        waited = f"{plan.job_id} waits complete since {since_s}, and others are stopped for it at {self.now_s}"
        assert since_s + self.settings.preempt_after_s <= self.now_s, waited
        for unit in units:
            job, since_s = unit.record.job, self.ran_s[unit.record.job.job_id]
            assert since_s + self.settings.preempt_min_run_s <= self.now_s, f"{job.job_id} runs since {since_s} only"
            assert not job.unmanaged, f"{job.job_id} has no master to be stopped"
            assert unit.container or not job.one_attempt, f"{job.job_id} cannot start anew"

    def _may_go(self, most: Charges, least: Charges, plan: Plan, units: Sequence[Unit]) -> None:
        """Hold it to quotas and to the threshold; between ``most`` and ``least`` was what there was then."""
        in_use, usable = most.in_use(plan.partition)
        assert 10 * in_use >= 9 * usable, f"{in_use} of {usable} GPUs are in use, and {plan.victims} are stopped"
        record = self.core.state.jobs[plan.job_id]
        taken: Counter[str] = Counter()
        for unit in sorted(units, key=lambda unit: unit.gpus):
            mine, theirs = apart(record.job.vc, unit.record.job.vc)
            assert mine, f"{unit.name} of {unit.record.job.vc} is stopped for {plan.job_id} of {record.job.vc}"
            assert theirs, f"{unit.name} of {unit.record.job.vc} is stopped for {plan.job_id} of {record.job.vc}"
            for path in () if unit.record.tenure.idle else theirs:
                used, quota = most.gpus(path, plan.partition) - taken[path], most.quota(path)
                assert quota is None or used > quota, f"{path} uses {used} of {quota}, and {unit.name} of it is stopped"
                taken[path] += unit.gpus
            for path in mine:
                used, quota = least.after(path, record), most.quota(path)
                assert quota is None or used <= quota, f"{path} uses {used} of {quota} with {plan.job_id}"
        assert most.quota(record.job.vc), f"{record.job.vc} has no quota, and others are stopped for it"

    def _all_are_needed(self, case: Case, plan: Plan, units: Sequence[Unit]) -> None:
        """Try all of them, and then all but each: the gang has a place, and then it has none."""
        if len(case.want.kinds) != 1 or case.want.demand.reach:
            return
        gone = [one.container_id for unit in units for one in unit.containers]
        assert place_for(case.charges, case.want, gone), f"there is no place for {plan.job_id} without {plan.victims}"
        for unit in units:
            kept = {one.container_id for one in unit.containers}
            fewer = [one for one in gone if one not in kept]
            assert not place_for(case.charges, case.want, fewer), f"{unit.name} need not be stopped for {plan.job_id}"

    # After each event

    def heard(self, event: Event, commands: Iterable[AnyCommand]) -> None:
        """Follow an event, and what came of it."""
        before, self.before = self.before, Charges(self.core, self.told)
        if isinstance(event, ResourceManagerRegistered | ResourceManagerLost):
            self._begin_anew(event)
        elif isinstance(event, PreemptionModeChanged):
            self.mode = event.mode
        elif isinstance(event, OutcomeReported):
            self._hear_outcome(event)
        elif isinstance(event, JobEnded):
            self._forget(event.job_id)
        orders = [one for one in commands if isinstance(one, Order)]
        for order in orders:
            self._order(order)
        self._follow_plans(event, before)
        self._watch_clocks()

    def _begin_anew(self, event: ResourceManagerRegistered | ResourceManagerLost) -> None:
        if isinstance(event, ResourceManagerRegistered):
            self.quiet_until_s = self.now_s + self.settings.preempt_pause_s
        self.warned_s.clear()
        self.orders.clear()
        self.complete_s.clear()
        self.ran_s.clear()
        assert not self.core.preemption.plans

    def _hear_outcome(self, event: OutcomeReported) -> None:
        stop = self.orders.pop(event.decision_id, None)
        if event.code is not OutcomeCode.COMMITTED and stop in self.stops:  # once for several containers
            self.stops.remove(stop)

    def _forget(self, job_id: str) -> None:
        """Take what comes under this name for another job."""
        self.stops = [one for one in self.stops if job_id not in (one.victim, one.by)]

    def _order(self, order: Order) -> None:
        if isinstance(order, RequeueJob) and not order.preempted_by:
            return
        assert self.mode is Mode.ON, f"preemption is {self.mode}: {order}"
        record = self.core.state.jobs[order.job_id]
        named = () if isinstance(order, RequeueJob) else order.container_ids
        assert (record.gang is None) == bool(named), f"a gang goes whole: {order}"
        by = self._who(order.job_id, named)
        spell = (by, order.job_id, order.attempt, named)
        if isinstance(order, WarnJob):
            self.warned_s[spell] = self.now_s
            self.counted["warned"] += 1
            return
        if self.settings.preempt_grace_s:
            warned_s = self.warned_s.pop(spell)
            assert warned_s + self.settings.preempt_grace_s <= self.now_s, f"warned at {warned_s}: {order}"
        self._stop(order, Stop(self.now_s, order.job_id, by))

    def _who(self, victim: str, named: tuple[str, ...]) -> str:
        (by,) = [
            plan.job_id
            for plan in self.core.preemption.plans.values()
            if any((one.job_id, one.container_ids) == (victim, named) for one in plan.victims)
        ]
        return by

    def _stop(self, order: RequeueJob | StopContainers, stop: Stop) -> None:
        self.counted["stopped"] += 1
        self.times_s.append(self.now_s)
        lately = sum(at_s + MINUTE_S > self.now_s for at_s in self.times_s)
        assert lately <= self.settings.preempt_victims_per_minute, f"{lately} were stopped in a minute"
        back = [one for one in self.stops if (one.victim, one.by) == (stop.by, stop.victim)]
        assert not back, f"{stop}, and it was {back} before"
        if stop not in self.stops:
            self.stops.append(stop)
        self.orders[order.decision_id] = stop
        times = sum(one.victim == stop.victim for one in self.stops)
        assert times <= self.settings.preempt_spare_after, f"{stop.victim} is stopped for the {times}. time"

    # What is under way

    def _follow_plans(self, event: Event, before: Charges) -> None:
        plans = self.core.preemption.plans
        if not isinstance(event, Pass | OutcomeReported | CheckpointReported):
            self.spared.clear()
        for job_id in [one for one in self.seen if one not in plans]:
            self._ended(self.seen.pop(job_id))
        for job_id, plan in plans.items():
            if job_id not in self.seen or not self.seen[job_id].is_of(plan):
                assert isinstance(event, Pass), f"{event} has others stopped for {job_id}"
                if job_id in self.seen:
                    self._ended(self.seen.pop(job_id))
                again = (job_id, plan.victims[0].job_id)
                assert self.spared[again] < 2, (
                    f"{plan.victims} are warned for {job_id} again and again, and not stopped"
                )
                self.seen[job_id] = Seen(plan, self.now_s)
            elif plan.stopped_s is not None and self.seen[job_id].stopped_s is None:
                assert isinstance(event, Pass), f"{event} has others stopped for {job_id}"
                self.seen[job_id].stopped_s = self.now_s
                self._stopped(plan, before)
        if isinstance(event, Pass) and self.core.session.deciding:
            for job_id, seen in self.seen.items():
                self._goes_on(plans[job_id], seen)

    def _ended(self, seen: Seen) -> None:
        """Count how often somebody was warned and spared while nothing happened."""
        if seen.stopped_s is None:
            self.spared[seen.plan.job_id, seen.plan.victims[0].job_id] += 1

    def _stopped(self, plan: Plan, before: Charges) -> None:
        """Hold those who are stopped when their grace has ended to all that was asked when they were warned."""
        self.counted["stopped after the grace"] += 1
        most, least = before.joined(self.before, max), before.joined(self.before, min)
        self._may_go(most, least, plan, self._units(before, plan))

    def _goes_on(self, plan: Plan, seen: Seen) -> None:
        """Hold what is under way to its bounds."""
        if self.core.state.jobs[plan.job_id].gang_under_way:
            return
        if seen.stopped_s is None:
            end_s = seen.begun_s + self.settings.preempt_grace_s
        else:
            end_s = seen.stopped_s + self.settings.preempt_hold_s
            end_s += self.settings.zombie_alarm_s if self.now_s >= end_s and self._is_monitored(plan) else 0.0
        assert self.now_s < end_s, f"{plan} goes on at {self.now_s}, and it was to end at {end_s}"
        wake_s = self.world.engine.next_wake_s()
        assert wake_s is not None, f"{plan} ends when nobody looks"
        assert wake_s <= end_s, f"{plan} ends at {end_s}, and nobody looks before {wake_s}"

    def _is_monitored(self, plan: Plan) -> bool:
        """Tell whether some of what a gang takes is given out only when it is seen free."""
        servers, hosts = self.core.state.servers, self.core.health.hosts
        uses = [servers.get(need.server_id) for need in plan.needs]
        return any(use is None or use.server.host in hosts for use in uses)

    # Clocks

    def _watch_clocks(self) -> None:
        for job_id, record in self.core.state.jobs.items():
            if _is_complete(record):
                self.complete_s.setdefault((job_id, record.job.attempt), self.now_s)
            if any(_is_worker(record, one.attempt) for one in record.containers.values() if not one.application_master):
                self.ran_s.setdefault(job_id, self.now_s)
            else:
                self.ran_s.pop(job_id, None)
        known = {**self.core.state.jobs, **self.core.session.previous}
        for job_id in {one.victim for one in self.stops} | {one.by for one in self.stops}:
            if job_id not in known:
                self._forget(job_id)


def _is_complete(record: JobRecord) -> bool:
    """Tell whether all of a gang is asked."""
    gang = record.gang
    if gang is None or not record.known or not record.job.active or record.gang_placed:
        return False
    asked = sum(ask.count for ask in record.asks if not ask.application_master and ask.resource.gpus)
    return asked >= (gang.gpu_containers or gang.containers)


def _is_worker(record: JobRecord, attempt: int) -> bool:
    return record.job.keeps_containers or attempt == record.job.attempt


class Watched(Philly):
    """Lets somebody look on while it is decided whom to stop."""

    onlooker: Onlooker | None = None

    def decide(self, view: View) -> Iterator[Intent]:
        """Decide as ever."""
        for intent in super().decide(view):
            if self.onlooker is None or not isinstance(intent, Reclaim):
                yield intent
                continue
            assert isinstance(intent.want, JobWant)
            case = self.onlooker.ask(intent.want)
            yield intent
            self.onlooker.answer(case)


class WatchedWorld(World):
    """Lets somebody hear all events, and what came of them."""

    onlooker: Onlooker | None = None

    def apply(self, event: Event) -> list[AnyCommand]:
        """Do as ever."""
        commands = super().apply(event)
        if self.onlooker is not None:
            self.onlooker.heard(event, commands)
        return commands
