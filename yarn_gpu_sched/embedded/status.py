"""What `EmbeddedCluster.status()` tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from yarn_gpu_sched.embedded import readiness
from yarn_gpu_sched.embedded.control import Control
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.record import Record


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """One process of the cluster.

    exit_code is None while it runs; negative if a signal ended it, and then that signal's number.
    """

    name: str
    pid: int
    started_at_s: float
    exit_code: int | None

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.exit_code is None


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server as the ResourceManager sees it; state is YARN's, or UNKNOWN if it has not registered."""

    name: str
    rack: str
    state: str
    gpus: int
    gpus_used: int


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The cluster at one moment.

    running   whether its supervisor runs; without one there are neither daemons nor servers
    ready     whether the ResourceManager counts every server as RUNNING
    web       the ResourceManager's page
    yarn      the command line of this cluster
    distributed_shell_jar   for `yarn jar`
    """

    folder: str
    hadoop: str
    running: bool
    ready: bool
    web: str
    yarn: str
    distributed_shell_jar: str
    cluster_id: str
    daemons: tuple[DaemonStatus, ...]
    servers: tuple[ServerStatus, ...]


def daemon_statuses(control: Control) -> tuple[DaemonStatus, ...]:
    """Ask the supervisor; nothing if it has ended."""
    try:
        found = control.processes()
    except ClusterError:
        return ()
    return tuple(
        DaemonStatus(name, process["pid"], process["started_at_s"], process["exit_code"])
        for name, process in found.items()
        if name != "format"
    )


def server_statuses(record: Record) -> tuple[ServerStatus, ...]:
    """Ask the ResourceManager; servers that it does not know, or all while it does not answer, are UNKNOWN."""
    try:
        known = {node["nodeHostName"]: node for node in readiness.nodes(record.ports["rm_web"])}
    except ClusterError:
        known = {}
    return tuple(
        ServerStatus(
            name=server.name,
            rack=server.rack,
            state=known.get(server.name, {}).get("state", "UNKNOWN"),
            gpus=server.gpus,
            gpus_used=_gpus(known.get(server.name, {}).get("usedResource", {})),
        )
        for server in record.spec.server_list()
    )


def _gpus(resource: dict[str, Any]) -> int:
    kinds = resource.get("resourceInformations", {}).get("resourceInformation", [])
    return next((int(kind["value"]) for kind in kinds if kind["name"] == "yarn.io/gpu"), 0)
