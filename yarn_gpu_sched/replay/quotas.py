"""Quotas of virtual clusters: `vc,quota_gpus`, or Helios's `cluster_gpu_number.csv` with the sizes of each day."""

from datetime import timedelta
from pathlib import Path

import msgspec

from yarn_gpu_sched.replay.rows import EPOCH, Row, Table
from yarn_gpu_sched.replay.source import Source
from yarn_gpu_sched.replay.summary import counted
from yarn_gpu_sched.replay.trace import GPUS_MAX, NAME_CHARACTERS_MAX, Trace

QUOTA_COLUMNS = ("vc", "quota_gpus")
DAY_COLUMN = "date"
TOTAL_COLUMN = "total"
VCS_MAX = 10_000


class Quotas(msgspec.Struct):
    """GPUs of each virtual cluster. ``assumed``: what was taken for right to read them. ``noted``: what is out of the ordinary."""

    by_vc: dict[str, int]
    assumed: list[str] = []
    noted: list[str] = []


def read_quotas(path: Path | str, trace: Trace, gpus: int) -> Quotas:
    """Read quotas for a trace on a cluster of so many GPUs. Raises TraceError."""
    with Source(Path(path)) as source:
        table = Table(source)
        if table.has(QUOTA_COLUMNS):
            quotas = _plain(source, table)
        elif table.has((DAY_COLUMN, TOTAL_COLUMN)):
            quotas = _by_day(source, table, trace)
        else:
            raise table.unknown(
                "columns vc and quota_gpus, or Helios's date, virtual clusters and total, would be right"
            )
    _note(quotas, trace, gpus)
    return quotas


def _plain(source: Source, table: Table) -> Quotas:
    found: dict[str, int] = {}
    for row in table.rows():
        vc = row.text("vc")
        if vc in found:
            raise row.error("vc", "a virtual cluster that occurs once would be right")
        if len(vc) > NAME_CHARACTERS_MAX or not vc.isprintable():
            raise row.error("vc", f"1 to {NAME_CHARACTERS_MAX} printable characters would be right")
        if len(found) == VCS_MAX:
            raise row.error("vc", f"at most {VCS_MAX} virtual clusters would be right")
        found[vc] = row.whole("quota_gpus", 0, GPUS_MAX)
    if not found:
        raise source.error(0, "", "", "at least one virtual cluster would be right")
    return Quotas(found)


def _by_day(source: Source, table: Table, trace: Trace) -> Quotas:
    vcs = [name for name in table.columns if name not in (DAY_COLUMN, TOTAL_COLUMN)]
    if trace.first_s is None:
        raise table.unknown("columns vc and quota_gpus would be right: this trace tells no dates to look sizes up by")
    day = f"{EPOCH + timedelta(seconds=trace.first_s):%Y-%m-%d}"
    first: dict[str, int] | None = None
    changes = 0
    for row in table.rows():
        sizes = _sizes(row, vcs)
        if row.text(DAY_COLUMN) == day:
            first = sizes
        changes += first is not None and sizes != first
    if first is None:
        raise source.error(0, DAY_COLUMN, "", f"a row for {day}, when the first job was submitted, would be right")
    quotas = Quotas(first, [f"virtual clusters keep their sizes of {day}, when the first job was submitted"])
    if changes:
        quotas.noted.append(
            f"sizes of virtual clusters differ later, which is not followed: on {counted(changes, 'day')}"
        )
    return quotas


def _sizes(row: Row, vcs: list[str]) -> dict[str, int]:
    return {vc: row.whole(vc, 0, GPUS_MAX) for vc in vcs}


def _note(quotas: Quotas, trace: Trace, gpus: int) -> None:
    without = sum(job.vc not in quotas.by_vc for job in trace.jobs)
    if without:
        vcs = len({job.vc for job in trace.jobs} - quotas.by_vc.keys())
        quotas.noted.append(f"virtual clusters without a quota, theirs is 0: {vcs}, with {counted(without, 'job')}")
    nothing = sum(quotas.by_vc.get(job.vc) == 0 for job in trace.jobs)
    if nothing:
        quotas.noted.append(f"in virtual clusters with a quota of 0: {counted(nothing, 'job')}")
    total = sum(quotas.by_vc.values())
    if total > gpus:
        quotas.noted.append(f"the quotas add up to {total} GPUs, the cluster has {gpus}")
