"""Runs `ygs` as a process of its own in a pseudo-terminal, as a person would."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

WAIT_S = 60.0
COLUMNS = 80


@dataclass(frozen=True)
class Ended:
    """What a process left: its exit code and all that reached the terminal."""

    exit_code: int
    shown: str


def run_in_terminal(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    columns: int = COLUMNS,
    wait_s: float = WAIT_S,
    interrupt_at: str = "",
) -> Ended:
    """Run `ygs` in a terminal of so many columns until it ends; press Ctrl-C once it shows ``interrupt_at``."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    base = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", "from yarn_gpu_sched.cli import main; main()", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**base, "TERM": "xterm-256color", **(environment or {})},
        close_fds=True,
    )
    os.close(slave)
    try:
        interrupt = partial(process.send_signal, signal.SIGINT)
        shown = _read_all(master, wait_s, interrupt_at.encode(), interrupt)
        return Ended(process.wait(WAIT_S), shown.replace("\r\n", "\n"))
    finally:
        os.close(master)
        if process.poll() is None:
            process.terminate()  # a demo takes its cluster down
            process.wait(WAIT_S)


def _read_all(master: int, wait_s: float, mark: bytes, seen: Callable[[], None]) -> str:
    taken, deadline_s = b"", time.monotonic() + wait_s
    while time.monotonic() < deadline_s:
        ready, _, _ = select.select([master], [], [], 1.0)
        if not ready:
            continue
        try:
            piece = os.read(master, 65_536)
        except OSError:  # the other end was closed: that is how a pseudo-terminal says so
            piece = b""
        if not piece:
            return taken.decode(errors="surrogateescape")
        taken += piece
        if mark and mark in taken:
            mark = b""
            seen()
    raise TimeoutError(f"no end after {wait_s} s; so far: {taken!r}")
