"""`ygs idle`: who holds GPUs without using them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from yarn_gpu_sched.cli.gpu_convert import idle_document
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, duration, print_json, table, text
from yarn_gpu_sched.cli.service_option import connected, service_option

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from yarn_gpu_sched.cli.gpu_documents import IdleDocument, IdleJobDocument

_NUMBERS = ("GPUS", "IDLE", "UNREAD", "FOR")


@click.command()
@as_json
@service_option
def idle(json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """List the jobs that hold GPUs without using them, the longest first.

    GPUS is what a job holds, IDLE what it has not used, FOR how long the longest of these, UNREAD those of which nobody can tell.
    """
    with connected(service) as client:
        document = idle_document(client.idle())
    if json_:
        print_json(document)
        return
    out = console()
    if document.jobs:
        out.print(_listing(document))
    out.print(text(_meaning(document)))


def _listing(document: IdleDocument) -> Table:
    noted = any(map(_note, document.jobs))
    columns = ("JOB", "GPUS", "IDLE", "UNREAD", "FOR", "VC", "USER", *(("NOTE",) if noted else ()), "HOSTS")
    rows = (_row(job, noted=noted) for job in document.jobs)
    return table(columns, rows, numbers=_NUMBERS, whole=("JOB",), folded=("NOTE", "HOSTS"))


def _row(job: IdleJobDocument, *, noted: bool) -> tuple[Text, ...]:
    return (
        text(job.job_id),
        text(job.gpus),
        text(job.idle_gpus),
        text(job.unknown_gpus or "-"),
        text(duration(job.idle_s)),
        text(job.virtual_cluster.removeprefix("root.")),
        text(job.user),
        *((text(_note(job)),) if noted else ()),
        text(" ".join(job.hosts)),
    )


def _note(job: IdleJobDocument) -> str:
    notes = {"warned": job.warned, "preemptable": job.preemptable}
    return " ".join(note for note, applies in notes.items() if applies)


def _meaning(document: IdleDocument) -> str:
    means = f"used less than {document.idle_below_percent} % for {duration(document.idle_after_s)}"
    if not document.jobs:
        return f"no job holds GPUs without using them ({means})"
    more = f"and {document.left_out} more jobs; " if document.left_out else ""
    return f"{more}idle: {means}"
