"""Where loads run: a real ResourceManager for simulated servers, with the service beside it or with stock placement."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from yarn_gpu_sched.embedded import (
    GANG_SCHEDULER,
    STOCK_SCHEDULER,
    ClusterSpec,
    EmbeddedCluster,
    free_port,
    shim_jar,
)

# A site gives its ResourceManager the optimising compiler and room; the embedded cluster is as small as can be.
RM_FLAGS = ("-Xmx3g", "-Xms3g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseParallelGC")
_SERVERS_PER_BYTE, _SERVERS_PER_RACK = 250, 64

TIMED_STOCK = "io.github.yarn_gpu_sched.timed.TimedStock"
TIMED_SHIM = "io.github.yarn_gpu_sched.timed.TimedShim"

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
    """A ResourceManager that waits for simulated servers, and the service's address; empty under stock placement."""

    cluster: EmbeddedCluster
    service: str

    @property
    def conf(self) -> Path:
        """The folder from which the generator learns where the ResourceManager is."""
        return self.cluster.folder / "conf"

    def bean(self, name: str) -> dict[str, Any]:
        """Return one of the ResourceManager's JMX beans, such as `Hadoop:service=ResourceManager,name=YarnGpuSched`.

        Raises LookupError if there is none of that name.
        """
        beans = self.cluster.rm_rest(f"/jmx?qry={name}")["beans"]
        if not beans:
            raise LookupError(f"no bean {name} at the ResourceManager's /jmx")
        return dict(beans[0])

    def pid(self, name: str) -> int:
        """Return the process id of "rm" or "service"."""
        return next(daemon.pid for daemon in self.cluster.status().daemons if daemon.name == name)


@contextmanager
def arena(
    folder: Path,
    scheduler: str,
    servers: int = 4096,
    *,
    classes: tuple[Path, ...] = (),
    flags: tuple[str, ...] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Arena]:
    """Bring up a ResourceManager with the scheduler, and the service unless it is stock placement; end both afterwards.

    servers   how many simulated ones will come at most; they are spread over racks of 64
    classes   where schedulers of one's own lie
    flags     of the ResourceManager's JVM, over RM_FLAGS
    settings  of the cluster, over RM_SETTINGS
    """
    files = folder / "files"
    files.mkdir(parents=True)
    # JMX caches what metrics say for this period, ten seconds by default: too coarse to count over half a minute.
    (files / "hadoop-metrics2.properties").write_text("*.period=1\n")
    (files / "log4j.properties").write_text(_LOG4J)
    (files / "topology").write_text(topology(servers))
    gang = scheduler not in (STOCK_SCHEDULER, TIMED_STOCK)
    service = f"127.0.0.1:{free_port()}" if gang else ""
    spec = ClusterSpec(
        servers=(),
        scheduler_class=scheduler,
        service_address=service or None,
        extra_classpath=(files, *classes, shim_jar()) if gang else (files, *classes),
        hdfs=False,
        jvm_flags={"rm": (*RM_FLAGS, *flags, f"-Dlog4j.configuration=file:{files / 'log4j.properties'}")},
        settings={"net.topology.table.file.name": str(files / "topology"), **RM_SETTINGS, **settings},
    )
    with EmbeddedCluster(folder / "cluster", spec) as cluster:
        if service:
            command = [str(Path(sys.executable).with_name("ygs")), "serve"]
            cluster.run("service", command, os.environ | {"YGS_LISTEN": service})
        yield Arena(cluster, service)


def topology(servers: int) -> str:
    """Return the table that puts the generator's addresses on racks."""
    lines = []
    for number in range(servers):
        third, fourth = divmod(number, _SERVERS_PER_BYTE)
        lines.append(f"127.1.{third}.{fourth + 1}\t/rack-{number // _SERVERS_PER_RACK}\n")
    return "".join(lines)


__all__ = ["GANG_SCHEDULER", "STOCK_SCHEDULER", "TIMED_SHIM", "TIMED_STOCK", "Arena", "arena", "topology"]
