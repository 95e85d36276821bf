"""`ygs drain`, `ygs undrain`, `ygs quarantine` and `ygs ack`: what operators say of servers and GPUs (docs/health.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from yarn_gpu_sched.cli.caller import caller
from yarn_gpu_sched.cli.gpu_convert import ACTIONS, mark_document
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, print_json, text
from yarn_gpu_sched.cli.service_option import connected, service_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from yarn_gpu_sched.cli.gpu_documents import ActionName, MarkDocument

JOBS_NAMED_MAX = 20
_SAID_ANEW = ("drain", "quarantine")
"""Where what was said before is replaced by what is said now, though nothing else changes."""


def _marking(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every command of an operator takes."""
    for option in (
        service_option,
        as_json,
        click.option("--dry-run", is_flag=True, help="Only say what it would change."),
        click.option("--by", default="", metavar="NAME", help="Who says so.  [default: the login name]"),
        click.option("--reason", default="", metavar="TEXT", help="Why; everybody who asks sees it."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("server")
@_marking
def drain(server: str, **said: Any) -> None:  # noqa: ANN401 - the options that all four share
    """Place nothing new on SERVER (its host or id), until `ygs undrain`; what runs there goes on.

    A drained server still counts for quotas.
    """
    _mark("drain", server, "", **said)


@click.command()
@click.argument("server")
@_marking
def undrain(server: str, **said: Any) -> None:  # noqa: ANN401 - the options that all four share
    """Place on SERVER (its host or id) again."""
    _mark("undrain", server, "", **said)


@click.command()
@click.argument("server")
@click.argument("gpu")
@_marking
def quarantine(server: str, gpu: str, **said: Any) -> None:  # noqa: ANN401 - the options that all four share
    """Give GPU (its slot or UUID) of SERVER to nobody, until `ygs ack`; who holds it keeps it."""
    _mark("quarantine", server, gpu, **said)


@click.command()
@click.argument("server")
@click.argument("gpu", default="")
@_marking
def ack(server: str, gpu: str, **said: Any) -> None:  # noqa: ANN401 - the options that all four share
    """Say that the faults of GPU (its slot or UUID) of SERVER are dealt with; without GPU, of all of its GPUs.

    A GPU that reads well then recovers, and is given out again after a while. Of a server whose monitor is silent, `ygs ack SERVER`
    gives the monitor up: its GPUs count as healthy until one speaks again.
    """
    _mark("ack", server, gpu, **said)


def _mark(  # noqa: PLR0913 - what all four are told
    action: ActionName,
    server: str,
    gpu: str,
    *,
    reason: str,
    by: str,
    dry_run: bool,
    json_: bool,
    service: str | None,
) -> None:
    by = by.strip() or caller()
    if not dry_run and not reason.strip():
        raise click.UsageError("--reason is missing: say why, for example --reason 'fan replaced'")
    if not dry_run and not by:
        raise click.UsageError("--by is missing: you have no login name, so say who you are")
    with connected(service) as client:
        answer = client.mark(ACTIONS[action], server, reason, gpu=gpu, by=by, dry_run=dry_run)
    document = mark_document(action, server, gpu, answer, dry_run=dry_run)
    if json_:
        print_json(document)
    else:
        _print(console(), document)


def _print(out: Console, document: MarkDocument) -> None:
    for sentence in document.changes or (_nothing_new(document),):
        out.print(text(f"would change: {sentence}" if document.dry_run and document.changes else sentence, "bold"))
    if document.job_ids:
        rows = Table.grid(padding=(0, 1, 0, 0))
        rows.add_row(text("runs there, and goes on:"), text(_jobs(document.job_ids)))
        out.print(rows)
    if document.dry_run:
        out.print(text("nothing was changed"))
    elif document.kept:
        out.print(text("it survives a restart of the service"))
    else:
        out.print(text(f"it does not survive a restart of the service: {document.not_kept_because}", "yellow"))


def _nothing_new(document: MarkDocument) -> str:
    if document.action in _SAID_ANEW and not document.dry_run:
        return "it is so already; what is kept now is your reason"
    return "nothing waits for that" if document.action == "ack" else "it is so already"


def _jobs(job_ids: tuple[str, ...]) -> str:
    more = len(job_ids) - JOBS_NAMED_MAX
    return " ".join(job_ids[:JOBS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
