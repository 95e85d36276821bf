"""Whose a process is: its YARN container, its user, its command.

The container is read from the control group, which a process cannot change by itself, on version 1 and 2 and below a scope of
docker; where the NodeManager makes no control groups, from ``CONTAINER_ID`` in the environment that the process was started with;
and where neither says it, from those of its ancestors. Each process is looked at through its own open directory of `/proc`: one
that ends in between, and whose number is given away, is never mixed up with another.
"""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

from yarn_gpu_sched.monitor.small_file import read_small

ANCESTORS_MAX = 32
"""How far up a container is looked for."""
CGROUP_BYTES_MAX = 65_536
ENVIRONMENT_BYTES_MAX = 4_194_304
STATUS_BYTES_MAX = 65_536
COMMAND_LETTERS_MAX = 64
USER_LETTERS_MAX = 64

_ID = rb"container_(?:e[0-9]{1,10}_)?[0-9]{1,20}_[0-9]{1,10}_[0-9]{1,10}_[0-9]{1,19}"
_IN_PATH = re.compile(rb"(?<![A-Za-z0-9_])" + _ID + rb"(?![A-Za-z0-9_])")
_IN_ENVIRONMENT = re.compile(rb"(?:\A|\0)CONTAINER_ID=(" + _ID + rb")(?=\0)")
_UID_MAX = 2**32 - 1


def describe(pid: int, proc_root: Path = Path("/proc")) -> tuple[str, str, str]:
    """Return container id, user and command of a process; each is empty where it is not known, all if the process is gone."""
    directory_fd = _opened(pid, proc_root)
    if directory_fd is None:
        return "", "", ""
    try:
        status = _status(directory_fd)
        container_id = _container_of(directory_fd)
    finally:
        os.close(directory_fd)
    if not container_id:
        container_id = _container_of_ancestors(_number(status.get(b"PPid", b"")), proc_root)
    return container_id, _user(status.get(b"Uid", b"")), cleaned_text(status.get(b"Name", b""), COMMAND_LETTERS_MAX)


def cleaned_text(raw: bytes, letters_max: int) -> str:
    """Return what of a text may be shown: no control characters, nothing that turns the line around, and not too long."""
    text = raw[: 8 * letters_max].decode("utf-8", "replace")
    shown = "".join(letter if letter.isprintable() else "?" for letter in text.strip())
    return shown[:letters_max]


def _opened(pid: int, proc_root: Path) -> int | None:
    if pid <= 0:
        return None
    try:
        return os.open(proc_root / str(pid), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None


def _status(directory_fd: int) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for line in (read_small("status", STATUS_BYTES_MAX, directory_fd) or b"").split(b"\n"):
        name, _, value = line.partition(b":")
        found.setdefault(name, value)
    return found


def _container_of(directory_fd: int) -> str:
    groups = read_small("cgroup", CGROUP_BYTES_MAX, directory_fd) or b""
    if in_path := _IN_PATH.findall(groups):
        return str(in_path[-1], "ascii")  # the innermost, where one container's group lies in another's
    environment = read_small("environ", ENVIRONMENT_BYTES_MAX, directory_fd) or b""
    found = _IN_ENVIRONMENT.search(environment)
    return str(found[1], "ascii") if found else ""


def _container_of_ancestors(pid: int | None, proc_root: Path) -> str:
    for _ in range(ANCESTORS_MAX):
        # Process 1 is nobody's container, but the parent of all whose own has ended.
        if pid is None or pid <= 1 or (directory_fd := _opened(pid, proc_root)) is None:
            break
        try:
            if container_id := _container_of(directory_fd):
                return container_id
            pid = _number(_status(directory_fd).get(b"PPid", b""))
        finally:
            os.close(directory_fd)
    return ""


def _number(raw: bytes) -> int | None:
    text = raw.strip()
    return int(text) if text.isdigit() and len(text) <= len(str(_UID_MAX)) else None


def _user(uids: bytes) -> str:
    """Name whom a process acts for: its effective user, the second of the numbers."""
    numbers = uids.split()
    uid = _number(numbers[1]) if len(numbers) > 1 else None
    if uid is None or uid > _UID_MAX:
        return ""
    try:
        return cleaned_text(pwd.getpwuid(uid).pw_name.encode("utf-8", "replace"), USER_LETTERS_MAX)
    except (KeyError, OSError, OverflowError):
        return str(uid)
