"""`ygs servers`: the servers as the service sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from yarn_gpu_sched.cli.convert import server_document, server_state_name
from yarn_gpu_sched.cli.documents import ServersDocument
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, index_ranges, memory, print_json, table, text
from yarn_gpu_sched.cli.service_option import connected, service_option

if TYPE_CHECKING:
    from yarn_gpu_sched.protocol.v1 import cluster_pb2

_STYLES = {"running": "green", "draining": "yellow", "unhealthy": "red"}


@click.command()
@as_json
@service_option
def servers(json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """List servers with what is used and which GPUs are free."""
    with connected(service) as client:
        views = list(client.servers())
        cluster = client.cluster()
    if json_:
        print_json(ServersDocument(tuple(map(server_document, views))))
        return
    out = console()
    out.print(_servers(views) if views else text("no servers"))
    out.print(text(_total(cluster)))


def _servers(views: list[cluster_pb2.ServerView]) -> Table:
    numbers = ("GPUS", "MEMORY", "VCORES", "RUNS")
    columns = ("SERVER", "RACK", "STATE", "GPUS", "FREE", "MEMORY", "VCORES", "RUNS")
    return table(columns, map(_server_row, views), numbers=numbers, folded=("SERVER",))


def _server_row(view: cluster_pb2.ServerView) -> tuple[Text, ...]:
    server, used, state = view.server, view.used, server_state_name(view.server.state)
    return (
        text(server.server_id),
        text(server.rack),
        text(state, _STYLES.get(state, "")),
        text(f"{used.gpus}/{server.capacity.gpus}"),
        text(index_ranges([gpu.index for gpu in view.gpus if not gpu.job_id]) or "-"),
        text(f"{memory(used.memory_mb)}/{memory(server.capacity.memory_mb)}"),
        text(f"{used.vcores}/{server.capacity.vcores}"),
        text(view.containers),
    )


def _total(cluster: cluster_pb2.GetClusterResponse) -> str:
    link = "connected" if cluster.connected else "NOT connected: nothing is placed"
    return (
        f"{cluster.cluster_id or 'no cluster'}: {cluster.servers} servers, {cluster.used.gpus} of "
        f"{cluster.capacity.gpus} GPUs in use, {cluster.jobs_running} jobs running, {cluster.jobs_pending} pending; "
        f"resource manager {link}"
    )
