"""A figure with its limit, and how figures are shown and written."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured. A figure without a limit is only told; `at_least` says on which side of the limit is right."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def held(self) -> bool:
        """Whether the value is within its limit."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one benchmark and the configuration under which they were taken."""

    figures: tuple[Figure, ...]
    configuration: Mapping[str, Any] = field(default_factory=dict)


def machine() -> dict[str, Any]:
    """Return on what the figures are taken; the load says how quiet it was."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load_1_min": round(os.getloadavg()[0], 2),
    }


def write(folder: Path, benchmark: str, measured: Measured, machine_before: Mapping[str, Any]) -> Path:
    """Write one benchmark's figures, with limits, as `FOLDER/BENCHMARK.json`; return the file."""
    document = {
        "benchmark": benchmark,
        "machine_before": machine_before,
        "machine_after": machine(),
        "configuration": measured.configuration,
        "figures": [
            {
                "name": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "limit": figure.limit,
                "limit_is": "least" if figure.at_least else "most",
                "held": figure.held,
                "note": figure.note,
            }
            for figure in measured.figures
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{benchmark}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return path


def show(console: Console, title: str, figures: Iterable[Figure]) -> None:
    """Print figures beside their limits."""
    table = Table("figure", "value", "limit", "", "note", title=title, title_justify="left")
    for figure in figures:
        sign = "≥" if figure.at_least else "≤"
        limit = "" if figure.limit is None else f"{sign} {figure.limit:,g} {figure.unit}"
        verdict = "" if figure.limit is None else ("held" if figure.held else "MISSED")
        table.add_row(figure.name, f"{figure.value:,.6g} {figure.unit}", limit, verdict, figure.note)
    console.print(table)
