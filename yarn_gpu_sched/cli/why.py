"""`ygs why`: why a job waits, what would change that, and when."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from rich.table import Table

from yarn_gpu_sched.cli.convert import end_name, outlook_document, state_name, waiting_document
from yarn_gpu_sched.cli.documents import OutlookDocument, WhyDocument
from yarn_gpu_sched.cli.jobs import as_json, lifetime
from yarn_gpu_sched.cli.output import console, print_json, text
from yarn_gpu_sched.cli.service_option import connected, service_option
from yarn_gpu_sched.cli.text import clean
from yarn_gpu_sched.protocol.v1 import job_pb2

if TYPE_CHECKING:
    from yarn_gpu_sched.client import Client


@click.command()
@click.argument("job_id", metavar="JOB")
@as_json
@service_option
def why(job_id: str, json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """Say why JOB waits, what would change that, and when it may start."""
    with connected(service) as client:
        document = _why(client, job_id)
    if json_:
        print_json(document)
        return
    if sys.stdout.isatty():
        console().print(text(document.sentence))
    else:
        click.echo(clean(document.sentence))
    if document.outlook is not None:
        _print_outlook(document.outlook)


def _why(client: Client, job_id: str) -> WhyDocument:
    answer = client.why(job_id)
    view = client.job(job_id)
    expires = view.job.expire_time.ToJsonString() if view.job.HasField("expire_time") else None
    waiting = waiting_document(answer.waiting) if answer.HasField("waiting") else None
    said = f"waits: {waiting.sentence}" if waiting else _standing(view)
    left = lifetime(view)
    return WhyDocument(
        job_id=job_id,
        state=state_name(answer.state if waiting else view.state),
        sentence=f"{job_id} {said}" + (f"; {left}" if left else ""),
        waiting=waiting,
        expire_time=expires,
        outlook=outlook_document(answer.outlook) if waiting and answer.HasField("outlook") else None,
    )


def _standing(view: job_pb2.JobView) -> str:
    if view.state == job_pb2.JOB_STATE_ENDED:
        said = f": {view.diagnostics}" if view.diagnostics else ""
        return f"has ended ({end_name(view.end)}){said}"
    servers = len({container.server_id for container in view.containers})
    return (
        f"waits for nothing: it is {state_name(view.state)} with {len(view.containers)} containers and "
        f"{view.used.gpus} GPUs on {servers} servers"
    )


def _print_outlook(outlook: OutlookDocument) -> None:
    out = console()
    if outlook.changes:
        out.print(text("what would change it:", "bold"))
        out.print(_listed([("  -", sentence) for sentence in outlook.changes]))
    if outlook.when:
        out.print(_listed([("when:", outlook.when)]))


def _listed(lines: Iterable[tuple[str, str]]) -> Table:
    listing = Table.grid(padding=(0, 1, 0, 0))
    for mark, sentence in lines:
        listing.add_row(text(mark, "bold"), text(sentence))
    return listing
