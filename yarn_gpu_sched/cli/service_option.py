"""Which service a command talks to: `--service ADDRESS`, before or after the command's name, or YGS_SERVICE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from yarn_gpu_sched.cli.exits import service_errors
from yarn_gpu_sched.client import DEFAULT_TARGET, Client

TIMEOUT_S = 10.0


def _address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:  # noqa: PLR2004 - the last port
        raise click.BadParameter(f"{value!r} is not HOST:PORT, for example {DEFAULT_TARGET}")
    return value


def service_option(command: Callable[..., Any], *, envvar: str | None = None) -> Callable[..., Any]:
    """Add `--service`; the command reads it by `connected`. Only the outermost command reads the environment."""
    return click.option(
        "--service",
        envvar=envvar,
        metavar="HOST:PORT",
        callback=_address,
        help=f"The scheduling service.  [env: YGS_SERVICE; default: {DEFAULT_TARGET}]",
    )(command)


def target(service: str | None) -> str:
    """Return the service's address: the command's own option, else the one before its name, else the default."""
    before = click.get_current_context().find_object(str)
    return service or before or DEFAULT_TARGET


@contextmanager
def connected(service: str | None) -> Iterator[Client]:
    """Open a client of the service; its errors become one sentence and an exit code."""
    address = target(service)
    with service_errors(address), Client(address, timeout_s=TIMEOUT_S) as client:
        yield client
