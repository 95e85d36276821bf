"""The process that starts a cluster's processes and ends them all; `main` takes FOLDER MARK LISTENER_FD LEASE_FD.

Why a process of its own:
- It is the parent of every daemon, so a process id that it knows cannot have been given to another process: a
  signal reaches the right one or none.
- It is a "child subreaper": what containers leave behind becomes its child, not init's, so its descendants are the
  cluster, containers included, and nothing else is.
- It outlives whoever started the cluster. Until told to `detach`, it watches the pipe on its standard input: when
  the starter ends, however that happens, the pipe closes and the supervisor ends everything.
- Should it be killed itself, the kernel kills the daemons, and `sweep` finds the rest by their environment.

It answers one JSON line per connection, on a socket that only this user can reach. It needs nothing of the cluster's
other modules.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import psutil

MARK = "YGS_EMBEDDED_CLUSTER"
REQUEST_BYTES_MAX = 1 << 20
SWEEP_S_MAX = 10.0
_CLIENT_S, _END_S = 5.0, 20.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)
Message = dict[str, Any]


@dataclass(slots=True)
class Process:
    """A process under this name: what to run, and how its latest run goes."""

    argv: list[str]
    environment: dict[str, str]
    folder: str
    log: str
    pid: int = 0
    started_at_s: float = 0.0
    exit_code: int | None = None  # negative: ended by that signal

    @property
    def running(self) -> bool:
        """Whether its latest run goes on."""
        return self.pid != 0 and self.exit_code is None


class Supervisor:
    """Starts, watches and ends processes on request."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._processes: dict[str, Process] = {}
        self._guarded = True
        self.ended = False

    def answer(self, request: Message) -> Message:
        """Do what a request says; a wrong one is answered with `error`."""
        handlers = {
            "start": self._start,
            "signal": self._signal,
            "status": self._status,
            "detach": self._detach,
            "end": self._end,
        }
        handler = handlers.get(str(request.get("do")))
        if handler is None:
            return {"error": f"do {request.get('do')!r} should be one of {', '.join(handlers)}"}
        try:
            return handler(request)
        except (KeyError, TypeError, ValueError, OSError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def starter_ended(self) -> None:
        """End everything, unless the cluster was meant to go on alone."""
        if self._guarded:
            self._end({})

    def reap(self) -> None:
        """Take the exit codes of all children that have ended, containers' leftovers included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for process in self._processes.values():
                if process.pid == pid:
                    process.exit_code = os.waitstatus_to_exitcode(status)

    def _start(self, request: Message) -> Message:
        name = str(request["name"])
        known = self._processes.get(name)
        if known is not None:
            self._await_end(known, 0.0 if known.running else _END_S)
            if known.running:
                return {"error": f"{name} is running"}
        if "argv" in request:
            known = Process(
                [str(part) for part in request["argv"]],
                {str(key): str(value) for key, value in request["environment"].items()},
                str(request["folder"]),
                str(request["log"]),
            )
        if known is None:
            return {"error": f"{name} was never started: say what to run"}
        self._processes[name] = known
        known.exit_code, known.started_at_s = None, time.time()
        known.pid = spawn(known, self._mark)
        return {"pid": known.pid}

    def _signal(self, request: Message) -> Message:
        name, number = str(request["name"]), signal.Signals(request["signal"])
        process = self._processes.get(name)
        if process is None or not process.running:
            return {"error": f"{name} is not running"}
        os.kill(process.pid, number)
        if number == signal.SIGKILL:
            self._await_end(process, _END_S)
        return {}

    def _status(self, _: Message) -> Message:
        return {
            "processes": {
                name: {"pid": p.pid, "started_at_s": p.started_at_s, "exit_code": p.exit_code}
                for name, p in self._processes.items()
            }
        }

    def _detach(self, _: Message) -> Message:
        self._guarded = False
        return {}

    def _end(self, _: Message) -> Message:
        ended = end_descendants(_END_S) + sweep(self._mark)
        self.reap()
        self.ended = True
        return {"ended": ended}

    def _await_end(self, process: Process, wait_s: float) -> None:
        deadline_s = time.monotonic() + wait_s
        self.reap()
        while process.running and time.monotonic() < deadline_s:
            time.sleep(0.005)
            self.reap()


def spawn(process: Process, mark: str) -> int:
    """Start a process in a session of its own and return its id. It dies with this process."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(process, mark, parent)
    return pid


def _become(process: Process, mark: str, parent: int) -> NoReturn:
    try:
        log = os.open(process.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.chdir(process.folder)
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:  # else it died before the line above
            os.execve(process.argv[0], process.argv, process.environment | {MARK: mark})  # noqa: S606 - no shell wanted
    except OSError as error:
        os.write(2, f"cannot start {process.argv[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def end_descendants(wait_s: float) -> int:
    """Kill all descendants until none is left, and return how many there were; bounded by `wait_s`."""
    seen: set[int] = set()
    deadline_s = time.monotonic() + wait_s
    while time.monotonic() < deadline_s:
        living = [p for p in psutil.Process().children(recursive=True) if _is_living(p)]
        if not living:
            break
        for process in living:
            seen.add(process.pid)
            _kill(process)
        time.sleep(0.01)
        _reap_unknown()
    return len(seen)


def marked(mark: str) -> list[psutil.Process]:
    """Return every process but this one that carries a cluster's mark in its environment."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _carries(process, mark)]


def sweep(mark: str) -> int:
    """Kill every process that carries this cluster's mark, those that came meanwhile too; return how many.

    They are gone when this returns, unless the kernel cannot end one: then it is left after a while.
    """
    killed: set[psutil.Process] = set()
    deadline_s = time.monotonic() + SWEEP_S_MAX
    while (found := marked(mark)) and time.monotonic() < deadline_s:
        for process in found:
            _kill(process)
        killed.update(found)
        psutil.wait_procs(found, timeout=1.0)
    return len(killed)


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.environ().get(MARK) == mark)
    except psutil.Error:
        return False


def _is_living(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()  # psutil compares the start time first: a reused id is left alone


def _reap_unknown() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def serve(supervisor: Supervisor, listener: socket.socket) -> None:
    """Answer requests and watch the starter until everything has been ended."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.answer({"do": "end"}))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    with selectors.DefaultSelector() as selector:
        selector.register(wake_read, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while not supervisor.ended:
            ready = {key.fileobj for key, _ in selector.select()}
            if wake_read in ready:
                os.read(wake_read, 4096)
            supervisor.reap()
            if listener in ready:
                _serve_one(supervisor, listener)
            if 0 in ready and not os.read(0, 4096):
                selector.unregister(0)
                supervisor.starter_ended()


def _serve_one(supervisor: Supervisor, listener: socket.socket) -> None:
    try:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            connection.settimeout(_CLIENT_S)
            request = json.loads(lines.readline(REQUEST_BYTES_MAX) or b"{}")
            reply = supervisor.answer(request) if isinstance(request, dict) else {"error": "no object"}
            connection.sendall(json.dumps(reply).encode() + b"\n")
    except (OSError, ValueError) as error:  # a client that went away or talks nonsense
        sys.stderr.write(f"request dropped: {error}\n")


def main() -> None:
    """Run until the cluster has ended."""
    root, mark, listener_fd, lease_fd = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:5])
    for descriptor in (listener_fd, lease_fd):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's own signature
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    os.chdir(root)
    serve(Supervisor(mark), socket.socket(fileno=listener_fd))
    Path("control").unlink(missing_ok=True)
