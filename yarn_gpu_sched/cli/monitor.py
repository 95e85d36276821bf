"""`ygs monitor`: the node monitor of this server."""

from __future__ import annotations

from pathlib import Path

import click

from yarn_gpu_sched.cli.exits import CommandError, ExitCode
from yarn_gpu_sched.cli.settings_options import config_option, settings_options
from yarn_gpu_sched.monitor.serving import run
from yarn_gpu_sched.monitor.settings import ENVIRONMENT_PREFIX, Settings
from yarn_gpu_sched.monitor.settings_files import BadSettings, load_settings


@click.command()
@config_option(ENVIRONMENT_PREFIX)
@settings_options(Settings)
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
