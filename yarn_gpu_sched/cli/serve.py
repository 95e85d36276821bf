"""`ygs serve` and `ygs config`: the scheduling service and its settings."""

from __future__ import annotations

import os
from pathlib import Path

import click

from yarn_gpu_sched.cli.documents import SettingsDocument
from yarn_gpu_sched.cli.exits import CommandError, ExitCode
from yarn_gpu_sched.cli.output import ascii_json, print_json
from yarn_gpu_sched.cli.settings_options import config_option, settings_options
from yarn_gpu_sched.cli.text import clean
from yarn_gpu_sched.service import BadSettings, Problem, Settings, check_config, load_settings, run
from yarn_gpu_sched.service.settings import ENVIRONMENT_PREFIX

CONFIG_VARIABLE = f"{ENVIRONMENT_PREFIX}CONFIG"


@click.command()
@config_option(ENVIRONMENT_PREFIX)
@settings_options(Settings)
def serve(path: Path | None, **flags: str | None) -> None:
    """Run the scheduling service until SIGTERM or Ctrl-C.

    Every flag is also a key of the settings file and a YGS_… variable. Beyond this machine it listens with TLS only. Exit
    codes: 0 stopped, 1 cannot start, 6 wrong settings, 70 failed while running.
    """
    click.get_current_context().exit(run(_load(path, flags)))


@click.group()
def config() -> None:
    """Check or show the settings of the service."""


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(file: Path | None) -> None:
    """Check the settings FILE by itself; without FILE, all that `ygs serve` would use.

    Each problem is named with file, line, key, value and what would be right.
    """
    if file is None:
        _load(os.environ.get(CONFIG_VARIABLE), {})
    elif problems := check_config(file):
        raise _wrong(problems)
    click.echo(f"{clean(str(file)) if file else 'settings'}: all right")


@config.command("show")
@config_option(ENVIRONMENT_PREFIX)
@settings_options(Settings)
@click.option("--json", "json_", is_flag=True, help="Print a JSON document (schema: docs/cli.md).")
def show_config(path: Path | None, *, json_: bool, **flags: str | None) -> None:
    """Print the settings that `ygs serve` would use, as a settings file."""
    settings = _load(path, flags).model_dump(mode="json")
    if json_:
        print_json(SettingsDocument(settings))
        return
    for key, value in settings.items():
        click.echo(f"{key} = {ascii_json(value)}")  # TOML writes strings, numbers and booleans as JSON does


def _load(path: Path | str | None, flags: dict[str, str | None]) -> Settings:
    try:
        return load_settings(path, **flags)
    except BadSettings as bad:
        raise _wrong(bad.problems) from None


def _wrong(problems: list[Problem]) -> CommandError:
    return CommandError("\n".join(map(str, problems)), ExitCode.CONFIGURATION)
