"""Entries of a record: length, checksum, bytes."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

MAGIC = b"ygs-events-1\n"
ENTRY_BYTES_MAX = 512 * 1024 * 1024
"""Longest entry that is read: a longer one is a torn or foreign file."""

_HEAD = struct.Struct(">II")
_NAME = "events-{:012d}.log"


class FileHead(msgspec.Struct, frozen=True):
    """First entry of a file: which recorder wrote it, and how many events it had written before."""

    run_id: str
    events_before: int


class RecordError(ValueError):
    """A file that is no record, or whose snapshot is torn. Names the file."""


def entry(payload: bytes) -> bytes:
    """Frame an entry."""
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def file_name(number: int) -> str:
    """Name the file of a number."""
    return _NAME.format(number)


def files_of(directory: Path) -> list[tuple[int, Path]]:
    """List the files of a record with their numbers, oldest first."""
    found = []
    for path in directory.glob("events-*.log"):
        digits = path.stem.removeprefix("events-")
        if digits.isdecimal():
            found.append((int(digits), path))
    return sorted(found)


def read_entries(path: Path) -> Iterator[bytes]:
    """Read the entries of a file up to its end, or to where it was torn. Raises RecordError if it is no record."""
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise RecordError(f"{path.name} does not begin as a record of events does")
        while True:
            head = stream.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return
            length, checksum = _HEAD.unpack(head)
            if length > ENTRY_BYTES_MAX:
                return
            payload = stream.read(length)
            if len(payload) < length or zlib.crc32(payload) != checksum:
                return
            yield payload
