"""`ygs top`: what GPUs do now, by server or by job, until it is interrupted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.live import Live

from yarn_gpu_sched.cli.gpu_convert import server_health_document
from yarn_gpu_sched.cli.gpu_documents import TopDocument
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, print_json, terminal_size, text
from yarn_gpu_sched.cli.service_option import connected, service_option
from yarn_gpu_sched.cli.top_views import by_job, by_server
from yarn_gpu_sched.client import DeadlineError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console, RenderableType

    from yarn_gpu_sched.cli.gpu_documents import ServerHealthDocument

    Fetch = Callable[[], Sequence[ServerHealthDocument]]
    View = Callable[[Sequence[ServerHealthDocument], int], RenderableType]

EVERY_MIN_S, EVERY_MAX_S = 0.5, 3_600.0
LINES_ANY = 1_000_000_000
VIEWS = {"server": by_server, "job": by_job}


@click.command()
@click.option("--by", type=click.Choice([*VIEWS]), default="server", show_default=True, help="A line a GPU, or a job.")
@click.option("--server", default="", metavar="SERVER", help="Only this server (its host or id).")
@click.option("--once", is_flag=True, help="Print once; so it is where the output is no terminal.")
@click.option(
    "--every",
    type=click.FloatRange(EVERY_MIN_S, EVERY_MAX_S),
    default=3.0,
    metavar="SECONDS",
    show_default=True,
    help="How often it is read anew.",
)
@as_json
@service_option
def top(by: str, server: str, once: bool, every: float, json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes options
    """Show what GPUs do: utilisation, memory, since when they are not used, health, and whose they are; Ctrl-C ends it.

    A dash stands for what is not available. IDLE is for how long its holder has not used a GPU; by job, IDLE counts these GPUs and
    FOR is the longest. A terminal of 100 columns shows more.
    """
    view = VIEWS[by]
    with connected(service) as client:

        def fetch() -> list[ServerHealthDocument]:
            return [server_health_document(one) for one in client.gpus(server)]

        if json_:
            print_json(TopDocument(tuple(fetch())))
            return
        out = console()
        if once or not out.is_terminal or out.is_dumb_terminal:
            out.print(view(fetch(), LINES_ANY))
        else:
            _watch(out, fetch, view, every)


def _watch(out: Console, fetch: Fetch, view: View, every_s: float) -> None:
    """Show it again and again; a service that is away for a while is said, with what was read last."""
    servers, said = fetch(), ""
    with Live(console=out, screen=True, auto_refresh=False) as live:
        try:
            while True:
                out.width, out.height = terminal_size()
                lines = out.height - (2 if said else 1)
                shown = view(servers, lines)
                live.update(Group(text(said, "bold red"), shown) if said else shown, refresh=True)
                time.sleep(every_s)
                try:
                    servers, said = fetch(), ""
                except (UnavailableError, DeadlineError) as error:
                    said = f"the service does not answer ({error}); what it said last:"
        except KeyboardInterrupt:
            return
