"""Where loads run: a real ResourceManager for simulated servers, with the service beside it or with stock placement."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yarn_gpu_sched.embedded import (
    GANG_SCHEDULER,
    STOCK_SCHEDULER,
    ClusterError,
    ClusterSpec,
    EmbeddedCluster,
    shim_jar,
)

# A site gives its ResourceManager the optimising compiler and room; the embedded cluster is as small as can be.
RM_FLAGS = ("-Xmx3g", "-Xms3g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseParallelGC")
_SERVERS_PER_BYTE, _SERVERS_PER_RACK = 250, 64
_START_S_MAX = 60.0

RM_SETTINGS = {
    # Tens of thousands of applications are prepared before the clock starts, and are not kept after their end.
    "yarn.scheduler.capacity.maximum-applications": "200000",
    "yarn.resourcemanager.max-completed-applications": "1000",
    # Their masters' connections stay open, silent until it is their turn.
    "ipc.client.idlethreshold": "100000",
    "ipc.server.listen.queue.size": "4096",
    # What is measured is placement, not a state store on this machine's disk.
    "yarn.resourcemanager.recovery.enabled": "false",
}
# One line for each container's every step, at thousands of containers a second: the same for both schedulers.
_LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
log4j.logger.http.requests=WARN
log4j.logger.org.apache.hadoop.yarn.server.resourcemanager.RMAuditLogger=WARN
log4j.logger.org.apache.hadoop.yarn.server.resourcemanager.rmapp=WARN
log4j.logger.org.apache.hadoop.yarn.server.resourcemanager.rmcontainer=WARN
log4j.logger.org.apache.hadoop.yarn.server.resourcemanager.scheduler=WARN
log4j.logger.org.apache.hadoop.yarn.server.resourcemanager.security=WARN
log4j.logger.SecurityLogger=WARN
"""


@dataclass(frozen=True, slots=True)
class Arena:
    """A ResourceManager that waits for simulated servers; `service` is None under stock placement."""

    cluster: EmbeddedCluster
    service: subprocess.Popen[bytes] | None
    start_service: list[str] = field(default_factory=list)

    @property
    def conf(self) -> Path:
        """The folder from which the generator learns where the ResourceManager is."""
        return self.cluster.folder / "conf"

    def jmx(self, query: str) -> list[dict[str, Any]]:
        """Return the ResourceManager's JMX beans that match, such as `Hadoop:service=ResourceManager,*`."""
        return list(self.cluster.rm_rest(f"/jmx?qry={query}").get("beans", []))

    def rm_pid(self) -> int:
        """Return the ResourceManager's process id."""
        return next(daemon.pid for daemon in self.cluster.status().daemons if daemon.name == "rm")


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def arena(folder: Path, scheduler: str, servers: int = 4096, **settings: str) -> Iterator[Arena]:
    """Bring up a ResourceManager with the scheduler, and the service if it is the gang scheduler; end both afterwards.

    `servers`: how many simulated ones will come at most; they are spread over racks of 64.
    """
    files = folder / "files"
    files.mkdir(parents=True)
    # JMX caches what metrics say for this period, ten seconds by default: too coarse to count over half a minute.
    (files / "hadoop-metrics2.properties").write_text("*.period=1\n")
    (files / "log4j.properties").write_text(_LOG4J)
    (files / "topology").write_text(topology(servers))
    address = f"127.0.0.1:{free_port()}"
    gang = scheduler == GANG_SCHEDULER
    spec = ClusterSpec(
        servers=(),
        scheduler_class=scheduler,
        service_address=address if gang else None,
        extra_classpath=(files, shim_jar()) if gang else (files,),
        hdfs=False,
        jvm_flags={"rm": (*RM_FLAGS, f"-Dlog4j.configuration=file:{files / 'log4j.properties'}")},
        settings={"net.topology.table.file.name": str(files / "topology"), **RM_SETTINGS, **settings},
    )
    start = [sys.executable, "-m", "yarn_gpu_sched.cli", "serve", "--address", address]
    with (
        _service(start, folder) if gang else nullcontext() as service,
        EmbeddedCluster(folder / "cluster", spec) as cluster,
    ):
        yield Arena(cluster, service, start)


def topology(servers: int) -> str:
    """Return the table that puts the generator's addresses on racks."""
    lines = []
    for number in range(servers):
        third, fourth = divmod(number, _SERVERS_PER_BYTE)
        lines.append(f"127.1.{third}.{fourth + 1}\t/rack-{number // _SERVERS_PER_RACK}\n")
    return "".join(lines)


@contextmanager
def _service(start: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "service.log").open("ab") as log:
        process = subprocess.Popen(start, stdout=log, stderr=log, cwd=folder)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


__all__ = ["GANG_SCHEDULER", "STOCK_SCHEDULER", "Arena", "ClusterError", "arena", "free_port", "topology"]
