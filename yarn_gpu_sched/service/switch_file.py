"""The file in which an operator's switch of preemption survives a restart: whole or not there, on the disk once it is written."""

import contextlib
import os
from datetime import datetime
from pathlib import Path

import msgspec

from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.protocol.bounds import CALLER_CHARACTERS_MAX, REASON_CHARACTERS_MAX

FILE_NAME = "preemption.json"
DAMAGED_NAME = "preemption.json.damaged"
_NEW_NAME = "preemption.json.new"
_FILE_BYTES_MAX = 1 << 16


class Switch(msgspec.Struct, frozen=True):
    """What an operator said: the mode, why, who it was as far as is known, and when by the wall clock."""

    mode: Mode
    why: str
    by: str
    time: datetime


class UnfitStateDirectory(ValueError):  # noqa: N818 - a name that says what is wrong
    """The directory cannot be used."""


class Damaged(ValueError):  # noqa: N818 - a name that says what is wrong
    """The file is there and cannot be read as a switch."""


class SwitchFile:
    """One file in a directory, which is held open: a rename cannot move it. Its methods block."""

    def __init__(self, directory: Path) -> None:
        """Take the directory, and make it if need be; `UnfitStateDirectory` if it cannot be written."""
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UnfitStateDirectory(f"state_dir: {directory} cannot be used: {error}") from error
        try:
            self._write_new(b"")
            os.unlink(_NEW_NAME, dir_fd=self._fd)
        except OSError as error:
            os.close(self._fd)
            raise UnfitStateDirectory(f"state_dir: {directory} cannot be written: {error}") from error

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def read(self) -> Switch | None:
        """Read what was written last; None if nothing was. Raises `Damaged`."""
        try:
            fd = os.open(FILE_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._fd)
            with os.fdopen(fd, "rb") as file:
                found = msgspec.json.decode(file.read(_FILE_BYTES_MAX), type=Switch)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Damaged(f"{self.directory / FILE_NAME}: {error}") from error
        if len(found.why) > REASON_CHARACTERS_MAX or len(found.by) > CALLER_CHARACTERS_MAX or found.time.tzinfo is None:
            raise Damaged(f"{self.directory / FILE_NAME}: a text is too long, or its time has no zone")
        return found

    def set_aside(self) -> None:
        """Keep a damaged file under another name, instead of one that was kept before. Raises OSError."""
        os.rename(FILE_NAME, DAMAGED_NAME, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def write(self, switch: Switch) -> None:
        """Write a switch; when this returns it is on the disk. Raises OSError, and then what was there before is still there."""
        self._write_new(msgspec.json.encode(switch))
        os.rename(_NEW_NAME, FILE_NAME, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        os.fsync(self._fd)

    def _write_new(self, content: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_NEW_NAME, dir_fd=self._fd)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(_NEW_NAME, flags, 0o644, dir_fd=self._fd), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
