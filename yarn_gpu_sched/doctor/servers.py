"""Checks of servers: racks, GPUs as each part counts them, node monitors."""

from __future__ import annotations

from collections.abc import Iterator

from yarn_gpu_sched.doctor.finding import CannotLook, Finding, counted, fault, named, ok, unseen, warning
from yarn_gpu_sched.doctor.installation import Installation, NodePages
from yarn_gpu_sched.doctor.pages import GpuPage, Node
from yarn_gpu_sched.doctor.web import read
from yarn_gpu_sched.model.server import UNKNOWN_RACK
from yarn_gpu_sched.protocol.v1 import gpu_pb2

_TOPOLOGY = (
    "name racks: net.topology.node.switch.mapping.impl and its table or script in core-site.xml of the ResourceManager,"
    " and restart it (hadoop-conf/core-site.xml)"
)


def racks(installation: Installation) -> Iterator[Finding]:
    """Whether YARN's topology says which servers share an RDMA domain."""
    of_gpus = [node for node in installation.nodes if node.gpus]
    unknown = [node.host for node in of_gpus if node.rack in ("", UNKNOWN_RACK)]
    if len(of_gpus) > 1 and len(unknown) == len(of_gpus):
        yield fault(
            f"all {len(unknown)} GPU servers are in {UNKNOWN_RACK}, which is no RDMA domain: locality means nothing, and each gang"
            " of several servers waits at levels 0 and 1 for what cannot be",
            _TOPOLOGY,
        )
    elif unknown and len(of_gpus) > 1:
        yield warning(
            f"{len(unknown)} of {len(of_gpus)} GPU servers are in {UNKNOWN_RACK}: {named(unknown)}", _TOPOLOGY
        )
    known = sorted({node.rack for node in of_gpus} - {"", UNKNOWN_RACK})
    if known or len(of_gpus) <= 1:
        yield ok(
            f"{counted(len(of_gpus), 'GPU server')}, {counted(len(known), 'rack')}: {named(known) or 'none is needed'}"
        )


def gpus(installation: Installation) -> Iterator[Finding]:
    """Whether YARN, the service, the monitor and the NodeManager count the same GPUs on each server."""
    health = installation.health
    discovered = {pages.node.host: _discovered(pages) for pages in installation.node_pages}
    known = {node.host for node in installation.nodes}
    total = 0
    for node in installation.nodes:
        total += node.gpus
        yield from _of_server(node, health.get(node.host), discovered.get(node.host))
    for host in sorted(health.keys() - known):
        yield warning(
            f"the service knows {host}, the ResourceManager does not", "see the check stream; it may have just gone"
        )
    if not total:
        yield fault(
            "YARN counts no GPUs on any server",
            "count them in node-resources.xml of each GPU server, or by the NodeManager's plugin, and restart the NodeManagers",
        )
    else:
        yield ok(f"{counted(total, 'GPU')} on {counted(sum(1 for node in installation.nodes if node.gpus), 'server')}")


def _of_server(node: Node, health: gpu_pb2.ServerHealth | None, discovered: int | None) -> Iterator[Finding]:
    if health is None:
        if node.gpus:
            yield fault(
                f"{node.host}: YARN counts {node.gpus} GPUs, the service knows no such server", "see the check stream"
            )
        return
    counts = {"YARN": node.gpus, "the service": health.gpus_counted}
    if health.telemetry in (gpu_pb2.TELEMETRY_STATE_LIVE, gpu_pb2.TELEMETRY_STATE_UNREADABLE):
        counts["its monitor"] = sum(1 for gpu in health.gpus if gpu.HasField("card") and gpu.card.HasField("index"))
    if discovered is not None:
        counts["its NodeManager"] = discovered
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{who} {count}" for who, count in counts.items())
        yield fault(
            f"{node.host}: GPUs by {listed}",
            "restart its NodeManager, which counts when it starts; else correct node-resources.xml, or exclude in the monitor",
        )
    if health.gpus_healthy < health.gpus_counted:
        out = health.gpus_counted - health.gpus_healthy
        yield warning(
            f"{node.host}: {out} of {health.gpus_counted} GPUs are not given out", f"ygs servers; ygs ack {node.host}"
        )


def _discovered(pages: NodePages) -> int | None:
    """Return how many GPUs a NodeManager's plugin found; None: it has none, or does not say."""
    if isinstance(pages.conf, str) or isinstance(pages.gpus, str):
        return None
    if "yarn.io/gpu" not in pages.conf.get("yarn.nodemanager.resource-plugins"):
        return None
    try:
        found = read(pages.gpus, GpuPage).gpu_device_information
    except CannotLook:
        return None
    if found is None:
        return None
    return len(found.gpus or found.gpu or ())


def monitors(installation: Installation) -> Iterator[Finding]:
    """Whether a node monitor is heard from each GPU server."""
    silent, without, unreadable = [], [], []
    heard = 0
    for host in installation.gpu_hosts:
        one = installation.health.get(host)
        if one is None or one.telemetry in (gpu_pb2.TELEMETRY_STATE_UNSPECIFIED, gpu_pb2.TELEMETRY_STATE_NONE):
            without.append(host)
        elif one.telemetry == gpu_pb2.TELEMETRY_STATE_SILENT:
            silent.append(f"{host} ({one.age_s:.0f} s)")
        elif one.telemetry == gpu_pb2.TELEMETRY_STATE_UNREADABLE:
            unreadable.append(f"{host} ({one.failure})")
        else:
            heard += 1
    if silent:
        yield fault(
            f"monitors fell silent, nothing new is placed there: {named(silent)}",
            "start ygs monitor there; its log says why",
        )
    if unreadable:
        yield fault(
            f"GPUs cannot be read on {named(unreadable)}", "repair driver or monitor there; nvidia-smi says more"
        )
    if without:
        yield warning(
            f"no monitor speaks for {named(without)}: their GPUs count as healthy, whatever they are",
            "start ygs monitor --service HOST:PORT there (docs/monitor.md)",
        )
    if heard:
        yield ok(f"{heard} of {len(installation.gpu_hosts)} GPU servers are heard")
    elif not installation.gpu_hosts:
        yield unseen("there is no GPU server")
