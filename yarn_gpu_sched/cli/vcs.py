"""`ygs vcs`: virtual clusters with what they have, use and borrow, and what is wrong with their configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from yarn_gpu_sched.cli.convert import virtual_cluster_document
from yarn_gpu_sched.cli.documents import PartitionShareDocument, VirtualClusterDocument, VirtualClustersDocument
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, memory, print_json, table, text
from yarn_gpu_sched.cli.service_option import connected, service_option

if TYPE_CHECKING:
    from rich.console import Console

_NUMBERS = ("QUOTA", "MAX", "USED", "BORROWED", "MEMORY", "VCORES", "RUN", "WAIT")


@click.command()
@as_json
@service_option
def vcs(json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """List virtual clusters with quota and use.

    QUOTA, MAX, USED and BORROWED are GPUs; RUN and WAIT count jobs. A queue above others uses what they use. BORROWED is used by
    jobs that do not fit into the quota, in order of their start.
    """
    with connected(service) as client:
        uses = [virtual_cluster_document(use) for use in client.virtual_clusters()]
    if json_:
        print_json(VirtualClustersDocument(tuple(uses)))
        return
    out = console()
    out.print(_listing(uses) if uses else text("no virtual clusters"))
    if any(share.translated for use in uses for share in use.shares):
        out.print(text("* set in percent or as a weight: of the most GPUs that the partition ever had"))
    _print_warnings(out, uses)


def _listing(uses: list[VirtualClusterDocument]) -> Table:
    partitions = any(share.partition for use in uses for share in use.shares)
    columns = ("VC", *(("PARTITION",) if partitions else ()), *_NUMBERS)
    rows = (row for use in uses for row in _rows(use, partitions=partitions))
    return table(columns, rows, numbers=_NUMBERS, folded=("VC", "PARTITION"))


def _rows(use: VirtualClusterDocument, *, partitions: bool) -> Iterator[tuple[Text, ...]]:
    """Give a row for each partition; what is of the whole virtual cluster stands in the first."""
    shares = use.shares or (
        PartitionShareDocument("", use.quota_gpus, use.maximum_gpus, use.used.gpus, 0, translated=False),
    )
    for number, share in enumerate(shares):
        jobs = ("-", "-") if use.parent else (use.jobs_running, use.jobs_pending)
        whole = (memory(use.used.memory_mb), use.used.vcores, *jobs)
        yield (
            text("" if number else f"{use.path}{'' if use.running else ' (stopped)'}"),
            *((text(share.partition or "default"),) if partitions else ()),
            *map(text, _gpus(share)),
            *map(text, ("", "", "", "") if number else whole),
        )


def _gpus(share: PartitionShareDocument) -> tuple[object, ...]:
    quota = "-" if share.quota_gpus is None else f"{share.quota_gpus}{'*' if share.translated else ''}"
    maximum = "-" if share.maximum_gpus is None else share.maximum_gpus
    return (quota, maximum, share.used_gpus, share.borrowed_gpus or "-")


def _print_warnings(out: Console, uses: list[VirtualClusterDocument]) -> None:
    warnings = [(use.path, sentence) for use in uses for sentence in use.warnings]
    if not warnings:
        return
    out.print()
    out.print(text("warnings:", "bold"))
    listing = Table.grid(padding=(0, 1, 0, 0))
    for path, sentence in warnings:
        listing.add_row(text("  -"), text(f"{path}: {sentence}"))
    out.print(listing)
