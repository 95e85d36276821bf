"""The starter's side of the supervisor: start it, and ask it for things."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yarn_gpu_sched.embedded import supervisor
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.layout import Layout

_ANSWER_S = 60.0  # longer than the supervisor takes to end everything
_REPLY_BYTES_MAX = 1 << 20
_POLL_S = 0.01
_SUPERVISE = f"from {supervisor.__name__} import main; main()"


@dataclass(frozen=True, slots=True)
class SupervisorId:
    """Which process the supervisor is; boot and start time tell it from a later one with the same id."""

    pid: int
    started_ticks: int  # since boot
    boot_id: str
    mark: str

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self.boot_id == _boot_id() and self.started_ticks == _started_ticks(self.pid)


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

    def living(self) -> int:
        """Return how many processes `end` would end."""
        return sum(process.pid != self.supervisor.pid for process in supervisor.marked(self.supervisor.mark))

    def end(self) -> int:
        """End everything that the cluster started, and return how many processes there were.

        Works without a supervisor too, if that was killed: whatever carries the cluster's mark ends.
        """
        if not self.supervisor.running:
            return supervisor.sweep(self.supervisor.mark)
        try:
            ended = int(self.ask("end")["ended"])
        except ClusterError:  # it hangs, or ended just now: it carries the mark too
            ended = supervisor.sweep(self.supervisor.mark)
        _await_end(self.supervisor)
        return ended


def start_supervisor(layout: Layout, mark: str, lease: socket.socket) -> tuple[SupervisorId, int]:
    """Start the supervisor; return it and the pipe that must stay open while the starter wants the cluster.

    The supervisor takes over `lease`, which may be closed here afterwards.
    """
    guard_read, guard_write = os.pipe()
    try:
        with _listening(layout.root) as listener, layout.log("supervisor").open("ab") as log:
            pid = _spawn_supervisor(layout, mark, [guard_read, log.fileno(), listener.fileno(), lease.fileno()])
    finally:
        os.close(guard_read)
    started_ticks = _started_ticks(pid)
    if started_ticks is None:
        os.close(guard_write)
        raise ClusterError(f"the supervisor ended at once; see {layout.log('supervisor')}")
    return SupervisorId(pid, started_ticks, _boot_id(), mark), guard_write


def _spawn_supervisor(layout: Layout, mark: str, descriptors: list[int]) -> int:
    # Not by `subprocess`, which warns of children that outlive its objects: this one is meant to.
    guard, log, listener, lease = descriptors
    return os.posix_spawn(
        sys.executable,
        # Not -m, which would load the module a second time beside the one that the package has loaded.
        [sys.executable, "-c", _SUPERVISE, str(layout.root), mark, str(listener), str(lease)],
        os.environ | {"PYTHONPATH": _python_path(), supervisor.MARK: mark},
        file_actions=[
            *((os.POSIX_SPAWN_DUP2, source, target) for source, target in ((guard, 0), (log, 1), (log, 2))),
            # Onto itself: passed on under the same number.
            *((os.POSIX_SPAWN_DUP2, descriptor, descriptor) for descriptor in (listener, lease)),
        ],
        setsid=True,
    )


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _started_ticks(pid: int) -> int | None:
    # From the kernel as it is: a start time in seconds moves when the clock is set.
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = fields.rpartition(")")[2].split()
    return None if state == "Z" else int(rest[18])


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
    deadline_s = time.monotonic() + _ANSWER_S
    while process.running:
        if time.monotonic() > deadline_s:
            raise ClusterError(f"supervisor {process.pid} does not end")
        time.sleep(_POLL_S)
    with suppress(ChildProcessError):  # it may be another process's child
        os.waitpid(process.pid, os.WNOHANG)
