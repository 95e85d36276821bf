"""The starter's side of the supervisor: start it, and ask it for things."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from yarn_gpu_sched.embedded import supervisor
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.layout import Layout

_ANSWER_S = 60.0  # longer than the supervisor takes to end everything
_REPLY_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class SupervisorId:
    """Which process the supervisor is; the start time tells it from a later one with the same id."""

    pid: int
    started_at_s: float
    mark: str

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_at_s) < 0.5
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


@dataclass(slots=True)
class Control:
    """Asks the supervisor of the cluster in one folder."""

    layout: Layout
    supervisor: SupervisorId

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Send one request and return the answer.

        Raises ClusterError if the supervisor has ended or refuses.
        """
        request = json.dumps({"do": do} | arguments).encode() + b"\n"
        try:
            with _connected(self.layout.root) as connection, connection.makefile("rb") as lines:
                connection.sendall(request)
                reply = json.loads(lines.readline(_REPLY_BYTES_MAX))
        except (OSError, ValueError) as error:
            raise ClusterError(f"the cluster in {self.layout.root} does not run ({error})") from error
        if "error" in reply:
            raise ClusterError(str(reply["error"]))
        return dict(reply)

    def start(self, name: str, argv: list[str], environment: Mapping[str, str]) -> int:
        """Start a process that ends with the cluster, and return its id."""
        folder = str(self.layout / "tmp")
        log = str(self.layout.log(name))
        answer = self.ask("start", name=name, argv=argv, environment=dict(environment), folder=folder, log=log)
        return int(answer["pid"])

    def restart(self, name: str) -> int:
        """Start a process again as it was started before, and return its new id."""
        return int(self.ask("start", name=name)["pid"])

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to one process; after SIGKILL it is gone when this returns."""
        self.ask("signal", name=name, signal=int(number))

    def processes(self) -> dict[str, dict[str, Any]]:
        """Return id, start and exit code of each process by its name."""
        return dict(self.ask("status")["processes"])

    def end(self) -> int:
        """End everything that the cluster started, and return how many processes there were.

        Works without a supervisor too, if that was killed: whatever carries the cluster's mark ends.
        """
        if not self.supervisor.running:
            return supervisor.sweep(self.supervisor.mark)
        try:
            ended = int(self.ask("end")["ended"])
        except ClusterError:
            ended = self._end_supervisor() + supervisor.sweep(self.supervisor.mark)
        _await_end(self.supervisor)
        return ended

    def _end_supervisor(self) -> int:
        if not self.supervisor.running:
            return 0
        psutil.Process(self.supervisor.pid).kill()
        return 1


def start_supervisor(layout: Layout, mark: str, lease: socket.socket) -> tuple[SupervisorId, int]:
    """Start the supervisor; return it and the pipe that must stay open while the starter wants the cluster.

    The supervisor takes over `lease`, which may be closed here afterwards.
    """
    guard_read, guard_write = os.pipe()
    with _listening(layout.root) as listener, layout.log("supervisor").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [
                *(sys.executable, "-m", supervisor.__name__, str(layout.root), mark),
                *(str(listener.fileno()), str(lease.fileno())),
            ],
            stdin=guard_read,
            stdout=log,
            stderr=log,
            pass_fds=(listener.fileno(), lease.fileno()),
            env=os.environ | {"PYTHONPATH": _python_path()},
            start_new_session=True,
        )
    os.close(guard_read)
    started_at_s = psutil.Process(process.pid).create_time()
    return SupervisorId(process.pid, started_at_s, mark), guard_write


def _python_path() -> str:
    # The starter may have found this package by its working folder, which the supervisor leaves.
    inherited = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [inherited])])


@contextmanager
def _short_path(root: Path) -> Iterator[str]:
    # A socket's path holds 107 bytes at most, and a cluster's folder may be longer.
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/control"
    finally:
        os.close(descriptor)


@contextmanager
def _listening(root: Path) -> Iterator[socket.socket]:
    with _short_path(root) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(16)
        yield listener


@contextmanager
def _connected(root: Path) -> Iterator[socket.socket]:
    with _short_path(root) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_ANSWER_S)
        connection.connect(path)
        yield connection


def _await_end(process: SupervisorId) -> None:
    try:
        psutil.Process(process.pid).wait(timeout=_ANSWER_S)
    except (psutil.NoSuchProcess, ChildProcessError):
        pass
    except psutil.TimeoutExpired as error:
        raise ClusterError(f"supervisor {process.pid} does not end") from error
