"""Checks of the ResourceManager and of what it runs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from yarn_gpu_sched.doctor.finding import CannotLook, Finding, fault, named, ok, warning
from yarn_gpu_sched.doctor.hadoop_files import Settings
from yarn_gpu_sched.doctor.installation import TLS_KEYS, Installation

SUPPORTED = ("3.4", "3.5")
GANG_SCHEDULER = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.GangCapacityScheduler"
CALCULATOR = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
ALLOCATOR = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.GpuAskAllocator"
_CLASS = "yarn.resourcemanager.scheduler.class"
_CAPACITY = "yarn.scheduler.capacity."
_HANDLER = "yarn.resourcemanager.placement-constraints.handler"
_SWITCHES = (
    (
        "yarn.resourcemanager.opportunistic-container-allocation.enabled",
        "containers would be placed behind the service's back",
    ),
    ("yarn.resourcemanager.scheduler.monitor.enable", "stock preemption takes single containers out of gangs"),
)
_QUEUE_SWITCHES = (
    (f"{_CAPACITY}lazy-preemption-enabled", "containers would be placed where others have to go first"),
    (f"{_CAPACITY}multi-node-placement-enabled", "candidates would mix servers with and without GPUs"),
    (f"{_CAPACITY}schedule-asynchronously.enable", "stock placement would commit from threads of its own"),
)
_RETRY_MS_MAX = 5_000


def answers(installation: Installation) -> Iterator[Finding]:
    """Whether it answers and is active."""
    try:
        address, rm, _ = installation.rm
    except CannotLook as why:
        yield fault(f"no ResourceManager answers: {why}", why.do or "start it")
        return
    if rm.ha_state != "ACTIVE":
        yield fault(
            f"{address} is {rm.ha_state}: it schedules nothing", "name the active one too: --rm http://HOST:8088"
        )
        return
    nodes = installation.nodes
    running = [node for node in nodes if node.state == "RUNNING"]
    yield ok(f"{address} is active; {len(running)} of {len(nodes)} servers run")
    if not running:
        yield fault("no server runs", "start NodeManagers; `yarn node -list -all` shows what it knows")
    for node in nodes:
        if node.state == "UNHEALTHY":
            yield warning(f"{node.host} is UNHEALTHY: nothing new goes there", f"yarn node -status {node.id} says why")


def hadoop(installation: Installation) -> Iterator[Finding]:
    """Whether its version is one that is supported, and those of the NodeManagers are of one line with it."""
    _, rm, _ = installation.rm
    version = rm.resource_manager_version
    if _line(version) not in SUPPORTED:
        yield fault(f"Hadoop {version} is not supported", f"run Hadoop {' or '.join(SUPPORTED)}")
        return
    yield ok(f"the ResourceManager runs Hadoop {version}")
    others = [
        f"{node.host} {node.version}"
        for node in installation.nodes
        if node.version and _line(node.version) != _line(version)
    ]
    if others:
        yield warning(
            f"NodeManagers of another line: {named(others)}",
            f"bring them to {_line(version)} when the upgrade is through",
        )


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def scheduler_class(installation: Installation) -> Iterator[Finding]:
    """Whether the shim is what runs as scheduler."""
    conf = installation.conf
    named_class = conf.get(_CLASS)
    do = f"set {_CLASS} to {GANG_SCHEDULER} in yarn-site.xml and restart the ResourceManager"
    if named_class != GANG_SCHEDULER and not _shim_runs(installation):
        yield fault(f"{conf.source} has {_CLASS} = {named_class or 'nothing'}: stock placement", do)
    elif not _shim_runs(installation):
        yield fault(
            f"{_CLASS} names the shim, and /jmx has no YarnGpuSched: it does not run",
            "restart the ResourceManager with ygs-rm-shim.jar in share/hadoop/yarn/lib; its log says why it does not start",
        )
    else:
        yield ok(f"{named_class.rpartition('.')[2]} runs, and counts at /jmx")


def _shim_runs(installation: Installation) -> bool:
    return installation.counters is not None


def refused_settings(installation: Installation) -> Iterator[Finding]:
    """Look for what the shim would refuse to start beside; the ResourceManager may have been started before it was set."""
    conf = installation.conf
    seen = 3 + len(_SWITCHES)  # with the handler, the allocator and the address
    if conf.get(_HANDLER) == "placement-processor":
        yield _refused(_HANDLER, "placement-processor", "it places asks by itself", "scheduler", "yarn-site.xml")
    for key, means in _SWITCHES:
        if conf.on(key, default=False):
            yield _refused(key, "true", means, "false", "yarn-site.xml")
    allocator = conf.get("yarn.scheduler.app-placement-allocator.class", ALLOCATOR)
    if allocator != ALLOCATOR:
        yield warning(
            f"yarn.scheduler.app-placement-allocator.class is {allocator}: asks for GPUs may block servers without",
            "take the key out of yarn-site.xml: the shim sets it",
        )
    yield from _link_settings(conf)
    try:
        queues = installation.queue_files
    except CannotLook as why:
        yield ok(f"none of {seen} settings in force would be refused")
        raise CannotLook(f"capacity-scheduler.xml: {why}", why.do) from why
    for key, means in _QUEUE_SWITCHES:
        if queues.on(key, default=False):
            yield _refused(key, "true", means, "false", "capacity-scheduler.xml")
    yield ok(f"{seen + len(_QUEUE_SWITCHES)} settings that the shim looks at were looked at")


def _link_settings(conf: Settings) -> Iterator[Finding]:
    """Look at what the shim asks of its address and its certificates."""
    address = conf.get("ygs.service-address", "127.0.0.1:7433")
    named_keys = [key for key in TLS_KEYS if conf.get(key)]
    if 0 < len(named_keys) < len(TLS_KEYS):
        yield fault(
            f"of {', '.join(TLS_KEYS)} only {named(named_keys)} is set, and the shim refuses to start",
            "name all three files in yarn-site.xml, or none",
        )
    elif not named_keys and not _is_loopback(address.rpartition(":")[0]):
        yield fault(
            f"ygs.service-address is {address}, and without TLS the shim refuses to start with it",
            f"name the files by {', '.join(TLS_KEYS)} in yarn-site.xml (docs/security.md), or set 127.0.0.1:7433",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(key: str, value: str, why: str, right: str, file: str) -> Finding:
    return fault(
        f"{key} is {value}: {why}, and the shim refuses to start", f"set it to {right} in {file} before the next start"
    )


def counting(installation: Installation) -> Iterator[Finding]:
    """Whether GPUs are a resource type, and the calculator counts them."""
    types = installation.conf.get("yarn.resource-types")
    if "yarn.io/gpu" not in [one.strip() for one in types.split(",")]:
        yield fault(
            f"yarn.resource-types is {types or 'empty'}: YARN knows no GPUs",
            "set it to yarn.io/gpu in resource-types.xml of the ResourceManager, NodeManagers and clients",
        )
        return
    yield ok("yarn.io/gpu is a resource type")
    key = f"{_CAPACITY}resource-calculator"
    found = installation.queue_files.get(key)
    if found != CALCULATOR:
        yield fault(
            f"{key} is {found or 'not set'}: it counts memory alone, and the ResourceManager does not start with GPUs",
            f"set it to {CALCULATOR} in capacity-scheduler.xml",
        )


def restarts(installation: Installation) -> Iterator[Finding]:
    """Whether applications and containers would survive a restart."""
    conf = installation.conf
    wrong = [
        key
        for key, default in (
            ("yarn.resourcemanager.recovery.enabled", False),
            ("yarn.resourcemanager.work-preserving-recovery.enabled", True),
        )
        if not conf.on(key, default=default)
    ]
    for key in wrong:
        yield warning(
            f"{key} is false: a restart of the ResourceManager ends what runs", f"set {key} to true in yarn-site.xml"
        )
    retry = conf.get("yarn.resourcemanager.connect.retry-interval.ms", "30000")
    if retry.isdecimal() and int(retry) > _RETRY_MS_MAX:
        yield warning(
            f"yarn.resourcemanager.connect.retry-interval.ms is {retry}: after a restart GPUs stand idle for so long",
            "set it to 1000 in yarn-site.xml of NodeManagers and ResourceManager",
        )
    if not wrong:
        yield ok(f"the ResourceManager recovers what runs; who lost it asks again every {retry} ms")
    lossy = [
        pages.node.host
        for pages in installation.node_pages
        if not isinstance(pages.conf, str) and not pages.conf.on("yarn.nodemanager.recovery.enabled", default=False)
    ]
    if lossy:
        yield warning(
            f"yarn.nodemanager.recovery.enabled is false on {named(lossy)}: a restart of the NodeManager ends what runs there",
            "set it, and yarn.nodemanager.recovery.supervised, to true in yarn-site.xml there",
        )
