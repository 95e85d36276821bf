"""The embedded cluster: real Hadoop daemons as plain processes on loopback, for demo, tests and trial.

```python
from yarn_gpu_sched.embedded import ClusterSpec, EmbeddedCluster

spec = ClusterSpec(servers=((4, 4),), racks=2, service_address="127.0.0.1:7433", binding_dir=folder)
with EmbeddedCluster("/some/new/folder", spec) as cluster:
    shell = cluster.distributed_shell_jar
    done = cluster.yarn("jar", shell, DISTRIBUTED_SHELL, "-jar", shell, "-shell_command", "hostname")
```

Several servers on one machine: each NodeManager has an address of its own out of 127.0.1.0/24, and each JVM reads
names from the cluster's own hosts file, so that nothing of the system is changed and no root is needed. GPUs are
simulated: YARN counts them, nothing more. Linux only.

Never needed in production: only the command line, tests and benchmarks import this room.
"""

from yarn_gpu_sched.embedded.cluster import EmbeddedCluster, default_folder
from yarn_gpu_sched.embedded.configuration import HADOOP_CONF
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.jars import DEFAULT_HADOOP, HadoopJars, fetch_jars, known_versions
from yarn_gpu_sched.embedded.java import shim_jar
from yarn_gpu_sched.embedded.ports import free_port
from yarn_gpu_sched.embedded.spec import (
    GANG_SCHEDULER,
    STOCK_SCHEDULER,
    ClusterSpec,
    Server,
    parse_servers,
)
from yarn_gpu_sched.embedded.status import ClusterStatus, DaemonStatus, ServerStatus

DISTRIBUTED_SHELL = "org.apache.hadoop.yarn.applications.distributedshell.Client"
"""The class to name after the jar: the distributed shell's jar has no main class of its own."""

BIND_SCRIPT = HADOOP_CONF / "bind_gpus.sh"
"""What `yarn.nodemanager.admin-env` names as BASH_ENV."""

LAUNCH_SCRIPT = HADOOP_CONF / "ygs-launch"
"""The same for commands that no bash starts."""

__all__ = [
    "BIND_SCRIPT",
    "DEFAULT_HADOOP",
    "DISTRIBUTED_SHELL",
    "GANG_SCHEDULER",
    "HADOOP_CONF",
    "LAUNCH_SCRIPT",
    "STOCK_SCHEDULER",
    "ClusterError",
    "ClusterSpec",
    "ClusterStatus",
    "DaemonStatus",
    "EmbeddedCluster",
    "HadoopJars",
    "Server",
    "ServerStatus",
    "default_folder",
    "fetch_jars",
    "free_port",
    "known_versions",
    "parse_servers",
    "shim_jar",
]
