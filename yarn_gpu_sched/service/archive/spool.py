"""The spool: files of rows on the local disk until they are in the archive.

A file is being written (`.open`), closed (`.rows`), or ready (`.parquet`). The first two hold batches, each with its length and
checksum, so what a crash tore off is known. One thread appends, closes and drops; another turns closed files into Parquet and
removes those that are in the archive. Both take the lock for as long as they change which files there are. A file that the disk
damaged is set aside (`.damaged`), said, and the first to go where the spool is full: it keeps no other back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import structlog

from yarn_gpu_sched.archive import FileName, Kind, batch_of, parse_name
from yarn_gpu_sched.archive.kinds import schema_of
from yarn_gpu_sched.journal.entries import MAGIC, RecordError, entry, read_entries

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

OPEN, CLOSED, READY, DAMAGED = ".open", ".rows", ".parquet", ".damaged"
_TEMPORARY = ".part"
_DROPPED_FIRST = (Kind.GPUS, Kind.USE, Kind.JOBS)

_log = structlog.get_logger(__name__)


class _Entry(msgspec.Struct):
    """A batch as it lies in a file, with its number."""

    number: int
    batch: bytes


class SpoolInUseError(RuntimeError):
    """Another service has the spool."""


class _DamagedError(Exception):
    """A file holds something else than what was written into it."""


class _Writing(msgspec.Struct):
    name: FileName
    path: Path
    stream: Any
    good: int


class Spool:
    """A directory. Raises OSError where that cannot be written, and `SpoolInUseError`."""

    def __init__(self, directory: Path, bytes_max: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.lock = threading.Lock()
        self.busy: Path | None = None  # being put into the archive: not dropped
        self._bytes_max = bytes_max
        self._writing: dict[Kind, _Writing] = {}
        self._lock_file = (directory / "lock").open("wb")
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock_file.close()
            raise SpoolInUseError(f"{directory} is in use by another service") from error
        self._tidy()

    def _tidy(self) -> None:
        for path in self.directory.glob(f"*{_TEMPORARY}"):
            path.unlink()
        for path in self.directory.glob(f"*{CLOSED}"):
            if path.with_suffix(READY).exists():  # it was made whole, and the process ended before the other was gone
                path.unlink()

    # Of the thread that writes

    def left_open(self, after: int) -> tuple[list[tuple[Kind, dict[str, Any]]], int]:
        """Return the rows of jobs and use that another run wrote after batch ``after``, and the highest number of a batch."""
        found: list[tuple[Kind, dict[str, Any]]] = []
        number = after
        for path in sorted(self.directory.glob(f"*{OPEN}")):
            name = parse_name(path.name, OPEN)
            if name is None:
                continue
            try:
                entries = _entries(path)
                number = max([number, *(one.number for one in entries)])
                if name.kind is not Kind.GPUS:
                    told = [row for one in entries if one.number > after for row in _table(one).to_pylist()]
                    found += [(name.kind, row) for row in told]
            except _DamagedError as damaged:
                _log.error("archive_file_damaged", file=str(path), error=str(damaged))
        return found, number

    def close_left_open(self) -> None:
        """Close what another run left open: another part of its hour is begun."""
        for path in self.directory.glob(f"*{OPEN}"):
            path.rename(path.with_suffix(CLOSED))
        self._sync()

    def append(self, kind: Kind, hour_s: int, number: int, rows: list[tuple[Any, ...]]) -> None:
        """Put rows on the disk; raises OSError, and then none of them is there."""
        payload = msgspec.msgpack.encode(_Entry(number, _packed(kind, rows)))
        one = self._still_there(kind) or self._begin(kind, hour_s)
        try:
            _write_all(one.stream, entry(payload))
            os.fsync(one.stream.fileno())
        except OSError:
            self._undo(kind, one)
            raise
        one.good = one.stream.tell()

    def _still_there(self, kind: Kind) -> _Writing | None:
        one = self._writing.get(kind)
        if one is None or one.path.exists():
            return one
        del self._writing[kind]
        one.stream.close()
        _log.error("archive_file_removed", file=str(one.path), bytes=one.good)
        return None

    def _begin(self, kind: Kind, hour_s: int) -> _Writing:
        name = FileName(hour_s, kind, secrets.token_hex(8))
        path = self.directory / f"{name.stem}{OPEN}"
        stream: BinaryIO = path.open("xb", buffering=0)
        try:
            _write_all(stream, MAGIC)
            self._sync()
        except OSError:
            stream.close()
            path.unlink(missing_ok=True)
            raise
        one = self._writing[kind] = _Writing(name, path, stream, stream.tell())
        return one

    def _undo(self, kind: Kind, one: _Writing) -> None:
        """Cut off what was written in part; where even that fails, the checksum tells, and another file is begun."""
        try:
            one.stream.truncate(one.good)
            one.stream.seek(one.good)
        except OSError:
            del self._writing[kind]
            with contextlib.suppress(OSError):
                one.stream.close()

    def close(self) -> None:
        """Close what is being written: it may go to the archive."""
        for kind in list(self._writing):
            one = self._writing.pop(kind)
            one.stream.close()
            with self.lock:
                one.path.rename(one.path.with_suffix(CLOSED))
        self._sync()

    def keep(self, name: str, content: bytes) -> None:
        """Have a small file there, whole or as it was before."""
        part = self.directory / f"{name}{_TEMPORARY}"
        with part.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.rename(self.directory / name)
        self._sync()

    def over_full(self) -> bool:
        """Tell whether there is more than there may be."""
        return self.bytes > self._bytes_max

    @property
    def bytes(self) -> int:
        """Bytes of all files; of those alone that can be looked at."""
        total = 0
        with contextlib.suppress(OSError):
            for path in self.directory.iterdir():
                with contextlib.suppress(OSError):
                    total += path.stat().st_size
        return total

    def drop_one(self, kinds: tuple[Kind, ...] = _DROPPED_FIRST) -> tuple[Kind, int] | None:
        """Drop the oldest file, telemetry first; return of which kind it was and how many rows are lost. None: there is none.

        Of a file that is damaged nobody can tell how many rows there were: 0.
        """
        with self.lock:
            for kind in kinds:
                for path in self._of_kind(kind):
                    rows = _rows(path)
                    path.unlink()
                    return kind, rows
        return None

    def _of_kind(self, kind: Kind) -> list[Path]:
        named = [*sorted(self.directory.glob(f"*{DAMAGED}")), *self.waiting()]
        return [path for path in named if path.name.startswith(f"{kind.value}-") and path != self.busy]

    def _set_aside(self, path: Path, damaged: _DamagedError) -> None:
        aside = path.with_suffix(DAMAGED)
        with self.lock:
            if path.exists():
                path.rename(aside)
                self._sync()
        _log.error("archive_file_damaged", file=str(path), kept=str(aside), error=str(damaged))

    def end(self) -> None:
        """Close what is being written, and let go of the directory."""
        with contextlib.suppress(OSError):
            self.close()
        self._lock_file.close()

    # Of both

    def waiting(self) -> list[Path]:
        """List the files that wait to be in the archive: jobs first, then use, then telemetry, each oldest first."""
        found = [path for ending in (CLOSED, READY) for path in self.directory.glob(f"*{ending}")]
        named = [(name, path) for path in found if (name := parse_name(path.name, path.suffix)) is not None]
        return [path for _, path in sorted(named, key=lambda one: (one[0].kind, one[0].hour_s, one[0].part))]

    # Of the thread that archives

    def make_ready(self, closed: Path) -> Path | None:
        """Turn a closed file into Parquet; return that.

        One without any row goes, and so does one that was dropped meanwhile; one that is damaged is set aside.
        """
        ready, part = closed.with_suffix(READY), closed.with_suffix(_TEMPORARY)
        try:
            rows = write_parquet(closed, part)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        except _DamagedError as damaged:
            self._set_aside(closed, damaged)
            return None
        with self.lock:
            if rows and closed.exists():
                part.rename(ready)
                self._sync()
                self.busy = ready
            part.unlink(missing_ok=True)
            closed.unlink(missing_ok=True)
            self._sync()
        return ready if rows else None

    def take(self, ready: Path) -> bool:
        """Keep a file from being dropped while it is put into the archive; False if it was already, or is damaged."""
        try:
            _metadata(ready)
        except FileNotFoundError:
            return False
        except _DamagedError as damaged:
            self._set_aside(ready, damaged)
            return False
        with self.lock:
            self.busy = ready if ready.exists() else None
            return self.busy is not None

    def release(self, *, archived: bool) -> None:
        """Let go of it; if it is in the archive it is removed."""
        with self.lock:
            if archived and self.busy is not None:
                self.busy.unlink(missing_ok=True)
                self._sync()
            self.busy = None

    def _sync(self) -> None:
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(stream: BinaryIO, content: bytes) -> None:
    """Write to an unbuffered file, which takes only a part where the disk ends; the next one then fails."""
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]


def write_parquet(closed: Path, target: Path) -> int:
    """Write the rows of a closed file as Parquet, on the disk when this returns; say how many there are."""
    import pyarrow as pa  # noqa: PLC0415 - only where an archive is kept
    import pyarrow.compute as pc  # noqa: PLC0415 - only where an archive is kept or read
    import pyarrow.parquet as pq  # noqa: PLC0415 - only where an archive is kept or read

    name = parse_name(closed.name, closed.suffix)
    assert name is not None
    tables = list(map(_table, _entries(closed)))
    try:
        table = pa.concat_tables([schema_of(name.kind).empty_table(), *tables]).unify_dictionaries()
    except pa.ArrowException as error:  # rows of other columns than a version of today has
        raise _DamagedError(str(error)) from error
    if name.kind is Kind.GPUS:  # what is alike lies together: half the bytes
        keys = pa.table({"server": table["server"].cast(pa.string()), "gpu": table["gpu"], "minute": table["minute"]})
        table = table.take(pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names]))
    with target.open("wb") as stream:
        pq.write_table(table, stream, compression="zstd")
        stream.flush()
        os.fsync(stream.fileno())
    return int(table.num_rows)


def _entries(path: Path) -> list[_Entry]:
    """Read what is whole; a file of which a crash left not even the beginning holds nothing."""
    try:
        return [msgspec.msgpack.decode(one, type=_Entry) for one in read_entries(path)]
    except (RecordError, msgspec.MsgspecError) as error:
        if path.stat().st_size < len(MAGIC):
            return []
        raise _DamagedError(str(error)) from error


def _packed(kind: Kind, rows: list[tuple[Any, ...]]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - only where an archive is kept

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema_of(kind), options=options) as stream:
        stream.write_batch(batch_of(kind, rows))
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _table(one: _Entry) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - only where an archive is kept

    try:
        return pa.ipc.open_stream(pa.py_buffer(one.batch)).read_all()
    except (pa.ArrowException, OSError) as error:
        raise _DamagedError(f"batch {one.number}: {error}") from error


def _metadata(ready: Path) -> pq.FileMetaData:
    import pyarrow as pa  # noqa: PLC0415 - only where an archive is kept
    import pyarrow.parquet as pq  # noqa: PLC0415 - only where an archive is kept

    with ready.open("rb") as stream:
        try:
            return pq.read_metadata(stream)
        except pa.ArrowException as error:
            raise _DamagedError(str(error)) from error


def _rows(path: Path) -> int:
    try:
        if path.suffix == READY:
            return int(_metadata(path).num_rows)
        return sum(_table(one).num_rows for one in _entries(path)) if path.suffix == CLOSED else 0
    except _DamagedError:
        return 0
