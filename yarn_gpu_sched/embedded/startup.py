"""Start a cluster's daemons and wait until they serve."""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from yarn_gpu_sched.embedded import java, readiness
from yarn_gpu_sched.embedded.control import Control
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.jars import HadoopJars
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.monitored import MonitoredServer, monitor_name, python_environment
from yarn_gpu_sched.embedded.record import Record
from yarn_gpu_sched.embedded.spec import Server

Progress = Callable[[str], None]
_POLL_S = 0.1
_FORMAT_S_MAX = 60.0
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
_LOG_LINES = 25


def daemon_environment(layout: Layout) -> dict[str, str]:
    """Return all that a daemon gets of variables: nothing of the starter's that would change what it does."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return kept | {
        "HOME": str(layout / "home"),
        "USER": getpass.getuser(),
        "JAVA_HOME": str(Path(java.java_command()).resolve().parents[1]),
    }


@dataclass(slots=True)
class Startup:
    """Brings up the daemons of a cluster whose configuration is written and whose supervisor runs."""

    record: Record
    layout: Layout
    jars: HadoopJars
    control: Control
    progress: Progress

    def start_all(self) -> None:
        """Start every daemon; they come up side by side."""
        spec = self.record.spec
        self.progress("starting the ResourceManager")
        self._start("rm", "rm", self.layout.conf)
        servers = spec.server_list()
        self.progress(f"starting {len(servers)} NodeManagers")
        for server in servers:
            self._start(server.name, "nm", self.layout.server(server.name) / "conf")
        if spec.gpu_model:
            self.progress("starting a monitor on each server with GPUs")
            for server in filter(lambda one: one.gpus, servers):
                self._start_monitor(server)
        if spec.hdfs:
            self.progress("starting HDFS")
            self._prepare_namenode()
            self._start("nn", "nn", self.layout.conf)
            self._start("dn", "dn", self.layout.conf)

    def await_ready(self, wait_s: float) -> None:
        """Wait until every server is RUNNING and HDFS can be written.

        Raises ClusterError with the end of the log if a daemon ends, or after `wait_s` seconds.
        """
        ports, expected = self.record.ports, len(self.record.spec.server_list())
        deadline_s, told = time.monotonic() + wait_s, None
        while True:
            self._refuse_ended()
            running = readiness.running_servers(ports["rm_web"])
            if running is not None and running != told:
                self.progress(f"{running} of {expected} servers are up")
                told = running
            writable = not self.record.spec.hdfs or readiness.hdfs_writable(ports["nn_web"])
            if running == expected and writable:
                return
            if time.monotonic() > deadline_s:
                hdfs = "" if writable else ", HDFS is not writable"
                seen = f"{running or 0} of {expected} servers are up{hdfs}"
                raise ClusterError(f"after {wait_s:.0f} s {seen}; see {self.layout / 'logs'}")
            time.sleep(_POLL_S)

    def _start(self, name: str, role: str, conf: Path, *arguments: str) -> None:
        argv = java.daemon(self.record.spec, self.layout, self.jars, role, conf)
        self.control.start(name, [*argv, *arguments], daemon_environment(self.layout))

    def _start_monitor(self, server: Server) -> None:
        argv = MonitoredServer(self.record.spec, self.layout, server).monitor(self.record.ports["nm_web"])
        self.control.start(monitor_name(server), argv, python_environment(daemon_environment(self.layout)))

    def _prepare_namenode(self) -> None:
        # Formatting takes a JVM's start and comes to the same each time: once a version is enough.
        formatted = self.jars.folder.with_name(f"{self.jars.folder.name}-namenode")
        folder = self.layout / "data" / "namenode"
        if formatted.is_dir():
            shutil.copytree(formatted, folder)
            return
        self.progress("formatting HDFS")
        self._start("format", "nn", self.layout.conf, "-format", "-nonInteractive", "-force")
        self._await_format()
        keep_copy(folder, formatted)

    def _await_format(self) -> None:
        deadline_s = time.monotonic() + _FORMAT_S_MAX
        while self.control.processes()["format"]["exit_code"] is None:
            if time.monotonic() > deadline_s:
                raise ClusterError(f"formatting HDFS did not end within {_FORMAT_S_MAX:.0f} s")
            time.sleep(_POLL_S)
        self._refuse_ended()

    def _refuse_ended(self) -> None:
        for name, process in self.control.processes().items():
            code = process["exit_code"]
            if code is not None and (name, code) != ("format", 0):
                raise ClusterError(f"{name} ended with exit code {code}; its log ends:\n{self._tail(name)}")

    def _tail(self, name: str) -> str:
        lines = self.layout.log(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:])


def keep_copy(folder: Path, kept: Path) -> None:
    """Copy a folder so that `kept` is there whole or not at all; an earlier copy stays."""
    with tempfile.TemporaryDirectory(prefix=f"{kept.name}.part-", dir=kept.parent) as parts:
        shutil.copytree(folder, Path(parts) / "copy")
        with suppress(OSError):  # somebody else was quicker, and theirs is as good
            (Path(parts) / "copy").rename(kept)
