"""Small files of the kernel, `/proc` and `/sys`: read to a bound, and whatever goes wrong costs that file only."""

from __future__ import annotations

import os
from pathlib import Path

_CHUNK_BYTES = 65_536


def read_small(path: str | Path, bytes_max: int, directory_fd: int | None = None) -> bytes | None:
    """Return at most so many bytes of a file, below an open directory if one is given; None if it cannot be read.

    Opened without waiting: a pipe or a device that lies in the way does not hold the reader.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=directory_fd)
    except (OSError, ValueError):
        return None
    try:
        return _read(fd, bytes_max)
    except OSError:
        return None
    finally:
        os.close(fd)


def _read(fd: int, bytes_max: int) -> bytes:
    parts = []
    left = bytes_max
    while left > 0:
        part = os.read(fd, min(left, _CHUNK_BYTES))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
