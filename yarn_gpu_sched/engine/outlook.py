"""What would let a waiting job go on, and when that may be: worked out when somebody asks, never while deciding.

It changes nothing, and looks at a bounded number of jobs. What nobody can know it calls unknown: jobs that come before this one in
order are not counted, and a job that says how long it runs may end at any other time.
"""

from collections.abc import Iterator

from yarn_gpu_sched.engine.causes import kept_by_gang
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.ends import Ending, Ends, Lacks, ends_that_help
from yarn_gpu_sched.engine.exceeding import GPUS, Excess, over_limits, over_maxima, over_quota
from yarn_gpu_sched.engine.finding import find_quietly, partitions_of
from yarn_gpu_sched.engine.holders import Holders
from yarn_gpu_sched.engine.lacking import Lack, lacking, said
from yarn_gpu_sched.engine.limits import barred, used_by_job
from yarn_gpu_sched.engine.phrases import listed, span
from yarn_gpu_sched.engine.reserving import is_over_quota
from yarn_gpu_sched.engine.standstill import standstill
from yarn_gpu_sched.engine.views import Outlook
from yarn_gpu_sched.engine.waiting import waiting_reason
from yarn_gpu_sched.engine.want import JobWant, want_of
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.preemption import Plan
from yarn_gpu_sched.model.reason import ReasonCode, WaitingReason
from yarn_gpu_sched.model.reservation import Reservation

NAMED_MAX = 10
"""Jobs and servers that are named to programs."""

_LEVELS = ("the fewest servers", "one RDMA domain", "anywhere")


def outlook(core: Core, record: JobRecord, now_s: float) -> Outlook | None:
    """Say what would let a job go on, and when, seen from ``now_s``; None if it waits for nothing."""
    reason = waiting_reason(core, record)
    if reason is None:
        return None
    known = _kept(core, record, reason.code, now_s) or standstill(core, record, reason.code, now_s)
    if known is not None:
        return known
    want = record.want if isinstance(record.want, JobWant) else want_of(record)
    if want is None:
        return Outlook((), "at once: the resource manager's answer is awaited", starts_in_s=0.0)
    if reason.code is ReasonCode.USER_LIMIT and want.line is None:
        return _job_limit(core, want)
    return _Outlook(core, want, reason, now_s).answer()


def _kept(core: Core, record: JobRecord, code: ReasonCode, now_s: float) -> Outlook | None:
    """Say when a gang starts for which something is kept; None if it waits for something else."""
    plan = core.preemption.plans.get(record.job.job_id)
    if plan is not None and code is ReasonCode.HELD:
        return _reclaimed(plan, now_s)
    reservation = core.reservations.by_job.get(record.job.job_id)
    if reservation is None or code is not ReasonCode.RESERVED:
        return None
    return _reserved(reservation, now_s, over_quota=is_over_quota(core, reservation))


def _reclaimed(plan: Plan, now_s: float) -> Outlook:
    """Say when a gang starts for which others are stopped."""
    jobs = list(dict.fromkeys(victim.job_id for victim in plan.victims))
    who = f"the end{'s' if len(jobs) > 1 else ''} of {listed(jobs or ['jobs that have ended'])}"
    if plan.stopped_s is None:
        left_s = max(0.0, plan.grace_until_s - now_s)
        when = f"in {span(left_s)} and what they take to end, or as soon as it finds room before"
        return Outlook((f"{who}, stopped for it in {span(left_s)}",), when, left_s, job_ids=tuple(jobs[:NAMED_MAX]))
    when = "as soon as who is being stopped has ended"
    return Outlook((f"{who}, being stopped for it",), when, job_ids=tuple(jobs[:NAMED_MAX]))


def _reserved(one: Reservation, now_s: float, *, over_quota: bool) -> Outlook:
    """Say when a gang starts for which places are kept."""
    who = f"the end{'s' if len(one.awaited) > 1 else ''} of {listed(one.awaited)}" if one.awaited else "what comes free"
    changes = [f"{who}, where places are kept for it, or room anywhere before"]
    if over_quota:
        changes.append("more of its queue's quota free: until then jobs within their quotas may take what is kept")
    if one.ready_s is None:
        when, left_s = "unknown: not all who hold the rest say how long they run, or they have run longer", None
    else:
        left_s = max(0.0, one.ready_s - now_s)
        when = f"{f'in {span(left_s)}' if left_s else 'by now'}, if all who hold the rest end when they say"
    return Outlook(tuple(changes), when, left_s, job_ids=one.awaited)


def _job_limit(core: Core, want: JobWant) -> Outlook:
    """Say what would let a job grow that uses all that a job may."""
    most, used = core.in_force.settings(want.vc).max_gpus_per_job or 0, used_by_job(core.state, want.record)
    over = used + want.gpus - most
    larger = f"setting ygs.max-gpus-per-job of queue {want.vc} larger by {over} GPUs ({most} now, {used} in use)"
    changes = (larger, f"the ends of containers of its own with {over} GPUs") if over <= used else (larger,)
    return Outlook(changes, "unknown: that is the application's doing", limit_gpus_lacking=over)


class _Outlook:
    """Finds what a job waits for that wants something now."""

    def __init__(self, core: Core, want: JobWant, reason: WaitingReason, now_s: float) -> None:
        self._core = core
        self._now_s = now_s
        self._record = want.record
        self._want = want
        self._reason = reason
        self._level = self._present_level()
        self._demand = want.demand._replace(ceiling=self._level)
        watched = core.state.tenants.watched and not want.partition
        lending = core.index.lending if watched else []
        self._barred = barred(core.state.tenants, core.in_force, want, lending)
        self._excesses = over_limits(core, want)
        if not self._excesses and reason.code is ReasonCode.VC_MAXIMUM and self._barred:
            self._excesses = over_maxima(core, want, self._barred[0])
            self._barred = self._barred[1:]
        self._pause_s = max(0.0, want.record.backoff_until_s - now_s)
        reservations = core.reservations.by_job.values()
        self._reserved = [one for one in reservations if one.partition == want.partition and one.job_id != want.job_id]

    def answer(self) -> Outlook:
        """Put it together, the nearest change first."""
        if not self._excesses and self._has_place(self._level):
            return self._fits()
        ends = ends_that_help(self._core, Lacks(self._demand, self._barred, self._excesses), self._now_s)
        lacks = lacking(self._core, self._demand) if self._reason.code is ReasonCode.OTHER_RESOURCES else []
        quotas = over_quota(self._core, self._want) if self._reason.code is ReasonCode.VC_QUOTA else []
        over = self._excesses or quotas
        starts_s, when = self._when(ends)
        return Outlook(
            changes=tuple(self._changes(ends, lacks, quotas)),
            when=when,
            starts_in_s=starts_s,
            next_level=None if self._next_level is None else int(self._next_level),
            relaxes_in_s=self._relaxes_s,
            gpus_lacking=max(0, self._reason.gpus_asked - self._reason.gpus_free),
            limit_gpus_lacking=max([one.amount for one in over if one.unit is GPUS], default=0),
            job_ids=tuple(one.record.job.job_id for one in ends.needed[:NAMED_MAX]),
            server_ids=tuple(one.server_id for one in lacks[:NAMED_MAX]),
        )

    def _fits(self) -> Outlook:
        if self._pause_s:
            pause = f"in {span(self._pause_s)}: it fits, and is tried again when the pause after the refusal ends"
            return Outlook((), pause, starts_in_s=self._pause_s)
        return Outlook((), "at once: it fits, and is placed in its turn", starts_in_s=0.0)

    def _has_place(self, level: Level) -> bool:
        return find_quietly(self._core, self._demand._replace(ceiling=level), self._barred) is not None

    def _changes(self, ends: Ends, lacks: list[Lack], quotas: list[Excess]) -> Iterator[str]:
        core, want = self._core, self._want
        if self._next_level is not None:
            yield self._relaxing(self._next_level)
        holders = Holders(core, partitions_of(core, self._demand))
        for one in self._excesses or quotas:
            yield _larger(one, quota=not self._excesses)
        for one in (self._excesses or quotas)[:1]:
            if one.unit is GPUS and (whose := holders.of_queue(one.path, one.partition, one.user)):
                yield whose
        if lacks:
            yield said(lacks)
        yield self._ending(ends)
        yield from self._passing()
        if not self._excesses and want.gpus and (whose := holders.of_partition()):
            yield whose

    # The ladder

    def _present_level(self) -> Level:
        """Say how loose it may be placed now; a want that does not stand in the queue does not know."""
        record, want, ladder = self._record, self._want, self._core.ladder
        if record.want is want or not want.gang or want.containers == 1 or not ladder.step_s(record):
            return want.demand.ceiling
        return ladder.level(record, want, self._now_s)

    @property
    def _next_level(self) -> Level | None:
        record, want = self._record, self._want
        if not want.gang or want.containers == 1 or self._level >= record.ceiling:
            return None
        return Level(self._level + 1)

    @property
    def _relaxes_s(self) -> float | None:
        due_s = self._core.ladder.relaxes_at_s(self._record.job.job_id)
        return None if due_s is None else max(0.0, due_s - self._now_s)

    def _relaxing(self, level: Level) -> str:
        may = f"it may go to level {level.value} ({_LEVELS[level]})"
        if self._relaxes_s is None:
            return f"{may} when its timer runs out, which stands still while a limit or a pause holds it back"
        fits = not self._excesses and self._has_place(level)
        return f"in {span(self._relaxes_s)} {may}, where it would{' fit now' if fits else ' not fit now either'}"

    def _relaxed(self) -> Iterator[tuple[float, str]]:
        """Say when its timer alone will have brought it to a level at which it fits what is free now."""
        level, due_s = self._next_level, self._relaxes_s
        while level is not None and due_s is not None and not self._excesses:
            if self._has_place(level):
                place = f"at level {level.value} ({_LEVELS[level]}) it fits what is free now"
                yield due_s, f"in {span(due_s)}: {place}, unless a job before it takes that"
                return
            level = Level(level + 1) if level < self._record.ceiling else None
            due_s += self._core.ladder.step_s(self._record)

    def _passing(self) -> Iterator[str]:
        """Say of the gang that has most time left how long one may run at most to end before it needs what is kept for it."""
        kept = dict(kept_by_gang(self._core, self._want.partition)) if self._reserved else {}
        known = [(one.ready_s, one.job_id) for one in self._reserved if one.ready_s is not None and one.job_id in kept]
        if self._excesses or not known:
            return
        ready_s, job_id = max(known)
        most_s, declared_s = int(ready_s - self._now_s), self._core.in_force.declared_s(self._record)
        if most_s < 1 or (declared_s is not None and declared_s <= most_s):
            return
        if self._want.gpus <= self._reason.gpus_free + kept[job_id]:
            yield (
                f"a run time of at most {most_s} s (tag runtime:SECONDS): it would end before {listed([job_id])} needs the "
                f"{kept[job_id]} GPUs that are kept for it"
            )

    # Ends

    def _ending(self, ends: Ends) -> str:
        if not ends.needed:
            return _no_end(ends)
        ids = [one.record.job.job_id for one in ends.needed]
        gpus = sum(one.held.gpus for one in ends.needed)
        known = [one.ends_s for one in ends.needed if one.ends_s is not None]
        frees = f"the end of {listed(ids)}, which holds {gpus} GPUs"
        if len(ids) > 1:
            frees = f"the ends of {listed(ids)}, which hold {gpus} GPUs"
        if not known:
            return frees
        last_s = max(known) - self._now_s
        if len(known) == len(ids):
            return f"{frees}, expected in {span(last_s)}"
        return f"{frees}; {len(known)} of them {'is' if len(known) == 1 else 'are'} expected within {span(last_s)}"

    def _when(self, ends: Ends) -> tuple[float | None, str]:
        """Give the earliest that can be told, in seconds from now and in words."""
        found = list(self._relaxed())
        if ends.last_s is not None:
            ends_s = max(ends.last_s - self._now_s, self._pause_s)
            found.append((ends_s, f"in about {span(ends_s)}, {_grounds(ends.needed)}{self._uncounted}"))
        return min(found) if found else (None, f"unknown: {self._why_unknown(ends)}")

    @property
    def _uncounted(self) -> str:
        """Say who may take before what comes free."""
        if self._reserved:
            return "; neither jobs before it in order nor those with a reservation are counted"
        return "; jobs before it in order are not counted"

    @staticmethod
    def _why_unknown(ends: Ends) -> str:
        if not ends.needed:
            return "nothing that is known of would end the wait" if ends.tried == ends.of else "too many jobs must end"
        if len(ends.needed) == 1:
            return "the job that must end does not say how long it runs (tag runtime:SECONDS), or has run longer"
        silent = sum(one.ends_s is None for one in ends.needed)
        of = f"{silent} of the {len(ends.needed)} jobs that must end"
        if silent == 1:
            return f"{of} does not say how long it runs (tag runtime:SECONDS), or has run longer"
        return f"{of} do not say how long they run (tag runtime:SECONDS), or have run longer"


def _no_end(ends: Ends) -> str:
    if not ends.of:
        return "no job runs whose end would free what it lacks"
    if ends.tried < ends.of:
        return f"the ends of the first {ends.tried} of {ends.of} jobs that run there would not be enough"
    if ends.of == 1:
        return "not even the end of the only job that runs there would be enough"
    return f"not even the ends of all {ends.of} jobs that run there would be enough"


def _larger(one: Excess, *, quota: bool) -> str:
    if one.user is not None:
        setting = f"setting ygs.max-gpus-per-user of queue {one.path} larger by {one.amount} GPUs"
        return f"{setting} ({one.most} now, {one.used} in use)"
    what = "quota" if quota else "maximum"
    of = f' in partition "{one.partition}"' if one.partition else ""
    told = f"{what} of queue {one.path}{of} larger by {one.amount} {one.unit} ({one.most} now, {one.used} in use)"
    return f"{told}: it would not borrow then; GPUs must come free all the same" if quota else told


def _grounds(needed: tuple[Ending, ...]) -> str:
    ids, records = [one.record.job.job_id for one in needed], [one.record for one in needed]
    by_lifetime = any(record.runtime_s is None and record.job.lifetime_s is not None for record in records)
    by_queue = any(record.runtime_s is None and record.job.lifetime_s is None for record in records)
    if len(ids) == 1:
        says = "when its lifetime is over" if by_lifetime else "as its queue expects" if by_queue else "when it said"
        return f"if {listed(ids)} ends {says}"
    queues = ", or as their queues expect" if by_queue else ""
    lifetimes = ", or when their lifetimes are over" if by_lifetime else ""
    return f"if {listed(ids)} end when they said{queues}{lifetimes}"
