"""Finds out, when time goes on, for which reason each line and each job has waited from then on.

Counted is what is so at the end of each instant. A line is looked at again only when a number that its reason depends on has passed
the GPUs that it wants: those that are free in its partition, or those that are left of a quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.line_clock import note
from yarn_gpu_sched.engine.thresholds import turn
from yarn_gpu_sched.engine.views import DelayRow
from yarn_gpu_sched.engine.waiting import waiting_reason
from yarn_gpu_sched.model.delay import SIZES, Delays, Totals, size_of

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core

US_PER_S = 1_000_000


def advance(core: Core, now_s: float) -> None:
    """Let time go on; who waited until now did so for what is so now."""
    settle(core)
    core.now_s = now_s
    core.waits.now_us = round(now_s * US_PER_S)


def settle(core: Core) -> None:
    """Find out why everybody waits now."""
    if core.limits_stale:
        core.follow_limits()
    waits, thresholds = core.waits, core.thresholds
    if waits.gone:
        for line in waits.gone.values():
            thresholds.remove(line)
        waits.gone.clear()
    if thresholds.stale:
        _look_at_all(core)
    else:
        thresholds.follow(core)
    if waits.fresh:
        for line in waits.fresh.values():
            thresholds.add(core, line)
            turn(core, line)
        waits.fresh.clear()
    for job_id in waits.unsettled:
        _note(core, job_id)
    waits.unsettled.clear()


def _look_at_all(core: Core) -> None:
    core.thresholds.stale = False
    core.thresholds.look_again(core)
    fresh = core.waits.fresh
    for line in core.queue.lines():
        if line.number not in fresh:
            turn(core, line)


def _note(core: Core, job_id: str) -> None:
    """Note why a job waits that stands in no line."""
    record = core.state.jobs.get(job_id)
    if record is None or record.wait.since_us is None or record.wait.joined is not None:
        return
    reason = waiting_reason(core, record)
    if reason is not None:
        history = list(record.wait.history)
        note(history, reason.code, core.waits.now_us)
        record.wait.history = tuple(history)


def at_us(core: Core, now_s: float | None) -> int:
    """Say what time it is: that of the last event, or a later one."""
    return core.waits.now_us if now_s is None else max(core.waits.now_us, round(now_s * US_PER_S))


def delay_rows(core: Core, vc: str, now_us: int) -> list[DelayRow]:
    """Add up the waits that have ended and those that go on, by virtual cluster and size; of one virtual cluster, or of all."""
    settle(core)
    waiting: dict[tuple[str, str], tuple[int, Delays]] = {}
    for record in core.state.jobs.values():
        if record.wait.since_us is not None and (not vc or record.job.vc == vc):
            key = (record.job.vc, size_of(record.gpus))
            count, delays = waiting.get(key, (0, Delays()))
            waiting[key] = (count + 1, delays.plus(core.waits.delays_of(record, now_us)))
    totals = core.waits.totals
    keys = {key for key in totals if not vc or key[0] == vc} | waiting.keys()
    return [
        _row(key, totals.get(key, Totals()), *waiting.get(key, (0, Delays()))) for key in sorted(keys, key=_in_order)
    ]


def _in_order(key: tuple[str, str]) -> tuple[str, int]:
    return key[0], SIZES.index(key[1])


def _row(key: tuple[str, str], total: Totals, waiting: int, delays: Delays) -> DelayRow:
    fair_share, capacity, fragmentation, other = total.mostly
    mostly = (fair_share, capacity, fragmentation, other)
    return DelayRow(*key, total.waits, total.delays, mostly, waiting, delays)
