# ruff: noqa: INP001 - not a package: it would stand before the `docker` that docker-compose 1.29 imports
"""Write the configuration of the docker cluster: the commented files of `hadoop-conf/`, and over them only what differs.

`configuration.py FOLDER [--ha]` writes FOLDER/cluster for the servers and FOLDER/client for the client, which gets no
key of yarn-gpu-sched.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path

from yarn_gpu_sched.embedded.configuration import FILES, read, render

HERE = Path(__file__).parent
SUBNET = "10.213.47"  # as in compose.yaml
GPUS, MEMORY_MB, VCORES = 4, 8192, 24  # of a server
SERVERS = 3
Values = dict[str, str]

_CORE = {"hadoop.tmp.dir": "/tmp/hadoop"}  # noqa: S108 - in a container
_HDFS = {
    "dfs.namenode.rpc-bind-host": "0.0.0.0",  # noqa: S104 - in a container
    "dfs.namenode.http-bind-host": "0.0.0.0",  # noqa: S104 - in a container
    "dfs.namenode.name.dir": "file:///var/lib/hadoop/namenode",
    "dfs.datanode.data.dir": "file:///var/lib/hadoop/datanode",
}
_YARN = {
    "yarn.resourcemanager.hostname": "resourcemanager",
    "yarn.resourcemanager.bind-host": "0.0.0.0",  # noqa: S104 - in a container
    "yarn.nodemanager.hostname": "${env.HOSTNAME}",
    "yarn.nodemanager.address": "${env.HOSTNAME}:8041",
    "yarn.nodemanager.local-dirs": "/var/lib/hadoop-yarn/local",
    "yarn.nodemanager.log-dirs": "/var/log/hadoop/containers",
    "yarn.nodemanager.resource.memory-mb": str(MEMORY_MB),
    "yarn.nodemanager.resource.cpu-vcores": str(VCORES),
    "yarn.nodemanager.resource-plugins": "yarn.io/gpu",
    "yarn.nodemanager.resource-plugins.gpu.path-to-discovery-executables": "/var/lib/ygs/nvidia-smi",
    # Servers share one machine: memory is a number, and a full disk is the machine's own affair.
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
    # A server that died is lost after 15 s; the default is 10 minutes. Clients give up on it in 10 s.
    "yarn.nm.liveness-monitor.expiry-interval-ms": "15000",
    "yarn.client.nodemanager-connect.max-wait-ms": "10000",
    "yarn.application.classpath": "/etc/hadoop/conf,/opt/hadoop/lib/*",
    "ygs.settle-s": "10",
    "ygs.service-address": "service:7433",
    "ygs.tls.certificate": "/etc/yarn-gpu-sched/tls/certificate.pem",
    "ygs.tls.key": "/etc/yarn-gpu-sched/tls/key.pem",
    "ygs.tls.authority": "/etc/yarn-gpu-sched/tls/authority.pem",
}
_CONTAINER_ENV = (
    # The simulated cards find their server's processes by it.
    "YGS_SIMULATED=/var/lib/ygs/gpus",
    "JAVA_TOOL_OPTIONS=-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
)
_LOG4J = """\
log4j.rootLogger=${hadoop.root.logger}
hadoop.root.logger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
# Each health check would be a line.
log4j.logger.http.requests=WARN
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
"""


def share(gpus: int) -> str:
    """Return so many GPUs with their share of a server's memory and vcores, in YARN's words."""
    return f"[memory={gpus * MEMORY_MB // GPUS},vcores={gpus * VCORES // GPUS},yarn.io/gpu={gpus}]"


def queues() -> Values:
    """Return three virtual clusters: two with a quota, and `default`, which only borrows."""
    root, whole = "yarn.scheduler.capacity.root", SERVERS * GPUS
    values = {
        f"{root}.queues": "default,research,production",
        # YARN derives it from the share of the cluster that is the queue's own: none.
        f"{root}.default.maximum-applications": "10000",
    }
    for queue, quota, most in (("default", 0, whole), ("research", 8, whole), ("production", 4, 8)):
        values |= {
            f"{root}.{queue}.capacity": share(quota),
            f"{root}.{queue}.maximum-capacity": share(most),
            f"{root}.{queue}.user-limit-factor": "-1",
        }
    return values


def high_availability() -> Values:
    """Return what two ResourceManagers need: state and election in ZooKeeper."""
    rm = "yarn.resourcemanager"
    hosts = {"rm1": "resourcemanager", "rm2": "resourcemanager2"}
    return {
        f"{rm}.ha.enabled": "true",
        f"{rm}.ha.rm-ids": ",".join(hosts),
        f"{rm}.cluster-id": "ygs",
        f"{rm}.store.class": "org.apache.hadoop.yarn.server.resourcemanager.recovery.ZKRMStateStore",
        "hadoop.zk.address": "zookeeper:2181",
        # A ResourceManager that died is replaced after so long.
        f"{rm}.zk-timeout-ms": "10000",
        "yarn.client.failover-sleep-base-ms": "200",
        "yarn.client.failover-sleep-max-ms": "1000",
    } | {f"{rm}.hostname.{name}": host for name, host in hosts.items()}


def racks(compose: str, subnet: str) -> dict[str, str]:
    """Return the rack of each GPU server by name and by address, out of the compose file's list of hosts."""
    hosts = re.findall(r'^  - "([\w-]+):\$\{YGS_SUBNET:[^}]*\}\.(\d+)"$', compose, re.MULTILINE)
    servers = [(name, number) for name, number in hosts if name.startswith("gpu-")]
    rack = {name: f"/rack-{name[4]}" for name, _ in servers}
    return rack | {f"{subnet}.{number}": rack[name] for name, number in servers}


def cluster(*, ha: bool) -> dict[str, Values]:
    """Return the files of the servers by name, without `.xml`."""
    files = {name: read(name) for name in FILES}
    files["core-site"] |= _CORE
    files["hdfs-site"] |= _HDFS
    files["capacity-scheduler"] |= queues()
    yarn = files["yarn-site"] | _YARN | (high_availability() if ha else {})
    yarn["yarn.nodemanager.admin-env"] = ",".join((yarn["yarn.nodemanager.admin-env"], *_CONTAINER_ENV))
    files["yarn-site"] = yarn
    return files


def client(files: Mapping[str, Values]) -> dict[str, Values]:
    """Return the client's files: the same, without what is yarn-gpu-sched's or a server's own affair."""
    left_out = ("ygs.", "yarn.nodemanager.", "yarn.resourcemanager.scheduler.")
    names = ("core-site", "hdfs-site", "yarn-site", "resource-types")
    return {name: {key: v for key, v in files[name].items() if not key.startswith(left_out)} for name in names}


def write(folder: Path, files: Mapping[str, Values], topology: str) -> None:
    """Write files that a running container may read: each whole, by rename."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{name}.xml": render(values) for name, values in files.items()}
    texts |= {"log4j.properties": _LOG4J, "topology.table": topology}
    for name, text in texts.items():
        draft = folder / f".{name}"
        draft.write_text(text)
        draft.chmod(0o644)
        draft.replace(folder / name)


def main() -> None:
    """Write both folders."""
    parser = argparse.ArgumentParser(description="Write the configuration of the docker cluster.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ha", action="store_true", help="two ResourceManagers")
    arguments = parser.parse_args()
    found = racks((HERE / "compose.yaml").read_text(), os.environ.get("YGS_SUBNET", SUBNET))
    topology = "".join(f"{name}\t{rack}\n" for name, rack in found.items())
    files = cluster(ha=arguments.ha)
    write(arguments.folder / "cluster", files, topology)
    write(arguments.folder / "client", client(files), topology)


if __name__ == "__main__":
    main()
