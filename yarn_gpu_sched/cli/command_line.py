"""The command `ygs` and its subcommands."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from yarn_gpu_sched.cli.exits import ExitCode
from yarn_gpu_sched.cli.lazy_group import LazyGroup
from yarn_gpu_sched.cli.service_option import service_option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


@click.group(
    cls=LazyGroup,
    lazy={
        "ack": "marks:ack",
        "certs": "certs:certs",
        "checkpoint": "preemption:checkpoint",
        "cluster": "cluster:cluster",
        "config": "serve:config",
        "delays": "delays:delays",
        "demo": "demo:demo",
        "doctor": "doctor:doctor",
        "drain": "marks:drain",
        "export": "archive:export",
        "idle": "idle:idle",
        "job": "jobs:job",
        "jobs": "jobs:jobs",
        "monitor": "monitor:monitor",
        "preempt": "preemption:preempt",
        "preemption": "preemption:preemption",
        "quarantine": "marks:quarantine",
        "replay": "replay:replay",
        "serve": "serve:serve",
        "servers": "servers:servers",
        "top": "top:top",
        "undrain": "marks:undrain",
        "usage": "archive:usage",
        "vcs": "vcs:vcs",
        "why": "why:why",
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="yarn-gpu-sched", prog_name="ygs")
@partial(service_option, envvar="YGS_SERVICE", tls_envvar="YGS_TLS")
@click.pass_context
def ygs(context: click.Context, service: str | None) -> None:
    """Gang scheduling of GPUs for a YARN cluster.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 service unreachable, 5 refused by the service,
    6 wrong configuration, 130 interrupted.
    """
    context.obj = service


def main() -> None:
    """Run `ygs` and end the process with its exit code."""
    _prepare_streams()
    try:
        result = ygs.main(prog_name="ygs", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("ygs: interrupted", err=True)
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has gone: nobody is left to tell
        _drop_output()
        sys.exit(ExitCode.FAILED)
    except OutputError as error:
        click.echo(f"ygs: standard output: {error}; one that can be written to would be right", err=True)
        _drop_output()
        sys.exit(ExitCode.FAILED)
    sys.exit(result if isinstance(result, int) else ExitCode.DONE)


def _prepare_streams() -> None:
    """Make do without standard error, end without standard output: the next file that is opened would take its place."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    if sys.stdout is None:
        click.echo("ygs: standard output is closed; an open one, such as >/dev/null, would be right", err=True)
        sys.exit(ExitCode.FAILED)
    # A terminal that cannot show a character gets its code instead of an error.
    sys.stderr.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # it is a text file here
    sys.stdout = _Output.instead_of(sys.stdout)  # type: ignore[arg-type] # it is a text file here


def _drop_output() -> None:
    """Let what is not written yet go nowhere, so that the end of the process does not fail by it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class OutputError(Exception):
    """Standard output cannot be written to."""


class _Output(io.TextIOWrapper):
    """Standard output whose errors are known from those of other files."""

    @classmethod
    def instead_of(cls, stream: io.TextIOWrapper) -> Self:
        """Take the place of a stream, which is of no use afterwards."""
        encoding, lines, through = stream.encoding, stream.line_buffering, stream.write_through
        return cls(stream.detach(), encoding, "backslashreplace", line_buffering=lines, write_through=through)

    def write(self, text: str, /) -> int:
        with _output_errors():
            return super().write(text)

    def flush(self) -> None:
        with _output_errors():
            super().flush()


@contextmanager
def _output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror) from error
