"""How `ygs servers` shows what telemetry and operators say: a mark in the rows, a sentence each below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from yarn_gpu_sched.cli.output import duration, text, to_the_second

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from yarn_gpu_sched.cli.gpu_documents import GpuHealthDocument, SaidDocument, ServerHealthDocument

LINES_MAX = 20
UNKNOWN = ("silent", "unreadable")
"""States of telemetry in which nothing new is placed on a server."""


def health_in_short(server: ServerHealthDocument, gpus_out: int) -> str:
    """Say in few words what keeps GPUs of a server from being given out; empty if nothing does."""
    words = [
        "drained" if server.drained else "",
        server.telemetry if server.telemetry in UNKNOWN else "",
        f"{gpus_out} out" if gpus_out else "",
        f"{server.gpus_over_committed} over" if server.gpus_over_committed else "",
    ]
    return ", ".join(filter(None, words))


def print_health(out: Console, servers: Sequence[ServerHealthDocument]) -> None:
    """Print what is wrong with servers and GPUs, who said so and why."""
    lines = [line for server in servers for line in _lines(server)]
    if not lines:
        return
    listing = Table.grid(padding=(0, 1, 0, 0))
    for name, sentence in lines[:LINES_MAX]:
        listing.add_row(text(name, "bold"), text(sentence))
    out.print(text("not given out:", "bold"))
    out.print(listing)
    if len(lines) > LINES_MAX:
        out.print(text(f"and {len(lines) - LINES_MAX} more: ygs top --once"))


def _lines(server: ServerHealthDocument) -> Iterator[tuple[str, str]]:
    if server.drained is not None:
        yield server.host, f"drained {said(server.drained)}"
    if server.telemetry in UNKNOWN:
        yield server.host, f"{telemetry_words(server)}: nothing new is placed"
    for gpu in server.gpus:
        words = gpu_words(gpu)
        if words:
            yield f"{server.host} {gpu.slot}", words
    if server.gpus_counted > len(server.gpus):
        lacking = server.gpus_counted - len(server.gpus)
        yield server.host, f"YARN counts {lacking} GPUs more than there are"
    if server.gpus_over_committed:
        yield server.host, f"{server.gpus_over_committed} GPUs more are held than are healthy"


def telemetry_words(server: ServerHealthDocument) -> str:
    """Say how a server's telemetry is, with what the driver said."""
    detail = f" ({server.failure})" if server.failure else ""
    if server.telemetry == "silent":
        heard = "" if server.age_s is None else f", last heard {duration(server.age_s)} ago"
        return f"its monitor is silent{heard}{detail}"
    if server.telemetry == "unreadable":
        return f"its GPUs cannot be read{detail}"
    return {"none": "no monitor", "unknown": "telemetry in a state that this command does not know"}.get(
        server.telemetry, ""
    )


def gpu_words(gpu: GpuHealthDocument) -> str:
    """Say why a GPU is not given out; empty if it is well, and free or held by its holder alone."""
    if gpu.health == "ok":
        return "not seen free yet" if gpu.clearing else ""
    faults = f": {', '.join(gpu.faults)}" if gpu.faults else ""
    ack = ", waits for ygs ack" if gpu.needs_ack else ""
    by = f" {said(gpu.quarantined)}" if gpu.quarantined is not None else ""
    holder = f"; held by {gpu.job_id}" if gpu.job_id else ""
    return f"{gpu.health} for {duration(gpu.since_s)}{faults}{by}{ack}{holder}"


def said(mark: SaidDocument) -> str:
    """Say who said something, when and why."""
    return f"by {mark.by}, {to_the_second(mark.time)}: {mark.reason}"
