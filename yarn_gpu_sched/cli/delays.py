"""`ygs delays`: how long jobs waited and why."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from yarn_gpu_sched.cli.convert import delay_row_document
from yarn_gpu_sched.cli.documents import DelayRowDocument, ListedDelaysDocument
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, duration, print_json, table, text
from yarn_gpu_sched.cli.service_option import connected, service_option

_CAUSES = ("FAIR-SHARE", "CAPACITY", "FRAGMENT", "OTHER")
_TWO_WAY_SIZES = ("2-4", "5-8", ">8")


@click.command()
@click.option("--vc", default="", metavar="PATH", help="Only jobs of this virtual cluster (queue path).")
@as_json
@service_option
def delays(vc: str, json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """Show how long jobs waited and why, by virtual cluster and by GPUs at once, since the service began.

    WAITS have ended, by a start or by the job's end; NOW counts the jobs that wait now. WAITED is the time of both. For each cause:
    its share of that time, and how many of the waits that ended it took most of.
    """
    with connected(service) as client:
        rows = [delay_row_document(row) for row in client.delays(vc)]
    if json_:
        print_json(ListedDelaysDocument(tuple(rows)))
        return
    out = console()
    if not rows:
        out.print(text("nobody has waited"))
        return
    out.print(_listing(rows))
    out.print()
    out.print(text("waits that ended, mostly for (fair share counts capacity too):", "bold"))
    out.print(_two_way(rows))


def _listing(rows: list[DelayRowDocument]) -> Table:
    numbers = ("WAITS", "NOW", "WAITED", *_CAUSES)
    return table(("VC", "GPUS", *numbers), map(_row, rows), numbers=numbers, folded=("VC",), whole=("GPUS",))


def _row(row: DelayRowDocument) -> tuple[Text, ...]:
    ended, waiting, mostly = row.delays, row.waiting_delays, row.mostly
    times_s = (
        ended.fair_share_s + waiting.fair_share_s,
        ended.capacity_s + waiting.capacity_s,
        ended.fragmentation_s + waiting.fragmentation_s,
        ended.other_s + waiting.other_s,
    )
    total_s = sum(times_s)
    counts = (mostly.fair_share, mostly.capacity, mostly.fragmentation, mostly.other)
    causes = [f"{_percent(time_s, total_s)} {count:>4}" for time_s, count in zip(times_s, counts, strict=True)]
    return tuple(map(text, (row.virtual_cluster, row.size, row.waits, row.waiting, duration(total_s), *causes)))


def _two_way(rows: list[DelayRowDocument]) -> Table:
    """Set fair share, capacity with it, against fragmentation, as the paper on Philly does (docs/philly.md)."""
    cells = []
    for size in _TWO_WAY_SIZES:
        of_size = [row.mostly for row in rows if row.size == size]
        fair_share = sum(one.fair_share + one.capacity for one in of_size)
        fragmentation = sum(one.fragmentation for one in of_size)
        both = fair_share + fragmentation
        counts = [f"{count} {_percent(count, both):>5}" for count in (fair_share, fragmentation)]
        cells.append(tuple(map(text, (size, *counts))))
    numbers = ("FAIR-SHARE", "FRAGMENTATION")
    return table(("GPUS", *numbers), cells, numbers=numbers)


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "-"
