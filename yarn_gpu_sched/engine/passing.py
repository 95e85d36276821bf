"""Jobs that go on what is kept for gangs: within their quota where the gang is not, or because they end before it is needed.

Those within the quota of another virtual cluster go first (law 9). Of the others each must say how long it runs; none is stopped
if it runs longer, the gang waits then.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from yarn_gpu_sched.engine.causes import headroom
from yarn_gpu_sched.engine.ends import unwatched
from yarn_gpu_sched.engine.finding import find_quietly, free_gpus, partitions_of
from yarn_gpu_sched.engine.keeping import hand_over, kept_for, let_go
from yarn_gpu_sched.engine.promises import uses_up
from yarn_gpu_sched.engine.reserving import is_over_quota, keep_all
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.shares import lineage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.queue import Line
    from yarn_gpu_sched.engine.repair import Place
    from yarn_gpu_sched.model.reservation import Reservation

TRIED_MAX = 64
"""Places that a pass looks for in vain on what is kept."""


class _Kept(NamedTuple):
    """A reservation, its virtual cluster, and how many GPUs are kept for it."""

    reservation: Reservation
    vc: str
    gpus: int


def let_pass(core: Core, place: Place) -> int:
    """Place jobs on what is kept for others, until nobody finds a place there; return the decisions made."""
    decided = 0
    in_vain: set[tuple[int, int]] = set()
    while len(in_vain) < TRIED_MAX and (kept := _all_kept(core)):
        placed = _round(core, kept, in_vain, place)
        decided += placed
        if not placed:
            break
    return decided


def _round(core: Core, kept: list[_Kept], in_vain: set[tuple[int, int]], place: Place) -> int:
    """Try who may pass, but of equal ones that found no place before none; return the decisions made."""
    decided = 0
    for want, passed in (*_within(core, kept), *_declaring(core, kept)):
        key = (want.line.number, len(passed))
        is_placed = want.record.want is not want  # it may be listed twice
        if is_placed or key in in_vain or _room(core, want, passed) < want.gpus:
            continue
        if not core.may_go_on(want.line) or uses_up(core, want):
            continue
        if len(in_vain) >= TRIED_MAX:
            break
        placed = _pass(core, want, passed, place)
        decided += placed
        if not placed:
            in_vain.add(key)
    return decided


def pass_within_quota(core: Core, want: JobWant, place: Place) -> int:
    """Place a gang within its quota on what is kept for gangs over theirs, rather than have others stopped for it."""
    over = [one for one in _all_kept(core) if is_over_quota(core, one.reservation)]
    passed = [one for one in over if one.vc != want.vc and one.reservation.partition == want.partition]
    return _pass(core, want, passed, place) if passed and _room(core, want, passed) >= want.gpus else 0


def _all_kept(core: Core) -> list[_Kept]:
    found = []
    for reservation in core.reservations.by_job.values():
        record = core.state.jobs[reservation.job_id]
        found.append(_Kept(reservation, record.job.vc, sum(part.gpus for part in kept_for(core, record))))
    return [one for one in found if one.gpus]


def _room(core: Core, want: JobWant, passed: list[_Kept]) -> int:
    return free_gpus(core, want.partition, want.line.barred) + want.held.gpus + sum(one.gpus for one in passed)


def _within(core: Core, kept: list[_Kept]) -> Iterator[tuple[JobWant, list[_Kept]]]:
    """Give the first of each line within its quota, by how much of that is used, with the gangs over theirs that it may pass."""
    over = [one for one in kept if is_over_quota(core, one.reservation)]
    found = []
    for (path, partition), lines in core.queue.standing.items() if over else ():
        passed = [one for one in over if one.vc != path[-1] and one.reservation.partition == partition]
        if not passed:
            continue
        kept_below = {name: sum(one.gpus for one in passed if name in lineage(one.vc)) for name in path}
        room = min(headroom(core, name, partition) + kept_below[name] for name in path)
        found += [(-room, line, passed) for line in lines.values() if line.gpus <= room and _may_pass(line)]
    for _, line, passed in sorted(found, key=lambda one: (one[0], one[1].number)):
        record = line.first()
        if record is not None and isinstance(record.want, JobWant):
            yield record.want, passed


def _declaring(core: Core, kept: list[_Kept]) -> Iterator[tuple[JobWant, list[_Kept]]]:
    """Give who waits and says that it ends before some need what is kept for them, in their order."""
    last = sorted(kept, key=lambda one: one.reservation.ready_s or 0.0, reverse=True)
    until_s = [-(one.reservation.ready_s or 0.0) for one in last]
    passed = [last[:count] for count in range(len(last) + 1)]  # shared by all who wait: they may be many
    found = []
    for runtime_s, record in core.reservations.declaring.within(-until_s[0] - core.now_s):
        want = record.want
        if isinstance(want, JobWant) and _may_pass(want.line):
            found.append((record.rank, bisect_right(until_s, -(core.now_s + runtime_s)), want))
    for _, count, want in sorted(found, key=lambda one: one[0]):
        yield want, passed[count]


def _may_pass(line: Line) -> bool:
    demand = line.demand
    return line.blocked and demand.gpus > 0 and not demand.held_for and not demand.application_master


def _pass(core: Core, want: JobWant, passed: list[_Kept], place: Place) -> int:
    """Place a job on what is kept for others, who keep what that leaves; return the decisions made."""
    owners = [core.state.jobs[one.reservation.job_id] for one in passed]
    with unwatched(core, partitions_of(core, want.demand)), core.state.transaction() as plan:
        for record in (want.record, *owners):
            for part in kept_for(core, record):
                plan.release(part)
        placement = find_quietly(core, want.demand, want.line.barred)
    if placement is None:
        return 0
    for record in owners:
        let_go(core, record)
        core.reservations.stamps.pop(record.job.job_id, None)  # it awaits one more
    hand_over(core, want.record)
    decided = place(core, want, placement)
    core.counters.passed += decided
    keep_all(core)
    return decided
