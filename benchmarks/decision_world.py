"""A cluster filled to 85 to 90 %, and jobs that ask it for gangs: what the decision benchmark decides about."""

from __future__ import annotations

import random
import time

from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    ContainerReleased,
    ContainerSeen,
    Event,
    JobChanged,
    JobEnded,
    OutcomeReported,
    Pass,
    ResourceManagerRegistered,
    ServerChanged,
    SnapshotEnded,
)
from yarn_gpu_sched.model.ask import Ask, RequestKey
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server

GPUS = 8
RACK_SERVERS = 32
CAPACITY = Resource(memory_mb=1_048_576, vcores=128, gpus=GPUS)
EACH = (65_536, 8)
"""Memory in MB and vcores that are asked with each GPU."""


def filled(servers: int, free_a_server: list[list[int]], seed: int = 1) -> DecisionWorld:
    """Make a cluster whose racks take turns in having so many GPUs free on their servers."""
    return DecisionWorld(servers, free_a_server, seed)


def snapshot_s(servers: int, containers: int) -> float:
    """Tell an engine of a cluster, its servers in no order; return the seconds of its work."""
    rng = random.Random(2)
    events: list[Event] = [ResourceManagerRegistered(now_s=0.0, cluster_id="bench", epoch=1)]
    names = [f"s{number:05d}" for number in range(servers)]
    for name in rng.sample(names, servers):
        rack = f"/r{int(name[1:]) // RACK_SERVERS:04d}"
        events.append(ServerChanged(now_s=0.0, server=Server(name, name, rack, CAPACITY)))
    for number in range(containers // 10):
        job = Job(f"j{number}", f"root.vc{number % 16}", tags=("gang:10x2",), submit_time_s=float(number))
        events.append(JobChanged(now_s=0.0, job=job))
    for number in range(containers):
        resource = Resource(2 * EACH[0], 2 * EACH[1], 2)
        first = 2 * (number // servers)
        container = Container(
            f"k{number}", f"j{number // 10}", 1, names[number % servers], resource, (first, first + 1)
        )
        events.append(ContainerSeen(now_s=0.0, container=container))
    asks = (Ask(RequestKey(1), 1, Resource(EACH[0], EACH[1], 1)),)
    events.extend(
        AsksChanged(now_s=0.0, job_id=f"j{number}", attempt=1, asks=asks) for number in range(containers // 10)
    )
    engine = Engine()
    begin = time.thread_time()
    for event in [*events, SnapshotEnded(now_s=0.0), Pass(now_s=0.0)]:
        engine.apply(event)
    return time.thread_time() - begin


class DecisionWorld:
    """An engine, and somebody who submits one gang at a time."""

    def __init__(self, servers: int, free_a_server: list[list[int]], seed: int) -> None:
        self.engine = Engine(EngineSettings(ended_jobs_max=0))
        self.rng = random.Random(seed)
        self.jobs = 0
        self.containers = 0
        self.visits = 0
        self._events = 0
        self.running: list[tuple[str, tuple[str, ...]]] = []
        apply = self.engine.apply
        apply(ResourceManagerRegistered(now_s=0.0, cluster_id="bench", epoch=1))
        for number in range(servers):
            name = f"s{number:05d}"
            apply(ServerChanged(now_s=0.0, server=Server(name, name, f"/r{number // RACK_SERVERS:04d}", CAPACITY)))
        for rack in range(servers // RACK_SERVERS):
            free = list(free_a_server[rack % len(free_a_server)])
            self.rng.shuffle(free)
            for place, gpus in enumerate(free):
                self._hold(f"s{rack * RACK_SERVERS + place:05d}", GPUS - gpus)
        apply(SnapshotEnded(now_s=0.0))
        apply(Pass(now_s=0.0))

    def _hold(self, server_id: str, gpus: int) -> None:
        """Let jobs of 1, 2 or 4 GPUs hold so many of a server, at indices in no order."""
        indices = self.rng.sample(range(GPUS), gpus)
        while indices:
            size = min(len(indices), self.rng.choice((1, 2, 4)))
            taken, indices = tuple(sorted(indices[:size])), indices[size:]
            job_id = self._job()
            container_id = self._container()
            resource = Resource(size * EACH[0], size * EACH[1], size)
            container = Container(container_id, job_id, 1, server_id, resource, taken)
            self.engine.apply(ContainerSeen(now_s=0.0, container=container))
            self.running.append((job_id, (container_id,)))

    def _job(self, *tags: str) -> str:
        self.jobs += 1
        job_id = f"j{self.jobs:07d}"
        job = Job(job_id, f"root.vc{self.jobs % 16}", tags=tags, submit_time_s=float(self.jobs))
        self.engine.apply(JobChanged(now_s=0.0, job=job))
        return job_id

    def _container(self) -> str:
        self.containers += 1
        return f"k{self.containers:07d}"

    def submit(self, containers: int, gpus: int, memory_mb: int = EACH[0]) -> str:
        """Submit a gang and all of its asks."""
        job_id = self._job(f"gang:{containers}x{gpus}")
        ask = Ask(RequestKey(1), containers, Resource(gpus * memory_mb, gpus * EACH[1], gpus))
        self.engine.apply(AsksChanged(now_s=0.0, job_id=job_id, attempt=1, asks=(ask,)))
        return job_id

    def decide(self) -> tuple[PlaceGang | None, int]:
        """Let the engine decide; return what it decided and the nanoseconds of its work.

        They are of this thread's processor time: what other processes take of the machine is not in them.
        """
        event = Pass(now_s=0.0)
        visited = self.engine.counters.index_entries_visited
        apply = self.engine.apply
        begin = time.thread_time_ns()
        commands = apply(event)
        took = time.thread_time_ns() - begin
        self.visits += self.engine.counters.index_entries_visited - visited
        return next((one for one in commands if isinstance(one, PlaceGang)), None), took

    def commit(self, placed: PlaceGang) -> int:
        """Report the commit; return the nanoseconds that took."""
        ids = tuple(self._container() for _ in placed.assignments)
        event = OutcomeReported(
            now_s=0.0, decision_id=placed.decision_id, code=OutcomeCode.COMMITTED, container_ids=ids
        )
        apply = self.engine.apply
        begin = time.thread_time_ns()
        apply(event)
        took = time.thread_time_ns() - begin
        self.running.append((placed.job_id, ids))
        return took

    def end(self, number: int) -> None:
        """End a running job and release its containers."""
        self.running[number], self.running[-1] = self.running[-1], self.running[number]
        job_id, container_ids = self.running.pop()
        self.engine.apply(JobEnded(now_s=0.0, job_id=job_id, end=JobEnd.SUCCEEDED))
        for container_id in container_ids:
            self.engine.apply(ContainerReleased(now_s=0.0, container_id=container_id))

    def swap(self) -> None:
        """End a job and start another of the same size: the cluster changes a little and stays as full."""
        number = self.rng.randrange(len(self.running))
        view = self.engine.job(self.running[number][0])
        assert view is not None
        gpus = view.used.gpus
        self.end(number)
        self.submit(1, gpus)
        visits = self.visits
        placed, _ = self.decide()
        self.visits = visits
        assert placed is not None, "what was just freed holds it"
        self.commit(placed)

    def withdraw(self, job_id: str) -> None:
        """End a job that waits."""
        self.engine.apply(JobEnded(now_s=0.0, job_id=job_id, end=JobEnd.KILLED))

    def events_applied(self) -> int:
        """Count the events since this was asked last."""
        before, self._events = self._events, self.engine.counters.events
        return self._events - before

    @property
    def fill(self) -> float:
        """Share of the GPUs that are in use."""
        view = self.engine.cluster()
        return view.used.gpus / view.capacity.gpus
