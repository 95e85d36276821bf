"""The command `ygs` and its subcommands."""

from __future__ import annotations

import os
import sys
from functools import partial

import click

from yarn_gpu_sched.cli.exits import ExitCode
from yarn_gpu_sched.cli.lazy_group import LazyGroup
from yarn_gpu_sched.cli.service_option import service_option


@click.group(
    cls=LazyGroup,
    lazy={
        "cluster": "cluster:cluster",
        "config": "serve:config",
        "demo": "demo:demo",
        "job": "jobs:job",
        "jobs": "jobs:jobs",
        "replay": "replay:replay",
        "serve": "serve:serve",
        "servers": "cluster_views:servers",
        "vcs": "cluster_views:vcs",
        "why": "jobs:why",
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="yarn-gpu-sched", prog_name="ygs")
@partial(service_option, envvar="YGS_SERVICE")
@click.pass_context
def ygs(context: click.Context, service: str | None) -> None:
    """Gang scheduling of GPUs for a YARN cluster.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 service unreachable, 5 refused by the service,
    6 wrong configuration, 130 interrupted.
    """
    context.obj = service


def main() -> None:
    """Run `ygs` and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its code instead of an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # both are text files here
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.FAILED)
    sys.exit(result if isinstance(result, int) else ExitCode.DONE)
