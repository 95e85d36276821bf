"""A file of a trace: read once, from its beginning to its end, plain or gzip, in bounded memory."""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from yarn_gpu_sched.replay.trace import TraceError, writable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BYTES_MAX = 4 * 1024**3
"""Bytes of a trace, unpacked; published ones have up to 0.3 GB."""

LINE_BYTES_MAX = 65_536
LINES_MAX = 50_000_000
PIECE_BYTES = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Line = str | TraceError
"""A line, or what is wrong with it."""


class Source:
    """Context in which a file is read; packed or not is seen by its content, and a pipe does as well.

    ``name`` is the file's name, ``file`` gives the bytes, ``sha256`` is the hash of all that was read. What cannot be unpacked, and
    what is too large, is a TraceError; a file that is not there is an OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = writable(str(path))
        self.name = writable(path.name)
        raw = io.BufferedReader(io.FileIO(path), PIECE_BYTES)
        self._opened = raw
        self._measured = _Measured(self.path, _unpacked(raw))
        self.file = io.BufferedReader(self._measured, PIECE_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.close()

    @property
    def sha256(self) -> str:
        """The hash of the bytes that were read, unpacked."""
        return self._measured.sha256.hexdigest()

    def error(self, line: int, column: str, value: str, right: str) -> TraceError:
        """Say what is not right in this file."""
        return TraceError(self.path, line, column, value, right)

    def is_json(self) -> bool:
        """Tell whether it begins as JSON does; nothing is read by that."""
        return self.file.peek().removeprefix(BYTE_ORDER_MARK).lstrip()[:1] in (b"[", b"{")

    def lines(self) -> Iterator[tuple[int, Line]]:
        """Read lines with their numbers, the first one without a byte-order mark; never more of one than there may be."""
        for number in range(1, LINES_MAX + 1):
            raw = self.file.readline(LINE_BYTES_MAX + 1)
            if not raw:
                return
            yield number, self._decoded(number, raw)
            while len(raw) > LINE_BYTES_MAX and not raw.endswith(b"\n"):
                raw = self.file.readline(LINE_BYTES_MAX + 1)
        if self.file.read(1):
            raise self.error(LINES_MAX + 1, "", "", f"at most {LINES_MAX} lines would be right")

    def _decoded(self, number: int, raw: bytes) -> Line:
        if len(raw) > LINE_BYTES_MAX:
            return self.error(number, "", _bytes_shown(raw), f"lines of at most {LINE_BYTES_MAX} bytes would be right")
        try:
            return raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as problem:
            return self.error(number, "", _bytes_shown(raw), f"UTF-8 would be right ({problem.reason})")


def _bytes_shown(raw: bytes) -> str:
    return raw[:40].decode("ascii", "backslashreplace")


def _unpacked(raw: "io.BufferedReader[io.FileIO]") -> io.BufferedIOBase:
    return gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == GZIP_MAGIC else raw


class _Measured(io.RawIOBase):
    """Counts and hashes what is read, and stops where it is too much."""

    def __init__(self, path: str, inner: io.BufferedIOBase) -> None:
        self._path = path
        self._inner = inner
        self._bytes = 0
        self.sha256 = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        try:
            count = self._inner.readinto1(buffer)
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            raise TraceError(self._path, 0, "", "", f"a whole gzip file would be right ({problem})") from None
        self._bytes += count
        if self._bytes > BYTES_MAX:
            raise TraceError(self._path, 0, "", "", f"at most {BYTES_MAX} bytes, unpacked, would be right")
        self.sha256.update(memoryview(buffer)[:count])
        return count
