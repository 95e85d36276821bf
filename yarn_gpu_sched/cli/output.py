"""Printing: tables and sentences for people, JSON for programs. Everything visible passes `clean`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from yarn_gpu_sched.cli.text import clean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

WIDTH_WITHOUT_TERMINAL, HEIGHT_WITHOUT_TERMINAL = 80, 24
ROOMY_CELLS = 100
CELLS_MIN = 3
WHOLE_CELLS_MAX = 44  # a YARN container id with its epoch
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
        width=terminal_size().columns,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )


def terminal_size() -> os.terminal_size:
    """Return columns and lines: what COLUMNS and LINES say, else those of the terminal that standard output is."""
    columns = lines = 0
    with suppress(OSError, ValueError):  # standard output is no terminal, or no file
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
    return shutil.get_terminal_size((columns or WIDTH_WITHOUT_TERMINAL, lines or HEIGHT_WITHOUT_TERMINAL))


def text(value: object, style: str = "") -> Text:
    """Return a cell: the value's text, cleaned, never read as markup."""
    return Text(clean(str(value)), style=style)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Text]],
    *,
    numbers: Collection[str] = (),
    whole: Collection[str] = (),
    folded: Collection[str] = (),
) -> Table:
    """Return a table that fits the terminal.

    Columns in ``numbers`` are aligned to the right and never cut. Those in ``whole`` (identifiers, to be copied) keep
    up to ``WHOLE_CELLS_MAX`` cells and break over lines beyond. The others share what is left: those in ``folded`` break
    over lines, the rest is cut with an ellipsis.
    """
    filled = list(rows)
    width = console().width
    gap = 2 if width >= ROOMY_CELLS else 1
    widest = [max([len(name), *(row[index].cell_len for row in filled)]) for index, name in enumerate(columns)]
    fixed = [
        cells if name in numbers else min(cells, WHOLE_CELLS_MAX) if name in whole else None
        for name, cells in zip(columns, widest, strict=True)
    ]
    room = width - gap * len(columns) - sum(cells for cells in fixed if cells is not None)
    shares = iter(_share([w for w, cells in zip(widest, fixed, strict=True) if cells is None], room))
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold", show_edge=False)
    for name, cells in zip(columns, fixed, strict=True):
        made.add_column(
            name,
            justify="right" if name in numbers else "left",
            no_wrap=name not in (*whole, *folded),
            overflow="fold" if name in (*whole, *folded) else "ellipsis",
            width=next(shares) if cells is None else cells,
        )
    for row in filled:
        made.add_row(*row)
    return made


def _share(wanted: Sequence[int], room: int) -> list[int]:
    """Divide ``room`` cells: who wants less than an equal share gets that, the others share what is left."""
    given = [0] * len(wanted)
    waiting = sorted(range(len(wanted)), key=wanted.__getitem__)
    for position, index in enumerate(waiting):
        equal = max(room, 0) // (len(waiting) - position)
        given[index] = max(CELLS_MIN, min(wanted[index], equal))
        room -= given[index]
    return given


def print_json(document: msgspec.Struct) -> None:
    """Print a document."""
    click.echo(ascii_json(msgspec.to_builtins(document), indent=2))


def ascii_json(value: object, indent: int | None = None) -> str:
    """Return JSON in ASCII: every other character is escaped, and so nothing in it can steer a terminal."""
    return json.dumps(value, indent=indent, ensure_ascii=True).replace("\x7f", "\\u007f")


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


def to_the_second(time: str) -> str:
    """Return a time (UTC, RFC 3339) without fractions of a second."""
    whole, fraction, _ = time.partition(".")
    return f"{whole}Z" if fraction else time


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
