"""`ygs replay`: a recorded workload on a simulated clock, with the engine that runs the cluster."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from yarn_gpu_sched.cli.documents import ReplayDocument
from yarn_gpu_sched.cli.exits import CommandError
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, print_json
from yarn_gpu_sched.cli.replay_views import print_summary
from yarn_gpu_sched.cli.text import clean
from yarn_gpu_sched.policy import POLICIES, Policy, policy_named
from yarn_gpu_sched.replay import (
    BrokenLawsError,
    ListedServer,
    Replay,
    Scenario,
    Trace,
    check_folder,
    deal_vcs,
    read_quotas,
    read_servers,
    read_trace,
    write_results,
)
from yarn_gpu_sched.replay import replay as run_replay
from yarn_gpu_sched.replay.scenario import COST_MAX_S, RELAX_AFTER_S
from yarn_gpu_sched.replay.trace import VCS_MAX

REFRESH_S = 0.25
RELAX_AFTER_MAX_S = 86_400
GRACE_MAX_S = 3_600


class _File(click.Path):
    """A file that is there, or a pipe by its name."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if value == "-" and not Path(value).exists():
            self.fail("'-' is no file; for standard input /dev/stdin would be right", param, ctx)
        return super().convert(value, param, ctx)


class _Folder(click.Path):
    """A folder, there or not."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if value == "":
            self.fail("'': the name of a folder would be right, '.' for the current one", param, ctx)
        return super().convert(value, param, ctx)


file_type = _File(exists=True, dir_okay=False, path_type=Path)
seconds = click.FloatRange(0, COST_MAX_S)


@contextmanager
def replay_errors() -> Iterator[None]:
    """Turn what is wrong with files and values into one sentence."""
    try:
        yield
    except ValueError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename or 'replay'}: {error.strerror or error}") from error
    except BrokenLawsError as error:
        raise CommandError(f"the engine broke its own laws, which is a bug: {error}") from error


@click.command()
@click.argument("trace_file", metavar="TRACE", type=file_type)
@click.option("--servers", metavar="COUNTxGPUS", help="Servers, all alike, for example 60x8.")
@click.option("--server-list", type=file_type, metavar="FILE", help="Servers of a published list instead.")
@click.option(
    "--domains", type=click.IntRange(1), default=1, show_default=True, help="RDMA domains; the last may be smaller."
)
@click.option("--policy", type=click.Choice(sorted(POLICIES)), default="fifo", show_default=True, help="Who goes next.")
@click.option(
    "--step", type=float, metavar="GPU_S", help="GPU-seconds of a step of las, of the first queue of tiresias."
)
@click.option("--out", "folder", required=True, type=_Folder(path_type=Path), metavar="DIR", help="For the results.")
@click.option("--force", is_flag=True, help="Replace results that are in DIR already.")
@click.option("--quotas", type=file_type, metavar="FILE", help="Quotas; only policy philly keeps them.")
@click.option("--vcs", type=click.IntRange(1, VCS_MAX), help="Deal jobs that name no virtual cluster to so many.")
@click.option(
    "--relax-after",
    type=click.FloatRange(0, RELAX_AFTER_MAX_S),
    default=RELAX_AFTER_S,
    show_default=True,
    metavar="SECONDS",
    help="Wait at a level of locality before the next.",
)
@click.option("--restart-cost", type=seconds, default=0.0, metavar="SECONDS", help="Time without work at a restart.")
@click.option(
    "--checkpoint-every", type=seconds, default=0.0, metavar="SECONDS", help="Lose the work since the last checkpoint."
)
@click.option(
    "--preemption", is_flag=True, help="Stop jobs that borrow for gangs within their quota; only policy philly does."
)
@click.option(
    "--grace",
    type=click.FloatRange(0, GRACE_MAX_S),
    default=0.0,
    metavar="SECONDS",
    help="Warn these jobs so long before.",
)
@click.option(
    "--reserve-after",
    type=seconds,
    default=0.0,
    metavar="SECONDS",
    help="Keep places for a gang that has waited so long; only policy philly does.",
)
@click.option("--skip-bad-rows", is_flag=True, help="Count and list bad rows instead of stopping at the first.")
@click.option("--audit", is_flag=True, help="Check the engine's laws after every event; slow.")
@as_json
def replay(  # noqa: PLR0913 - one parameter an option
    *,
    trace_file: Path,
    servers: str | None,
    server_list: Path | None,
    domains: int,
    policy: str,
    step: float | None,
    folder: Path,
    force: bool,
    quotas: Path | None,
    vcs: int | None,
    relax_after: float,
    restart_cost: float,
    checkpoint_every: float,
    preemption: bool,
    grace: float,
    reserve_after: float,
    skip_bad_rows: bool,
    audit: bool,
    json_: bool,
) -> None:
    """Replay TRACE, a recorded workload, with the engine that runs the cluster, on a simulated clock.

    The format is seen by the content: Philly's JSON, Helios's and openb's CSV, or CSV with a row a job; plain or gzip.
    What a trace does not say is an option, and is said with the result. Formats, results and what the figures mean:
    docs/replay.md.
    """
    with replay_errors():
        places = _servers(servers, server_list)
        scenario = _scenario(places, domains, relax_after, restart_cost, checkpoint_every)
        kept = {"preemption": preemption, "grace_s": grace, "reserve_after_s": reserve_after}
        scenario = msgspec.structs.replace(scenario, **kept)
        chosen = _policy(policy, step)
        check_folder(folder, force=force, forced_by="--force")
        trace = _trace(trace_file, vcs, skip_bad_rows=skip_bad_rows)
        if quotas is not None:
            read = read_quotas(quotas, trace, sum(scenario.gpus))
            scenario = msgspec.structs.replace(scenario, quotas=read)
        done = _replayed(trace, scenario, chosen, audit=audit)
        write_results(done, folder, force=force)
    if json_:
        print_json(msgspec.convert(msgspec.to_builtins(done.summary), ReplayDocument))
    else:
        print_summary(console(), done.summary, folder)


def _servers(servers: str | None, server_list: Path | None) -> str | tuple[ListedServer, ...]:
    if servers is not None and server_list is None:
        return servers
    if server_list is not None and servers is None:
        return tuple(read_servers(server_list))
    if servers is not None:
        raise click.UsageError("--servers and --server-list both say on which servers to replay: give one, not both")
    raise click.UsageError("a trace does not say on which servers to replay it: give --servers or --server-list")


def _scenario(
    servers: str | tuple[ListedServer, ...], domains: int, relax_after: float, restart_cost: float, checkpoint: float
) -> Scenario:
    try:
        return Scenario(servers, domains, relax_after, restart_cost, checkpoint)
    except ValueError as error:
        raise click.UsageError(clean(str(error))) from error


def _policy(name: str, step_gpu_s: float | None) -> Policy:
    try:
        return policy_named(name, step_gpu_s)
    except ValueError as error:
        raise click.UsageError(f"--step: {error}") from error


def _trace(file: Path, vcs: int | None, *, skip_bad_rows: bool) -> Trace:
    trace = read_trace(file, skip_bad_rows=skip_bad_rows)
    if vcs is not None:
        deal_vcs(trace, vcs)
    return trace


def _replayed(trace: Trace, scenario: Scenario, policy: Policy, *, audit: bool) -> Replay:
    """Replay, with progress and the time left on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        return run_replay(trace, scenario, policy, audit=audit)
    shown = Console(file=sys.stderr, markup=False, emoji=False, highlight=False, no_color="NO_COLOR" in os.environ)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown, transient=True, refresh_per_second=1 / REFRESH_S) as bar:
        task = bar.add_task("jobs ended", total=len(trace.jobs))
        next_s = 0.0

        def progress(ended: int, _now_s: float) -> None:
            nonlocal next_s
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + REFRESH_S
                bar.update(task, completed=ended)

        return run_replay(trace, scenario, policy, audit=audit, progress=progress)
