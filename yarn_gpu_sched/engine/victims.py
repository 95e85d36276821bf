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
    """A job that is borrowed, whole, or a container of one without a gang: its ``place`` among these.

    ``name`` is the job's or the container's; ``gpus`` are those of the partition, ``places`` say how many on which servers.
    """

    record: JobRecord
    gpus: int
    name: str
    places: tuple[tuple[str, int], ...]
    container: Container | None = None
    place: int = 0

    @property
    def containers(self) -> tuple[Container, ...]:
        """What is stopped."""
        return tuple(self.record.containers.values()) if self.container is None else (self.container,)


class Candidate(NamedTuple):
    """Who may be stopped; in order, the cheapest first, then the youngest. ``cost``: what is lost, GPU-seconds, and a base."""

    cost: float
    age: float
    place: int
    name: str
    borrowed: Borrowed

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
    now_s, most = core.now_s, core.settings.preempt_spare_after
    youngest_s = now_s - core.settings.preempt_min_run_s
    spared = _spared(core, want)
    ripe: list[Candidate] = []
    unripe: list[float] = []
    for vc in _lenders(core, want):
        for one in borrowed_by(core, vc, want.partition):
            if not _may_be_victim(one, most) or (spared and one.record.job.job_id in spared):
                continue
            started_s: float = one.record.started_s  # type: ignore[assignment] # it runs; a check costs time here
            if started_s > youngest_s:
                unripe.append(started_s)
            else:
                ripe.append(_candidate(one, now_s))
    ripe.sort()
    return Candidates(ripe, min(unripe) + core.settings.preempt_min_run_s if unripe else None)


def _spared(core: Core, want: JobWant) -> set[str]:
    """Name those who never go for a want: who had it stopped itself, and who is being stopped already."""
    spared = {one.by_job_id for one in core.state.jobs[want.job_id].tenure.preempted}
    spared.update(victim.job_id for plan in core.preemption.plans.values() for victim in plan.victims)
    return spared


def warned(core: Core, want: JobWant, plan: Plan) -> list[Candidate]:
    """List those of a plan who still run the same attempt and borrow, in a queue that must give back."""
    named = {(victim.job_id, victim.attempt, victim.container_ids) for victim in plan.victims}
    found = []
    for vc in _lenders(core, want):
        for one in borrowed_by(core, vc, want.partition):
            job, containers = one.record.job, () if one.container is None else (one.container.container_id,)
            may_be = not one.record.requeued and not one.record.tenure.unstoppable
            if may_be and (job.job_id, job.attempt, containers) in named:
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


def _may_be_victim(one: Borrowed, most: int) -> bool:
    """Tell whether who borrows may be stopped at all, some time; ``most``: nobody is more often."""
    record = one.record
    job, tenure = record.job, record.tenure
    if job.unmanaged or record.requeued or record.decisions or tenure.unstoppable or len(tenure.preempted) >= most:
        return False
    return (
        one.container is not None or not job.one_attempt
    )  # to stop all of a job that cannot start anew would be its end


def _candidate(one: Borrowed, now_s: float) -> Candidate:
    record = one.record
    started_s: float = record.started_s  # type: ignore[assignment] # it runs; a check costs time here
    tenure = record.tenure
    if tenure.checkpoint_s is None and tenure.checkpoint_every_s is None:
        lost_s = now_s - started_s
    else:
        lost_s = now_s - safe_until_s(record, now_s)
    return Candidate(one.gpus * (lost_s + COST_BASE_S), -started_s, -one.place, one.name, one)


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
        return [
            Borrowed(record, one.resource.gpus, one.container_id, ((one.server_id, one.resource.gpus),), one, place)
            for place, one in enumerate(held)
        ]
    places: dict[str, int] = {}
    for one in held:
        places[one.server_id] = places.get(one.server_id, 0) + one.resource.gpus
    gpus = sum(places.values())
    return [Borrowed(record, gpus, record.job.job_id, tuple(places.items()))] if gpus else []
