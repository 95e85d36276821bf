"""Printing: tables and sentences for people, JSON for programs. Everything visible passes `clean`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from yarn_gpu_sched.cli.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH_WITHOUT_TERMINAL = 80
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_TWO_DIGITS = 10


def console() -> Console:
    """Return what prints to standard output: no markup, no emoji codes, colours only on a terminal."""
    terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        force_terminal=terminal,
        force_interactive=terminal,
        no_color=not terminal or "NO_COLOR" in os.environ,
        color_system="auto" if terminal else None,
        width=shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )


def text(value: object, style: str = "") -> Text:
    """Return a cell: the value's text, cleaned, never read as markup."""
    return Text(clean(str(value)), style=style)


def table(*columns: str, numbers: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    """Return an empty table that fits the terminal.

    Columns in ``numbers`` are aligned to the right and never cut; those in ``whole`` break over lines instead of losing
    characters (identifiers, to be copied); all others are cut with an ellipsis.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for name in columns:
        number, unbroken = name in numbers, name in whole
        made.add_column(
            name,
            justify="right" if number else "left",
            no_wrap=not unbroken,
            overflow="fold" if unbroken else "ellipsis",
            min_width=len(name) if number else None,
        )
    return made


def print_json(document: msgspec.Struct) -> None:
    """Print a document in ASCII: every other character is escaped, so that nothing can steer a terminal."""
    printed = json.dumps(msgspec.to_builtins(document), indent=2, ensure_ascii=True)
    click.echo(printed.replace("\x7f", "\\u007f"))


def duration(seconds: float) -> str:
    """Return a duration in at most five characters: 12s, 3m20s, 5h07m, 12d."""
    whole = max(0, int(seconds))
    for (size_s, unit), (smaller_s, smaller_unit) in pairwise(_UNITS):
        count, rest = whole // size_s, whole % size_s // smaller_s
        if count >= _TWO_DIGITS:
            return f"{count}{unit}"
        if count:
            return f"{count}{unit}{rest:02d}{smaller_unit}"
    return f"{whole}s"


def index_ranges(indices: Sequence[int]) -> str:
    """Return ascending indices in short: 0-3,6."""
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def memory(memory_mb: int) -> str:
    """Return MiB in the largest unit that shows it in few digits."""
    for unit, size_mb in (("T", 1024 * 1024), ("G", 1024)):
        if memory_mb >= 10 * size_mb or (memory_mb >= size_mb and memory_mb % size_mb == 0):
            return f"{memory_mb / size_mb:.0f}{unit}"
    return f"{memory_mb}M"
