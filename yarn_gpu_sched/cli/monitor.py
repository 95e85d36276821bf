"""`ygs monitor`: the node monitor of this server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from yarn_gpu_sched.cli.exits import CommandError, ExitCode
from yarn_gpu_sched.monitor.serving import run
from yarn_gpu_sched.monitor.settings import ENVIRONMENT_PREFIX, Settings
from yarn_gpu_sched.monitor.settings_files import BadSettings, load_settings

CONFIG_VARIABLE = f"{ENVIRONMENT_PREFIX}CONFIG"


def _settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a flag for every setting of the monitor."""
    for key, field in reversed(Settings.model_fields.items()):
        extra: Any = field.json_schema_extra
        option = click.option(
            f"--{key.replace('_', '-')}",
            key,
            metavar="VALUE",
            help=f"{field.description} {extra['right'].capitalize()}.  [default: {field.default!r}]",
        )
        command = option(command)
    return command


@click.command()
@click.option(
    "--config",
    "path",
    envvar=CONFIG_VARIABLE,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"Settings as TOML; flags and {ENVIRONMENT_PREFIX}… variables go before it.  [env: {CONFIG_VARIABLE}]",
)
@_settings_options
def monitor(path: Path | None, **flags: str | None) -> None:
    """Watch the GPUs of this server, and tell its containers which are theirs, until SIGTERM or Ctrl-C.

    Every flag is also a key of the settings file and a YGS_MONITOR_… variable. Exit codes: 0 stopped, 1 cannot start, 6
    wrong settings, 70 failed while running.
    """
    try:
        settings = load_settings(path, **flags)
    except BadSettings as bad:
        raise CommandError(str(bad), ExitCode.CONFIGURATION) from None
    click.get_current_context().exit(run(settings))
