"""Check of secure mode: what of it is supported with yarn-gpu-sched, and what is not."""

from __future__ import annotations

from collections.abc import Iterator

from yarn_gpu_sched.doctor.finding import Finding, counted, fault, named, ok, unseen, warning
from yarn_gpu_sched.doctor.installation import Installation, NodePages

LINUX_EXECUTOR = "LinuxContainerExecutor"
KERBEROS = (
    "Kerberos is on: not tried. The shim runs inside the ResourceManager and needs no ticket; service and monitors"
    " authenticate by certificates, not by Kerberos; pages that ask for SPNEGO cannot be read by this command; the archive"
    " over WebHDFS logs in by name only, which a secure HDFS refuses"
)
_PLUGIN = "yarn.nodemanager.resource-plugins"


def secure_mode(installation: Installation) -> Iterator[Finding]:
    """Whether Kerberos or LinuxContainerExecutor are on."""
    authentication = installation.conf.get("hadoop.security.authentication", "simple")
    if authentication != "simple":
        yield warning(KERBEROS, "try it on a cluster of a few servers first; leave the archive out")
    else:
        yield ok("hadoop.security.authentication is simple")
    kinds: dict[str, list[NodePages]] = {}
    for pages in installation.node_pages:
        if not isinstance(pages.conf, str):
            kinds.setdefault(_executor(pages), []).append(pages)
    if not kinds:
        yield unseen("no NodeManager tells which container executor it has")
    for kind, found in kinds.items():
        if kind.endswith(LINUX_EXECUTOR):
            yield from _linux(found)
        else:
            yield ok(f"{kind.rpartition('.')[2]} on {counted(len(found), 'server')}: GPUs are bound, not isolated")


def _executor(pages: NodePages) -> str:
    return "" if isinstance(pages.conf, str) else pages.conf.get("yarn.nodemanager.container-executor.class")


def _linux(found: list[NodePages]) -> Iterator[Finding]:
    assigning = [one for one in found if not isinstance(one.conf, str) and "yarn.io/gpu" in one.conf.get(_PLUGIN)]
    untold = [one.node.host for one in assigning if one.node.version.startswith("3.5")]
    told = [one.node.host for one in assigning if not one.node.version.startswith("3.5")]
    binding = [one.node.host for one in found if one not in assigning]
    if untold:
        yield fault(
            f"{LINUX_EXECUTOR} with {_PLUGIN}=yarn.io/gpu on Hadoop 3.5 is not supported: the NodeManager picks devices and"
            f" tells only how many, so a container may be told other GPUs than it can open: {named(untold)}",
            f"take yarn.io/gpu out of {_PLUGIN} and count GPUs in node-resources.xml: they are bound, not isolated",
        )
    if told:
        yield warning(
            f"{LINUX_EXECUTOR} with {_PLUGIN}=yarn.io/gpu on Hadoop 3.4: the NodeManager picks devices, its monitor reads which;"
            f" not tried with real control groups: {named(told)}",
            'set node_manager = "http://HOST:8042" for the monitor there (docs/monitor.md)',
        )
    if binding:
        yield warning(
            f"{LINUX_EXECUTOR} without the GPU plugin: containers run as their users, GPUs are bound, not isolated; not tried:"
            f" {named(binding)}",
            "let the users of containers read bind_gpus.sh and YGS_BINDING_DIR",
        )
