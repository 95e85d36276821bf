"""An installation whose daemons answer what real ones answered, but for what a test breaks.

`pages/VERSION` holds what ResourceManager and NodeManagers of Hadoop VERSION told on an embedded cluster of two servers of four
simulated GPUs on two racks and one server without, short of keys that no check reads.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.cli.canned import Canned, share
from yarn_gpu_sched import __version__
from yarn_gpu_sched.client import Client
from yarn_gpu_sched.doctor import CHECKS, Installation, Places, Result
from yarn_gpu_sched.protocol.v1 import gpu_pb2, monitor_pb2, virtual_cluster_pb2

PAGES = Path(__file__).parent / "pages"
HOSTS = ("cpu-1", "gpu-a1", "gpu-b1")
GPU_HOSTS = HOSTS[1:]
RM = "rm"
GPUS = 4
QUEUE_FILE = {
    "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
}
Answer = Any


def read_pages(hadoop: str) -> dict[tuple[str, str], Answer]:
    """Return the pages by host and path."""
    paths = {
        "info": "/ws/v1/cluster/info",
        "nodes": "/ws/v1/cluster/nodes",
        "scheduler": "/ws/v1/cluster/scheduler",
        "jmx": "/jmx?qry=Hadoop:service=ResourceManager,name=YarnGpuSched",
        "conf": "/conf",
    }
    pages = {(RM, path): _page(hadoop, name) for name, path in paths.items()}
    for host in HOSTS:
        pages[host, "/conf"] = _page(hadoop, f"{host}-conf")
        pages[host, "/ws/v1/node/resources/yarn.io%2Fgpu"] = _page(hadoop, f"{host}-gpus")
    return pages


def _page(hadoop: str, name: str) -> Answer:
    return json.loads((PAGES / hadoop / f"{name}.json").read_text())


@dataclass
class Site:
    """Daemons that answer; a test changes what they say. ``date_ahead_s`` is how far each host's clock is ahead."""

    hadoop: str
    folder: Path
    pages: dict[tuple[str, str], Answer]
    service: Canned
    port: int = 0
    service_address: str = ""
    date_ahead_s: dict[str, float] = field(default_factory=dict)
    places: dict[str, Any] = field(default_factory=dict)
    timeout_s: float = 60.0
    slept: list[float] = field(default_factory=list)

    @property
    def info(self) -> dict[str, Any]:
        found: dict[str, Any] = self.pages[RM, "/ws/v1/cluster/info"]["clusterInfo"]
        return found

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["nodeHostName"]: node for node in self.pages[RM, "/ws/v1/cluster/nodes"]["nodes"]["node"]}

    @property
    def leaf(self) -> dict[str, Any]:
        queues = self.pages[RM, "/ws/v1/cluster/scheduler"]["scheduler"]["schedulerInfo"]["queues"]["queue"]
        found: dict[str, Any] = queues[0]
        return found

    @property
    def counters(self) -> dict[str, Any]:
        found: dict[str, Any] = self.pages[RM, "/jmx?qry=Hadoop:service=ResourceManager,name=YarnGpuSched"]["beans"][0]
        return found

    def no_shim(self) -> None:
        self.pages[RM, "/jmx?qry=Hadoop:service=ResourceManager,name=YarnGpuSched"]["beans"] = []

    def set(self, key: str, value: str | None, host: str = RM) -> None:
        """Let a daemon run with another value of a key, or without it."""
        listed = self.pages[host, "/conf"]["properties"]
        listed[:] = [one for one in listed if one["key"] != key]
        if value is not None:
            listed.append({"key": key, "value": value, "isFinal": False, "resource": "yarn-site.xml"})

    def value(self, key: str, host: str = RM) -> str:
        return next(str(one["value"]) for one in self.pages[host, "/conf"]["properties"] if one["key"] == key)

    def health(self, host: str) -> gpu_pb2.ServerHealth:
        return next(one for one in self.service.health if one.host == host)

    def write_conf(self, name: str, values: dict[str, str]) -> None:
        rows = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items()
        )
        (self.folder / f"{name}.xml").write_text(f"<configuration>{rows}</configuration>")

    def installation(self) -> Installation:
        address = self.service_address
        return Installation(
            Places(**{"rm": (f"http://{RM}:{self.port}",), "conf": self.folder, **self.places}),
            lambda timeout_s: Client(address, timeout_s=timeout_s, attempts_max=1),
            timeout_s=self.timeout_s,
            addresses=dict.fromkeys((RM, *HOSTS), "127.0.0.1"),
            sleep=self.slept.append,
        )

    def look(self, name: str) -> Result:
        """Make one check."""
        (check,) = [one for one in CHECKS if one.name == name]
        return check.run(self.installation())


def health(host: str) -> gpu_pb2.ServerHealth:
    cards = [monitor_pb2.Card(slot=slot, uuid=f"GPU-{host}-{slot}", index=slot) for slot in range(GPUS)]
    return gpu_pb2.ServerHealth(
        host=host,
        server_id=f"{host}:45454",
        telemetry=gpu_pb2.TELEMETRY_STATE_LIVE,
        age_s=1.5,
        gpus_counted=GPUS,
        gpus_healthy=GPUS,
        gpus=[gpu_pb2.GpuStatus(slot=card.slot, card=card, health=gpu_pb2.GPU_HEALTH_OK) for card in cards],
        monitor_agent=f"ygs monitor {__version__}",
    )


def use(path: str, **fields: int) -> virtual_cluster_pb2.VirtualClusterUse:
    vc = virtual_cluster_pb2.VirtualCluster(path=path, running=True)
    return virtual_cluster_pb2.VirtualClusterUse(virtual_cluster=vc, shares=[share("", **fields)])


@contextmanager
def healthy(hadoop: str, folder: Path) -> Iterator[Site]:
    """Let an installation answer as it should."""
    pages = read_pages(hadoop)
    root = use("root")
    root.virtual_cluster.parent = True
    agent = f"ygs-rm-shim {__version__} on Hadoop {hadoop}"
    service = Canned(vcs=[root, use("root.default", quota_gpus=2 * GPUS)], gpus=2 * GPUS, agent=agent)
    service.health = [gpu_pb2.ServerHealth(host="cpu-1", server_id="cpu-1:45454"), *map(health, GPU_HOSTS)]
    site = Site(hadoop, folder, pages, service)
    service.cluster_id = site.value("ygs.cluster-id")
    site.write_conf("capacity-scheduler", QUEUE_FILE)
    with _web(site) as site.port, service.serve() as site.service_address:
        for node in site.nodes.values():
            node["nodeHTTPAddress"] = f"{node['nodeHostName']}:{site.port}"
        yield site


@contextmanager
def _web(site: Site) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers of whom it is asked. An answer is JSON, bytes, a status, or a function that is called."""

    site: Site

    def do_GET(self) -> None:
        host = self.headers["Host"].partition(":")[0]
        answer = self.site.pages.get((host, self.path), 404)
        if callable(answer):
            answer = answer()
        status = answer if isinstance(answer, int) else 200
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response_only(status)
        self.send_header("Date", formatdate(time.time() + self.site.date_ahead_s.get(host, 0.0), usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


Break = Callable[[Site], object]
