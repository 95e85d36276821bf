"""`ygs preemption`, `ygs preempt` and `ygs checkpoint`: whether jobs are stopped for others, who would go, what is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.table import Table

from yarn_gpu_sched.cli.caller import caller
from yarn_gpu_sched.cli.jobs import LEVELS, as_json, gpu_time
from yarn_gpu_sched.cli.output import console, duration, print_json, table, text, to_the_second
from yarn_gpu_sched.cli.preemption_convert import preemption_document, preview_document, turned_document
from yarn_gpu_sched.cli.preemption_documents import CheckpointDocument
from yarn_gpu_sched.cli.service_option import connected, service_option
from yarn_gpu_sched.protocol.v1 import preemption_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from yarn_gpu_sched.cli.preemption_documents import (
        PlanDocument,
        PreemptionDocument,
        PreviewDocument,
        TurnedDocument,
        VictimDocument,
    )
    from yarn_gpu_sched.client import Client

MODES = {
    "off": preemption_pb2.PREEMPTION_MODE_OFF,
    "observe": preemption_pb2.PREEMPTION_MODE_OBSERVE,
    "on": preemption_pb2.PREEMPTION_MODE_ON,
}
_MEANINGS = {
    "off": "nobody is stopped for others",
    "observe": "it is decided, shown and counted who would be stopped, and nobody is",
    "on": "borrowed jobs are stopped for gangs within their quota",
    "unknown": "this command does not know that mode",
}
_STANDS = {
    "proposed": "nothing has happened yet",
    "warned": "warned, stopped in",
    "stopping": "being stopped, held for",
}
_NAMED_SERVERS_MAX = 8


@click.command()
@click.argument("mode", required=False, type=click.Choice([*MODES]))
@click.option("--reason", default="", metavar="TEXT", help="Why it is switched; everybody who asks sees it.")
@click.option("--dry-run", is_flag=True, help="Only say what switching would change.")
@as_json
@service_option
def preemption(mode: str | None, reason: str, dry_run: bool, json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """Show whether borrowed jobs are stopped for gangs within their quota; with MODE, switch it.

    A switch takes effect at once and needs a reason. off and observe spare who is only warned; who is being stopped already is not
    spared by it. With state_dir set, it survives a restart of the service.
    """
    if mode and not dry_run and not reason.strip():
        raise click.UsageError(
            f"--reason is missing: say why, for example --reason 'demo until 18:00', to switch it {mode}"
        )
    if not mode and (reason or dry_run):
        raise click.UsageError("--reason and --dry-run go with a mode: on, observe or off")
    with connected(service) as client:
        turned = _turn(client, mode, reason, dry_run=dry_run) if mode else None
        document = preemption_document(client.preemption(), turned)
    if json_:
        print_json(document)
        return
    out = console()
    if turned is not None:
        _print_turned(out, turned)
    _print_state(out, document)


def _turn(client: Client, mode: str, reason: str, *, dry_run: bool) -> TurnedDocument:
    answer = client.set_preemption(MODES[mode], reason, by=caller(), dry_run=dry_run)
    return turned_document(answer, dry_run=dry_run)


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("--dry-run", is_flag=True, help="Say who would go; without it nothing is done.")
@as_json
@service_option
def preempt(job_id: str, dry_run: bool, json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """Say whom JOB would have stopped, what each loses and what JOB gets; or which condition fails.

    Nothing is changed. Who is stopped is decided by the scheduler, never by hand.
    """
    if not dry_run:
        raise click.UsageError(
            "who is stopped is decided by the scheduler, not by hand: add --dry-run to see whom this job would have stopped; "
            "`ygs preemption on` arms it, `yarn application -kill` ends a job"
        )
    with connected(service) as client:
        document = preview_document(job_id, client.preview_preemption(job_id))
    if json_:
        print_json(document)
    else:
        _print_preview(console(), document)


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option(
    "--attempt", type=click.IntRange(0), default=0, help="Only if this attempt runs.  [default: whichever runs]"
)
@as_json
@service_option
def checkpoint(job_id: str, attempt: int, json_: bool, service: str | None) -> None:  # noqa: FBT001 - click passes flags
    """Report that what JOB has done until now is written down: stopping it loses only what comes after."""
    with connected(service) as client:
        noted = client.report_checkpoint(job_id, attempt)
    if json_:
        print_json(CheckpointDocument(job_id, noted))
    else:
        console().print(text(f"noted for attempt {noted} of {job_id}: what it has done until now is safe"))


# What is printed


def _print_turned(out: Console, turned: TurnedDocument) -> None:
    verb = "would change" if turned.dry_run else "changed"
    said = f"preemption {verb} from {turned.before} to {turned.after}"
    if turned.before == turned.after:
        said = f"preemption {'would stay' if turned.dry_run else 'stays'} {turned.after}"
    out.print(text(said, "bold"))
    if turned.spared:
        out.print(text(f"{'would spare' if turned.dry_run else 'spared'}, because they are only warned:"))
        out.print(_victims(turned.spared))
    if turned.spared_left_out:
        out.print(text(f"and {turned.spared_left_out} more"))
    if turned.not_kept_because:
        out.print(text(f"it does not survive a restart of the service: {turned.not_kept_because}", "yellow"))
    if turned.dry_run:
        out.print(text("nothing was changed"))
    out.print()


def _print_state(out: Console, document: PreemptionDocument) -> None:
    rows = {
        "preemption": f"{document.mode}: {_MEANINGS[document.mode]}",
        "why": _why(document),
        "pause": f"nobody is stopped for another {duration(document.quiet_for_s)}: a resource manager has just registered"
        if document.quiet_for_s and document.mode != "off"
        else "",
        "last minute": f"{document.stopped_last_minute} stopped, at most {document.per_minute_max} are",
        "so far": f"{document.stopped} stopped, {document.observed} times observed that some would be, since the service began",
    }
    out.print(_grid(rows))
    for plan in document.plans:
        out.print()
        _print_plan(out, plan)
    if document.plans_left_out:
        out.print(text(f"and {document.plans_left_out} more are under way"))


def _why(document: PreemptionDocument) -> str:
    switched = document.switched
    if switched is None:
        return "the service's settings say so"
    by = f" by {switched.by}" if switched.by else ""
    kept = (
        ""
        if document.keeps_switch
        else f"; after a restart of the service its settings hold again: {document.mode_of_settings}"
    )
    return f"{switched.reason} (switched{by}, {to_the_second(switched.time)}{kept})"


def _print_preview(out: Console, document: PreviewDocument) -> None:
    plan = document.plan
    if plan is None:
        out.print(text(f"nobody is stopped for {document.job_id}: {document.sentence}"))
        return
    _print_plan(out, plan)
    if document.hindrances:
        out.print()
        out.print(text("what keeps it from being done now:", "bold"))
        out.print(_grid({f"  - {sentence}": "" for sentence in document.hindrances}, style=""))


def _print_plan(out: Console, plan: PlanDocument) -> None:
    stands = _STANDS.get(plan.stage, "")
    if plan.left_s is not None:
        stands = f"{stands} {duration(plan.left_s)}"
    lost_s = sum(victim.lost_gpu_s for victim in plan.victims)
    level = LEVELS[plan.level] if plan.level < len(LEVELS) else "?"
    rows = {
        "for": f"{plan.job_id} of {plan.virtual_cluster}",
        "it gets": f"{plan.gpus} GPUs at level {plan.level} ({level}): {_servers(plan)}",
        "stands": stands,
        "lost": f"{gpu_time(lost_s)} in all",
    }
    out.print(_grid(rows))
    out.print(_victims(plan.victims))


def _servers(plan: PlanDocument) -> str:
    named = [f"{one.gpus} on {one.server_id}" for one in plan.servers[:_NAMED_SERVERS_MAX]]
    more = len(plan.servers) - len(named)
    return ", ".join(named) + (f" and on {more} more" if more else "")


def _victims(victims: Iterable[VictimDocument]) -> Table:
    rows = (
        (
            text(victim.job_id if not victim.container_ids else f"{victim.job_id} ({', '.join(victim.container_ids)})"),
            text(victim.gpus),
            text(duration(victim.ran_s)),
            text(gpu_time(victim.lost_gpu_s)),
            text(victim.stopped_before),
            text(victim.virtual_cluster.removeprefix("root.")),
            text(victim.user),
        )
        for victim in victims
    )
    columns = ("VICTIM", "GPUS", "RAN", "LOSES", "BEFORE", "VC", "USER")
    return table(columns, rows, numbers=("GPUS", "RAN", "LOSES", "BEFORE"), whole=("VICTIM",))


def _grid(rows: dict[str, str], style: str = "bold") -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        if value or not style:
            grid.add_row(text(name, style), text(value))
    return grid
