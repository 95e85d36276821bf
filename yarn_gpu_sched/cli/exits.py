"""Exit codes of `ygs`, and how errors of the rooms below become one sentence and one of them."""

from __future__ import annotations

import enum
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from yarn_gpu_sched.cli.text import clean
from yarn_gpu_sched.client import DeadlineError, NotFoundError, ServiceError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator


class ExitCode(enum.IntEnum):
    """What a caller can tell from the exit code; docs/cli.md has the same table."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    REFUSED = 5
    CONFIGURATION = 6
    INTERRUPTED = 130


class CommandError(click.ClickException):
    """A command cannot go on: one sentence for standard error, and the exit code."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = int(exit_code)  # type: ignore[misc] # click reads it from the instance too

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence; it may hold text from outside."""
        click.echo(f"ygs: {clean(self.message)}", file=file, err=file is None)


@contextmanager
def service_errors(target: str, *, tls: bool = False) -> Iterator[None]:
    """Turn what the service at ``target`` answers into a `CommandError`; ``tls``: it may have refused our certificate."""
    try:
        yield
    except UnavailableError as error:
        ask = (
            "is `ygs serve` running, and does it take this certificate (`ygs certs show`)?"
            if tls
            else "is `ygs serve` running?"
        )
        raise CommandError(f"no service answers at {target} ({error}); {ask}", _code(error)) from error
    except ServiceError as error:
        raise CommandError(str(error), _code(error)) from error


def _code(error: ServiceError) -> ExitCode:
    if isinstance(error, NotFoundError):
        return ExitCode.NOT_FOUND
    if isinstance(error, (UnavailableError, DeadlineError)):
        return ExitCode.UNREACHABLE
    return ExitCode.REFUSED
