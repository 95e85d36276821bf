"""Opens a simulated server from what a command line says."""

from __future__ import annotations

from pathlib import Path

from yarn_gpu_sched.monitor.simulated.processes import Scanner
from yarn_gpu_sched.monitor.simulated.server import SimulatedServer
from yarn_gpu_sched.monitor.simulated.spec import parse


def open_server(
    spec: str, scenario: Path | None = None, state_dir: Path | None = None, host: str = ""
) -> SimulatedServer:
    """Return the simulated server of ``host``, with the real processes of this machine; `BadSpec`, `BadScenario`."""
    return SimulatedServer(parse(spec, host or "localhost"), scenario, state_dir, Scanner(host))
