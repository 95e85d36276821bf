"""Gangs that have waited too long get places that later jobs cannot take (law 9): where they will be free soonest, as far as known.

At most one gang a virtual cluster has one, those within their quotas first. The first of a partition keeps all that is free of
what it takes, also what others kept there; further ones keep little that is idle. What is kept counts as used by its virtual
cluster: no more is kept than the limits leave. A later job may go there only if it says that it ends before (`passing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.causes import headroom
from yarn_gpu_sched.engine.finding import free_gpus, partitions_of
from yarn_gpu_sched.engine.keeping import hand_over, keep, kept_for, let_go, place_beside_kept
from yarn_gpu_sched.engine.limits import held_for, room_for
from yarn_gpu_sched.engine.masters import masters_admit
from yarn_gpu_sched.engine.promises import uses_up
from yarn_gpu_sched.engine.reserved_places import Places
from yarn_gpu_sched.engine.want import JobWant, want_of
from yarn_gpu_sched.model.reservation import Reservation
from yarn_gpu_sched.model.shares import lineage

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.repair import Place
    from yarn_gpu_sched.model.job_record import JobRecord

REPLAN_S = 300.0
"""How long a place stands before another look, if nothing happens."""

REPLAN_MIN_S = 30.0
"""How long it stands although jobs end and servers come."""

LOOKED_AT_MAX = 4
"""Reservations, virtual clusters and gangs that a pass looks for places for; the others follow in the next ones."""

LOOK_ON_S = 0.1
"""How long those wait that a pass did not come to."""


IDLE_PERCENT = 5
"""Of a partition's GPUs, what all reservations but the first may keep idle together."""

NEVER_S = float("inf")


def tend(core: Core, place: Place) -> int:
    """Look after the reservations: let go of what is void, start gangs that have room; return the decisions made."""
    reservations = core.reservations
    vcs = [core.state.jobs[job_id].job.vc for job_id in reservations.agenda.pass_by(core.now_s)]
    reservations.overdue.update(dict.fromkeys(vcs + reservations.again.pass_by(core.now_s)))
    for job_id in sorted(reservations.by_job):
        if _is_void(core, reservations.by_job[job_id]):
            end(core, job_id)
    if not reservations.by_job:
        return 0
    _follow_all(core)
    keep_all(core)
    decided = 0
    for reservation in in_order(core):
        want = core.state.jobs[reservation.job_id].want
        if isinstance(want, JobWant) and core.may_go_on(want.line) and not uses_up(core, want):
            decided += give(core, want, place)
    return decided


def _is_void(core: Core, reservation: Reservation) -> bool:
    record = core.state.jobs[reservation.job_id]
    if record.gang_placed or record.end is not None or record.refusal or record.job.attempt != reservation.attempt:
        return True
    if record.gang_under_way:
        return False
    want = wanted(core, record)
    return (
        want is None or want.gpus != reservation.gpus or reservation.partition not in partitions_of(core, want.demand)
    )


def wanted(core: Core, record: JobRecord) -> JobWant | None:
    """Say what a gang wants, also while it pauses because the resource manager refused it; None if it wants nothing."""
    want = record.want
    if want is None and record.backoff_until_s > core.now_s and (want := want_of(record)) is not None:
        want.held = held_for(core.state, record)
        want.held_in = core.reservations.partition_of(record.job.job_id, want.partition)
    return want if isinstance(want, JobWant) and want.with_gang else None


def end(core: Core, job_id: str) -> None:
    """Let go of what is kept for a job; another of its virtual cluster may get a reservation."""
    reservation = core.reservations.by_job.pop(job_id)
    record = core.state.jobs[job_id]
    core.reservations.agenda.strike(job_id)
    core.reservations.overdue[record.job.vc] = None
    let_go(core, record)
    core.preemption.changed(reservation.partition)
    core.changed(record)


def give(core: Core, want: JobWant, place: Place) -> int:
    """Place a gang with a reservation, there or anywhere, if there is room by now; return the decisions made."""
    if free_gpus(core, want.partition, want.line.barred) + want.held.gpus < want.gpus:
        return 0
    if want.application_master and not masters_admit(core, want):
        return 0
    placement = place_beside_kept(core, want)
    if placement is None:
        return 0
    hand_over(core, want.record)
    decided = place(core, want, placement)
    if want.job_id in core.ahead:  # its master is placed, and the gang has what it takes beside it
        del core.reservations.by_job[want.job_id]
        core.reservations.agenda.strike(want.job_id)
        core.reservations.overdue[want.vc] = None
        core.changed(want.record)  # it may have asked for its gang already, which waits for that alone now
    return decided


# Who gets one


def reserve(core: Core) -> None:
    """Reserve for those who have waited too long and could not be placed: of each virtual cluster for the first.

    A pass that could not look at all that is ready does not hold this up; who was not looked at is so in the next one.
    """
    reservations = core.reservations
    if not core.session.settled:
        return
    have = {core.state.jobs[job_id].job.vc for job_id in reservations.by_job}
    overdue = sorted(reservations.overdue.keys() - have)
    places = Places(core)
    began = False
    for vc in overdue[:LOOKED_AT_MAX]:
        if not core.unexamined:
            del reservations.overdue[vc]
        began = _reserve_in(core, places, vc) or began
    for vc in overdue[LOOKED_AT_MAX : LOOKED_AT_MAX + 1]:
        reservations.again.note(core.now_s + LOOK_ON_S, vc)
    if began:
        keep_all(core)


def _reserve_in(core: Core, places: Places, vc: str) -> bool:
    """Reserve for the first gang of a virtual cluster that would find a place if others ended; tell if one does."""
    for want in _some(core, sorted(overdue_in(core, vc), key=lambda want: _turn(core, want))):
        found = places.soonest(want)
        if found is None:
            core.reservations.again.note(core.now_s + REPLAN_MIN_S, vc)
            continue
        core.reservations.by_job[want.job_id] = Reservation(
            want.job_id,
            want.record.job.attempt,
            found.partition,
            want.gpus,
            int(found.level),
            found.needs,
            core.now_s,
            core.now_s,
            found.ready_s,
            found.awaited,
        )
        core.reservations.agenda.note(core.now_s + REPLAN_S, want.job_id)
        core.reservations.stamps[want.job_id] = core.preemption.stamp(found.partition)
        core.counters.reserved += 1
        core.changed(want.record)
        return True
    return False


def _some(core: Core, wants: list[JobWant]) -> list[JobWant]:
    """Take of many the first ones, and each time others of the rest: all of the first may find no place for a long time."""
    first, rest = wants[: LOOKED_AT_MAX // 2], wants[LOOKED_AT_MAX // 2 :]
    more = LOOKED_AT_MAX - len(first)
    begin = int(core.now_s / REPLAN_MIN_S) * more % max(1, len(rest))
    return first + (rest[begin:] + rest[:begin])[:more]


def overdue_in(core: Core, vc: str) -> list[JobWant]:
    """List the gangs of a virtual cluster that wait for too long, of equal ones the first; single containers may wait before it."""
    found = []
    for line in core.queue.lines_below(vc):
        if line.blocked and line.group.vc == vc and line.demand.gpus:
            wants = [record.want for record in line.jobs.values() if isinstance(record.want, JobWant)]
            overdue = [want for want in wants if _is_overdue(core, want)]
            found += [min(overdue, key=lambda want: want.record.rank)] if overdue else []
    return found


def _is_overdue(core: Core, want: JobWant) -> bool:
    waits_s, job_id = want.record.tenure.waits_s, want.job_id
    if not want.with_gang or waits_s is None or waits_s + core.settings.reserve_after_s > core.now_s:
        return False
    if want.application_master and not masters_admit(core, want):
        core.reservations.again.note(core.now_s + REPLAN_MIN_S, want.vc)
        return False
    return job_id not in core.ahead and not core.keeps_for(job_id)


def _turn(core: Core, want: JobWant) -> tuple[bool, float, str]:
    """Say when it is a gang's turn: those within their quotas first, then who has waited longest."""
    asked = want.gpus - want.held.gpus
    over = [path for path in lineage(want.vc) if headroom(core, path, want.held_in) < asked]
    is_over = want.vc in over or any(
        headroom(core, path, want.held_in) + _kept_below(core, path, want) < asked for path in over
    )
    return is_over, want.record.tenure.waits_s or 0.0, want.job_id


def _kept_below(core: Core, path: str, want: JobWant) -> int:
    """Count what is kept for others below a queue: before they start it leaves nobody else over the quota."""
    others = [one for one in core.reservations.by_job.values() if one.job_id != want.job_id]
    records = [core.state.jobs[one.job_id] for one in others if one.partition == want.held_in]
    return sum(held_for(core.state, record).gpus for record in records if path in lineage(record.job.vc))


def is_over_quota(core: Core, reservation: Reservation) -> bool:
    """Tell whether a gang with a reservation would use more than the quota of its virtual cluster."""
    want = wanted(core, core.state.jobs[reservation.job_id])
    return want is not None and _turn(core, want)[0]


def in_order(core: Core) -> list[Reservation]:
    """List the reservations by whose turn it is."""

    def turn(reservation: Reservation) -> tuple[bool, float, str]:
        record = core.state.jobs[reservation.job_id]
        begun = (False, record.tenure.waits_s or 0.0, reservation.job_id)
        want = wanted(core, record)
        return begun if want is None else _turn(core, want)

    return sorted(core.reservations.by_job.values(), key=turn)


# Where


def servers_changed(core: Core) -> None:
    """Look for other places soon."""
    for reservation in core.reservations.by_job.values():
        if reservation.partition in core.changed_partitions:
            reservation.planned_s = min(reservation.planned_s, core.now_s - REPLAN_S + REPLAN_MIN_S)
            core.reservations.stamps.pop(reservation.job_id, None)


def asks_changed(core: Core, job_id: str) -> None:
    """Look at once whether the place still does for what a gang asks now."""
    reservation = core.reservations.by_job.get(job_id)
    if reservation is not None:
        reservation.planned_s = min(reservation.planned_s, core.now_s - REPLAN_S)


def _follow_all(core: Core) -> None:
    """Look for the places again of which it is time, those that cannot come any more first."""
    places = Places(core)
    due = []
    for reservation in core.reservations.by_job.values():
        look_s = _look_s(core, places, reservation)
        if look_s <= core.now_s:
            due.append((look_s, reservation.job_id))
        else:
            core.reservations.agenda.note(look_s, reservation.job_id)
    for number, (_, job_id) in enumerate(sorted(due)):
        want = core.state.jobs[job_id].want
        if not isinstance(want, JobWant):
            continue
        if number >= LOOKED_AT_MAX:
            core.reservations.agenda.note(core.now_s + LOOK_ON_S, job_id)
        else:
            _follow(core, places, core.reservations.by_job[job_id], want)


def _look_s(core: Core, places: Places, reservation: Reservation) -> float:
    """Say when to look for a place again: at once if it is gone, soon if it is late or something was freed, else in a while."""
    if not places.stands(reservation.needs):
        return -NEVER_S
    soon_s = reservation.planned_s + REPLAN_MIN_S
    known = core.reservations.stamps.get(reservation.job_id)
    look_s = reservation.planned_s + REPLAN_S if known == core.preemption.stamp(reservation.partition) else soon_s
    return look_s if reservation.ready_s is None else min(look_s, max(soon_s, reservation.ready_s))


def _follow(core: Core, places: Places, reservation: Reservation, want: JobWant) -> None:
    """Look for a place again; one that is not free sooner than the present one is not taken."""
    reservation.planned_s = core.now_s
    core.reservations.agenda.note(core.now_s + REPLAN_S, reservation.job_id)
    stands = places.stands(reservation.needs) and places.serves(want, reservation.needs, reservation.level)
    present = places.outlook(want, reservation.needs, reservation.level) if stands else None
    found = places.soonest(want) if _is_news(core, reservation) or present is None else None
    best = found if present is None or (found is not None and found.turn < present.turn) else present
    if best is None:
        end(core, reservation.job_id)
        core.reservations.again.note(core.now_s + REPLAN_MIN_S, want.vc)
        return
    if best is found:
        let_go(core, want.record)
        reservation.partition, reservation.needs, reservation.level = best.partition, best.needs, int(best.level)
    reservation.ready_s, reservation.awaited = best.ready_s, best.awaited


def _is_news(core: Core, reservation: Reservation) -> bool:
    """Tell whether anything was freed since a place was last looked for, or is not free although it was expected."""
    stamps, stamp = core.reservations.stamps, core.preemption.stamp(reservation.partition)
    known = stamps.get(reservation.job_id)
    stamps[reservation.job_id] = stamp
    return known != stamp or (reservation.ready_s is not None and reservation.ready_s <= core.now_s)


# What is kept


def keep_all(core: Core) -> None:
    """Keep what is free: for the first of each partition all that it takes, for the others so much as they may keep idle."""
    order = in_order(core)
    left: dict[str, int] = {}
    for reservation in order:
        record, partition = core.state.jobs[reservation.job_id], reservation.partition
        want = wanted(core, record)
        if want is None:
            let_go(core, record)
            continue
        if uses_up(core, want):
            continue
        room = room_for(core.state.tenants, core.in_force, want) if core.in_force.limited else None
        if partition not in left:
            left[partition] = core.reservations.idle_max[partition] = idle_max(core, partition)
            _clear_way(core, reservation, order)
            _keep(core, reservation, record, room)
        else:
            most = left[partition] if room is None else min(room, left[partition])
            left[partition] -= _keep(core, reservation, record, most)


def _keep(core: Core, reservation: Reservation, record: JobRecord, most: int | None) -> int:
    """Keep of a place what is free, at most so many GPUs; return how many are kept by then."""
    kept_gpus = sum(part.gpus for part in kept_for(core, record))
    if most is not None and kept_gpus > most:
        let_go(core, record)
        kept_gpus = 0
    uses = [
        core.state.servers.get(server_id) for server_id in reservation.server_ids
    ]  # one may be gone, and not looked for yet
    known = [use for use in uses if use is not None]
    if any(use.free_mask for use in known) if kept_gpus < reservation.gpus else _lacks_more(core, reservation, record):
        keep(core, record, reservation.needs, NEVER_S, most)
    return sum(part.gpus for part in kept_for(core, record))


def _lacks_more(core: Core, reservation: Reservation, record: JobRecord) -> bool:
    """Tell whether memory or vcores are lacking beside the GPUs, which are all kept."""
    kept = held_for(core.state, record)
    memory_mb = sum(need.memory_mb for need in reservation.needs)
    return kept.memory_mb < memory_mb or kept.vcores < sum(need.vcores for need in reservation.needs)


def _clear_way(core: Core, first: Reservation, order: list[Reservation]) -> None:
    """Let go of what others keep where the first one lacks something: a reservation may always complete its own gang."""
    others = [core.state.jobs[one.job_id] for one in order if one is not first]
    kept = {record.job.job_id: kept_for(core, record) for record in others}
    if not any(kept.values()):
        return
    own = {part.use.server_id: part.gpus for part in kept_for(core, core.state.jobs[first.job_id])}
    lacking = {need.server_id for need in first.needs if own.get(need.server_id, 0) < need.gpus}
    for record in others:
        if any(part.use.server_id in lacking for part in kept[record.job.job_id]):
            let_go(core, record)


def idle_max(core: Core, partition: str) -> int:
    """Count the GPUs of a partition that all reservations but the first may keep idle together."""
    usable = sum(row.gpus * count for row, count in core.index.partition(partition).capacities())
    return usable * IDLE_PERCENT // 100
