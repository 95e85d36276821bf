"""Where an archive is: a folder in HDFS, through WebHDFS, or a local one (a copy, or a mounted file system)."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import msgspec

from yarn_gpu_sched.archive.extra import need_extra
from yarn_gpu_sched.archive.names import PART_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT_S, READ_S = 5.0, 30.0
"""Seconds for a connection, and between two bytes of an answer."""
_STOCK_SCHEMES = ("http", "https")


class ArchiveError(Exception):
    """An archive cannot be read or written now; the text says where and why."""


class Stored(msgspec.Struct, frozen=True):
    """Something in a folder of a store; ``owner`` is empty where nobody can tell. ``modified_s``: seconds since 1970."""

    name: str
    length: int
    owner: str
    modified_s: float
    folder: bool = False


class Store(Protocol):
    """A place of files, named by their path below its root. Everything raises `ArchiveError`."""

    def entries(self, folder: str) -> list[Stored]:
        """List a folder; one that is not there is empty."""

    def read(self, path: str) -> bytes:
        """Read a file."""

    def put(self, source: Path, path: str) -> bool:
        """Have a file there, whole or not at all; False if it is there already with the same length: nothing was done.

        Raises `ArchiveError` also if another one is there.
        """

    def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty; what is not there is removed already."""


def open_store(address: str, user: str = "") -> Store:
    """Open ``http://NAMENODE:PORT/PATH`` (WebHDFS), or a local folder. Raises `ArchiveError`."""
    parts = urlsplit(address)
    if parts.scheme in _STOCK_SCHEMES and parts.netloc:
        return HdfsStore(f"{parts.scheme}://{parts.netloc}", parts.path or "/", user)
    if "://" in address or not Path(address).is_dir():
        raise ArchiveError(
            f"archive {address!r}: neither a local folder nor an address; http://NAMENODE:9870/PATH would be right"
        )
    return FolderStore(Path(address))


class FolderStore:
    """A local folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def entries(self, folder: str) -> list[Stored]:
        """See `Store`."""
        with _local_errors(self._root / folder):
            try:
                found = sorted((self._root / folder).iterdir())
            except (FileNotFoundError, NotADirectoryError):
                return []
            return [_stored(path) for path in found]

    def read(self, path: str) -> bytes:
        """See `Store`."""
        with _local_errors(self._root / path):
            return (self._root / path).read_bytes()

    def put(self, source: Path, path: str) -> bool:
        """See `Store`."""
        target, part = self._root / path, self._root / PART_FOLDER / Path(path).name
        with _local_errors(target):
            if target.exists():
                _same_length(source, target.stat().st_size, str(target))
                return False
            for folder in (part.parent, target.parent):
                folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, part)
            part.rename(target)
            return True

    def remove(self, path: str) -> None:
        """See `Store`."""
        target = self._root / path
        with _local_errors(target):
            if target.is_dir():
                target.rmdir()
            else:
                target.unlink(missing_ok=True)


class HdfsStore:
    """A folder in HDFS. One object is used by one thread."""

    def __init__(self, url: str, root: str, user: str = "") -> None:
        need_extra()
        from hdfs import InsecureClient  # noqa: PLC0415 - only where an archive is kept or read

        self._client = InsecureClient(url, user=user or None, timeout=(CONNECT_S, READ_S))
        self._url, self._root = url, root.rstrip("/")

    def entries(self, folder: str) -> list[Stored]:
        """See `Store`."""
        with self._errors(folder):
            path = f"{self._root}/{folder}"
            if self._client.status(path, strict=False) is None:
                return []
            return [
                Stored(
                    name,
                    int(status["length"]),
                    str(status["owner"]),
                    int(status["modificationTime"]) / 1_000,
                    status["type"] == "DIRECTORY",
                )
                for name, status in sorted(self._client.list(path, status=True))
            ]

    def read(self, path: str) -> bytes:
        """See `Store`."""
        with self._errors(path), self._client.read(f"{self._root}/{path}") as stream:
            content: bytes = stream.read()
            return content

    def put(self, source: Path, path: str) -> bool:
        """See `Store`."""
        name = path.rpartition("/")[2]
        target, part = f"{self._root}/{path}", f"{self._root}/{PART_FOLDER}/{name}"
        with self._errors(path):
            known = self._client.status(target, strict=False)
            if known is not None:
                _same_length(source, int(known["length"]), target)
                return False
            with source.open("rb") as stream:
                self._client.write(part, stream, overwrite=True)
            _same_length(source, int(self._client.status(part)["length"]), part)
            self._client.makedirs(target.rpartition("/")[0])
            self._client.rename(part, target)
            return True

    def remove(self, path: str) -> None:
        """See `Store`."""
        with self._errors(path):
            self._client.delete(f"{self._root}/{path}", recursive=False)

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        from hdfs import HdfsError  # noqa: PLC0415 - only where an archive is kept or read
        from requests import RequestException  # noqa: PLC0415 - only where an archive is kept or read

        try:
            yield
        except HdfsError as error:
            first = str(error).partition("\n")[0]
            raise ArchiveError(f"{self._url}{self._root}/{path}: {error.exception or 'HDFS'}: {first}") from error
        except RequestException as error:
            raise ArchiveError(f"{self._url} does not answer: {error}") from error
        except OSError as error:
            raise ArchiveError(f"{self._url}{self._root}/{path}: {error}") from error


def _same_length(source: Path, length: int, where: str) -> None:
    wanted = source.stat().st_size
    if length != wanted:
        raise ArchiveError(f"{where} has {length} bytes, not the {wanted} of {source.name}")


def _stored(path: Path) -> Stored:
    status = path.stat()
    owner = path.owner() if os.name == "posix" else ""
    return Stored(path.name, status.st_size, owner, status.st_mtime, path.is_dir())


@contextmanager
def _local_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError) as error:
        raise ArchiveError(f"{path}: {error}") from error
