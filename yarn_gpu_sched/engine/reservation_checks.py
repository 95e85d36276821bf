"""Holds what is kept for gangs that have waited too long against law 9, as far as the state alone shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.keeping import kept_for
from yarn_gpu_sched.engine.want import JobWant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.model.job_record import JobRecord
    from yarn_gpu_sched.model.reservation import Reservation


def reservation_faults(core: Core) -> Iterator[str]:
    """Say what is wrong with the reservations, each and together, and who has none and is not looked at either."""
    owners: dict[str, str] = {}
    kept: dict[str, list[int]] = {}
    for job_id, one in core.reservations.by_job.items():
        record = core.state.jobs.get(job_id)
        if record is None or one.job_id != job_id:
            yield f"for job {job_id} places are kept, and it is not known"
            continue
        other = owners.setdefault(record.job.vc, job_id)
        if other != job_id:
            yield f"{record.job.vc} has reservations for {other} and for {job_id}"
        yield from (f"job {job_id}: {fault}" for fault in _faults(core, record, one))
        kept.setdefault(one.partition, []).append(sum(part.gpus for part in kept_for(core, record)))
    for partition, gpus in kept.items():
        most = core.reservations.idle_max.get(partition, 0)
        if sum(gpus) - max(gpus) > most:
            yield f"all reservations but one keep {sum(gpus) - max(gpus)} GPUs idle, at most {most} may be"
    if core.settings.reserve_after_s and core.by_vc:
        yield from _forgotten(core, owners)


def _faults(core: Core, record: JobRecord, one: Reservation) -> Iterator[str]:
    if one.job_id in core.preemption.plans:
        yield "places are kept for it twice: others are stopped for it as well"
    if sum(need.gpus for need in one.needs) != one.gpus:
        yield f"it takes {one.gpus} GPUs, and its places have {one.needs}"
    want, waits_s = record.want, record.tenure.waits_s
    if isinstance(want, JobWant) and want.with_gang and want.demand.held_for != one.job_id:
        yield "places are kept for it, and it waits among those who know nothing of it"
    is_same = record.job.attempt == one.attempt and waits_s is not None
    if is_same and waits_s is not None and one.since_s < waits_s + core.settings.reserve_after_s:
        yield f"it waits complete since {waits_s}, and has a reservation since {one.since_s}"
    needs = {need.server_id: need for need in one.needs}
    gpus: dict[str, int] = {}
    for part in kept_for(core, record):
        gpus[part.use.server_id] = gpus.get(part.use.server_id, 0) + part.gpus
    for server_id, count in gpus.items():
        if server_id not in needs or count > needs[server_id].gpus:
            yield f"on server {server_id} {count} GPUs are kept, and {needs.get(server_id)} is what it takes"


def _forgotten(core: Core, owners: dict[str, str]) -> Iterator[str]:
    """Name the virtual clusters in which a gang waits, and nobody looks whether it does for too long."""
    reservations = core.reservations
    watched = set(owners) | set(reservations.overdue) | set(reservations.again.keys())
    noted = reservations.agenda.keys()
    watched |= {core.state.jobs[job_id].job.vc for job_id in noted if job_id in core.state.jobs}
    for line in core.queue.lines():
        if line.group.vc in watched or not line.demand.gpus or not line.any_want().with_gang:
            continue
        plain = [job_id for job_id in line.jobs if job_id not in core.ahead and not core.keeps_for(job_id)]
        if plain:
            yield f"job {plain[0]} of {line.group.vc} waits, and nobody looks whether it does for too long"
