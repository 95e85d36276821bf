"""Who holds GPUs without using them.

A GPU is idle when it was read below a share of its time for long enough, all of that since its holder has had it. Where a reading
is not available, or telemetry is silent, nobody claims that it is idle.
"""

from __future__ import annotations

from typing import NamedTuple

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.protocol.v1 import gpu_pb2
from yarn_gpu_sched.service.monitors.fleet import Fleet

HOSTS_NAMED_MAX = 10


class Use(NamedTuple):
    """How a job uses what it holds: GPUs, those that are idle, those of which nobody can tell; the longest idle, and where."""

    gpus: int
    idle: int
    unknown: int
    idle_s: float
    hosts: tuple[str, ...]


def use_of(engine: Engine, fleet: Fleet, view: JobView, now_s: float) -> Use:
    """Look at the GPUs of a running job, each since its container was bound."""
    gpus = idle = unknown = 0
    longest_s, hosts = 0.0, dict[str, None]()
    for container in view.containers:
        host = engine.host_of(container.server_id)
        telemetry = fleet.hosts.get(host)
        bound_s = fleet.bound_s.get(container.container_id, now_s)
        for slot in container.gpu_indices:
            gpus += 1
            sample = None if telemetry is None or telemetry.silent or telemetry.failure else telemetry.samples.get(slot)
            if telemetry is None or sample is None or not sample.message.HasField("sm_percent"):
                unknown += 1
                continue
            since_s = telemetry.unused_since_s.get(slot)
            idle_s = 0.0 if since_s is None else now_s - max(since_s, bound_s)
            if since_s is not None and idle_s >= fleet.idle.after_s:
                idle += 1
                longest_s = max(longest_s, idle_s)
                hosts[host] = None
    return Use(gpus, idle, unknown, longest_s, tuple(hosts)[:HOSTS_NAMED_MAX])


def idle_jobs(engine: Engine, fleet: Fleet, now_s: float) -> list[gpu_pb2.IdleJob]:
    """List the jobs that hold idle GPUs, the longest idle first."""
    found = []
    for job_id in fleet.jobs_with_idle_gpus(now_s):
        view = engine.job(job_id)
        use = None if view is None else use_of(engine, fleet, view, now_s)
        if view is None or use is None or not use.idle:
            continue
        found.append(
            gpu_pb2.IdleJob(
                job_id=job_id,
                user=view.job.user,
                virtual_cluster=view.job.vc,
                gpus=use.gpus,
                idle_gpus=use.idle,
                idle_s=use.idle_s,
                unknown_gpus=use.unknown,
                hosts=use.hosts,
            )
        )
    return sorted(found, key=lambda one: (-one.idle_s, one.job_id))
