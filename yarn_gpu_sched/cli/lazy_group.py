"""A group whose commands are imported only when they are needed: `ygs jobs` must not load the service."""

from __future__ import annotations

from importlib import import_module

import click


class LazyGroup(click.Group):
    """Knows each command's module and name as ``module:name``, relative to `yarn_gpu_sched.cli`."""

    def __init__(self, *args: object, lazy: dict[str, str] | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type] # whatever click's own group takes
        self._lazy = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in alphabetical order."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, importing its module on first use; None if there is no such command."""
        if cmd_name in self._lazy and cmd_name not in self.commands:
            module, _, name = self._lazy[cmd_name].partition(":")
            self.add_command(getattr(import_module(f"yarn_gpu_sched.cli.{module}"), name), cmd_name)
        return super().get_command(ctx, cmd_name)
