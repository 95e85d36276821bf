"""Render a cluster's configuration: the commented files of `hadoop_conf/`, with addresses and folders put in."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from defusedxml import ElementTree

from yarn_gpu_sched.embedded import java
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.jars import HadoopJars
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.monitored import MonitoredServer
from yarn_gpu_sched.embedded.spec import ClusterSpec, Server
from yarn_gpu_sched.embedded.supervisor import MARK
from yarn_gpu_sched.monitor.simulated.processes import SERVER_VARIABLE

HADOOP_CONF = Path(__file__).parent / "hadoop_conf"
FILES = ("core-site", "hdfs-site", "yarn-site", "capacity-scheduler", "resource-types")
_GPU = "yarn.nodemanager.resource-type.yarn.io/gpu"
_FILE_OF_PREFIX = {
    "yarn.scheduler.capacity.": "capacity-scheduler",
    "yarn.resource-types": "resource-types",
    "dfs.": "hdfs-site",
    "fs.": "core-site",
    "hadoop.": "core-site",
    "io.": "core-site",
    "ipc.": "core-site",
    "net.": "core-site",
    "mapreduce.": "mapred-site",
    "yarn.app.mapreduce.": "mapred-site",
}
Values = dict[str, str]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration of one cluster, ready to be written as often as its settings change."""

    spec: ClusterSpec
    layout: Layout
    jars: HadoopJars
    ports: Mapping[str, int]
    cluster_id: str
    mark: str

    def write(self) -> None:
        """Write all files; whatever is already running reads them at its next start or refresh."""
        servers = self.spec.server_list()
        names = f"127.0.0.1 localhost {socket.gethostname()}\n"
        (self.layout / "hosts").write_text(names + "".join(f"{server.address} {server.name}\n" for server in servers))
        (self.layout / "topology").write_text("".join(f"{s.name}\t{s.rack}\n{s.address}\t{s.rack}\n" for s in servers))
        self._write_files(self.layout.conf, {})
        for server in servers:
            self._write_server(server)

    def _write_server(self, server: Server) -> None:
        conf = self.layout.server(server.name) / "conf"
        values = self._server_values(server)
        if server.gpus and self.spec.gpu_model:
            values |= self._monitored(server).hadoop_values()
        self._write_files(conf, values)
        resources = conf / "node-resources.xml"
        if server.gpus and not self.spec.gpu_model:
            resources.write_text(render({**read("node-resources"), _GPU: str(server.gpus)}))
        else:
            resources.unlink(missing_ok=True)

    def _write_files(self, folder: Path, yarn_site: Values) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        ours = {
            "core-site": self._core(),
            "hdfs-site": self._hdfs(),
            "yarn-site": self._yarn() | yarn_site,
        }
        asked = route(self.spec.settings)
        for name in FILES:
            values = read(name) | ours.get(name, {}) | asked.get(name, {})
            (folder / f"{name}.xml").write_text(render(values))
        (folder / "mapred-site.xml").write_text(render(self._mapred() | asked.get("mapred-site", {})))
        (folder / "log4j.properties").write_text(_LOG4J)

    def _core(self) -> Values:
        return {
            "fs.defaultFS": f"hdfs://localhost:{self.ports['nn_rpc']}" if self.spec.hdfs else "file:///",
            "hadoop.tmp.dir": str(self.layout / "tmp"),
            "net.topology.table.file.name": str(self.layout / "topology"),
        }

    def _hdfs(self) -> Values:
        local = {
            f"dfs.datanode.{key}": f"127.0.0.1:{self.ports[port]}"
            for key, port in (
                ("address", "dn_transfer"),
                ("http.address", "dn_web"),
                ("ipc.address", "dn_ipc"),
            )
        }
        return local | {
            "dfs.namenode.rpc-address": f"localhost:{self.ports['nn_rpc']}",
            "dfs.namenode.http-address": f"localhost:{self.ports['nn_web']}",
            "dfs.namenode.name.dir": f"file://{self.layout.root}/data/namenode",
            "dfs.datanode.data.dir": f"file://{self.layout.root}/data/datanode",
            # Any user of this machine may submit, and owns a home folder only after the first write to it.
            "dfs.permissions.enabled": "false",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        }

    def _yarn(self) -> Values:
        rm = "yarn.resourcemanager"
        values = {
            f"{rm}.hostname": "localhost",
            f"{rm}.address": f"localhost:{self.ports['rm_client']}",
            f"{rm}.scheduler.address": f"localhost:{self.ports['rm_scheduler']}",
            f"{rm}.resource-tracker.address": f"localhost:{self.ports['rm_tracker']}",
            f"{rm}.admin.address": f"localhost:{self.ports['rm_admin']}",
            f"{rm}.webapp.address": f"localhost:{self.ports['rm_web']}",
            f"{rm}.scheduler.class": self.spec.scheduler_class,
            f"{rm}.fs.state-store.uri": f"file://{self.layout.root}/data/rm-state",
            "yarn.node-attribute.fs-store.root-dir": f"file://{self.layout.root}/data/node-attributes",
            "ygs.cluster-id": self.cluster_id,
            # Clients and AMs give up on a lost server in seconds; the defaults are minutes.
            "yarn.client.nodemanager-connect.max-wait-ms": "10000",
            "yarn.application.classpath": f"{self.layout.conf},{self.jars.folder}/lib/*",
        }
        if not self.spec.hdfs:
            values["yarn.nodemanager.remote-app-log-dir"] = f"{self.layout.root}/data/app-logs"
        if self.spec.service_address is not None:
            values["ygs.service-address"] = self.spec.service_address
        return values

    def _mapred(self) -> Values:
        values = {
            "mapreduce.framework.name": "yarn",
            "mapreduce.application.classpath": f"{self.layout.conf},{self.jars.folder}/lib/*",
            # Servers share one machine, and the service that hands out what maps wrote listens on all its addresses.
            "mapreduce.shuffle.port": "0",
            # There is no history server: clients are told of a job's end by the ResourceManager alone.
            "mapreduce.jobhistory.address": "",
            "yarn.app.mapreduce.am.resource.mb": "512",
            "yarn.app.mapreduce.am.command-opts": "-Xmx256m",
            "mapreduce.map.memory.mb": "256",
            "mapreduce.reduce.memory.mb": "256",
            "mapreduce.map.java.opts": "-Xmx160m",
            "mapreduce.reduce.java.opts": "-Xmx160m",
            "mapreduce.task.io.sort.mb": "32",
        }
        if not self.spec.hdfs:
            values["yarn.app.mapreduce.am.staging-dir"] = f"{self.layout.root}/data/staging"
        return values

    def _server_values(self, server: Server) -> Values:
        folder, nm = self.layout.server(server.name), "yarn.nodemanager"
        return {
            f"{nm}.hostname": server.name,
            f"{nm}.address": f"{server.name}:{self.ports['nm_rpc']}",
            f"{nm}.localizer.address": f"{server.name}:{self.ports['nm_localizer']}",
            f"{nm}.webapp.address": f"{server.name}:{self.ports['nm_web']}",
            f"{nm}.collector-service.address": f"{server.name}:{self.ports['nm_collector']}",
            f"{nm}.local-dirs": f"{folder}/local",
            f"{nm}.log-dirs": f"{folder}/logs",
            f"{nm}.recovery.dir": f"{folder}/recovery",
            f"{nm}.resource.memory-mb": str(self.spec.memory_mb),
            f"{nm}.resource.cpu-vcores": str(self.spec.vcores),
            f"{nm}.admin-env": self._admin_env(server),
            # Memory is simulated, and so is its limit; a full disk is this machine's own affair.
            f"{nm}.pmem-check-enabled": "false",
            f"{nm}.vmem-check-enabled": "false",
            f"{nm}.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        }

    def _admin_env(self, server: Server) -> str:
        variables = {
            "JAVA_TOOL_OPTIONS": " ".join(java.container_flags(self.layout)),
            MARK: self.mark,
        }
        bindings = self._monitored(server).bindings if self.spec.gpu_model else self.spec.binding_dir
        if self.spec.gpu_model:
            variables[SERVER_VARIABLE] = str(self._monitored(server).state)
        if bindings is not None:
            variables["BASH_ENV"] = str(HADOOP_CONF / "bind_gpus.sh")
            variables["YGS_BINDING_DIR"] = str(bindings.absolute())
            variables["YGS_SERVER_GPUS"] = str(server.gpus)
            # Whoever comes by the script sees no GPU instead of all.
            variables["CUDA_VISIBLE_DEVICES"] = "-1"
            variables["NVIDIA_VISIBLE_DEVICES"] = "void"
        return ",".join(f"{name}={value}" for name, value in variables.items())

    def _monitored(self, server: Server) -> MonitoredServer:
        return MonitoredServer(self.spec, self.layout, server)


def read(name: str) -> Values:
    """Read one of the commented files of `hadoop_conf/`, such as `yarn-site`."""
    root = ElementTree.fromstring((HADOOP_CONF / f"{name}.xml").read_text(encoding="utf-8"))
    return {item.findtext("name", default=""): item.findtext("value", default="") for item in root.iter("property")}


def render(values: Mapping[str, str]) -> str:
    """Return the values as a Hadoop configuration file."""
    rows = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in values.items()
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{rows}</configuration>\n'


def route(settings: Mapping[str, str]) -> dict[str, Values]:
    """Sort settings by the file into which they belong.

    Raises ClusterError for a value that is not a string: Hadoop's own spelling is wanted, `true` and not True.
    """
    files: dict[str, Values] = {}
    for name, value in settings.items():
        if not isinstance(value, str):
            raise ClusterError(f"setting {name} {value!r} should be a string, as Hadoop spells it")
        prefixes = (file for prefix, file in _FILE_OF_PREFIX.items() if name.startswith(prefix))
        files.setdefault(next(prefixes, "yarn-site"), {})[name] = value
    return files


_LOG4J = """\
hadoop.root.logger=INFO,console
log4j.rootLogger=${hadoop.root.logger}
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
# Each poll of a REST page would be a line.
log4j.logger.http.requests=WARN
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
"""
