"""Masters with GPUs of their own: one is placed only where its gang fits beside it, and the gang's GPUs are held until it asks.

Without the hold, masters could take what their own gangs need, and all wait for each other. It takes the gang's shape from the tag
(`gang:NxG`). How much memory and how many vcores the members want is known only with their asks, so GPUs alone are held.
"""

from collections.abc import Iterator

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.dealing import deal
from yarn_gpu_sched.engine.finding import find
from yarn_gpu_sched.engine.limits import forbidden
from yarn_gpu_sched.engine.repair import Place, begin_hold, free_hold, holds_of
from yarn_gpu_sched.engine.want import FREE, JobWant, reach_of, shape_of, single
from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.assignment import Assignment
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server_use import Part
from yarn_gpu_sched.placement import Kind, Placement, Portion

_ANY_KEY = RequestKey(0)


def place_with_gang(core: Core, want: JobWant, placement: Placement, place: Place) -> int:
    """Place a master and hold what its gang needs, both or neither; return the decisions made."""
    (ask, _), record = want.members[0], want.record
    own = list(zip(want.kinds, want.demand.reach or (FREE,) * 2, strict=True)).index(
        (Kind(1, *shape_of(ask.resource)), reach_of(ask, record))
    )
    held = _hold(core, want, [portion for portion in placement.portions if portion.kind != own])
    alone = JobWant(record, single(ask, record), want.members, gang=False)
    alone.line = want.line
    portions = [Portion(use, 0, count) for use, kind, count in placement.portions if kind == own]
    decided = place(core, alone, Placement(placement.level, portions if held else []))
    if not decided:
        release(core, record)
    return decided


def _hold(core: Core, want: JobWant, portions: list[Portion]) -> bool:
    parts: list[Part] = []
    assignments: list[Assignment] = []
    for use, kind, count in portions:
        gpus = want.kinds[kind].gpus
        mask, each = deal(use, gpus, count)
        parts.append(Part(use, 0, 0, mask, gpus * count))
        assignments += [Assignment(_ANY_KEY, use.server_id, Resource(0, 0, gpus), indices) for indices in each]
    decision = Decision(0, want.job_id, want.record.job.attempt, tuple(assignments), parts=parts)
    if not begin_hold(core, decision, core.settings.gang_hold_s):
        return False
    core.ahead[want.job_id] = None
    return True


def release(core: Core, record: JobRecord) -> None:
    """Free what is held for the gang of a master, if anything is."""
    if core.ahead.pop(record.job.job_id, ...) is None:
        for one in holds_of(core, record):
            free_hold(core, one)


def give(core: Core, want: JobWant, place: Place) -> int:
    """Place a gang on what is held for it, or as near as its memory and vcores let it; return the decisions made."""
    release(core, want.record)
    tenants = core.state.tenants
    if tenants.watched and forbidden(tenants, core.in_force, want) is not None:  # of memory, or lowered meanwhile
        return 0
    placement = find(core, want.demand, want.line.barred)
    return 0 if placement is None else place(core, want, placement)


def tend(core: Core, place: Place) -> int:
    """Give the gangs that have asked what is held for them, and free what was held too long; return the decisions made."""
    decided = 0
    for job_id in sorted(core.ahead):
        record = core.state.jobs[job_id]
        want = record.want
        if isinstance(want, JobWant) and want.gang:
            decided += give(core, want, place)
        elif all(one.hold_until_s is None or one.hold_until_s <= core.now_s for one in holds_of(core, record)):
            release(core, record)
        core.changed(record)
    return decided


def wakes_s(core: Core) -> Iterator[float]:
    """Give the times at which holds end."""
    for job_id in core.ahead:
        record = core.state.jobs[job_id]
        if isinstance(record.want, JobWant) and record.want.gang:
            yield core.now_s
        yield from (one.hold_until_s for one in holds_of(core, record) if one.hold_until_s is not None)
