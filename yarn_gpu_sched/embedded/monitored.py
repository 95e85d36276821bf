"""Servers with simulated GPUs: what makes the NodeManager's real GPU plugin find them, and the monitor that watches them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import yarn_gpu_sched
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.spec import ClusterSpec, Server
from yarn_gpu_sched.monitor.simulated.install import install
from yarn_gpu_sched.monitor.simulated.scenario import BadScenario
from yarn_gpu_sched.monitor.simulated.spec import BadSpec

NOTHING_HAPPENS = "# What happens to the GPUs of this server; read again when it changes.\n"


def monitor_name(server: Server) -> str:
    """Name a server's monitor as a daemon of the cluster."""
    return f"{server.name}-monitor"


@dataclass(frozen=True, slots=True)
class MonitoredServer:
    """The files of one server with simulated GPUs."""

    spec: ClusterSpec
    layout: Layout
    server: Server

    @property
    def folder(self) -> Path:
        """Where the server's files lie."""
        return self.layout.server(self.server.name)

    @property
    def scenario(self) -> Path:
        """The file that says what happens to its GPUs."""
        return self.folder / "scenario.toml"

    @property
    def bindings(self) -> Path:
        """Where its containers learn their GPUs."""
        return self.folder / "bindings"

    @property
    def state(self) -> Path:
        """Where its monitor and its `nvidia-smi` keep what both must know; it tells this server from others of its name."""
        return self.folder / "gpus"

    @property
    def cards(self) -> str:
        """The simulated cards."""
        return f"{self.server.gpus}x{self.spec.gpu_model}"

    def hadoop_values(self) -> dict[str, str]:
        """Make the simulated `nvidia-smi`; return what the NodeManager has to be told to discover GPUs with it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.scenario.exists():
            self.scenario.write_text(NOTHING_HAPPENS)
        try:
            program = install(self.state, self.cards, self.scenario, self.state, self.server.name)
        except (BadSpec, BadScenario) as error:
            raise ClusterError(f"GPUs of {self.server.name}: {error}") from error
        return {
            "yarn.nodemanager.resource-plugins": "yarn.io/gpu",
            "yarn.nodemanager.resource-plugins.gpu.path-to-discovery-executables": str(program),
        }

    def monitor(self, node_manager_port: int) -> list[str]:
        """Return the command of its monitor."""
        more = [
            word for key, value in self.spec.monitor_settings.items() for word in (f"--{key.replace('_', '-')}", value)
        ]
        return [
            sys.executable,
            "-P",
            "-c",
            "from yarn_gpu_sched.cli import main; main()",
            "monitor",
            *("--service", self.spec.service_address or "127.0.0.1:7433"),
            *("--host", self.server.name),
            *("--state-dir", str(self.state)),
            *("--binding-dir", str(self.bindings)),
            *("--simulate", self.cards),
            *("--scenario", str(self.scenario)),
            *("--node-manager", f"http://{self.server.address}:{node_manager_port}"),
            *more,
        ]


def python_environment(environment: dict[str, str]) -> dict[str, str]:
    """Let a Python process find this package, wherever it runs from."""
    root = str(Path(yarn_gpu_sched.__file__).resolve().parent.parent)
    return environment | {"PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", "")}
