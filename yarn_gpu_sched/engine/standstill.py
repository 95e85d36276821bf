"""What would let a job go on that waits for something other than room: its master, its resource manager, its administrator."""

from collections.abc import Callable

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.phrases import span
from yarn_gpu_sched.engine.repair import asks_replacement, holds_of
from yarn_gpu_sched.engine.views import Outlook
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.reason import ReasonCode


def standstill(core: Core, record: JobRecord, code: ReasonCode, now_s: float) -> Outlook | None:
    """Say what would change a wait that room does not end; None if this is not one of those."""
    answer = _ANSWERS.get(code)
    return None if answer is None else answer(core, record, now_s)


def _not_asked(core: Core, record: JobRecord, now_s: float) -> Outlook:
    del now_s
    if not record.job.active:
        if not core.state.servers:
            change = "a server that registers with the resource manager"
        else:
            limits = "maximum-am-resource-percent, user-limit-factor, maximum-applications, max-parallel-apps"
            change = f"the end of another application of queue {record.job.vc}, or larger limits there ({limits})"
        return Outlook((change,), "unknown: the resource manager decides that, by its own limits")
    change = (
        "its application master asks for containers" if record.containers else "its application master is asked for"
    )
    return Outlook((change,), "unknown: that is the application's doing")


def _incomplete(core: Core, record: JobRecord, now_s: float) -> Outlook:
    change = "its application master asks for the rest of the gang, or the tag names as many as it asks for"
    holds = holds_of(core, record)
    kept = ""
    if holds:
        left_s = max(hold.hold_until_s or 0.0 for hold in holds) - now_s
        kept = f"; what is held for it is given up in {span(left_s)}"
    return Outlook((change,), f"unknown: that is the application's doing{kept}")


def _gathering(core: Core, record: JobRecord, now_s: float) -> Outlook:
    del core
    left_s = (record.gather_until_s or now_s) - now_s
    change = "asks that change no more: a gang is formed of them then"
    return Outlook((change,), f"not before {span(left_s)} from now, when its gang is formed")


def _degraded(core: Core, record: JobRecord, now_s: float) -> Outlook:
    changes = []
    holds = holds_of(core, record)
    if holds:
        left_s = max(hold.hold_until_s or 0.0 for hold in holds) - now_s
        changes.append(f"a replacement that its master asks for within {span(left_s)}: its GPUs are held so long")
    elif asks_replacement(record):
        changes.append("room for the replacement that its master asks for")
    else:
        changes.append("a replacement that its master asks for")
    at_s = record.requeue_at_s(core.settings.requeue_after_s)
    if record.requeued or at_s == float("inf") or not asks_replacement(record):
        when = "unknown: that is the application's doing"
        return Outlook(tuple(changes), "as soon as it has started anew" if record.requeued else when)
    return Outlook(tuple(changes), f"in {span(at_s - now_s)} at the latest it is whole, or starts anew as a whole")


def _masters(core: Core, record: JobRecord, now_s: float) -> Outlook:
    del now_s
    vc = record.job.vc
    own = core.by_vc and core.in_force.part(vc) is not None
    whose = f" of queue {vc}" if own else ""
    larger = f"a larger share for masters (setting am_share, {core.settings.am_share:.0%} now), or smaller masters"
    changes = [f"the ends of applications{whose} that run: their masters hold the share", larger]
    if own:
        changes.append(f"a larger quota of queue {vc}: its masters have the part of the share that it is of all GPUs")
    return Outlook(tuple(changes), "unknown: nobody says when those applications end")


def _refused(core: Core, record: JobRecord, now_s: float) -> Outlook:
    del core, record, now_s
    return Outlook((), "never: the resource manager is told to end it")


def _unconnected(core: Core, record: JobRecord, now_s: float) -> Outlook:
    del core, record, now_s
    return Outlook(("a resource manager that connects",), "unknown: nobody says when a resource manager connects")


def _never_fits(core: Core, record: JobRecord, now_s: float) -> Outlook:
    del record
    changes = ["servers that hold it: more of them, larger ones, or those that are away"]
    left_s = core.session.settles_at_s - now_s
    if not core.session.settled and left_s > 0:
        when = f"unknown; if in {span(left_s)} the servers that are there cannot hold it, it is refused"
    else:
        when = "not on the servers that are there"
    return Outlook(tuple(changes), when)


_ANSWERS: dict[ReasonCode, Callable[[Core, JobRecord, float], Outlook]] = {
    ReasonCode.NOT_ASKED: _not_asked,
    ReasonCode.GANG_INCOMPLETE: _incomplete,
    ReasonCode.GATHERING: _gathering,
    ReasonCode.GANG_DEGRADED: _degraded,
    ReasonCode.AM_LIMIT: _masters,
    ReasonCode.REFUSED: _refused,
    ReasonCode.NO_RESOURCE_MANAGER: _unconnected,
    ReasonCode.NEVER_FITS_NOW: _never_fits,
}
