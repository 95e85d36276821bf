"""The objects of a JSON list, one by one: of the file no more is in memory than a piece and the largest of them."""

import io
import json
import re
from collections.abc import Iterator

from yarn_gpu_sched.replay.source import Source
from yarn_gpu_sched.replay.trace import TraceError

OBJECT_CHARACTERS_MAX = 4 * 1024**2
PIECE_CHARACTERS = 1 << 18
_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class JsonList:
    """Reads a source that holds one list of objects. Raises TraceError where it is not that."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = io.TextIOWrapper(source.file, encoding="utf-8-sig", newline="")
        self._buffer = ""
        self._at = 0
        self._ended = False
        self._line = 1

    def __iter__(self) -> Iterator[tuple[int, object]]:
        """Give each object with the line that it begins in."""
        self._expect("[", "a list of jobs")
        if self._next() != "]":
            yield self._object()
            while self._next() != "]":
                self._expect(",", "a comma, or the list's end,")
                yield self._object()
        self._expect("]", "the list's end")
        if self._next():
            raise self._wrong("nothing after the list")

    def _object(self) -> tuple[int, object]:
        if self._next() != "{":
            raise self._wrong("an object")
        line = self._line
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except (ValueError, RecursionError) as problem:
                if self._ended or len(self._buffer) - self._at > OBJECT_CHARACTERS_MAX:
                    raise self._broken(problem) from None
                self._fill(len(self._buffer) - self._at)
            else:
                self._go(end)
                return line, value

    def _next(self) -> str:
        """Show the next character that is not a blank; an empty text at the end."""
        while True:
            blanks = _BLANKS.match(self._buffer, self._at)
            assert blanks is not None
            self._go(blanks.end())
            if self._at < len(self._buffer) or self._ended:
                return self._buffer[self._at : self._at + 1]
            self._fill(0)

    def _expect(self, character: str, right: str) -> None:
        if self._next() != character:
            raise self._wrong(right)
        self._go(self._at + 1)

    def _go(self, place: int) -> None:
        self._line += self._buffer.count("\n", self._at, place)
        self._at = place

    def _fill(self, least: int) -> None:
        """Read more: a piece, or as much again as an object has so far, so that few tries are made at a large one."""
        try:
            more = self._text.read(max(least, PIECE_CHARACTERS))
        except UnicodeDecodeError as problem:
            raise self._source.error(self._line, "", "", f"UTF-8 would be right ({problem.reason})") from None
        self._ended = not more
        self._buffer, self._at = self._buffer[self._at :] + more, 0

    def _wrong(self, right: str, why: str = "") -> TraceError:
        found = self._buffer[self._at : self._at + 80]
        return self._source.error(self._line, "", found, f"{right} would be right{why if found else ': the file ends'}")

    def _broken(self, problem: Exception) -> TraceError:
        if not isinstance(problem, json.JSONDecodeError):
            return self._wrong("an object that can be decoded", f" ({problem})")
        at_end = problem.pos >= len(self._buffer.rstrip()) - 1 or problem.msg.startswith("Unterminated string")
        if self._ended and at_end:
            return self._wrong("an object with its end", ": the file ends in it")
        line = self._line + self._buffer.count("\n", self._at, problem.pos)
        near = self._buffer[max(self._at, problem.pos - 20) : problem.pos + 20]
        return self._source.error(line, "", near, f"JSON would be right ({problem.msg})")
