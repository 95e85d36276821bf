"""What is examined: each part is asked for when a check first looks at it, once, and bounded in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from yarn_gpu_sched.client import Client, ServiceError
from yarn_gpu_sched.doctor.finding import CannotLook
from yarn_gpu_sched.doctor.hadoop_files import Settings, read_files
from yarn_gpu_sched.doctor.pages import (
    ClusterPage,
    ConfPage,
    Counters,
    JmxPage,
    Node,
    NodesPage,
    ResourceManager,
    Scheduler,
    SchedulerPage,
)
from yarn_gpu_sched.doctor.web import Page, Web, ahead_s, once, read
from yarn_gpu_sched.protocol.v1 import cluster_pb2, gpu_pb2, virtual_cluster_pb2

T = TypeVar("T")

DEFAULT_RM = "http://localhost:8088"
TLS_KEYS = ("ygs.tls.certificate", "ygs.tls.key", "ygs.tls.authority")
"""By which the ResourceManager names its files."""
NODES_MAX = 100
"""Servers whose NodeManagers are asked; those with GPUs first."""
NODES_AT_ONCE = 16
NODES_S_MAX = 20.0
"""Seconds for all of them together: one that nobody answers for must not take the time of the other checks."""
COUNTERS_OLD_S = 10
"""Hadoop's default for the age of what /jmx tells."""
OpenClient = Callable[[float], AbstractContextManager[Client]]
"""Makes a client of the service whose calls end within so many seconds."""
_SITES = ("core-site", "hdfs-site", "yarn-site", "resource-types")
_JMX = "/jmx?qry=Hadoop:service=ResourceManager,name=YarnGpuSched"


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where the parts of an installation are.

    ``rm``: web addresses of the ResourceManagers; none: what ``conf`` says, else the usual one of this machine. ``conf``:
    folder with Hadoop's configuration. ``hdfs``: address and folder, such as ``http://namenode:9870/archive``, in which
    ``hdfs_user`` is to write. ``certificates``: folders of ``certificate.pem``, ``key.pem`` and ``authority.pem``. What is empty,
    or None, is not looked at.
    """

    rm: tuple[str, ...] = ()
    conf: Path | None = None
    hdfs: str = ""
    hdfs_user: str = ""
    certificates: tuple[Path, ...] = ()
    dry_run: bool = False


class Told(msgspec.Struct, frozen=True):
    """What the service says of the cluster, and by how much its clock is ahead of this machine's; None: it does not say."""

    cluster: cluster_pb2.GetClusterResponse
    ahead_s: float | None


class NodePages(msgspec.Struct, frozen=True):
    """What a NodeManager says of itself; text: why it does not."""

    node: Node
    conf: Settings | str
    gpus: Page | str = ""
    ahead_s: float | None = None


class Installation:
    """An installation. Every part raises `CannotLook` where it cannot be had."""

    def __init__(
        self,
        places: Places,
        open_client: OpenClient,
        *,
        timeout_s: float = 120.0,
        addresses: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Look at nothing yet.

        ``timeout_s`` bounds the whole; ``addresses`` says where hosts are that cannot be looked up here; ``sleep`` waits.
        """
        self.places = places
        self.web = Web(time.monotonic() + timeout_s, addresses)
        self.sleep = sleep
        self._open_client = open_client

    # The ResourceManager

    @once
    def rm(self) -> tuple[str, ResourceManager, float | None]:
        """Return the address of the active ResourceManager (or of one that answers), what it is, and how far its clock is ahead."""
        answered: list[tuple[str, ResourceManager, float | None]] = []
        silent: list[str] = []
        for address in self._rm_addresses():
            try:
                page = self.web.page(f"{address}/ws/v1/cluster/info")
                found = read(page, ClusterPage).cluster_info
            except CannotLook as why:
                silent.append(str(why))
                continue
            answered.append((address, found, page.ahead_s))
            if found.ha_state == "ACTIVE":
                return answered[-1]
        if answered:
            return answered[0]
        raise CannotLook("; ".join(silent), "name its web address: --rm http://HOST:8088")

    def _rm_addresses(self) -> list[str]:
        if self.places.rm:
            return [address.rstrip("/") for address in self.places.rm]
        try:
            conf = self.files
        except CannotLook:
            return [DEFAULT_RM]
        https = conf.get("yarn.http.policy") == "HTTPS_ONLY"
        scheme, key, port = ("https", "webapp.https.address", 8090) if https else ("http", "webapp.address", 8088)
        ids = [one.strip() for one in conf.get("yarn.resourcemanager.ha.rm-ids").split(",") if one.strip()]
        suffixes = [f".{one}" for one in ids] or [""]
        found = []
        for suffix in suffixes:
            host = conf.get(f"yarn.resourcemanager.hostname{suffix}", "localhost")
            found.append(f"{scheme}://{conf.get(f'yarn.resourcemanager.{key}{suffix}', f'{host}:{port}')}")
        return found

    def _rm_page(self, path: str, kind: type[T]) -> T:
        address, _, _ = self.rm
        return read(self.web.page(address + path), kind)

    @once
    def conf(self) -> Settings:
        """Return what the ResourceManager runs with, or if it does not tell, what its files say."""
        try:
            return Settings(self._rm_page("/conf", ConfPage).values(), "the ResourceManager")
        except CannotLook as why:
            if self.places.conf is None:
                raise
            return self._or(why)

    def _or(self, why: CannotLook) -> Settings:
        try:
            return self.files
        except CannotLook as also:
            raise CannotLook(f"{why}; {also}") from also

    @once
    def files(self) -> Settings:
        """Return what the files of the folder with Hadoop's configuration say."""
        return read_files(self._folder(), _SITES)

    @once
    def queue_files(self) -> Settings:
        """Return what capacity-scheduler.xml says."""
        return read_files(self._folder(), ("capacity-scheduler",))

    def _folder(self) -> Path:
        if self.places.conf is None:
            raise CannotLook(
                "no folder with Hadoop's configuration was named", "name the ResourceManager's: --conf /etc/hadoop/conf"
            )
        return self.places.conf

    @once
    def scheduler(self) -> Scheduler:
        """Return the ResourceManager's queues."""
        return self._rm_page("/ws/v1/cluster/scheduler", SchedulerPage).scheduler.scheduler_info

    @once
    def nodes(self) -> tuple[Node, ...]:
        """Return all servers that the ResourceManager counts on, in order of their ids."""
        nodes = self._rm_page("/ws/v1/cluster/nodes", NodesPage).nodes
        gone = ("LOST", "SHUTDOWN", "DECOMMISSIONED", "REBOOTED")
        return tuple(
            sorted((one for one in (nodes.node if nodes else ()) if one.state not in gone), key=lambda one: one.id)
        )

    @once
    def counters(self) -> Counters | None:
        """Return the shim's counters; None: the ResourceManager has none, so no shim."""
        return self.counters_now()

    def counters_now(self) -> Counters | None:
        """Ask for them anew. They may be `COUNTERS_OLD_S` old."""
        beans = self._rm_page(_JMX, JmxPage).beans
        return beans[0] if beans else None

    # The service

    @contextmanager
    def _client(self) -> Iterator[Client]:
        try:
            with self._open_client(min(10.0, self.web.left_s())) as client:
                yield client
        except ServiceError as error:
            raise CannotLook(f"the service: {error}", "start it: ygs serve, or name it: --service HOST:PORT") from error

    @once
    def told(self) -> Told:
        """Return what the service says of the cluster."""
        with self._client() as client:
            asked_s = time.time()
            cluster = client.cluster()
            answered_s = time.time()
        if not cluster.HasField("service_time"):
            return Told(cluster, None)
        told_s = cluster.service_time.ToNanoseconds() / 1e9
        return Told(cluster, ahead_s(told_s, told_s, asked_s, answered_s))

    @once
    def virtual_clusters(self) -> tuple[virtual_cluster_pb2.VirtualClusterUse, ...]:
        """Return virtual clusters as the service knows them."""
        with self._client() as client:
            return tuple(client.virtual_clusters())

    @once
    def health(self) -> Mapping[str, gpu_pb2.ServerHealth]:
        """Return what the service knows of servers and their GPUs, by host."""
        with self._client() as client:
            return {one.host: one for one in client.gpus()}

    @once
    def gpu_hosts(self) -> tuple[str, ...]:
        """Return hosts with GPUs, by the service or else by the ResourceManager, in order."""
        try:
            return tuple(sorted(host for host, one in self.health.items() if one.gpus_counted))
        except CannotLook:
            return tuple(sorted(node.host for node in self.nodes if node.gpus))

    # NodeManagers

    @once
    def node_pages(self) -> tuple[NodePages, ...]:
        """Return what NodeManagers say of themselves, those of servers with GPUs first, at most `NODES_MAX`."""
        chosen = sorted(self.nodes, key=lambda node: (not node.gpus, node.id))[:NODES_MAX]
        web = self.web.within(NODES_S_MAX)
        with ThreadPoolExecutor(NODES_AT_ONCE) as threads:
            return tuple(threads.map(lambda node: self._of_node(web, node), chosen))

    @staticmethod
    def _of_node(web: Web, node: Node) -> NodePages:
        base = f"http://{node.node_http_address}"
        try:
            page = web.page(f"{base}/conf")
            conf = Settings(read(page, ConfPage).values(), f"the NodeManager of {node.host}")
        except CannotLook as why:
            return NodePages(node, str(why))
        try:
            return NodePages(node, conf, web.page(f"{base}/ws/v1/node/resources/yarn.io%2Fgpu"), page.ahead_s)
        except CannotLook as why:
            return NodePages(node, conf, str(why), page.ahead_s)
