"""Flags for all settings of a process, and for the file that holds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pydantic

Command = Callable[..., Any]


def settings_options(settings: type[pydantic.BaseModel]) -> Callable[[Command], Command]:
    """Make a decorator that adds a flag for every setting, in their order."""

    def add(command: Command) -> Command:
        for key, field in reversed(settings.model_fields.items()):
            extra: Any = field.json_schema_extra
            option = click.option(
                f"--{key.replace('_', '-')}",
                key,
                metavar="VALUE",
                help=f"{field.description} {extra['right'].capitalize()}.  [default: {field.default!r}]",
            )
            command = option(command)
        return command

    return add


def config_option(prefix: str) -> Callable[[Command], Command]:
    """Make a decorator that adds `--config`, of a process whose variables begin with a prefix."""
    return click.option(
        "--config",
        "path",
        envvar=f"{prefix}CONFIG",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Settings as TOML; flags and {prefix}… variables go before it.  [env: {prefix}CONFIG]",
    )
