"""How `ygs servers` shows what is kept for gangs that have waited too long: a mark in the rows, a sentence each below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from yarn_gpu_sched.cli.output import duration, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from yarn_gpu_sched.cli.reservation_documents import ReservationDocument

SERVERS_NAMED_MAX = 8
AWAITED_NAMED_MAX = 3


def kept_on_servers(reservations: Sequence[ReservationDocument]) -> dict[str, str]:
    """Say for each server how many GPUs are kept there of how many that are wanted, with the number of the reservation."""
    kept: dict[str, list[str]] = {}
    for number, one in enumerate(reservations, 1):
        for part in one.servers:
            kept.setdefault(part.server_id, []).append(f"{part.kept_gpus}/{part.gpus} #{number}")
    return {server_id: " ".join(marks) for server_id, marks in kept.items()}


def print_reservations(out: Console, reservations: Sequence[ReservationDocument], left_out: int) -> None:
    """Print who has what kept where, since when, and when the rest is expected."""
    listing = Table.grid(padding=(0, 1, 0, 0))
    for number, one in enumerate(reservations, 1):
        listing.add_row(text(f"#{number}", "bold"), text(_sentence(one)))
    out.print(text("kept for gangs that have waited too long:", "bold"))
    out.print(listing)
    if left_out:
        out.print(text(f"and {left_out} more"))


def _sentence(one: ReservationDocument) -> str:
    partition = f' in partition "{one.partition}"' if one.partition else ""
    kept = f"{one.kept_gpus} of its {one.gpus} GPUs, since {duration(one.age_s)}"
    borrows = "; it would borrow, so jobs within their quotas may take them" if one.over_quota else ""
    return f"{one.job_id} of {one.virtual_cluster}{partition}: {kept}; {_where(one)}{_rest(one)}{borrows}"


def _where(one: ReservationDocument) -> str:
    named = [f"{part.kept_gpus} of {part.gpus} on {part.server_id}" for part in one.servers[:SERVERS_NAMED_MAX]]
    more = len(one.servers) - len(named)
    return ", ".join(named) + (f" and on {more} servers more" if more else "")


def _rest(one: ReservationDocument) -> str:
    """Say who holds what is not kept yet, and when that is expected."""
    if one.kept_gpus >= one.gpus:
        return ""
    if one.ready_in_s is None:
        when = "nobody knows when"
    else:
        when = f"expected in {duration(one.ready_in_s)}" if one.ready_in_s >= 1 else "expected by now"
    return f"; the rest{_who(one.awaited_job_ids)}, {when}"


def _who(job_ids: Sequence[str]) -> str:
    if len(job_ids) > AWAITED_NAMED_MAX:
        return f" when {', '.join(job_ids[:AWAITED_NAMED_MAX])} and others end"
    if len(job_ids) > 1:
        return f" when {', '.join(job_ids[:-1])} and {job_ids[-1]} end"
    return f" when {job_ids[0]} ends" if job_ids else ""
