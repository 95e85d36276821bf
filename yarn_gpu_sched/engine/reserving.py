"""Gangs that have waited too long get places that later jobs cannot take (law 9): where they will be free soonest, as far as known.

At most one gang a virtual cluster has one, those within their quotas first. The first of a partition keeps all that is free of
what it takes; further ones keep little that is idle. A later job may go there only if it says that it ends before the place is
needed; one that runs longer than it said moves the reservation, and is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.causes import headroom
from yarn_gpu_sched.engine.ends import Lacks, declared_s, endings_of, place_after, smallest, unwatched
from yarn_gpu_sched.engine.finding import find_quietly
from yarn_gpu_sched.engine.keeping import keep, kept_for, let_go, place_beside_kept
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.preemption import Need
from yarn_gpu_sched.model.reservation import Reservation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.ends import Ending
    from yarn_gpu_sched.engine.queue import Line
    from yarn_gpu_sched.engine.repair import Place
    from yarn_gpu_sched.model.job_record import JobRecord
    from yarn_gpu_sched.placement import Placement

REPLAN_S = 300.0
"""How long a place stands before another look, if nothing happens."""

REPLAN_MIN_S = 30.0
"""How long it stands although jobs start and end."""

IDLE_PERCENT = 5
"""Of a partition's GPUs, what all reservations but the first may keep idle together."""

AWAITED_MAX = 10

LOOKED_MAX = 64
"""Jobs of which a pass looks whether they may go on what is kept for others."""

NEVER_S = float("inf")


def tend(core: Core, place: Place) -> int:
    """Look after the reservations: let go of what is void, start gangs that have room; return the decisions made."""
    reservations = core.reservations
    reservations.agenda.pass_by(core.now_s)
    for job_id in sorted(reservations.by_job):
        if _is_void(core, reservations.by_job[job_id]):
            end(core, job_id)
    _follow_all(core)
    return sum(give(core, want, place) for _, want in _waiting(core))


def _follow_all(core: Core) -> None:
    """Look for the places again of which it is time, and keep what is free of all of them."""
    for reservation, want in _waiting(core):
        _follow(core, reservation, want)
    _keep_all(core)


def _waiting(core: Core) -> list[tuple[Reservation, JobWant]]:
    """List the reservations of gangs that could start now, in order."""
    wants = [(one, core.state.jobs[one.job_id].want) for one in _in_order(core)]
    return [(one, want) for one, want in wants if isinstance(want, JobWant) and want.line.forbidden is None]


def _is_void(core: Core, reservation: Reservation) -> bool:
    record = core.state.jobs[reservation.job_id]
    if record.gang_placed or record.end is not None or record.refusal or record.job.attempt != reservation.attempt:
        return True
    want = record.want
    if record.gang_under_way or record.backoff_until_s > core.now_s:
        return False
    return not isinstance(want, JobWant) or not want.gang or want.gpus != reservation.gpus


def end(core: Core, job_id: str) -> None:
    """Let go of what is kept for a job."""
    reservation = core.reservations.by_job.pop(job_id)
    record = core.state.jobs[job_id]
    core.reservations.agenda.strike(job_id)
    let_go(core, record)
    core.preemption.changed(reservation.partition)
    core.changed(record)


def give(core: Core, want: JobWant, place: Place) -> int:
    """Place a gang with a reservation, there or anywhere, if there is room by now; return the decisions made."""
    placement = place_beside_kept(core, want)
    if placement is None:
        return 0
    let_go(core, want.record)
    core.reservations.agenda.strike(want.job_id)
    return place(core, want, placement)


# Who gets one


def reserve(core: Core) -> None:
    """Reserve for those who have waited too long, when all who could have been placed: of each virtual cluster for the first."""
    if not core.session.settled:
        return
    overdue = list(_overdue(core))
    for record, want in overdue:
        core.reservations.by_job[record.job.job_id] = _new(core, record, want)
        core.changed(record)
    if overdue:
        _follow_all(core)


def _overdue(core: Core) -> Iterator[tuple[JobRecord, JobWant]]:
    """Give the gangs that must have a reservation, in the order in which they get it."""
    after_s = core.settings.reserve_after_s
    have = {core.state.jobs[job_id].job.vc for job_id in core.reservations.by_job}
    first: dict[str, tuple[tuple[bool, float, str], JobRecord, JobWant]] = {}
    for line in core.queue.lines():
        if not line.blocked or line.forbidden is not None or not line.demand.gpus or line.demand.held_for:
            continue
        record, vc = line.first(), line.group.vc
        if (
            record is None
            or vc in have
            or record.job.job_id in core.ahead
            or record.job.job_id in core.preemption.plans
        ):
            continue
        want, ready_s = record.want, record.tenure.ready_s
        if isinstance(want, JobWant) and want.gang and ready_s is not None and ready_s + after_s <= core.now_s:
            turn = (_turn(core, want), record, want)
            if vc not in first or turn[0] < first[vc][0]:
                first[vc] = turn
    for _, record, want in sorted(first.values(), key=lambda one: one[0]):
        yield record, want


def _turn(core: Core, want: JobWant) -> tuple[bool, float, str]:
    """Say when it is a gang's turn: those within their quotas first, then who has waited longest."""
    over = headroom(core, want.vc, want.partition) + want.held.gpus < want.gpus
    return over, want.record.tenure.ready_s or 0.0, want.job_id


def _in_order(core: Core) -> list[Reservation]:
    def turn(reservation: Reservation) -> tuple[bool, float, str]:
        record = core.state.jobs[reservation.job_id]
        over = (False, record.tenure.ready_s or 0.0, reservation.job_id)
        return _turn(core, record.want) if isinstance(record.want, JobWant) else over

    return sorted(core.reservations.by_job.values(), key=turn)


def _new(core: Core, record: JobRecord, want: JobWant) -> Reservation:
    """Begin a reservation; where is looked for at once."""
    job = record.job
    return Reservation(
        job.job_id, job.attempt, want.partition, int(want.demand.ceiling), (), core.now_s, -NEVER_S, None
    )


# Where


def _follow(core: Core, reservation: Reservation, want: JobWant) -> None:
    """Look for the place again when it is time; one that is not free sooner than the present one is not taken."""
    stamp_s = reservation.planned_s + (REPLAN_MIN_S if _has_changed(core, reservation) else REPLAN_S)
    late = reservation.ready_s is not None and reservation.ready_s < core.now_s
    if stamp_s > core.now_s and not late:
        core.reservations.agenda.note(_next_s(reservation, stamp_s), reservation.job_id)
        return
    taken = {
        server_id
        for other in core.reservations.by_job.values()
        if other is not reservation and other.partition == reservation.partition
        for server_id in other.server_ids
    }
    found = _soonest(core, want, taken) or _soonest(core, want, set())
    reservation.planned_s = core.now_s
    if found is not None:
        placement, endings = found
        times = [one.ends_s for one in endings]
        reservation.needs, reservation.level = _needs(want, placement), int(placement.level)
        known = [time_s for time_s in times if time_s is not None]
        reservation.ready_s = max(known, default=core.now_s) if len(known) == len(times) else None
        reservation.awaited = tuple(one.record.job.job_id for one in endings[:AWAITED_MAX])
        let_go(core, want.record)
    core.reservations.agenda.note(_next_s(reservation, core.now_s + REPLAN_S), reservation.job_id)


def _has_changed(core: Core, reservation: Reservation) -> bool:
    """Tell whether an awaited job has gone: another place may be free sooner."""
    return any(job_id not in core.running for job_id in reservation.awaited)


def _next_s(reservation: Reservation, at_s: float) -> float:
    ready_s = reservation.ready_s
    return at_s if ready_s is None else min(at_s, ready_s + 1.0)


def servers_changed(core: Core) -> None:
    """Look for all places again."""
    for reservation in core.reservations.by_job.values():
        if reservation.partition in core.changed_partitions:
            reservation.planned_s = -NEVER_S


def _soonest(core: Core, want: JobWant, taken: set[str]) -> tuple[Placement, list[Ending]] | None:
    """Find the place that will be free soonest if all end when they say, not where others wait; and who holds it."""
    lacks = Lacks(want.demand, want.line.barred, ())
    endings = [one.elsewhere(taken) for one in sorted(endings_of(core, [want.partition], core.now_s), key=_expected)]
    with unwatched(core, [want.partition]), core.state.transaction() as plan:
        for part in kept_for(core, want.record):
            plan.release(part)
        count = smallest(core, lacks, endings)
        placement = None if count is None else place_after(core, lacks, endings[:count])
    if placement is None:
        return None
    where = {portion.use.server_id for portion in placement.portions}
    return placement, [one for one in endings[:count] if any(part.use.server_id in where for part in one.parts)]


def _expected(one: Ending) -> tuple[float, int, str]:
    """Order jobs by when they end, last those of which nobody knows it; of equal ones those on the emptiest servers first."""
    held = max([part.use.gpus_used for part in one.parts], default=0)
    return NEVER_S if one.ends_s is None else one.ends_s, held, one.record.job.job_id


def _needs(want: JobWant, placement: Placement) -> tuple[Need, ...]:
    taken: dict[str, list[int]] = {}
    for use, kind, count in placement.portions:
        _, gpus, memory_mb, vcores = want.kinds[kind]
        need = taken.setdefault(use.server_id, [0, 0, 0])
        for place, amount in enumerate((gpus, memory_mb, vcores)):
            need[place] += count * amount
    return tuple(
        Need(server_id, 0, memory_mb, vcores, count=gpus)
        for server_id, (gpus, memory_mb, vcores) in sorted(taken.items())
    )


# What is kept


def _keep_all(core: Core) -> None:
    """Keep what is free: for the first of each partition all that it takes, for the others so much as they may keep idle."""
    first: set[str] = set()
    for reservation in _in_order(core):
        record = core.state.jobs[reservation.job_id]
        if record.gang_under_way:
            continue
        most = None if reservation.partition not in first else _idle_max(core, reservation)
        first.add(reservation.partition)
        if most is not None and sum(part.gpus for part in kept_for(core, record)) > most:
            let_go(core, record)
        keep(core, record, reservation.needs, NEVER_S, most)


def _idle_max(core: Core, reservation: Reservation) -> int:
    """Count the GPUs that a reservation which is not the first may keep: those of all such together are few."""
    partition = core.index.partition(reservation.partition)
    usable = sum(row.gpus * count for row, count in partition.capacities())
    order = [one.job_id for one in _in_order(core) if one.partition == reservation.partition]
    others = [job_id for job_id in order[1:] if job_id != reservation.job_id]
    kept = sum(part.gpus for job_id in others for part in kept_for(core, core.state.jobs[job_id]))
    return max(0, usable * IDLE_PERCENT // 100 - kept)


# Who may pass


def let_pass(core: Core, place: Place) -> int:
    """Place jobs on what is kept for others, if they say that they end before it is needed; return the decisions made."""
    before = [one for one in core.reservations.by_job.values() if one.ready_s is not None and one.ready_s > core.now_s]
    if not any(kept_for(core, core.state.jobs[one.job_id]) for one in before):
        return 0
    decided = looked = 0
    lines = [line for line in core.queue.lines() if line.blocked and _may_pass(line)]
    for line in sorted(lines, key=lambda line: line.number):
        for record in sorted(line.jobs.values(), key=lambda record: record.rank)[: LOOKED_MAX - looked]:
            looked += 1
            want = record.want
            if isinstance(want, JobWant) and core.may_go_on(line):
                decided += _let_one_pass(core, want, before, place)
    return decided


def _may_pass(line: Line) -> bool:
    demand = line.demand
    return line.forbidden is None and demand.gpus > 0 and not demand.held_for and not demand.application_master


def _let_one_pass(core: Core, want: JobWant, reservations: list[Reservation], place: Place) -> int:
    runtime_s = declared_s(core, want.record)
    if runtime_s is None:
        return 0
    later = [one for one in reservations if one.ready_s is not None and core.now_s + runtime_s <= one.ready_s]
    owners = [core.state.jobs[one.job_id] for one in later]
    with core.state.transaction() as plan:
        for record in owners:
            for part in kept_for(core, record):
                plan.release(part)
        placement = find_quietly(core, want.demand, want.line.barred) if owners else None
    if placement is None:
        return 0
    for record in owners:
        let_go(core, record)
    decided = place(core, want, placement)
    _keep_all(core)
    return decided
