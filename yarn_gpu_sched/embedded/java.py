"""The Java that runs the cluster, and the command lines of its processes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.jars import HadoopJars
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.spec import GANG_SCHEDULER, ClusterSpec

MAIN_CLASSES = {
    "rm": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nm": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
    "nn": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "dn": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}
_HEAP_MB = {"rm": 768, "nm": 192, "nn": 192, "dn": 192, "client": 256}
# Hadoop 3.4 reaches into these packages by reflection, which Java 17 refuses unless told otherwise.
_OPEN_PACKAGES = (
    "java.io",
    "java.lang",
    "java.lang.reflect",
    "java.math",
    "java.net",
    "java.text",
    "java.util",
    "java.util.concurrent",
    "java.util.zip",
    "sun.security.util",
    "sun.security.x509",
)
_SMALL = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # the quick compiler alone: these processes live for minutes
    "-XX:-UsePerfData",  # or each process that is killed leaves a file in /tmp/hsperfdata_USER
)
# A quarter of a daemon's start is spent on proving bytecode right that is pinned by hash anyway. Not so in the
# ResourceManager: it loads the shim, which must stand the proof.
_UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")


def java_command() -> str:
    """Return the path of `java`: `$JAVA_HOME`'s, else the one on the PATH.

    Raises ClusterError if there is none.
    """
    home = os.environ.get("JAVA_HOME", "")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"$JAVA_HOME, which is {home}" if home else "the PATH"
        raise ClusterError(f"no java in {where}; install Java 17 (Debian: apt-get install openjdk-17-jre-headless)")
    return found


def flags(spec: ClusterSpec, layout: Layout, role: str) -> tuple[str, ...]:
    """Return the JVM's flags for a role: "rm", "nm", "nn", "dn" or "client"."""
    return (
        f"-Xmx{_HEAP_MB[role]}m",
        *_SMALL,
        *(() if role == "rm" else _UNVERIFIED),
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPEN_PACKAGES),
        *_names_and_folders(layout),
        f"-Dhadoop.log.dir={layout / 'logs'}",
        f"-Dyarn.log.dir={layout / 'logs'}",
        *spec.jvm_flags.get(role, ()),
    )


def container_flags(layout: Layout) -> tuple[str, ...]:
    """Return the flags of each JVM that starts in a container, through JAVA_TOOL_OPTIONS."""
    return (*_SMALL, *_UNVERIFIED, *_names_and_folders(layout))


def class_path(conf: Path, *parts: Iterable[Path]) -> str:
    """Join jars and a configuration folder to a class path."""
    return ":".join([*(str(path) for part in parts for path in part), str(conf)])


def daemon(spec: ClusterSpec, layout: Layout, jars: HadoopJars, role: str, conf: Path) -> list[str]:
    """Return the command line of a daemon."""
    extra = _own_copies(scheduler_jars(spec), layout) if role == "rm" else ()
    webapps = jars.webapps if role in ("nn", "dn") else ()
    path = class_path(conf, jars.lib, webapps, extra)
    return [java_command(), *flags(spec, layout, role), "-cp", path, MAIN_CLASSES[role]]


def scheduler_jars(spec: ClusterSpec) -> tuple[Path, ...]:
    """Return what the ResourceManager needs on its class path besides Hadoop.

    Raises ClusterError if that is the shim and it has not been built, or if a path does not exist.
    """
    paths = spec.extra_classpath
    if spec.scheduler_class == GANG_SCHEDULER and not paths:
        paths = (shim_jar(),)
    for path in paths:
        if not path.exists():
            raise ClusterError(f"extra_classpath {path} does not exist")
    return tuple(path.absolute() for path in paths)


def _own_copies(paths: tuple[Path, ...], layout: Layout) -> tuple[Path, ...]:
    """Copy jars into the cluster's folder: a jar that is built anew under a running JVM breaks it."""
    copies = []
    for path in paths:
        if path.is_file():
            copy = layout / "lib" / path.name
            fresh = copy.with_suffix(".new")
            shutil.copyfile(path, fresh)
            fresh.replace(copy)
            copies.append(copy)
        else:
            copies.append(path)
    return tuple(copies)


def shim_jar() -> Path:
    """Return the shim's jar: `$YGS_SHIM_JAR`, else the one built in this checkout.

    Raises ClusterError if there is none.
    """
    built = Path(__file__).parents[2] / "rm-shim" / "target" / "ygs-rm-shim.jar"
    named = os.environ.get("YGS_SHIM_JAR", "")
    jar = Path(named).expanduser().absolute() if named else built
    if not jar.is_file():
        raise ClusterError(f"no shim at {jar}; build it with `make setup`, or name it in $YGS_SHIM_JAR")
    return jar


def _names_and_folders(layout: Layout) -> tuple[str, ...]:
    return (
        f"-Djdk.net.hosts.file={layout / 'hosts'}",
        f"-Djava.io.tmpdir={layout / 'tmp'}",
        # Without HDFS it is where applications are staged: not in the user's own home.
        f"-Duser.home={layout / 'home'}",
    )
