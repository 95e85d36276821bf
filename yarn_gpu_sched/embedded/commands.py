"""Write the `yarn` and `hdfs` commands of a cluster into its folder."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from yarn_gpu_sched.embedded import java
from yarn_gpu_sched.embedded.jars import HadoopJars
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.spec import ClusterSpec

_BIN = Path(__file__).parent / "bin"


def write_commands(spec: ClusterSpec, layout: Layout, jars: HadoopJars) -> None:
    """Write bin/yarn, bin/hdfs, what both read, and links to the jars of the stock examples."""
    for name in ("yarn", "hdfs"):
        shutil.copy(_BIN / name, layout / "bin" / name)
        (layout / "bin" / name).chmod(0o755)
    (layout / "cluster.env").write_text(_environment_file(spec, layout, jars))
    (layout / "distributedshell.jar").symlink_to(jars.distributed_shell)
    (layout / "mapreduce-examples.jar").symlink_to(jars.mapreduce_examples)


def _environment_file(spec: ClusterSpec, layout: Layout, jars: HadoopJars) -> str:
    flags = " ".join(shlex.quote(flag) for flag in java.flags(spec, layout, "client"))
    return _TEMPLATE.format(
        java=shlex.quote(java.java_command()),
        conf=shlex.quote(str(layout.conf)),
        jars=shlex.quote(f"{jars.folder}/lib/*"),
        flags=flags,
    )


# HADOOP_CLASSPATH, HADOOP_OPTS and HADOOP_CLIENT_OPTS mean what they mean to Hadoop's own scripts.
_TEMPLATE = """\
# Read by bin/yarn and bin/hdfs.
YGS_JAVA={java}
YGS_CONF={conf}
YGS_JARS={jars}
YGS_FLAGS=({flags})

ygs_run() {{
  # shellcheck disable=SC2086
  exec "${{YGS_JAVA}}" "${{YGS_FLAGS[@]}}" "-Dhadoop.root.logger=${{YGS_LOG_LEVEL:-INFO}},console" \\
    ${{HADOOP_OPTS:-}} ${{HADOOP_CLIENT_OPTS:-}} \\
    -cp "${{YGS_CONF}}:${{YGS_JARS}}${{HADOOP_CLASSPATH:+:${{HADOOP_CLASSPATH}}}}" "$@"
}}
"""
