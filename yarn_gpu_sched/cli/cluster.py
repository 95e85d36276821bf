"""`ygs cluster`: a real Hadoop cluster of local processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from yarn_gpu_sched.cli.documents import (
    DaemonDocument,
    EmbeddedClusterDocument,
    EmbeddedServerDocument,
)
from yarn_gpu_sched.cli.exits import CommandError, ExitCode
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, print_json, table, text
from yarn_gpu_sched.cli.service_option import address_option, target
from yarn_gpu_sched.cli.text import clean
from yarn_gpu_sched.embedded import (
    DEFAULT_HADOOP,
    GANG_SCHEDULER,
    STOCK_SCHEDULER,
    ClusterError,
    ClusterSpec,
    ClusterStatus,
    EmbeddedCluster,
    default_folder,
    fetch_jars,
    known_versions,
    parse_servers,
)

LOG_LINES = 20

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the cluster lies.  [default: cluster in the cache folder]",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
hadoop_choice = click.Choice(known_versions())


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn what goes wrong with a cluster into one sentence."""
    try:
        yield
    except ClusterError as error:
        raise CommandError(str(error)) from error


@click.group()
def cluster() -> None:
    """Bring a real Hadoop cluster of local processes up and down."""


def _settings(_context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


@cluster.command()
@folder_option
@click.option("--hadoop", type=hadoop_choice, default=DEFAULT_HADOOP, show_default=True, help="Version of Hadoop.")
@click.option("--servers", default="4x4", show_default=True, metavar="COUNTxGPUS[,…]", help="Servers with GPUs.")
@click.option("--racks", type=int, default=2, show_default=True, help="Racks that they are dealt to.")
@click.option("--cpu-servers", type=int, default=0, show_default=True, help="Servers without GPUs besides.")
@click.option("--memory-mb", type=int, default=65_536, show_default=True, help="Simulated memory of a server, in MiB.")
@click.option("--vcores", type=int, default=32, show_default=True, help="Simulated vcores of a server.")
@click.option("--binding-dir", type=click.Path(path_type=Path), help="Where the service writes which GPUs are whose.")
@click.option(
    "--gpu-model", default="", metavar="MODEL", help="Simulated GPUs such as V100, with a monitor on each server."
)
@click.option("--stock", is_flag=True, help="Stock CapacityScheduler instead of the shim: no service is needed.")
@click.option("--hdfs/--no-hdfs", default=True, help="HDFS, or a folder as file system: up in half the time.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", callback=_settings, help="A Hadoop setting.")
@click.option("--foreground", is_flag=True, help="Stay until Ctrl-C and take the cluster down then.")
@dry_run_option
@address_option
def up(  # noqa: PLR0913 - one parameter an option
    *,
    folder: Path | None,
    hadoop: str,
    servers: str,
    racks: int,
    cpu_servers: int,
    memory_mb: int,
    vcores: int,
    binding_dir: Path | None,
    gpu_model: str,
    stock: bool,
    hdfs: bool,
    settings: dict[str, str],
    foreground: bool,
    dry_run: bool,
    service: str | None,
) -> None:
    """Bring a cluster up; it stays until `ygs cluster down`, or until Ctrl-C with --foreground."""
    with cluster_errors():
        asked = ClusterSpec(
            hadoop=hadoop,
            servers=parse_servers(servers),
            racks=racks,
            cpu_servers=cpu_servers,
            memory_mb=memory_mb,
            vcores=vcores,
            service_address=target(service),
            binding_dir=binding_dir.absolute() if binding_dir else None,
            gpu_model=gpu_model,
            settings=settings,
            hdfs=hdfs,
            scheduler_class=STOCK_SCHEDULER if stock else GANG_SCHEDULER,
        )
        made = EmbeddedCluster(folder or default_folder(), asked)
        if dry_run:
            click.echo(clean(f"would start in {made.folder}: {', '.join(made.plan())}"))
        else:
            _bring_up(made, foreground=foreground)


def _bring_up(made: EmbeddedCluster, *, foreground: bool) -> None:
    made.up(progress=lambda step: click.echo(clean(step), err=True), detach=not foreground)
    _print_status(made.status())
    if foreground:
        _until_interrupted(made)


def _until_interrupted(made: EmbeddedCluster) -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    click.echo("Ctrl-C takes it down", err=True)
    stop.wait()
    made.down()


@cluster.command()
@folder_option
@click.option("--remove", is_flag=True, help="Remove logs and data too.")
@dry_run_option
def down(folder: Path | None, *, remove: bool, dry_run: bool) -> None:
    """Take the cluster down; nothing that it started is left running."""
    with cluster_errors():
        made = EmbeddedCluster(folder or default_folder())
        if dry_run:
            removing = f" and remove {made.folder}" if remove and made.folder.exists() else ""
            click.echo(clean(f"would end {made.living()} processes{removing}"))
            return
        ended = made.down(remove=remove)
    click.echo(f"{ended} processes ended" if ended else "no cluster was running")


@cluster.command()
@folder_option
@as_json
def status(folder: Path | None, *, json_: bool) -> None:
    """Show what runs. Exit code 0: ready, 1: up but not ready, 3: there is no cluster."""
    try:
        found = EmbeddedCluster(folder or default_folder()).status()
    except ClusterError as error:
        raise CommandError(str(error), ExitCode.NOT_FOUND) from error
    if json_:
        print_json(_document(found))
    else:
        _print_status(found)
    code = ExitCode.DONE if found.ready else ExitCode.FAILED if found.running else ExitCode.NOT_FOUND
    click.get_current_context().exit(code)


@cluster.command()
@click.argument("name", required=False)
@folder_option
@click.option("--lines", type=click.IntRange(1, 100_000), default=LOG_LINES, show_default=True, help="How many.")
def logs(name: str | None, folder: Path | None, lines: int) -> None:
    """Print the last lines of the log of daemon NAME; without NAME, list the logs."""
    found = EmbeddedCluster(folder or default_folder()).logs()
    if name is None:
        console().print(table(("NAME", "FILE"), [(text(n), text(p)) for n, p in found.items()], folded=("FILE",)))
        return
    if name not in found:
        raise CommandError(f"no log {name!r}; there are: {', '.join(found) or 'none'}", ExitCode.NOT_FOUND)
    with found[name].open(errors="replace") as log:
        for line in log.readlines()[-lines:]:
            click.echo(clean(line.rstrip("\n")))


@cluster.command()
@click.argument("hadoop", type=hadoop_choice, default=DEFAULT_HADOOP)
def fetch(hadoop: str) -> None:
    """Fetch the jars of a Hadoop version by Maven into the cache folder; quick when they are there."""
    with cluster_errors():
        jars = fetch_jars(hadoop)
    click.echo(f"Hadoop {hadoop}: {len(jars.lib)} jars in {clean(str(jars.folder))}")


def _print_status(found: ClusterStatus) -> None:
    out = console()
    servers = [(text(s.name), text(s.rack), text(s.state), text(f"{s.gpus_used}/{s.gpus}")) for s in found.servers]
    daemons = [(text(d.name), text(d.pid), text(_state(d.exit_code))) for d in found.daemons]
    for name, value in _facts(found).items():
        out.print(text(f"{name:9}{value}"), soft_wrap=True)
    if daemons:
        out.print(table(("DAEMON", "PID", "STATE"), daemons, numbers=("PID",)))
    if servers:
        out.print(table(("SERVER", "RACK", "STATE", "GPUS"), servers, numbers=("GPUS",)))


def _facts(found: ClusterStatus) -> dict[str, str]:
    state = "ready" if found.ready else "not ready" if found.running else "down"
    return {
        "cluster": f"Hadoop {found.hadoop}, {state}",
        "folder": found.folder,
        "web": found.web,
        "yarn": found.yarn,
        "jar": found.distributed_shell_jar,
    }


def _state(exit_code: int | None) -> str:
    return "running" if exit_code is None else f"ended ({exit_code})"


def _document(found: ClusterStatus) -> EmbeddedClusterDocument:
    return EmbeddedClusterDocument(
        folder=found.folder,
        hadoop=found.hadoop,
        running=found.running,
        ready=found.ready,
        web=found.web,
        yarn=found.yarn,
        distributed_shell_jar=found.distributed_shell_jar,
        cluster_id=found.cluster_id,
        daemons=tuple(DaemonDocument(d.name, d.pid, d.exit_code) for d in found.daemons),
        servers=tuple(EmbeddedServerDocument(s.name, s.rack, s.state, s.gpus, s.gpus_used) for s in found.servers),
    )
