"""`ygs servers`: the servers as the service sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from yarn_gpu_sched.cli.convert import server_document, server_state_name
from yarn_gpu_sched.cli.documents import ServersDocument
from yarn_gpu_sched.cli.gpu_convert import gpus_out, is_well, server_health_document, server_in_short
from yarn_gpu_sched.cli.health import health_in_short, print_health
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, index_ranges, memory, print_json, table, text
from yarn_gpu_sched.cli.reservation_documents import reservation_document
from yarn_gpu_sched.cli.reservations import kept_on_servers, print_reservations
from yarn_gpu_sched.cli.service_option import connected, service_option

if TYPE_CHECKING:
    from yarn_gpu_sched.protocol.v1 import cluster_pb2

_STYLES = {"running": "green", "draining": "yellow", "unhealthy": "red", "HEALTH": "yellow"}


@click.command()
@as_json
@service_option
def servers(json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """List servers with what is used and which GPUs are free; below, what is wrong with GPUs, and what is kept for gangs.

    HEALTH is how many GPUs are not given out because they are not well, whether the server is drained, or its GPUs silent or
    unreadable; KEPT how many GPUs are kept there of how many, and the number of the line below that says for whom.
    """
    with connected(service) as client:
        views = list(client.servers())
        cluster = client.cluster()
        gpus = list(client.gpus())
    reservations = tuple(map(reservation_document, cluster.reservations))
    if json_:
        print_json(
            ServersDocument(
                tuple(map(server_document, views)),
                reservations,
                cluster.reservations_left_out,
                tuple(map(server_in_short, gpus)),
            ),
        )
        return
    out = console()
    health = {one.host: server_health_document(one) for one in gpus}
    marks = {one.host: health_in_short(health[one.host], gpus_out(one)) for one in gpus}
    well = {one.host: [gpu.slot for gpu in one.gpus if is_well(gpu)] for one in gpus}
    out.print(_servers(views, kept_on_servers(reservations), marks, well) if views else text("no servers"))
    print_health(out, list(health.values()))
    if reservations or cluster.reservations_left_out:
        print_reservations(out, reservations, cluster.reservations_left_out)
    out.print(text(_total(cluster)))


def _servers(
    views: list[cluster_pb2.ServerView], kept: dict[str, str], health: dict[str, str], well: dict[str, list[int]]
) -> Table:
    """List the servers; what is kept and what is not well has a column where anything is."""
    numbers = ("GPUS", "MEMORY", "VCORES", "RUNS")
    marks = {
        "HEALTH": [health.get(view.server.host, "") for view in views],
        "KEPT": [kept.get(view.server.server_id, "") for view in views],
    }
    shown = {name: cells for name, cells in marks.items() if any(cells)}
    columns = ("SERVER", "RACK", "STATE", "GPUS", "FREE", *shown, "MEMORY", "VCORES", "RUNS")
    rows = []
    for number, view in enumerate(views):
        row = _server_row(view, well.get(view.server.host, [gpu.index for gpu in view.gpus]))
        between = (text(cells[number] or "-", _STYLES.get(name, "")) for name, cells in shown.items())
        rows.append((*row[:5], *between, *row[5:]))
    return table(columns, rows, numbers=numbers, whole=("KEPT",), folded=("SERVER", "HEALTH"))


def _server_row(view: cluster_pb2.ServerView, well: list[int]) -> tuple[Text, ...]:
    """Describe a server; ``well``: the GPUs that are given out when nobody holds them."""
    held = {gpu.index for gpu in view.gpus if gpu.job_id}
    server, used, state = view.server, view.used, server_state_name(view.server.state)
    return (
        text(server.server_id),
        text(server.rack),
        text(state, _STYLES.get(state, "")),
        text(f"{used.gpus}/{server.capacity.gpus}"),
        text(index_ranges([index for index in well if index not in held]) or "-"),
        text(f"{memory(used.memory_mb)}/{memory(server.capacity.memory_mb)}"),
        text(f"{used.vcores}/{server.capacity.vcores}"),
        text(view.containers),
    )


def _total(cluster: cluster_pb2.GetClusterResponse) -> str:
    link = "connected" if cluster.connected else "NOT connected: nothing is placed"
    kept_gpus = sum(one.kept_gpus for one in cluster.reservations)
    kept = f", {kept_gpus} of them kept" if kept_gpus else ""
    return (
        f"{cluster.cluster_id or 'no cluster'}: {cluster.servers} servers, {cluster.used.gpus} of "
        f"{cluster.capacity.gpus} GPUs in use{kept}, {cluster.jobs_running} jobs running, {cluster.jobs_pending} pending; "
        f"resource manager {link}"
    )
