"""The tables of `ygs top`. What is not available is a dash, never 0; readings that are old are said to be."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from yarn_gpu_sched.cli.gpu_use import JobUse, jobs_of
from yarn_gpu_sched.cli.health import UNKNOWN, telemetry_words
from yarn_gpu_sched.cli.output import ROOMY_CELLS, console, duration, memory, table, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from yarn_gpu_sched.cli.gpu_documents import GpuHealthDocument, GpuReadingDocument, ServerHealthDocument

NOT_AVAILABLE = "\N{EN DASH}"
"""A hyphen says that there is none."""
OLD_S = 15.0
"""From this age on a reading's age is shown: monitors speak every 5 s unless they are set otherwise."""

_NUMBERS = ("GPU", "GPUS", "UTIL", "MEMORY", "TEMP", "POWER", "IDLE", "FOR")
_STYLES = {"suspect": "yellow", "quarantined": "red", "recovering": "yellow"}


def by_server(servers: Sequence[ServerHealthDocument], lines_max: int) -> RenderableType:
    """Show servers with a line a GPU, as many whole servers as fit."""
    shown: list[ServerHealthDocument] = []
    lines = 2
    for server in servers:
        lines += 1 + len(server.gpus) + _title(server).plain.count("\n")
        if lines > lines_max and shown:
            break
        shown.append(server)
    roomy = console().width >= ROOMY_CELLS
    head = _head(servers, f"{len(shown)} servers shown" if len(shown) < len(servers) else "")
    if not any(server.gpus for server in shown):
        return Group(head, *map(_title, shown))
    tables = _tables([[_gpu_row(gpu, server, roomy=roomy) for gpu in server.gpus] for server in shown], roomy=roomy)
    parts = [part for server, one in zip(shown, tables, strict=True) for part in (_title(server), one)]
    return Group(head, *parts)


def _tables(groups: list[list[tuple[Text, ...]]], *, roomy: bool) -> list[Table]:
    """Make a table of each server, all with the same columns; the first has the names."""
    wide = ("TEMP", "POWER") if roomy else ()
    columns = ("GPU", "UTIL", "MEMORY", *wide, "IDLE", "HEALTH", "JOB", "VC")
    widths = [column.width for column in table(columns, chain(*groups), numbers=_NUMBERS, whole=("JOB",)).columns]
    tables = [table(columns, rows, numbers=_NUMBERS, whole=("JOB",), folded=("HEALTH",)) for rows in groups]
    for number, one in enumerate(tables):
        one.show_header = number == 0
        for column, width in zip(one.columns, widths, strict=True):
            column.width = width
    return tables


def _gpu_row(gpu: GpuHealthDocument, server: ServerHealthDocument, *, roomy: bool) -> tuple[Text, ...]:
    reading = gpu.reading
    read = (None, None, None) if reading is None else (reading.sm_percent, reading.temperature_c, reading.power_w)
    sm_percent, temperature_c, power_w = read
    wide = (_with(temperature_c, "C"), _with(power_w, "W")) if roomy else ()
    return (
        text(gpu.slot),
        text(_with(sm_percent, "%")),
        text(_memory(reading)),
        *map(text, wide),
        text(_idle(gpu, server)),
        text(_health(gpu, server), _STYLES.get(gpu.health, "")),
        text(gpu.job_id or "-"),
        text((gpu.virtual_cluster or "-").removeprefix("root.")),
    )


def _with(value: int | None, unit: str) -> str:
    return NOT_AVAILABLE if value is None else f"{value}{unit}"


def _memory(reading: GpuReadingDocument | None) -> str:
    used = None if reading is None else reading.memory_used_mb
    total = None if reading is None else reading.memory_total_mb
    if used is None and total is None:
        return NOT_AVAILABLE
    return "/".join(NOT_AVAILABLE if one is None else memory(one) for one in (used, total))


def _idle(gpu: GpuHealthDocument, server: ServerHealthDocument) -> str:
    """Say for how long its holder has not used a GPU; a dash where nobody can tell, nothing where it has no holder."""
    if gpu.idle_s is not None:
        return duration(gpu.idle_s)
    if gpu.job_id is None:
        return ""
    unknown = gpu.reading is None or gpu.reading.sm_percent is None or server.telemetry in UNKNOWN
    return NOT_AVAILABLE if unknown else "used"


def _health(gpu: GpuHealthDocument, server: ServerHealthDocument) -> str:
    if server.telemetry == "none" and gpu.health == "ok":
        return NOT_AVAILABLE
    notes = ["not seen free"] if gpu.clearing and "not_free" not in gpu.faults else []
    return " ".join([gpu.health, *gpu.faults, *notes])


def _title(server: ServerHealthDocument) -> Text:
    """Say how a server is in a line; what is not as it should be in another one where that does not fit, cut at its end."""
    simulated = " (simulated GPUs)" if server.simulated else ""
    healthy = f"{server.gpus_healthy} of {server.gpus_counted} GPUs healthy"
    cpu = "" if server.cpu_percent is None else f"CPU {server.cpu_percent}%"
    used, total = server.memory_used_mb, server.memory_total_mb
    ram = "" if used is None or total is None else f"memory {memory(used)}/{memory(total)}"
    notes = [
        telemetry_words(server),
        "drained" if server.drained else "",
        _read_ago([gpu.reading for gpu in server.gpus]),
        f"{server.gpus_over_committed} held beyond the healthy" if server.gpus_over_committed else "",
        "" if server.server_id else "not known to the resource manager",
    ]
    line = text(f"{server.host}{simulated}", "bold")
    line.append_text(text(": " + ", ".join(filter(None, (healthy, cpu, ram)))))
    if said := "; ".join(filter(None, notes)):
        fits = line.cell_len + len("; ") + cell_len(said) <= console().width
        line.append("; " if fits else "\n  ").append_text(text(said, "yellow"))
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _read_ago(readings: Sequence[GpuReadingDocument | None]) -> str:
    oldest_s = max((one.age_s for one in readings if one is not None), default=0.0)
    return f"read {duration(oldest_s)} ago" if oldest_s >= OLD_S else ""


def _head(servers: Sequence[ServerHealthDocument], shown: str) -> Text:
    gpus = [gpu for server in servers for gpu in server.gpus]
    held = sum(gpu.job_id is not None for gpu in gpus)
    out = sum(gpu.health != "ok" for gpu in gpus)
    simulated = sum(len(server.gpus) for server in servers if server.simulated)
    notes = [f"{held} held", f"{out} not healthy" if out else "", f"{simulated} simulated" if simulated else ""]
    said = f"{len(servers)} servers, {len(gpus)} GPUs: {', '.join(filter(None, notes))}"
    line = text(f"{said}; {shown}" if shown else said)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


# By job


def by_job(servers: Sequence[ServerHealthDocument], lines_max: int) -> RenderableType:
    """Show jobs that hold GPUs, as many as fit."""
    jobs = jobs_of(servers)
    shown = jobs[: max(1, lines_max - 2)]
    head = _head(servers, f"{len(shown)} of {len(jobs)} jobs shown" if len(shown) < len(jobs) else "")
    if not jobs:
        return Group(head, text("no job holds GPUs"))
    roomy = console().width >= ROOMY_CELLS
    columns = ("JOB", "GPUS", "UTIL", "MEMORY", "IDLE", "FOR", "VC", "NOTE", *(("HOSTS",) if roomy else ()))
    rows = (_job_row(job, roomy=roomy) for job in shown)
    return Group(head, table(columns, rows, numbers=_NUMBERS, whole=("JOB",), folded=("NOTE", "HOSTS")))


def _job_row(job: JobUse, *, roomy: bool) -> tuple[Text, ...]:
    used = NOT_AVAILABLE if job.memory_used_mb is None else memory(job.memory_used_mb)
    total = NOT_AVAILABLE if job.memory_total_mb is None else memory(job.memory_total_mb)
    notes = [
        f"{job.unread} unread" if job.unread else "",
        f"{job.out} not healthy" if job.out else "",
        _read_ago(job.readings),
    ]
    return (
        text(job.job_id),
        text(job.gpus),
        text(_with(job.sm_percent, "%")),
        text(NOT_AVAILABLE if used == total == NOT_AVAILABLE else f"{used}/{total}"),
        text(job.idle or ("-" if job.unread < job.gpus else NOT_AVAILABLE)),
        text(duration(job.idle_s) if job.idle else "-"),
        text(job.virtual_cluster.removeprefix("root.")),
        text(", ".join(filter(None, notes)), "yellow"),
        *((text(" ".join(job.hosts)),) if roomy else ()),
    )
