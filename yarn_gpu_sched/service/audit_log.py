"""The audit log: a line of JSON for every act that changes something and for every refusal.

A thread of its own writes it, so that a disk that is slow or full holds up nobody; what cannot be written is counted, said in the
ordinary log, and never ends anything.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import queue
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from yarn_gpu_sched.service.caller import Record

if TYPE_CHECKING:
    from yarn_gpu_sched.service.metrics import Metrics

FILE_NAME = "audit.jsonl"
WAITING_MAX = 4_096
"""Lines that wait to be written, when the disk does not answer."""
CLOSE_WAIT_S = 5.0
_MODE = 0o600

_log = structlog.get_logger(__name__)


class UnfitAuditLog(ValueError):  # noqa: N818 - a name that says what is wrong
    """The file cannot be written."""


class AuditLog:
    """Takes records on any thread; `close` writes what waits. Without a file they go to the ordinary log."""

    def __init__(self, path: Path | None, metrics: Metrics, *, bytes_max: int, files_max: int) -> None:
        """Open the file and begin to write; `UnfitAuditLog` if that is not possible."""
        self._metrics = metrics
        self._file = _RotatedFile(path, bytes_max, files_max) if path is not None else None
        self._waiting: queue.Queue[bytes | None] = queue.Queue(WAITING_MAX)
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="audit_log", daemon=True)
        if self._file is not None:
            self._thread.start()

    def write(self, record: Record) -> None:
        """Queue a line; it is dropped and counted if too many wait. Never blocks, never raises."""
        line: dict[str, Any] = {"time": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")}
        line.update((key, value) for key, value in record.items() if value is not None)
        if self._file is None:
            if record.get("outcome") == "refused":
                _log.warning("audit", **line)
            else:
                _log.info("audit", **line)
            self._metrics.audit_lines.inc()
            return
        try:
            self._waiting.put_nowait(msgspec.json.encode(line, enc_hook=str) + b"\n")
        except queue.Full:
            self._drop(f"{WAITING_MAX} lines wait to be written")

    def close(self) -> None:
        """Write what waits, for a bounded time, and let go of the file."""
        if self._file is None or not self._thread.is_alive():
            return
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=CLOSE_WAIT_S)
            self._thread.join(CLOSE_WAIT_S)

    def _run(self) -> None:
        assert self._file is not None
        while (line := self._waiting.get()) is not None:
            try:
                self._file.append(line)
            except OSError as error:
                self._drop(str(error))
            else:
                self._metrics.audit_lines.inc()
                self._failing = False
        self._file.close()

    def _drop(self, error: str) -> None:
        """Count a line that is lost, and say so once until lines are written again."""
        self._metrics.audit_drops.inc()
        if not self._failing:
            _log.error("audit_not_written", error=error)
        self._failing = True


class _RotatedFile:
    """A file that is renamed to ``NAME.1`` when it is full, that to ``NAME.2`` and so on; the last goes. Its methods block."""

    def __init__(self, path: Path, bytes_max: int, files_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._torn = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd, self._bytes = _opened(path)
        except OSError as error:
            raise UnfitAuditLog(f"audit_log: {path} cannot be written: {error.strerror}") from error

    def append(self, line: bytes) -> None:
        """Write one line; a part of one that did not fit is ended before the next. Raises OSError."""
        if self._bytes and self._bytes + len(line) > self._bytes_max:
            self._rotate()
        if self._torn:
            line = b"\n" + line
        written = os.write(self._fd, line)
        self._bytes += written
        self._torn = written < len(line)
        if self._torn:
            raise OSError(f"{written} of {len(line)} bytes of a line were written")

    def _rotate(self) -> None:
        # Up to the first gap: one that failed before its end, as where no file can be opened, is tried with every line.
        free = (number for number in range(self._files_max) if not self._numbered(number).exists())
        for number in range(next(free, self._files_max - 1), 0, -1):
            self._numbered(number - 1).replace(self._numbered(number))
        if self._files_max == 1:
            self._path.unlink(missing_ok=True)
        fd, size = _opened(self._path)
        os.close(self._fd)
        self._fd, self._bytes, self._torn = fd, size, False

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def close(self) -> None:
        os.close(self._fd)


def _opened(path: Path) -> tuple[int, int]:
    """Open a file to be appended to, and say how long it is; what a crash tore is on a line of its own."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        size += os.write(fd, b"\n")
    return fd, size


def audit_path(audit_log: str, state_dir: str) -> Path | None:
    """Say where it is written: where the setting says, else in ``state_dir``, else nowhere."""
    if audit_log:
        return Path(audit_log)
    return Path(state_dir) / FILE_NAME if state_dir else None
