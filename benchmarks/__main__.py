"""Measure everything, or what is named: `python -m benchmarks [--out FOLDER] [NAME …]`.

Each benchmark is a module here with `measure() -> Measured`. Figures are shown beside their limits and written as JSON.
Exit code 0: every limit held; 1: one was missed; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.pretty import pprint

from benchmarks.figures import Measured, machine, show, write

BENCHMARKS = (
    "decisions",
    "replay",
    "tenants",
    "victims",
    "service_snapshot",
    "service_gangs",
    "monitor",
    "fleet",
    "archive",
    "real_latency",
    "real_streams",
    "real_snapshot",
    "real_allocate",
)


def main(argv: list[str]) -> int:
    """Run the benchmarks that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and compare with the limits.")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for the JSON files")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"out of {', '.join(BENCHMARKS)}; none: all")
    given = parser.parse_args(argv)
    if unknown := sorted(set(given.names) - set(BENCHMARKS)):
        parser.error(f"{', '.join(unknown)}: no such benchmark; there are {', '.join(BENCHMARKS)}")
    console = Console(width=None if sys.stdout.isatty() else 120)
    held = True
    for name in given.names or BENCHMARKS:
        measure: Callable[[], Measured] = importlib.import_module(f"benchmarks.{name}").measure
        console.print(f"[bold]{name}[/] …")
        before = machine()
        measured = measure()
        pprint(measured.configuration, console=console, expand_all=True)
        show(console, name, measured.figures)
        console.print(f"written to {write(given.out, name, measured, before)}, load {before['load_1_min']} before\n")
        held = held and all(figure.held for figure in measured.figures)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
