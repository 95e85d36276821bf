"""Which service a command talks to, and as whom: `--service` and `--tls`, before or after the command's name.

Without them YGS_SERVICE and YGS_TLS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from yarn_gpu_sched.cli.exits import CommandError, ExitCode, service_errors
from yarn_gpu_sched.client import DEFAULT_TARGET, Client, TlsFiles
from yarn_gpu_sched.identity import BadCertificate, is_unix, plain_refusal, unix_path

TIMEOUT_S = 10.0
_TLS = f"{__name__}.tls"


def _address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    if is_unix(value):
        try:
            return f"unix:{unix_path(value)}"
        except ValueError as error:
            raise click.BadParameter(f"{value!r} {error}") from None
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:  # noqa: PLR2004 - the last port
        raise click.BadParameter(f"{value!r} is not HOST:PORT, for example {DEFAULT_TARGET}")
    return value


def address_option(command: Callable[..., Any], *, envvar: str | None = None) -> Callable[..., Any]:
    """Add `--service` alone."""
    return click.option(
        "--service",
        envvar=envvar,
        metavar="ADDRESS",
        callback=_address,
        help=f"The scheduling service, HOST:PORT or unix:/PATH.  [env: YGS_SERVICE; default: {DEFAULT_TARGET}]",
    )(command)


def _remember_folder(context: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    if value is not None:
        context.meta[_TLS] = value


def service_option(
    command: Callable[..., Any], *, envvar: str | None = None, tls_envvar: str | None = None
) -> Callable[..., Any]:
    """Add `--service` and `--tls`; the command reads them by `connected`. Only the outermost command reads the environment."""
    with_tls = click.option(
        "--tls",
        envvar=tls_envvar,
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        expose_value=False,
        callback=_remember_folder,
        help="Who you are: a folder with certificate.pem, key.pem and authority.pem; needed beyond this machine."
        "  [env: YGS_TLS]",
    )(command)
    return address_option(with_tls, envvar=envvar)


def tls_files() -> TlsFiles | None:
    """Return the files that were named: by the command's own option, else by the one before its name."""
    folder = click.get_current_context().meta.get(_TLS)
    return TlsFiles.of_folder(folder) if folder is not None else None


def target(service: str | None) -> str:
    """Return the service's address: the command's own option, else the one before its name, else the default."""
    before = click.get_current_context().find_object(str)
    return service or before or DEFAULT_TARGET


def checked_tls(address: str) -> TlsFiles | None:
    """Return the files that were named; end the command where an address needs some, or they cannot be used."""
    tls = tls_files()
    if tls is None and plain_refusal(address):
        raise click.UsageError(
            f"{address} is not on this machine: name your certificate's folder by --tls or YGS_TLS, for example --tls ~/.ygs"
        )
    try:
        if tls is not None and not is_unix(address):
            tls.read()
    except BadCertificate as error:
        raise CommandError(str(error), ExitCode.CONFIGURATION) from error
    return tls


@contextmanager
def connected(service: str | None) -> Iterator[Client]:
    """Open a client of the service; its errors become one sentence and an exit code."""
    address, tls = target(service), checked_tls(target(service))
    client = Client(address, tls=tls, timeout_s=TIMEOUT_S)
    with service_errors(address, tls=tls is not None), client:
        yield client
