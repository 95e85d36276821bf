"""Checks of the service, of its stream with the ResourceManager, and of the versions of all parts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from yarn_gpu_sched import __version__
from yarn_gpu_sched.doctor.finding import CannotLook, Finding, counted, fault, named, ok, unseen, warning
from yarn_gpu_sched.doctor.installation import COUNTERS_OLD_S, Installation
from yarn_gpu_sched.doctor.pages import Counters

_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")
_START = "start it: ygs serve, or name it: --service HOST:PORT"


def service(installation: Installation) -> Iterator[Finding]:
    """Whether it answers."""
    try:
        told = installation.told.cluster
    except CannotLook as why:
        yield fault(f"{why}", why.do or _START)
        return
    has = f"{counted(told.servers, 'server')}, {counted(told.capacity.gpus, 'GPU')}"
    totals = f"{has}; {told.jobs_running} jobs run, {told.jobs_pending} wait"
    yield ok(f"it answers: {totals}")
    if not told.settled and told.connected:
        yield ok("capacity has not settled yet: nothing is refused as impossible before ygs.settle-s is over")


def stream(installation: Installation) -> Iterator[Finding]:
    """Whether shim and service agree that they are connected, with each other."""
    told = installation.told.cluster
    address = installation.conf.get("ygs.service-address", "127.0.0.1:7433")
    if not told.connected:
        yield fault(
            "the service says that no ResourceManager is connected",
            f"the shim calls {address} (ygs.service-address): is that this service? Both logs say why a stream ended",
        )
    counters = _counters(installation, told_connected=told.connected)
    if counters is None:
        yield fault("the ResourceManager runs no shim", "see the check scheduler")
        return
    if not counters.connected:
        yield fault(
            f"the shim says that it is not connected to {address} (ygs.service-address)",
            "start the service there, or set ygs.service-address in yarn-site.xml and restart the ResourceManager",
        )
    if told.connected and counters.connected:
        yield from _same_cluster(installation, told.cluster_id)
        yield ok(f"up: epoch {told.epoch}, {counted(counters.sessions, 'session')} so far, {counters.link_losses} lost")
    if counters.dropped:
        yield warning(
            f"the shim has given up {counters.dropped} messages, changes or explanations so far",
            "see Dropped in docs/shim.md; look again whether it grows",
        )


def _counters(installation: Installation, *, told_connected: bool) -> Counters | None:
    """Return the shim's counters; where they deny what the service says, not before they are new."""
    counters = installation.counters
    for _ in range(COUNTERS_OLD_S + 2):
        if counters is None or counters.connected or not told_connected:
            break
        installation.sleep(1.0)
        counters = installation.counters_now()
    return counters


def _same_cluster(installation: Installation, cluster_id: str) -> Iterator[Finding]:
    conf = installation.conf
    asked = conf.get("ygs.cluster-id") or conf.get("yarn.resourcemanager.cluster-id") or "yarn"
    if asked != cluster_id:
        yield fault(
            f"the service schedules cluster {cluster_id}, this ResourceManager is of {asked}",
            "name the service of this cluster: --service HOST:PORT",
        )


def versions(installation: Installation) -> Iterator[Finding]:
    """Whether all parts are of one version."""
    told = installation.told.cluster
    parts = {"service": told.service_version}
    if told.resource_manager_agent:
        parts["shim"] = _version(told.resource_manager_agent.partition(" on ")[0])
    other = {name: version for name, version in parts.items() if version != __version__}
    for name, version in other.items():
        yield warning(f"{name} is of version {version or 'unknown'}, this command of {__version__}", _renew(name))
    if not other:
        yield ok(
            f"{', '.join(('ygs', *parts))} are of version {__version__}; {told.resource_manager_agent or 'no shim'}"
        )
    agents = {host: one.monitor_agent for host, one in installation.health.items() if one.monitor_agent}
    odd = [f"{host} {_version(agent) or agent}" for host, agent in agents.items() if _version(agent) != __version__]
    if odd:
        yield warning(f"node monitors of another version than {__version__}: {named(odd)}", _renew("monitor"))
    elif agents:
        yield ok(f"{counted(len(agents), 'node monitor')} of version {__version__}")
    else:
        yield unseen("no node monitor has said its version")


def _version(agent: str) -> str:
    found = _VERSION.search(agent)
    return found[0] if found else ""


def _renew(name: str) -> str:
    if name == "shim":
        return f"copy ygs-rm-shim.jar {__version__} to share/hadoop/yarn/lib and restart the ResourceManager"
    return f"install {__version__} for the {name} and restart it, or use this command of its version"
