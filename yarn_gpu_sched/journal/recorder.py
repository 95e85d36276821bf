"""Writes every event that is applied, into bounded and rotated files."""

import secrets
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.events import Event
from yarn_gpu_sched.journal.entries import MAGIC, FileHead, entry, file_name, files_of

BUFFER_BYTES = 256 * 1024


class Recorder:
    """Records the events of an engine. Not safe for several threads.

    Each file is begun with a snapshot of the engine as it is then, so `record` comes before `Engine.apply`. A file that has
    reached ``file_bytes_max`` is followed by the next; of the files at most ``files_max`` are kept. Raises OSError where the
    directory cannot be written. Events reach the file when its buffer is full, on `flush` and on `close`.
    """

    def __init__(
        self, directory: Path, engine: Engine, *, file_bytes_max: int = 64 * 1024 * 1024, files_max: int = 8
    ) -> None:
        if file_bytes_max < 1 or files_max < 1:
            raise ValueError(f"file_bytes_max {file_bytes_max} and files_max {files_max} must both be at least 1")
        self._directory = directory
        self._engine = engine
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        self._encode = msgspec.msgpack.Encoder().encode
        self._bytes = 0
        directory.mkdir(parents=True, exist_ok=True)
        known = files_of(directory)
        self._number = known[-1][0] if known else 0
        self._run_id = secrets.token_hex(8)
        self._events = 0
        self._stream = self._next_file()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def record(self, event: Event) -> None:
        """Record an event that is about to be applied. Raises OSError if it cannot be written."""
        if self._bytes >= self._file_bytes_max:
            self._stream.close()
            self._stream = self._next_file()
        self._bytes += self._stream.write(entry(self._encode(event)))
        self._events += 1

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        self._stream.flush()

    def close(self) -> None:
        """Write out what is buffered and stop. Twice is once."""
        self._stream.close()

    def _next_file(self) -> BinaryIO:
        self._number += 1
        for _, path in files_of(self._directory)[: -(self._files_max - 1) or None]:
            path.unlink()
        stream = (self._directory / file_name(self._number)).open("xb", buffering=BUFFER_BYTES)
        stream.write(MAGIC)
        stream.write(entry(self._encode(FileHead(self._run_id, self._events))))
        stream.write(entry(self._engine.snapshot()))
        stream.flush()
        self._bytes = 0
        return stream
