"""Rows of a delimited text file, read one by one in bounded memory, with errors that name line, column and value."""

import csv
import math
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from yarn_gpu_sched.replay.source import Line, Source
from yarn_gpu_sched.replay.trace import GPUS_MAX, TIME_MAX_S, TraceError

NO_TIME = ("", "none", "null", "na", "n/a", "nan")
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - traces tell local times without a zone, and only their differences matter
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", re.ASCII)
TIME_RIGHT = "a time YYYY-MM-DD HH:MM:SS would be right"


class Row:
    """A row with its line; reads each field or says what is wrong with it."""

    def __init__(self, source: Source, line: int, fields: Mapping[str, str], problem: TraceError | None = None) -> None:
        self._source = source
        self.line = line
        self._fields = fields
        self._problem = problem

    def error(self, column: str, right: str) -> TraceError:
        """Say that a field is not right."""
        return self._source.error(self.line, column, self._fields.get(column, ""), right)

    def text(self, column: str) -> str:
        """Read a field that must not be empty."""
        value = self.optional(column)
        if not value:
            raise self.error(column, "a value would be right")
        return value

    def optional(self, column: str) -> str:
        """Read a field that may be empty or not there."""
        if self._problem is not None:
            raise self._problem
        return self._fields.get(column, "").strip()

    def number(self, column: str, least: float, most: float) -> float:
        """Read a finite number of a range."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isnan(value) or "_" in text:
            raise self.error(column, "a number would be right")
        if not least <= value <= most:
            raise self.error(column, f"a number from {_plain(least)} to {_plain(most)} would be right")
        return value

    def whole(self, column: str, least: int, most: int) -> int:
        """Read a whole number of a range."""
        value = self.number(column, least, most)
        if value != int(value):
            raise self.error(column, "a whole number would be right")
        return int(value)

    def gpus(self, column: str, least: int = 1) -> int:
        """Read a number of GPUs."""
        return self.whole(column, least, GPUS_MAX)

    def seconds(self, column: str) -> int:
        """Read a time or a duration in seconds, rounded to whole ones."""
        return round(self.number(column, 0, TIME_MAX_S))

    def time_s(self, column: str) -> int | None:
        """Read a local time `YYYY-MM-DD HH:MM:SS` as seconds since 1970; None where it says that there is none."""
        value = self.optional(column)
        if value.lower() in NO_TIME:
            return None
        found = clock_s(value)
        if found is None:
            raise self.error(column, TIME_RIGHT)
        return found


def _plain(number: float) -> str:
    return f"{number:,.0f}"


def clock_s(value: str) -> int | None:
    """Read a local time as seconds since 1970, without regard to summer time; None if it is none."""
    if _CLOCK.fullmatch(value) is None:
        return None
    try:
        return round((datetime.fromisoformat(value) - EPOCH).total_seconds())
    except ValueError:
        return None


class Table:
    """A CSV file: the names of its columns, and then its rows. Raises TraceError; what is wrong with a row, its fields raise."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lines = source.lines()
        self._header_line, first = next(self._lines, (1, ""))
        if isinstance(first, TraceError):
            raise first
        self.columns = [name.strip() for name in self._split(self._header_line, first)]
        if twice := [name for name in self.columns if self.columns.count(name) > 1]:
            raise source.error(self._header_line, "", twice[0], "each column once would be right")

    def has(self, columns: Collection[str]) -> bool:
        """Tell whether there are these columns."""
        return all(column in self.columns for column in columns)

    def unknown(self, right: str) -> TraceError:
        """Say that these columns are not right."""
        return self._source.error(self._header_line, "header", ",".join(self.columns), right)

    def need(self, columns: Collection[str]) -> None:
        """Raise where a column is missing."""
        if missing := [column for column in columns if column not in self.columns]:
            raise self.unknown(f"a column {missing[0]} would be right")

    def rows(self) -> Iterator[Row]:
        """Read the rows; empty lines are none."""
        for number, line in self._lines:
            if isinstance(line, TraceError) or line.strip():
                yield self._row(number, line)

    def _row(self, number: int, line: Line) -> Row:
        try:
            if isinstance(line, TraceError):
                raise line
            fields = self._split(number, line)
            if len(fields) != len(self.columns):
                right = f"{len(self.columns)} fields would be right, not {len(fields)}"
                raise self._source.error(number, "", line.strip(), right)
        except TraceError as problem:
            return Row(self._source, number, {}, problem)
        return Row(self._source, number, dict(zip(self.columns, fields, strict=True)))

    def _split(self, number: int, line: str) -> list[str]:
        try:
            return next(csv.reader([line.rstrip("\r\n")], strict=True), [])
        except csv.Error as problem:
            right = f"a row of a CSV file would be right ({problem})"
            raise self._source.error(number, "", line.strip(), right) from None
