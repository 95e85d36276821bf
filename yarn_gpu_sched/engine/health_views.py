"""Views of the health of servers and GPUs: copies for whoever shows them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from yarn_gpu_sched.engine.gpu_states import is_unknown, needs_ack
from yarn_gpu_sched.engine.health import servers_of
from yarn_gpu_sched.engine.views import GangPlaces, GpuView, HealthCounts, HostView, Place
from yarn_gpu_sched.model.health import GpuRecord, HostRecord, Telemetry
from yarn_gpu_sched.model.server import UNKNOWN_RACK

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.model.container import Container


def host_views(core: Core, after: str, limit: int, only: str) -> tuple[list[HostView], int]:
    """Show a page of servers in order of their hosts, or only one, and how many there are in all.

    Of servers without GPUs only those that something is known of.
    """
    hosts = {use.server.host for use in core.state.servers.values() if use.gpus}
    names = sorted(hosts | {host for host, record in core.health.hosts.items() if record.says_something})
    if only:
        names = [name for name in names if name == only]
    start = bisect_right(names, after) if after else 0
    return [_host_view(core, host) for host in names[start : start + max(0, limit)]], len(names)


def _host_view(core: Core, host: str) -> HostView:
    record = core.health.hosts.get(host) or HostRecord(host)
    servers = servers_of(core, host)
    holders = {slot: one for use in servers for one in use.containers.values() for slot in one.gpu_indices}
    slots = max([len(record.gpus), *(use.gpus for use in servers), *(slot + 1 for slot in holders)])
    known = {gpu.slot: gpu for gpu in record.gpus}
    healthy, used = sum(use.gpus_healthy for use in servers), sum(use.gpus_used for use in servers)
    return HostView(
        host=host,
        server_id=servers[0].server_id if servers else "",
        record=replace(record, gpus=[]),
        unknown=is_unknown(record),
        gpus_counted=sum(use.gpus for use in servers),
        gpus_healthy=healthy,
        gpus_over_committed=max(0, used - healthy),
        gpus=tuple(_gpu_view(core, known.get(slot) or GpuRecord(slot), holders.get(slot)) for slot in range(slots)),
    )


def _gpu_view(core: Core, gpu: GpuRecord, holder: Container | None) -> GpuView:
    if holder is None:
        return GpuView(replace(gpu), needs_ack(gpu))
    vc = core.state.jobs[holder.job_id].job.vc
    return GpuView(replace(gpu), needs_ack(gpu), holder.job_id, holder.container_id, vc)


def gang_places(core: Core, job_id: str, others: Collection[str]) -> GangPlaces:
    """Say where the members of a job's gang are, by domain, server and GPU, and those of its other containers that are named."""
    record = core.state.jobs.get(job_id)
    if record is None:
        return GangPlaces((), whole=False)
    gang, containers = record.gang, record.containers
    members = [] if gang is None else [one for one in containers.values() if record.is_member(one) and not one.ending]
    servers = core.state.servers
    members.sort(
        key=lambda one: (servers[one.server_id].server.domain, one.server_id, one.gpu_indices, one.container_id)
    )
    beside = containers.keys() & set(others) - {one.container_id for one in members}
    return GangPlaces(
        tuple(_place(core, one) for one in members),
        whole=gang is not None and len(members) == gang.containers,
        others=tuple(_place(core, containers[container_id]) for container_id in sorted(beside)),
        vc=record.job.vc,
    )


def _place(core: Core, container: Container) -> Place:
    server = core.state.servers[container.server_id].server
    domain = "" if server.rack == UNKNOWN_RACK else server.domain
    return Place(container.container_id, server.host, domain, container.gpu_indices)


def containers_on(core: Core, host: str) -> list[Container]:
    """List the live containers on a host."""
    return [one for use in servers_of(core, host) for one in use.containers.values()]


def not_seen_free(core: Core, host: str) -> list[str]:
    """List the containers that are gone from a host and whose GPUs no reading has shown free since, each once."""
    record = core.health.hosts.get(host)
    return [] if record is None else list(dict.fromkeys(gpu.released for gpu in record.gpus if gpu.released))


def host_named(core: Core, name: str) -> str:
    """Find the host that is meant by a name in any case, short or full; empty if none is, or more than one."""
    name = name.lower()
    hosts = {use.server.host: use.server.host.lower() for use in core.state.servers.values()}
    if hosts.get(name) == name:
        return name
    short = name.partition(".")[0]
    found = [host for host, lower in hosts.items() if lower == name]
    found = found or [
        host for host, lower in hosts.items() if lower.partition(".")[0] == short and short in (lower, name)
    ]
    return found[0] if len(found) == 1 else ""


def health_counts(core: Core) -> HealthCounts:
    """Count the GPUs that monitors have told of by health, and servers with GPUs by telemetry."""
    records = core.health.hosts.values()
    gpus = [gpu for record in records for gpu in record.gpus]
    known = core.health.hosts
    hosts = {use.server.host for use in core.state.servers.values() if use.gpus}
    telemetry = Counter(known[host].telemetry if host in known else Telemetry.NONE for host in hosts)
    return HealthCounts(
        health=dict(Counter(gpu.health for gpu in gpus)),
        telemetry=dict(telemetry),
        not_free=sum(gpu.out for gpu in gpus),
        drained=sum(record.drained is not None for record in records),
    )
