"""Check of HDFS: a small file is written by WebHDFS where the archive is to be, read and removed again."""

from __future__ import annotations

import getpass
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from yarn_gpu_sched.doctor.finding import CannotLook, Finding, fault, ok, unseen
from yarn_gpu_sched.doctor.installation import Installation

if TYPE_CHECKING:
    from hdfs import InsecureClient

REQUEST_S_MAX = 20.0
_BODY = b"written by ygs doctor, to be removed by it\n"
_WORDS_MAX = 300
_PLACE = re.compile(r"host='([^']+)', port=(\d+)")
_ERRNO = re.compile(r"\[Errno -?\d+\] ([^'\")]+)")
_START = "start NameNode and DataNodes; a DataNode must be reachable from here by its name"
_SAFE_MODE = "hdfs dfsadmin -safemode get; it ends by itself when enough blocks are there"


def writable(installation: Installation) -> Iterator[Finding]:
    """Whether a file can be written, read and removed."""
    places = installation.places
    if not places.hdfs:
        raise CannotLook(
            "no HDFS was named", "name the NameNode and the archive's folder: --hdfs http://HOST:9870/FOLDER"
        )
    split = urlsplit(places.hdfs)
    folder = split.path.rstrip("/") or "/"
    if split.scheme not in ("http", "https") or not split.hostname:
        raise CannotLook(f"{places.hdfs!r:.80} should be such as http://namenode:9870/archive")
    user = places.hdfs_user or _user()
    path = f"{folder.rstrip('/')}/.ygs-doctor-{secrets.token_hex(6)}"
    if places.dry_run:
        yield unseen(f"dry run: {user} would write {path}, read it and remove it again")
        return
    if installation.web.left_s() < REQUEST_S_MAX:
        raise CannotLook(f"less than {REQUEST_S_MAX:.0f} s are left", "give the whole more: --timeout SECONDS")
    yield _tried(_client(f"{split.scheme}://{split.netloc}", user), folder, path, user)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise CannotLook("this user has no name", "name one: --hdfs-user NAME") from None


def _client(address: str, user: str) -> InsecureClient:
    try:
        from hdfs import InsecureClient  # noqa: PLC0415 - an extra: only where HDFS is looked at
    except ImportError:
        raise CannotLook("the library hdfs is not installed", "pip install 'yarn-gpu-sched[archive]'") from None
    return InsecureClient(address, user=user, timeout=REQUEST_S_MAX)


def _tried(client: InsecureClient, folder: str, path: str, user: str) -> Finding:
    from hdfs.util import HdfsError  # noqa: PLC0415 - of the same extra
    from requests import RequestException  # noqa: PLC0415 - of the same extra

    try:
        if client.status(folder, strict=False) is None:
            return fault(f"{folder} is not there", f"hdfs dfs -mkdir -p {folder}; hdfs dfs -chown {user} {folder}")
        try:
            client.write(path, data=_BODY, overwrite=False)
            came_back = _read(client, path)
        except BaseException:
            with suppress(HdfsError, RequestException):
                client.delete(path)
            raise
        left = _left(client, path)
    except (HdfsError, RequestException, OSError) as error:
        return _refused(error, folder, user)
    if came_back != _BODY:
        return fault(
            f"{path}: {len(_BODY)} bytes were written, {len(came_back)} came back", "hdfs fsck / says what is wrong"
        )
    if left:
        return fault(f"{path} was written and stays there: {left}", f"hdfs dfs -rm {path}")
    return ok(f"{user} writes, reads and removes {path}")


def _left(client: InsecureClient, path: str) -> str:
    """Remove the file; say why it is there still, if it is."""
    from hdfs.util import HdfsError  # noqa: PLC0415 - of the same extra
    from requests import RequestException  # noqa: PLC0415 - of the same extra

    try:
        client.delete(path)
    except (HdfsError, RequestException) as error:
        return _words(error)
    return ""


def _read(client: InsecureClient, path: str) -> bytes:
    reader: Any
    with client.read(path) as reader:
        found: bytes = reader.read(len(_BODY) + 1)
    return found


def _refused(error: Exception, folder: str, user: str) -> Finding:
    words = _words(error)
    if "safe mode" in words.lower():
        return fault(f"HDFS is in safe mode: {words}", _SAFE_MODE)
    if "permission denied" in words.lower():
        return fault(words, f"hdfs dfs -chown {user} {folder}, or --hdfs-user NAME")
    return fault(f"HDFS cannot be written: {words}", _START)


def _words(error: Exception) -> str:
    """Say what went wrong: of a connection that failed, whose it was to be and what the system says."""
    words = " ".join(str(error).split())
    place, why = _PLACE.search(words), _ERRNO.search(words)
    if place and why:
        words = f"{place[1]}:{place[2]}: {why[1]}"
    return words[:_WORDS_MAX] or type(error).__name__
