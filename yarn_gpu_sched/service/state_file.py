"""A file in which something survives a restart: whole or not there, on the disk once it is written."""

import contextlib
import os
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

FILE_BYTES_MAX = 1 << 24

Kept = TypeVar("Kept")


class UnfitStateDirectory(ValueError):  # noqa: N818 - a name that says what is wrong
    """The directory cannot be used."""


class Damaged(ValueError):  # noqa: N818 - a name that says what is wrong
    """The file is there and cannot be read."""


class StateFile(Generic[Kept]):
    """One file in a directory, which is held open: a rename cannot move it. Its methods block."""

    def __init__(self, directory: Path, name: str, kind: type[Kept]) -> None:
        """Take the directory, and make it if need be; `UnfitStateDirectory` if it cannot be written."""
        self.directory = directory
        self.name = name
        self._kind = kind
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UnfitStateDirectory(f"state_dir: {directory} cannot be used: {error}") from error
        try:
            self._write_new(b"")
            os.unlink(self._new_name, dir_fd=self._fd)
        except OSError as error:
            os.close(self._fd)
            raise UnfitStateDirectory(f"state_dir: {directory} cannot be written: {error}") from error

    @property
    def damaged_name(self) -> str:
        """Where a file is kept that cannot be read."""
        return f"{self.name}.damaged"

    @property
    def _new_name(self) -> str:
        return f"{self.name}.new"

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def read(self) -> Kept | None:
        """Read what was written last; None if nothing was. Raises `Damaged`."""
        try:
            fd = os.open(self.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._fd)
            with os.fdopen(fd, "rb") as file:
                found = msgspec.json.decode(file.read(FILE_BYTES_MAX), type=self._kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Damaged(f"{self.directory / self.name}: {error}") from error
        if fault := self._fault(found):
            raise Damaged(f"{self.directory / self.name}: {fault}")
        return found

    def _fault(self, found: Kept) -> str:
        """Say what is wrong with what was read, beyond its shape; empty if nothing is."""
        del found
        return ""

    def set_aside(self) -> None:
        """Keep a damaged file under another name, instead of one that was kept before. Raises OSError."""
        os.rename(self.name, self.damaged_name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def write(self, kept: Kept) -> None:
        """Write it; when this returns it is on the disk. Raises OSError, and then what was there before is still there."""
        self._write_new(msgspec.json.encode(kept))
        os.rename(self._new_name, self.name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        os.fsync(self._fd)

    def _write_new(self, content: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._new_name, dir_fd=self._fd)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._new_name, flags, 0o644, dir_fd=self._fd), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
