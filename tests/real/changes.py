"""Change a running cluster, and have it as it was afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.real.apps import App, AppError
from tests.real.joint import ServedJoint
from yarn_gpu_sched.embedded import ClusterSpec

SOAK = "YGS_SOAK" in os.environ
LONG = pytest.mark.skipif(not SOAK, reason="long: set YGS_SOAK=1")
BOTH_IN_SOAK = [pytest.mark.both] if SOAK else []
EXCLUDED = "yarn.resourcemanager.nodes.exclude-path"


@dataclass
class Changes:
    """What a test does to the daemons. `odd` are those that still run with what the test had set for them."""

    joint: ServedJoint
    before: ClusterSpec = field(init=False)
    odd: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Remember how it was."""
        self.before = self.joint.cluster.spec

    def stop(self, *names: str, by: signal.Signals = signal.SIGKILL) -> None:
        """End daemons, those that do not run are left."""
        for name in names:
            if self.runs(name):
                self.joint.cluster.kill(name, by)
                self.await_ended(name)

    def await_ended(self, name: str) -> None:
        """Wait until a daemon runs no more."""
        self.joint.until(partial(self.runs, name), lambda runs: not runs, f"{name} has ended")

    def runs(self, name: str) -> bool:
        """Whether a daemon runs."""
        return next(daemon for daemon in self.joint.cluster.status().daemons if daemon.name == name).running

    def start(self, *names: str) -> None:
        """Start daemons with what is configured now."""
        for name in names:
            self.joint.cluster.start(name)

    def restart(self, *names: str, by: signal.Signals = signal.SIGKILL) -> None:
        """End daemons and start them again with what is configured now."""
        self.stop(*names, by=by)
        self.start(*names)

    def restart_servers(self, *names: str, by: signal.Signals = signal.SIGKILL) -> None:
        """Restart NodeManagers, and wait until they have registered again; what runs there goes on."""
        before = {name: self.registrations(name) for name in names}
        self.restart(*names, by=by)
        for name, count in before.items():
            self.await_registration(name, count)

    def registrations(self, server: str) -> int:
        """Count how often a server has registered."""
        return self.joint.cluster.logs()[server].read_text(errors="replace").count("Registered with ResourceManager as")

    def await_registration(self, server: str, count: int) -> None:
        """Wait until a server has registered more often than that."""
        self.joint.until(partial(self.registrations, server), lambda now: now > count, f"{server} has registered", 90)

    def await_back(self) -> None:
        """Wait until all servers and the service are there."""
        self.joint.cluster.await_servers(wait_s=90)
        self.joint.await_connected(90)

    def exclude(self, *hosts: str, gracefully: bool = True, timeout_s: int = 3600) -> None:
        """Decommission these servers and recommission all others, as an administrator does.

        timeout_s: counted from when a server began to drain, also where it is changed while one does.
        """
        path = self.joint.folder / "excluded"
        path.write_text("".join(f"{host}\n" for host in hosts))
        self.joint.cluster.configure({EXCLUDED: str(path)})
        graceful = ["-g", str(timeout_s), "-server"] if gracefully else []
        done = self.joint.yarn("rmadmin", "-refreshNodes", *graceful)
        assert done.returncode == 0, done.stdout

    def undo(self) -> None:
        """Have all as it was."""
        cluster = self.joint.cluster
        if EXCLUDED in cluster.spec.settings:
            self.exclude()
        cluster.configure({key: self.before.settings.get(key) for key in cluster.spec.settings})
        for server in self.before.server_list():
            cluster.change_server(server.name, gpus=server.gpus, rack=server.rack)
        usable = {server.name for server in cluster.status().servers if server.state == "RUNNING"}
        self.stop(*sorted({*self.odd, *(server.name for server in self.before.server_list())} - (usable - self.odd)))
        self.start(*[name for name in (*cluster.names, "service") if not self.runs(name)])
        self.await_back()


@contextmanager
def changing(joint: ServedJoint) -> Iterator[Changes]:
    """Let a test change the cluster."""
    changes = Changes(joint)
    try:
        yield changes
    finally:
        changes.undo()


def registered_again(joint: ServedJoint, app: App) -> None:
    """Let a master register with a resource manager that has just been started."""

    def look() -> bool:
        try:
            app.register()
        except AppError:
            return False
        return True

    joint.until(look, bool, f"the master of {app.app_id} has registered again", 90)
