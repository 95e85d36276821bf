"""What the in-memory resource manager knows: servers, jobs, asks, containers, and who holds what.

No threads and no network: `FakeResourceManager` serializes all access. Every method that changes
something returns the protocol's changes in the order in which they must be sent.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from yarn_gpu_sched.protocol.v1 import (
    ask_pb2,
    container_pb2,
    decision_pb2,
    job_pb2,
    link_pb2,
    resource_pb2,
    server_pb2,
    virtual_cluster_pb2,
)

AskKey = tuple[int, int]
Containers = dict[str, container_pb2.Container]
# Of each job.
WARNINGS_KEPT_MAX = 100


@dataclass
class KnownJob:
    """A job that has not ended, and its current attempt's asks by (priority, request id)."""

    job: job_pb2.Job
    asks: dict[AskKey, ask_pb2.Ask] = field(default_factory=dict)

    def asks_change(self) -> link_pb2.Change:
        """Return all asks of the attempt as they are now."""
        asks = [self.asks[key] for key in sorted(self.asks)]
        return link_pb2.Change(asks=ask_pb2.JobAsks(job_id=self.job.job_id, attempt=self.job.attempt, asks=asks))


@dataclass
class World:
    """Everything by its id. ``ended`` keeps each ended job's last word, ``warnings`` what a job's masters were told."""

    servers: dict[str, server_pb2.Server] = field(default_factory=dict)
    virtual_clusters: dict[str, virtual_cluster_pb2.VirtualCluster] = field(default_factory=dict)
    jobs: dict[str, KnownJob] = field(default_factory=dict)
    containers: dict[str, container_pb2.Container] = field(default_factory=dict)
    ended: dict[str, job_pb2.JobEnded] = field(default_factory=dict)
    warnings: dict[str, deque[decision_pb2.WarnJob]] = field(default_factory=dict)
    containers_made: int = 0
    _on_server: defaultdict[str, Containers] = field(default_factory=lambda: defaultdict(dict), repr=False)
    _of_job: defaultdict[str, Containers] = field(default_factory=lambda: defaultdict(dict), repr=False)

    def snapshot(self) -> list[link_pb2.Change]:
        """Return the whole state as changes, each thing after what it refers to."""
        jobs = list(self.jobs.values())
        return [
            *(link_pb2.Change(virtual_cluster=vc) for vc in self.virtual_clusters.values()),
            *(link_pb2.Change(server=server) for server in self.servers.values()),
            *(link_pb2.Change(job=known.job) for known in jobs),
            *(link_pb2.Change(container=container) for container in self.containers.values()),
            *(known.asks_change() for known in jobs if known.asks),
        ]

    def used(self, server_id: str) -> resource_pb2.Resource:
        """Return what live containers hold on a server."""
        held = [container.resource for container in self._on_server.get(server_id, {}).values()]
        return resource_pb2.Resource(
            memory_mb=sum(r.memory_mb for r in held),
            vcores=sum(r.vcores for r in held),
            gpus=sum(r.gpus for r in held),
        )

    def held_gpus(self, server_id: str) -> set[int]:
        """Return the GPU indices that live containers hold on a server."""
        return {index for container in self._on_server.get(server_id, {}).values() for index in container.gpu_indices}

    def of_job(self, job_id: str) -> list[container_pb2.Container]:
        """Return a job's live containers in order of their commits."""
        return list(self._of_job.get(job_id, {}).values())

    def hold(self, container: container_pb2.Container) -> None:
        """Let a new container hold what it was given."""
        for containers in (self.containers, self._on_server[container.server_id], self._of_job[container.job_id]):
            containers[container.container_id] = container

    def remove_server(self, server_id: str) -> list[link_pb2.Change]:
        """Take a server away, and its containers with it: they are lost."""
        gone = list(self._on_server.get(server_id, {}))
        released = [change for container_id in gone for change in self.release(container_id, lost=True)]
        del self.servers[server_id]
        return [*released, link_pb2.Change(server_removed=server_id)]

    def set_ask(self, job_id: str, ask: ask_pb2.Ask) -> list[link_pb2.Change]:
        """Replace the ask with this key; a count of 0 withdraws it."""
        known, key = self.jobs[job_id], ask_key(ask.key)
        if ask.count:
            known.asks[key] = ask
        else:
            known.asks.pop(key, None)
        return [known.asks_change()]

    def release(self, container_id: str, *, lost: bool = False) -> list[link_pb2.Change]:
        """Let go of what a container holds."""
        container = self.containers.pop(container_id)
        for held, by in ((self._on_server, container.server_id), (self._of_job, container.job_id)):
            del held[by][container_id]
            if not held[by]:
                del held[by]
        released = container_pb2.ContainerReleased(container_id=container_id, lost=lost)
        return [link_pb2.Change(container_released=released)]

    def warn(self, told: decision_pb2.WarnJob) -> None:
        """Note what a job's master was told; nothing stops by that."""
        self.warnings.setdefault(told.job_id, deque(maxlen=WARNINGS_KEPT_MAX)).append(told)

    def new_attempt(self, job_id: str) -> list[link_pb2.Change]:
        """Begin a job's next attempt: what the one before asked is void."""
        known = self.jobs[job_id]
        known.job.attempt += 1
        known.asks.clear()
        return [link_pb2.Change(job=known.job)]

    def start_anew(self, job_id: str) -> list[link_pb2.Change]:
        """End all that a job runs. An attempt ends with its master; an unmanaged one is not among what ends, and goes on."""
        gone = [c.container_id for c in self.of_job(job_id)]
        released = [change for container_id in gone for change in self.release(container_id)]
        return released if self.jobs[job_id].job.unmanaged else [*released, *self.new_attempt(job_id)]

    def end(self, job_id: str, end: job_pb2.JobEnd.ValueType, diagnostics: str = "") -> list[link_pb2.Change]:
        """End a job and release its containers."""
        del self.jobs[job_id]
        word = job_pb2.JobEnded(job_id=job_id, end=end, diagnostics=diagnostics)
        self.ended[job_id] = word
        gone = [c.container_id for c in self.of_job(job_id)]
        released = [change for container_id in gone for change in self.release(container_id)]
        return [link_pb2.Change(job_ended=word), *released]


def ask_key(key: ask_pb2.RequestKey) -> AskKey:
    """Return what tells one ask of a job from another, as something that can be a key."""
    return key.priority, key.allocation_request_id
