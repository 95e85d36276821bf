"""`ygs jobs` and `ygs job show`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from yarn_gpu_sched.cli.convert import (
    end_name,
    job_document,
    job_with_containers_document,
    reason_name,
    state_name,
)
from yarn_gpu_sched.cli.documents import JobsDocument
from yarn_gpu_sched.cli.output import console, duration, index_ranges, memory, print_json, table, text
from yarn_gpu_sched.cli.service_option import connected, service_option
from yarn_gpu_sched.cli.text import clean
from yarn_gpu_sched.protocol.v1 import container_pb2, job_pb2

if TYPE_CHECKING:
    from yarn_gpu_sched.protocol.v1 import reason_pb2

STATES = {
    "pending": job_pb2.JOB_STATE_PENDING,
    "running": job_pb2.JOB_STATE_RUNNING,
    "ended": job_pb2.JOB_STATE_ENDED,
    "any": job_pb2.JOB_STATE_UNSPECIFIED,
}
_STYLES = {"pending": "yellow", "running": "green", "ended": "dim"}
LEVELS = ("fewest servers in one RDMA domain", "one RDMA domain", "anywhere")
NAME_CHARACTERS_MAX = 64
_HOUR_S = 3_600

as_json = click.option("--json", "json_", is_flag=True, help="Print a JSON document (schema: docs/cli.md).")


@click.command()
@click.option("--state", type=click.Choice([*STATES]), help="Only jobs in this state.  [default: pending and running]")
@click.option("--vc", default="", metavar="PATH", help="Only jobs of this virtual cluster (queue path).")
@as_json
@service_option
def jobs(state: str | None, vc: str, json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """List jobs in order of submission.

    GPUS is what a job holds, and after a plus what it still wants; AGE counts from when the service first saw it.
    """
    with connected(service) as client:
        views = [
            view
            for view in client.jobs(state=STATES[state or "any"], vc=vc)
            if state or view.state != job_pb2.JOB_STATE_ENDED
        ]
    if json_:
        print_json(JobsDocument(tuple(map(job_document, views))))
    else:
        _print_jobs(views)


def _print_jobs(views: list[job_pb2.JobView]) -> None:
    listing = table(
        ("JOB", "STATE", "GPUS", "AGE", "WHY", "VC", "NAME"),
        map(_job_row, views),
        numbers=("GPUS", "AGE"),
        whole=("JOB", "STATE", "WHY"),
    )
    console().print(listing if views else text("no jobs"))


def _job_row(view: job_pb2.JobView) -> tuple[Text, ...]:
    state = state_name(view.state)
    wanted = f"+{view.gpus_pending}" if view.gpus_pending else ""
    return (
        text(view.job.job_id),
        text(state, _STYLES.get(state, "")),
        text(f"{view.used.gpus}{wanted}"),
        text(duration(view.age_s)),
        text(_why_in_short(view)),
        text(view.job.virtual_cluster.removeprefix("root.")),
        text(clean(view.job.name, characters_max=NAME_CHARACTERS_MAX)),
    )


def _why_in_short(view: job_pb2.JobView) -> str:
    if view.state == job_pb2.JOB_STATE_ENDED:
        return end_name(view.end)
    return reason_words(view.waiting.code) if view.HasField("waiting") else "-"


def reason_words(code: reason_pb2.WaitingReasonCode.ValueType) -> str:
    """Return a reason in short."""
    return reason_name(code).replace("_", " ")


@click.group()
def job() -> None:
    """Look at one job."""


@job.command()
@click.argument("job_id", metavar="JOB")
@as_json
@service_option
def show(job_id: str, json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """Show JOB with its containers, their servers and GPUs."""
    with connected(service) as client:
        view = client.job(job_id)
    if json_:
        print_json(job_with_containers_document(view))
        return
    out = console()
    out.print(_facts(view))
    if view.containers:
        out.print()
        out.print(_containers(view))


def lifetime(view: job_pb2.JobView) -> str:
    """Say how long YARN lets the application go on; waiting counts."""
    if not view.job.HasField("expire_time") or view.state == job_pb2.JOB_STATE_ENDED:
        return ""
    left_s = view.job.expire_time.ToNanoseconds() / 1e9 - time.time()
    return f"its lifetime ends in {duration(left_s)}, and it with it" if left_s > 0 else "its lifetime is over"


def _facts(view: job_pb2.JobView) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    used, described = view.used, view.job
    held = f"{len(view.containers)} containers, {used.gpus} GPUs, {memory(used.memory_mb)} memory, {used.vcores} vcores"
    rows = {
        "job": described.job_id,
        "name": described.name,
        "state": f"{state_name(view.state)}, attempt {described.attempt}, {duration(view.age_s)} old",
        "submitted by": f"{described.user} to {described.virtual_cluster}",
        "tags": ", ".join(described.tags),
        "gang": _gang(view),
        "holds": held,
        "lifetime": lifetime(view),
        "stopped": _preempted(view),
        "now": _stands(view),
        "waits": view.waiting.sentence if view.HasField("waiting") else "",
        "waited": waited(view.delays),
        "in all": waited(view.delays_in_all, "in all attempts") if view.delays_in_all != view.delays else "",
        "reasons": _history(view),
        "ended": f"{end_name(view.end)} {view.diagnostics}" if view.state == job_pb2.JOB_STATE_ENDED else "",
    }
    for name, value in rows.items():
        if value:
            grid.add_row(text(name, "bold"), text(value))
    return grid


def waited(delays: reason_pb2.Delays, when: str = "in this attempt") -> str:
    """Say how long was waited and for what; empty if not at all."""
    causes = {
        "fair share": delays.fair_share_s,
        "capacity": delays.capacity_s,
        "fragmentation": delays.fragmentation_s,
        "other": delays.other_s,
    }
    total_s = sum(causes.values())
    parts = [f"{name} {duration(cause_s)}" for name, cause_s in causes.items() if cause_s]
    return f"{duration(total_s)} {when}: {', '.join(parts)}" if parts else ""


def _preempted(view: job_pb2.JobView) -> str:
    """Say for whom a job was stopped, the last time first."""
    times = [
        f"{duration(one.age_s)} ago for {one.by_job_id} of {one.by_virtual_cluster}, which was within its quota;"
        f" lost {gpu_time(one.lost_gpu_s)}"
        for one in reversed(view.preempted)
    ]
    more = view.preempted_times - len(times)
    return ". ".join([*times, *([f"{more} times before"] if more > 0 else [])])


def _stands(view: job_pb2.JobView) -> str:
    """Say where a job stands that was stopped for others, or is to be."""
    if view.HasField("stops_in_s"):
        return (
            f"warned: stopped in {duration(view.stops_in_s)} for {view.stopped_for}, unless that finds room before;"
            " what is written down by then is safe (ygs checkpoint)"
        )
    if view.state == job_pb2.JOB_STATE_ENDED or not (view.preempted or view.stopped_for):
        return ""
    if view.stopped_for and view.containers:
        return f"being stopped for {view.stopped_for}"
    if view.state == job_pb2.JOB_STATE_RUNNING:
        return f"runs again, attempt {view.job.attempt}"
    return f"comes back by itself in its old place of the order: attempt {view.job.attempt} waits"


def gpu_time(gpu_s: float) -> str:
    """Return GPU-seconds in the unit that shows them in few digits."""
    return f"{gpu_s / _HOUR_S:.1f} GPU-h" if gpu_s >= _HOUR_S / 10 else f"{gpu_s:.0f} GPU-s"


def _history(view: job_pb2.JobView) -> str:
    return ", ".join(f"{reason_words(one.code)} ({duration(one.age_s)} ago)" for one in view.history)


def _gang(view: job_pb2.JobView) -> str:
    if not view.gang_containers:
        return "none"
    if not view.HasField("level"):
        return f"{view.gang_containers} containers, not placed"
    level = LEVELS[view.level] if view.level < len(LEVELS) else "?"
    return f"{view.gang_containers} containers, placed at level {view.level} ({level})"


def _containers(view: job_pb2.JobView) -> Table:
    return table(
        ("CONTAINER", "SERVER", "GPUS", "MEM", "CORES", "NOTE"),
        map(_container_row, view.containers),
        whole=("CONTAINER",),
        folded=("SERVER",),
        numbers=("MEM", "CORES"),
    )


def _container_row(container: container_pb2.Container) -> tuple[Text, ...]:
    notes = {"master": container.application_master, "ending": container.ending}
    return (
        text(container.container_id),
        text(container.server_id),
        text(index_ranges(container.gpu_indices) or "-"),
        text(memory(container.resource.memory_mb)),
        text(container.resource.vcores),
        text(" ".join(note for note, applies in notes.items() if applies)),
    )
