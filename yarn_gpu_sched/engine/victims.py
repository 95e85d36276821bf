"""Who may be stopped for a gang (law 7): borrowed jobs of queues above their quota, within the dampers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.shares import lineage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.model.container import Container
    from yarn_gpu_sched.model.job_record import JobRecord
    from yarn_gpu_sched.model.preemption import Plan

COST_BASE_S = 300
"""Added to the time that is lost, so that of jobs which lose nothing the fewest GPUs are stopped."""


class Borrowed(NamedTuple):
    """A job that is borrowed, whole, or a container of one without a gang: its ``place`` among these; ``gpus`` of the partition."""

    record: JobRecord
    gpus: int
    container: Container | None = None
    place: int = 0

    @property
    def name(self) -> str:
        """The job, or the container."""
        return self.record.job.job_id if self.container is None else self.container.container_id

    @property
    def containers(self) -> tuple[Container, ...]:
        """What is stopped."""
        return tuple(self.record.containers.values()) if self.container is None else (self.container,)


class Candidate(NamedTuple):
    """Who may be stopped, and at what cost. ``rank``: the cheapest, then the youngest first."""

    rank: tuple[float, float, int, str]
    borrowed: Borrowed

    @property
    def cost(self) -> float:
        """What is lost, GPU-seconds, and a base."""
        return self.rank[0]

    @property
    def gpus(self) -> int:
        """The GPUs that it frees in the partition."""
        return self.borrowed.gpus


class Candidates(NamedTuple):
    """``ripe`` may be stopped now, cheapest first; ``ripens_s`` is when the next one may be, if nothing else happens."""

    ripe: list[Candidate]
    ripens_s: float | None


def candidates(core: Core, want: JobWant) -> Candidates:
    """List who may be stopped for a want that is within its quota."""
    partition, settings, now_s = want.partition, core.settings, core.now_s
    ripe: list[Candidate] = []
    ripens_s: float | None = None
    for vc in _lenders(core, want):
        for one in borrowed_by(core, vc, partition):
            record = one.record
            if not _may_be_victim(core, record, want.job_id) or (one.container is None and record.job.one_attempt):
                continue  # to stop all of a job that cannot start anew would be its end
            assert record.started_s is not None
            ripe_s = record.started_s + settings.preempt_min_run_s
            if ripe_s > now_s:
                ripens_s = ripe_s if ripens_s is None else min(ripens_s, ripe_s)
            else:
                ripe.append(_candidate(one, now_s))
    ripe.sort()
    return Candidates(ripe, ripens_s)


def warned(core: Core, want: JobWant, plan: Plan) -> list[Candidate]:
    """List those of a plan who still run the same attempt and borrow, in a queue that must give back."""
    named = {(victim.job_id, victim.attempt, victim.container_ids) for victim in plan.victims}
    found = []
    for vc in _lenders(core, want):
        for one in borrowed_by(core, vc, want.partition):
            containers = () if one.container is None else (one.container.container_id,)
            if (one.record.job.job_id, one.record.job.attempt, containers) in named and not one.record.requeued:
                found.append(_candidate(one, core.now_s))
    return sorted(found)


def within_quota(core: Core, want: JobWant) -> str:
    """Name the lowest queue whose quota a want would exceed; empty if none: then it may take back what others borrow.

    Its own queue's alone counts here; the queues above it as far as they do not stand above the victim too (see `candidates`).
    """
    quota = core.in_force.limits(want.vc, want.partition).quota_gpus
    return "" if quota and _would_use(core, want.vc, want) <= quota else want.vc


def _lenders(core: Core, want: JobWant) -> Iterator[str]:
    """List the virtual clusters that must give back: on the way up to the lowest common queue, those are all above their quotas.

    And on the want's way up to there it stays within all quotas.
    """
    mine = lineage(want.vc)
    fits = [_fits(core, path, want) for path in mine]
    for vc in core.running_in:
        theirs = lineage(vc)
        common = _common(mine, theirs)
        if common == len(mine) or not all(fits[common:]):
            continue
        if all(above_quota(core, path, want.partition, leaf=path == vc) for path in theirs[common:]):
            yield vc


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


def _may_be_victim(core: Core, record: JobRecord, by: str) -> bool:
    """Tell whether a borrowed job may be stopped for another at all, some time."""
    if (
        record.job.unmanaged
        or record.requeued
        or record.tenure.unstoppable
        or record.decisions
        or record.end is not None
    ):
        return False
    if len(record.tenure.preempted) >= core.settings.preempt_spare_after or record.started_s is None:
        return False
    mine, job_id = core.state.jobs[by], record.job.job_id
    if any(one.by_job_id == job_id for one in mine.tenure.preempted):
        return False  # it never stops in turn the one that stopped it
    return not any(victim.job_id == job_id for plan in core.preemption.plans.values() for victim in plan.victims)


def _candidate(one: Borrowed, now_s: float) -> Candidate:
    started_s = one.record.started_s
    assert started_s is not None
    cost = one.gpus * (now_s - safe_until_s(one.record, now_s) + COST_BASE_S)
    return Candidate((cost, -started_s, -one.place, one.name), one)


def safe_until_s(record: JobRecord, now_s: float) -> float:
    """Say until when a running job's work is safe: its last checkpoint, as it reported or by the period that its tag names."""
    assert record.started_s is not None
    safe_s = max(record.started_s, record.tenure.checkpoint_s or record.started_s)
    every_s = record.tenure.checkpoint_every_s
    if every_s:
        periods = int((now_s - record.started_s) / every_s)
        safe_s = max(safe_s, record.started_s + periods * every_s)
    return min(safe_s, now_s)


def borrowed_by(core: Core, vc: str, partition: str) -> list[Borrowed]:
    """List who borrows in a virtual cluster, until its use changes.

    Its running jobs are charged to the quota in order of start, and what does not fit borrows.
    """
    known = core.preemption.borrowed
    found = known.get((vc, partition))
    if found is None:
        found = known[vc, partition] = _charge(core, vc, partition)
    return found


def _charge(core: Core, vc: str, partition: str) -> list[Borrowed]:
    left = core.in_force.limits(vc, partition).quota_gpus
    if left is None:
        return []
    borrowed = []
    for record in sorted(core.running_in[vc].values(), key=_by_start):
        for one in _units(core, record, partition):
            if one.gpus <= left:
                left -= one.gpus
            elif one.container is None or not one.container.application_master:
                borrowed.append(one)
    return borrowed


def _by_start(record: JobRecord) -> tuple[float, float, str]:
    assert record.started_s is not None
    return (record.started_s, *record.order)


def _units(core: Core, record: JobRecord, partition: str) -> list[Borrowed]:
    """List what of a job is charged as a whole: all of one with a gang, else each container, in the order in which they came."""
    servers = core.state.servers
    held = [
        one
        for one in record.containers.values()
        if one.resource.gpus and servers[one.server_id].server.partition == partition
    ]
    if record.gang is None:
        held.sort(key=lambda one: one.container_id)
        return [Borrowed(record, one.resource.gpus, one, place) for place, one in enumerate(held)]
    gpus = sum([one.resource.gpus for one in held])
    return [Borrowed(record, gpus)] if gpus else []
