"""Who may be stopped for a gang (law 7): borrowed jobs of queues above their quota, within the dampers."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from yarn_gpu_sched.engine.loans import costs_of, idle_loans, key_of, loans_of, safe_until_s
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.shares import lineage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.loans import Borrowed, Key
    from yarn_gpu_sched.model.preemption import Plan

Ranked = tuple[float, "Key"]
"""What stopping somebody costs, and the place among those that cost the same."""


class Candidate(NamedTuple):
    """Who may be stopped; ``cost``: what is lost, GPU-seconds, and a base."""

    cost: float
    borrowed: Borrowed

    @property
    def gpus(self) -> int:
        """The GPUs that it frees in the partition."""
        return self.borrowed.gpus


class Candidates(NamedTuple):
    """``ripe`` may be stopped now, cheapest first, at these ``costs``, of equal cost the youngest first.

    ``ripens_s`` is when the next one may be, if nothing else happens; ``unripe`` have not run long enough, of all who ``borrow``.
    """

    ripe: list[Borrowed]
    costs: list[float]
    ripens_s: float | None = None
    unripe: int = 0
    borrow: int = 0

    def at(self, place: int) -> Candidate:
        """Give one of them."""
        return Candidate(self.costs[place], self.ripe[place])


def candidates(core: Core, want: JobWant) -> Candidates:
    """List who may be stopped for a want that is within its quota."""
    least_s = core.settings.preempt_min_run_s
    spared = _spared(core, want)
    found: list[Ranked] = []
    unripe_s: list[float] = []
    unripe_count = borrow = 0
    for vc, all_of_it in _lenders(core, want):
        loans = loans_of(core, vc, want.partition) if all_of_it else idle_loans(core, vc, want.partition)
        ripe = bisect_right(
            loans.started_s, core.now_s, key=lambda began_s: began_s + least_s
        )  # rounded as `ripens_s` is
        unripe_count += len(loans.started_s) - ripe
        borrow += len(loans.all)
        found += zip(loans.costs(core.now_s, ripe), loans.keys)  # noqa: B905 - keys of those that are not ripe remain
        unripe = zip(loans.started_s[ripe:], loans.stoppable[ripe:], strict=True)
        unripe_s += islice((began_s for began_s, one in unripe if one.record.job.job_id not in spared), 1)
    if spared:
        found = [one for one in found if one[1][-1].record.job.job_id not in spared]
    ripens_s = min(unripe_s) + least_s if unripe_s else None
    return _in_order(found)._replace(ripens_s=ripens_s, unripe=unripe_count, borrow=borrow)


def _in_order(found: list[Ranked]) -> Candidates:
    found.sort()
    return Candidates([key[-1] for _, key in found], [cost for cost, _ in found])


def _spared(core: Core, want: JobWant) -> set[str]:
    """Name those who never go for a want: who had it stopped itself, and who is being stopped already."""
    spared = {one.by_job_id for one in core.state.jobs[want.job_id].tenure.preempted}
    spared.update(victim.job_id for plan in core.preemption.plans.values() for victim in plan.victims)
    return spared


def warned(core: Core, want: JobWant, plan: Plan) -> Candidates:
    """List those of a plan who still run the same attempt and borrow, in a queue that must give back."""
    named = {(victim.job_id, victim.attempt, victim.container_ids) for victim in plan.victims}
    found: list[Borrowed] = []
    for vc, all_of_it in _lenders(core, want):
        for one in (loans_of if all_of_it else idle_loans)(core, vc, want.partition).all:
            job = one.record.job
            may_be = not one.record.requeued and not one.record.tenure.unstoppable
            if may_be and (job.job_id, job.attempt, one.container_ids) in named:
                found.append(one)
    now_s = core.now_s
    costs = costs_of([one.gpus for one in found], [safe_until_s(one.record, now_s) for one in found], now_s)
    return _in_order([*zip(costs, map(key_of, found), strict=True)])


def within_quota(core: Core, want: JobWant) -> str:
    """Name the lowest queue whose quota a want would exceed; empty if none: then it may take back what others borrow.

    Its own queue's alone counts here; the queues above it as far as they do not stand above the victim too (see `candidates`).
    """
    quota = core.in_force.limits(want.vc, want.partition).quota_gpus
    return "" if quota and _would_use(core, want.vc, want) <= quota else want.vc


def _lenders(core: Core, want: JobWant) -> Iterator[tuple[str, bool]]:
    """List the virtual clusters that must give back: on the way up to the lowest common queue, those are all above their quotas.

    And on the want's way up to there it stays within all quotas. Others, named with False, give only what idle jobs hold.
    """
    mine = lineage(want.vc)
    fits = [_fits(core, path, want) for path in mine]
    for vc in core.running_in:
        theirs = lineage(vc)
        common = _common(mine, theirs)
        if common == len(mine) or not all(fits[common:]):
            continue
        if all(above_quota(core, path, want.partition, leaf=path == vc) for path in theirs[common:]):
            yield vc, True
        elif core.preemption.any_idle and any(record.tenure.idle for record in core.running_in[vc].values()):
            yield vc, False


def _common(mine: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    """Count the queues from the top that two virtual clusters share."""
    common = 0
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            break
        common += 1
    return common


def _fits(core: Core, path: str, want: JobWant) -> bool:
    quota = core.in_force.limits(path, want.partition).quota_gpus
    return quota is None or _would_use(core, path, want) <= quota


def above_quota(core: Core, path: str, partition: str, *, leaf: bool, taken: int = 0) -> bool:
    """Tell whether a queue uses more than its quota, with ``taken`` GPUs less; above a leaf one without any is no hindrance."""
    quota = core.in_force.limits(path, partition).quota_gpus
    if quota is None:
        return not leaf
    return _used(core, path, partition) - taken > quota


def _used(core: Core, path: str, partition: str) -> int:
    record = core.state.tenants.by_path.get(path)
    return 0 if record is None else record.gpus_used(partition)


def _would_use(core: Core, path: str, want: JobWant) -> int:
    """Count what a queue would use with a want, and with what others in it have been promised."""
    promised = 0
    for job_id, plan in core.preemption.plans.items():
        record = core.state.jobs[job_id]
        if job_id != want.job_id and plan.partition == want.partition and path in lineage(record.job.vc):
            held = record.want.held.gpus if isinstance(record.want, JobWant) else plan.gpus
            promised += max(0, plan.gpus - held)
    return _used(core, path, want.partition) - want.held.gpus + want.gpus + promised
