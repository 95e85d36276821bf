"""`ygs usage` and `ygs export`: what the archive says of who used what."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from yarn_gpu_sched.archive import BY, Archive, ArchivedAttempt, ArchiveError, MissingExtraError, Usage, open_store
from yarn_gpu_sched.archive import usage as usage_of
from yarn_gpu_sched.archive.minutes import GpuServer, minutes, servers
from yarn_gpu_sched.cli.exits import CommandError
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, print_json, table, text
from yarn_gpu_sched.cli.text import clean
from yarn_gpu_sched.cli.usage_documents import UsageDocument, UsageRowDocument
from yarn_gpu_sched.replay import philly_form

if TYPE_CHECKING:
    from rich.table import Table

_FIGURES = ("USED", "BORROWED", "IDLE", "UNREAD", "LOST")
_HEADS = {"vc": "VC", "user": "USER", "job": "JOB"}
_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%MZ")

Command = Callable[..., Any]


def _utc(_context: click.Context, _parameter: click.Parameter, value: dt.datetime | None) -> dt.datetime | None:
    return None if value is None else value.replace(tzinfo=dt.UTC)


def _stretch(command: Command) -> Command:
    """Add the options that say which archive and which time."""
    options = (
        click.option(
            "--archive",
            "place",
            required=True,
            envvar="YGS_ARCHIVE",
            metavar="PLACE",
            help="The archive: http://NAMENODE:9870/PATH, or a local folder.  [env: YGS_ARCHIVE]",
        ),
        click.option("--user", "hdfs_user", default="", metavar="NAME", help="HDFS user.  [default: the login name]"),
        click.option(
            "--from",
            "since",
            type=click.DateTime(_FORMATS),
            callback=_utc,
            required=True,
            metavar="TIME",
            help="From then, UTC: 2026-11-01, or 2026-11-01T13:00.",
        ),
        click.option(
            "--to",
            "until",
            type=click.DateTime(_FORMATS),
            callback=_utc,
            metavar="TIME",
            help="Until then, likewise.  [default: now]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def _archive(place: str, user: str) -> Iterator[Archive]:
    try:
        yield Archive(open_store(place, user))
    except (ArchiveError, MissingExtraError) as error:
        raise CommandError(str(error)) from error


def _until(since: dt.datetime, until: dt.datetime | None) -> dt.datetime:
    end = until or dt.datetime.now(dt.UTC)
    if end <= since:
        raise click.UsageError(f"--to {end:%Y-%m-%dT%H:%MZ} is not after --from {since:%Y-%m-%dT%H:%MZ}")
    return end


def _by(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    if unknown := [name for name in names if name not in BY]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(BY)}; for example vc,user")
    return names


@click.command()
@click.option(
    "--by", default="vc", callback=_by, metavar="LIST", help="vc, user, job, or several of them.  [default: vc]"
)
@_stretch
@as_json
def usage(
    by: tuple[str, ...],
    place: str,
    hdfs_user: str,
    since: dt.datetime,
    until: dt.datetime | None,
    json_: bool,  # noqa: FBT001 - click passes flags
) -> None:
    """Show GPU-hours from the archive: used, and of these borrowed, idle, or not read; and lost to preemption.

    Counted are the full hours that begin in that time; the present hour is archived when it has ended.
    """
    end = _until(since, until)
    with _archive(place, hdfs_user) as archive:
        rows = usage_of(archive, by, since, end)
    if json_:
        print_json(_document(by, rows, since, end))
        return
    out = console()
    if rows:
        out.print(_table(by, rows))
    out.print(text(f"GPU-hours of {since:%Y-%m-%dT%H:%MZ} to {end:%Y-%m-%dT%H:%MZ}" if rows else "nothing was used"))


def _table(by: Sequence[str], rows: Sequence[Usage]) -> Table:
    heads = [_HEADS[name] for name in by]
    total = Usage(
        ("total", *[""] * (len(by) - 1)), *(sum(figures) for figures in zip(*map(_figures, rows), strict=True))
    )
    cells = [tuple(map(text, (*_named(by, row), *map(_hours, _figures(row))))) for row in (*rows, total)]
    return table((*heads, *_FIGURES), cells, numbers=_FIGURES, whole=("JOB",), folded=("VC", "USER"))


def _named(by: Sequence[str], row: Usage) -> list[str]:
    return [who.removeprefix("root.") if name == "vc" else who for name, who in zip(by, row.who, strict=True)]


def _figures(row: Usage) -> tuple[float, ...]:
    return row.used, row.borrowed, row.idle, row.unread, row.lost


def _hours(hours: float) -> str:
    return f"{hours:,.1f}" if hours else "-"


def _document(by: Sequence[str], rows: Sequence[Usage], since: dt.datetime, until: dt.datetime) -> UsageDocument:
    made = []
    for row in rows:
        who = dict(zip(by, row.who, strict=True))
        names = (who.get("vc"), who.get("user"), who.get("job"))
        made.append(UsageRowDocument(*names, *(round(figure, 6) for figure in _figures(row))))
    return UsageDocument(f"{since:%Y-%m-%dT%H:%M:%SZ}", f"{until:%Y-%m-%dT%H:%M:%SZ}", tuple(made))


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--format", "form", type=click.Choice(["philly"]), required=True, help="The form: that of the Philly trace."
)
@click.option("--dry-run", is_flag=True, help="Only say which files it would write, and of how many jobs.")
@_stretch
def export(
    out: Path,
    form: str,
    dry_run: bool,  # noqa: FBT001 - click passes flags
    place: str,
    hdfs_user: str,
    since: dt.datetime,
    until: dt.datetime | None,
) -> None:
    """Write the jobs that ended in that time, and the use of GPUs, to the folder OUT, which must be new or empty.

    `ygs replay OUT/cluster_job_log --server-list OUT/cluster_machine_list` reads it back.
    """
    assert form == "philly"
    end = _until(since, until)
    if out.exists() and any(out.iterdir()):
        raise CommandError(f"{clean(str(out))} is not empty: a new or an empty folder would be right")
    with _archive(place, hdfs_user) as archive, _file_errors(out):
        if dry_run:
            _announce(out, len(archive.jobs(since, end)))
            return
        out.mkdir(parents=True, exist_ok=True)
        count, rows = _write(archive, out, since, end)
    click.echo(f"{count} jobs and {rows} minutes of servers are in {clean(str(out))}")


def _announce(out: Path, jobs: int) -> None:
    for name in (philly_form.JOB_LOG, philly_form.MACHINE_LIST, philly_form.GPU_UTIL):
        click.echo(f"would write {clean(str(out / name))}")
    click.echo(f"of {jobs} jobs")


def _write(archive: Archive, out: Path, since: dt.datetime, until: dt.datetime) -> tuple[int, int]:
    jobs = archive.jobs(since, until)
    with (out / philly_form.JOB_LOG).open("w", encoding="utf-8") as file:
        count = philly_form.write_job_log(jobs, file)
    machines = _machines(servers(archive, since, until), jobs)
    with (out / philly_form.MACHINE_LIST).open("w", encoding="utf-8") as file:
        philly_form.write_machine_list(machines, file)
    rows = 0
    with (out / philly_form.GPU_UTIL).open("w", encoding="utf-8") as file:
        writer = philly_form.GpuUtilWriter(file, max((one.gpus for one in machines), default=0))
        for begin, server, percents in minutes(archive, since, until):
            writer.write(philly_form.Minute(begin, server, percents))
            rows += 1
    return count, rows


def _machines(known: dict[str, GpuServer], jobs: list[list[ArchivedAttempt]]) -> list[philly_form.Machine]:
    """List the servers of which telemetry tells, and those on which jobs ran."""
    for place in (place for attempts in jobs for one in attempts for place in one.places):
        server = known.setdefault(place.server, GpuServer(place.server))
        server.gpus = max(server.gpus, *(gpu + 1 for gpu in place.gpus))
    return [philly_form.Machine(one.server, one.gpus, one.gpu_memory_mb) for one in known.values()]


@contextmanager
def _file_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(f"{out}: {error.strerror or error}") from error
