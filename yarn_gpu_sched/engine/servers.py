"""Servers and virtual clusters come, change and go."""

from yarn_gpu_sched.engine.commands import Unbind
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.events import ServerChanged, ServerRemoved, VirtualClusterChanged, VirtualClusterRemoved
from yarn_gpu_sched.engine.health import follow, released
from yarn_gpu_sched.engine.jobs import count_members
from yarn_gpu_sched.engine.repair import member_lost
from yarn_gpu_sched.engine.server_news import server_differs


def on_server_changed(core: Core, event: ServerChanged) -> None:
    """Add a server or change it."""
    server = event.server
    core.session.missing.pop(server.server_id, None)
    known = core.state.servers.get(server.server_id)
    if known is not None:
        if known.server == server:
            return
        core.seen.remove(known.server)
        server_differs(core, known.server)
    if core.seen.add(server):
        core.capacity_changed()
    server_differs(core, server)
    core.state.put_server(server, core.health.fitness(server.host))
    if (record := core.health.hosts.get(server.host)) is not None:
        follow(core, record)


def on_server_removed(core: Core, event: ServerRemoved) -> None:
    """Remove a server and what was in use there."""
    use = core.state.servers.get(event.server_id)
    if use is None:
        return
    core.seen.remove(use.server)
    server_differs(core, use.server)
    jobs = {core.state.decisions[decision_id].job_id: None for decision_id in sorted(use.in_flight)}
    for container in core.state.remove_server(event.server_id):
        jobs[container.job_id] = None
        member_lost(core, container)
        if use.gpus:
            core.commands.append(Unbind(container_id=container.container_id, server_id=event.server_id))
            released(core, container, use.server.host)
    for job_id in jobs:
        record = core.state.jobs[job_id]
        count_members(record)
        core.settle_job(record)
    core.forget_old_jobs()


def on_virtual_cluster_changed(core: Core, event: VirtualClusterChanged) -> None:
    """Add a virtual cluster or change it."""
    core.state.virtual_cluster(event.virtual_cluster.path).virtual_cluster = event.virtual_cluster
    core.limits_changed(event.virtual_cluster.path)


def on_virtual_cluster_removed(core: Core, event: VirtualClusterRemoved) -> None:
    """Forget what was configured; jobs in it stay where they are."""
    found = core.state.virtual_clusters.get(event.path)
    if found is not None:
        found.virtual_cluster = None
        core.state.forget_unused(found)
        core.limits_changed(event.path)
