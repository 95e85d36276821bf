"""What is to be looked at again when a server comes, changes, goes, or can do more or less than before."""

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.model.server import Server


def server_differs(core: Core, server: Server) -> None:
    """Look again at all that depends on a server of this partition."""
    core.thresholds.stale = True
    core.preemption.servers_changed()
    core.preemption.changed(server.partition)  # what queues use may be less
    core.changed_partitions[server.partition] = None
    if server.partition_shared or server.partition in core.index.lending:
        core.changed_partitions[""] = None
