"""`ygs demo`: the product on a real cluster of local processes, judged by what the containers themselves wrote."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from yarn_gpu_sched.cli.demo.acting import DemoError
from yarn_gpu_sched.cli.demo.evidence import BadLogError
from yarn_gpu_sched.cli.demo.narrator import Narrator
from yarn_gpu_sched.cli.demo.play import Play
from yarn_gpu_sched.cli.demo.stage import Stage
from yarn_gpu_sched.cli.demo.tenants import QUEUES
from yarn_gpu_sched.cli.demo.verdict import claims_table, judge, stories_table
from yarn_gpu_sched.cli.exits import ExitCode
from yarn_gpu_sched.cli.output import console, duration
from yarn_gpu_sched.client import ServiceError
from yarn_gpu_sched.embedded import DEFAULT_HADOOP, ClusterError, known_versions

__all__ = ["demo"]


@click.command()
@click.option("--hadoop", type=click.Choice(known_versions()), default=DEFAULT_HADOOP, show_default=True)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="A new folder for all that the demo makes; it stays.  [default: a temporary one, kept only after a failure]",
)
def demo(hadoop: str, folder: Path | None) -> None:
    """Show gang scheduling, and virtual clusters that lend and take back, on a real cluster of local processes.

    Brings up 4 servers of 4 simulated GPUs on 2 racks, submits eleven applications with the stock `yarn` command, checks
    from the containers' own logs that what was promised held, and takes everything down. Exit code 0: all of it held.
    """
    narrator = Narrator()
    made = _new_folder(folder)
    worth_a_look = folder is not None
    try:
        with _terminated_as_interrupted():
            held = _show(narrator, made, hadoop)
        worth_a_look = worth_a_look or not held
    finally:
        if not worth_a_look:
            shutil.rmtree(made, ignore_errors=True)
    if worth_a_look:
        narrator.say(f"logs are in {made}")
    narrator.say(f"the demo took {duration(narrator.elapsed_s)}; all held" if held else "not all of it held", "bold")
    click.get_current_context().exit(ExitCode.DONE if held else ExitCode.FAILED)


def _show(narrator: Narrator, folder: Path, hadoop: str) -> bool:
    stage = Stage(folder, hadoop, QUEUES)
    play = Play(stage, narrator)
    try:
        with narrator.step("bringing up a Hadoop cluster of 4 servers with 4 GPUs each, and the service"):
            stage.up(narrator.detail)
        play.perform()
    except (ClusterError, DemoError, ServiceError, BadLogError) as error:
        narrator.say(f"the demo cannot go on: {error}", "red")
        return False
    finally:
        with narrator.step("taking everything down"):
            stage.down()
    judged = judge(play)
    out = console()
    for summary in (stories_table(play), claims_table(judged)):
        out.print()
        out.print(summary)
    return all(claim.held for claim in judged)


def _new_folder(asked: Path | None) -> Path:
    if asked is None:
        return Path(tempfile.mkdtemp(prefix="ygs-demo-"))
    if any(character.isspace() for character in str(asked.absolute())):
        raise click.BadParameter(
            f"{str(asked)!r} has a blank, which distributed shell would split", param_hint="--folder"
        )
    if asked.exists() and (not asked.is_dir() or any(asked.iterdir())):
        raise click.BadParameter(f"{str(asked)!r} is not empty; name a new folder", param_hint="--folder")
    asked.mkdir(parents=True, exist_ok=True)
    return asked.absolute()


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does: everything is taken down."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
