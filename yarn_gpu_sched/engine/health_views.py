"""Views of the health of servers and GPUs: copies for whoever shows them."""

from __future__ import annotations

from bisect import bisect_right
from copy import deepcopy
from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.gpu_states import is_unknown, needs_ack
from yarn_gpu_sched.engine.health import servers_of
from yarn_gpu_sched.engine.views import GpuView, HostView
from yarn_gpu_sched.model.health import GpuRecord, HostRecord

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
        record=deepcopy(record),
        unknown=is_unknown(record),
        gpus_counted=sum(use.gpus for use in servers),
        gpus_healthy=healthy,
        gpus_over_committed=max(0, used - healthy),
        gpus=tuple(_gpu_view(core, known.get(slot) or GpuRecord(slot), holders.get(slot)) for slot in range(slots)),
    )


def _gpu_view(core: Core, gpu: GpuRecord, holder: Container | None) -> GpuView:
    if holder is None:
        return GpuView(deepcopy(gpu), needs_ack(gpu))
    vc = core.state.jobs[holder.job_id].job.vc
    return GpuView(deepcopy(gpu), needs_ack(gpu), holder.job_id, holder.container_id, vc)
