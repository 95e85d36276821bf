"""The directory of binding files, and nothing outside of it.

A directory is only taken when it is empty or carries our mark, because files of unknown containers
are removed from it.
"""

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from yarn_gpu_sched.binding.checkpoint_files import CheckpointFiles

_FILE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}\Z")
# Not the name of a container: "~" is not allowed in one.
_MARK = "~bindings-of-yarn-gpu-sched"
_NEW = "~new"


class UnfitDirectory(ValueError):  # noqa: N818 - a name that says what is wrong
    """A directory holds what is not ours, or cannot be used."""


def is_file_name(container_id: str) -> bool:
    """Tell whether a container id is a plain file name: never a path, never ``.`` or ``..``."""
    return bool(_FILE_NAME.match(container_id)) and container_id not in (".", "..")


class BindingFiles:
    """Writes and removes files in one directory, which it holds open: a rename cannot move it."""

    def __init__(self, directory: Path) -> None:
        """Take the directory; `UnfitDirectory` if it is not ours."""
        self._directory = directory
        try:
            if not directory.exists():
                directory.mkdir(parents=True)
                directory.chmod(0o755)  # as the files: whatever the umask
            self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UnfitDirectory(f"binding_dir: {directory} cannot be used: {error}") from error
        try:
            self._take(directory)
        except BaseException:
            os.close(self._fd)
            raise

    def _take(self, directory: Path) -> None:
        names = self._listed()
        if names and _MARK not in names:
            raise UnfitDirectory(f"binding_dir: {directory} must be empty or the binding_dir of a service before")
        try:
            self._write(_MARK, "")
            self.checkpoints = CheckpointFiles(self._fd)
        except OSError as error:
            raise UnfitDirectory(f"binding_dir: {directory} cannot be written: {error}") from error

    def take_anew(self) -> bool:
        """Take the directory again if another one, or none, is in its place by now; tells whether it was so. `UnfitDirectory`."""
        with contextlib.suppress(OSError):
            is_same = os.path.samestat(os.stat(self._directory), os.fstat(self._fd))  # noqa: PTH116 - as the other one is
            if is_same and self.checkpoints.is_in(self._fd):
                return False
        other = BindingFiles(self._directory)
        os.dup2(other._fd, self._fd, inheritable=False)
        self.checkpoints.take_over(other.checkpoints)
        other.close()
        return True

    def close(self) -> None:
        """Let go of the directory."""
        self.checkpoints.close()
        os.close(self._fd)

    def names(self) -> set[str]:
        """List the containers that have a file."""
        return {name for name in self._listed() if is_file_name(name)}

    def _listed(self) -> list[str]:
        return os.listdir(self._fd)  # noqa: PTH208 - pathlib cannot list an open directory

    def change(self, changes: Mapping[str, str | None]) -> dict[str, OSError]:
        """Write contents, or remove files (None); the checkpoint file is there before, and goes before. Returns what failed."""
        errors = {}
        for name, content in changes.items():
            try:
                if content is None:
                    self.checkpoints.remove(name)
                    self._remove(name)
                else:
                    self.checkpoints.make(name)
                    self._write(name, content)
            except OSError as error:
                errors[name] = error
        return errors

    def _write(self, name: str, content: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_NEW, dir_fd=self._fd)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(_NEW, flags, 0o644, dir_fd=self._fd)
        try:
            os.fchmod(fd, 0o644)  # whatever the umask: containers run as their own users
            _write_all(fd, content.encode())
        finally:
            os.close(fd)
        os.rename(_NEW, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISREG(os.lstat(name, dir_fd=self._fd).st_mode):
                os.unlink(name, dir_fd=self._fd)


def _write_all(fd: int, content: bytes) -> None:
    """Write the whole of it, or raise OSError: a disk that fills up takes a part without an error."""
    while content:
        content = content[os.write(fd, content) :]
