"""The stage: a real cluster and a real service for one showing, and their end whatever happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from yarn_gpu_sched.cli.demo.story import MEMORY_MB, PREEMPT_AFTER_S, PREEMPT_GRACE_S, RACKS, SERVERS, VCORES
from yarn_gpu_sched.client import Client, ServiceError
from yarn_gpu_sched.embedded import ClusterError, ClusterSpec, EmbeddedCluster, free_port

SETTLE_S = 5
# A worker that is stopped has so long to write down when that was, on a slow machine too; it ends as soon as it has.
SIGKILL_AFTER_MS, STOPPED_WITHIN_MS = "yarn.nodemanager.sleep-delay-before-sigkill.ms", 5000


class Stage:
    """Cluster, service and the folders that they share."""

    def __init__(self, folder: Path, hadoop: str, queues: Mapping[str, str]) -> None:
        self.folder = folder
        self.workers = folder / "workers"
        self.bindings = folder / "bindings"
        self.address = f"127.0.0.1:{free_port()}"
        spec = ClusterSpec(
            hadoop=hadoop,
            servers=SERVERS,
            racks=RACKS,
            memory_mb=MEMORY_MB,
            vcores=VCORES,
            service_address=self.address,
            binding_dir=self.bindings,
            settings={"ygs.settle-s": str(SETTLE_S), SIGKILL_AFTER_MS: str(STOPPED_WITHIN_MS), **queues},
        )
        self.cluster = EmbeddedCluster(folder / "cluster", spec)
        self.client = Client(self.address, timeout_s=10.0)

    def up(self, progress: Callable[[str], None]) -> None:
        """Bring the cluster up, and the service beside it. Raises ClusterError."""
        for made in (self.workers, self.bindings):
            made.mkdir(parents=True)
        self.cluster.up(progress)
        self._start_service()

    def _start_service(self) -> None:
        arguments = ["--listen", self.address, "--binding-dir", str(self.bindings), "--relax-after-s", "0"]
        arguments += ["--preempt-after-s", str(PREEMPT_AFTER_S), "--preempt-grace-s", str(PREEMPT_GRACE_S)]
        arguments += ["--preempt-min-run-s", "0", "--preempt-pause-s", "0", "--state-dir", str(self.folder / "state")]
        program = [sys.executable, "-c", "from yarn_gpu_sched.cli import main; main()", "serve", *arguments]
        # Settings of somebody's own service are not this one's.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("YGS_")}
        environment["PYTHONPATH"] = str(Path(__file__).parents[3])
        self.cluster.run("service", program, environment)

    def connected(self) -> bool:
        """Whether the service has the ResourceManager's whole snapshot. Raises ClusterError if a process has ended."""
        try:
            found = self.client.cluster()
        except ServiceError:
            self._check_processes()
            return False
        return found.connected and found.servers == sum(count for count, _ in SERVERS)

    def _check_processes(self) -> None:
        for process in self.cluster.status().daemons:
            if not process.running:
                log = self.cluster.logs().get(process.name)
                raise ClusterError(f"{process.name} ended with exit code {process.exit_code}; its log is {log}")

    def down(self) -> None:
        """End everything that was started. May be called again."""
        self.client.close()
        self.cluster.down()
