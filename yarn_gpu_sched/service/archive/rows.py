"""Rows as the archive's columns want them."""

from __future__ import annotations

from typing import Any, NamedTuple

from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.service.archive.accounts import Account, Seconds

US = 1_000_000

Row = tuple[Any, ...]


class Waited(NamedTuple):
    """How long an attempt waited by cause, in seconds, and for which reasons in turn."""

    fair_share_s: float
    capacity_s: float
    fragmentation_s: float
    other_s: float
    reasons: list[str]


def waited(view: JobView) -> Waited:
    """Read it from a job's view."""
    delays = view.delays
    return Waited(
        delays.fair_share_us / US,
        delays.capacity_us / US,
        delays.fragmentation_us / US,
        delays.other_us / US,
        [one.code.value for one in view.history],
    )


def at(time_s: float | None) -> int | None:
    """Give a time in microseconds since 1970."""
    return None if time_s is None else round(time_s * US)


def job_row(account: Account, ended_s: float, outcome: str, known: Waited | None, *, final: bool) -> Row:
    """Make the row of an attempt that has ended; what is not known of its wait is empty."""
    return (
        account.job_id,
        account.attempt,
        account.user,
        account.vc,
        account.name,
        at(account.submitted_s),
        at(account.started_s),
        at(ended_s),
        final,
        outcome,
        account.gpus_most,
        [{"server": server, "gpus": list(gpus)} for server, gpus in account.places],
        *account.sums.cells,
        list(account.preempted_by),
        *(known or (None, None, None, None, [])),
    )


def use_row(account: Account, hour_s: int, seconds: Seconds) -> Row:
    """Make the row of a job's use in an hour."""
    return (at(hour_s), account.job_id, account.user, account.vc, *seconds.cells)
