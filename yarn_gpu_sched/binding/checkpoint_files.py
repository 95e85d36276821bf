"""The files that containers touch when they wrote a checkpoint: one a container, beside its binding file.

The service makes and removes them; a container can only touch its own, or write into it what nobody reads. One that was never
touched bears the time 0.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

DIRECTORY = "~checkpoints"  # not the name of a container: "~" is not allowed in one


class CheckpointFiles:
    """The files of one directory in a directory of binding files, both held open. ``made`` are those that were made in this run."""

    def __init__(self, bindings_fd: int) -> None:
        """Take the directory, and make it if it is not there. Raises OSError."""
        self.made: set[str] = set()
        with contextlib.suppress(FileExistsError):
            os.mkdir(DIRECTORY, dir_fd=bindings_fd)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(DIRECTORY, flags, dir_fd=bindings_fd)
        os.fchmod(self._fd, 0o755)  # whatever the umask: containers run as their own users

    def is_in(self, bindings_fd: int) -> bool:
        """Tell whether the directory is still the one in that of binding files. Raises OSError."""
        there = os.stat(DIRECTORY, dir_fd=bindings_fd, follow_symlinks=False)
        return os.path.samestat(there, os.fstat(self._fd))

    def take_over(self, other: CheckpointFiles) -> None:
        """Take another directory instead."""
        os.dup2(other._fd, self._fd, inheritable=False)

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def make(self, name: str) -> None:
        """Make a container's file; one that is there stays as it was touched. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(name, flags, 0o666, dir_fd=self._fd)
        except FileExistsError:
            return
        try:
            os.utime(fd, (0, 0))
            os.fchmod(fd, 0o666)  # only now: nobody touched it before
        finally:
            os.close(fd)
        self.made.add(name)

    def remove(self, name: str) -> None:
        """Remove a container's file. Raises OSError."""
        self.made.discard(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)

    def touched_ns(self, names: Iterable[str]) -> dict[str, int]:
        """Say when each was touched last, of those that ever were."""
        found = {}
        for name in names:
            with contextlib.suppress(OSError):
                touched_ns = os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_mtime_ns
                if touched_ns:
                    found[name] = touched_ns
        return found
