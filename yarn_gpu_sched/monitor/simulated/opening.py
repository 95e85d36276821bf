"""Opens a simulated server from what a command line says."""

from __future__ import annotations

from pathlib import Path

from yarn_gpu_sched.monitor.simulated.processes import Scanner
from yarn_gpu_sched.monitor.simulated.server import SimulatedServer
from yarn_gpu_sched.monitor.simulated.spec import parse


def open_server(
    spec: str, scenario: Path | None = None, state_dir: Path | None = None, host: str = ""
) -> SimulatedServer:
    """Return the simulated server of ``host``, with the real processes of this machine; `BadSpec`, `BadScenario`.

    Another ``state_dir`` is another server: clusters side by side on one machine have hosts of the same names.
    """
    name = host or "localhost"
    name = f"{name}:{state_dir.absolute()}" if state_dir is not None else name
    return SimulatedServer(parse(spec, name), scenario, state_dir, Scanner(host, state_dir=state_dir))
