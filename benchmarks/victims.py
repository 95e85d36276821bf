"""Measure the search for victims: 2,000 jobs run, most of them borrow, and a gang within its quota looks whom to stop.

Between two searches a job ends and another starts, so that nothing is known from before. Searches that find nobody count as well.
"""

from __future__ import annotations

import random
import statistics
import time
from itertools import count

from benchmarks.figures import Figure, Measured
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    ContainerReleased,
    JobChanged,
    JobEnded,
    OutcomeReported,
    Pass,
    ResourceManagerRegistered,
    ServerChanged,
    SnapshotEnded,
    VirtualClusterChanged,
)
from yarn_gpu_sched.engine.reclaiming import Found, reclaim
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.ask import Ask, RequestKey
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.service.garbage import Garbage

SERVERS = 576
RACK_SERVERS = 32
GPUS = 8
LENDERS = 40
RUNNING = 2_000
ROUNDS = 200
CAPACITY = Resource(memory_mb=1_048_576, vcores=128, gpus=GPUS)
SHAPES = ((1, 1),) * 8 + ((2, 1), (1, 2), (4, 1), (1, 8))
"""Of those that run: containers, and GPUs of each."""

WANTS = ((1, 1), (2, 1), (1, 4), (4, 1), (8, 1), (1, 8))
LARGE = ((8, 8), (64, 1))
SEARCHED = "root.searches"


class World:
    """A full cluster in which many borrow."""

    def __init__(self, quota_gpus: int, min_run_s: float) -> None:
        settings = EngineSettings(
            policy="philly", preemption=Mode.OFF, preempt_min_run_s=min_run_s, preempt_pause_s=0.0, ended_jobs_max=0
        )
        self.core = Core(settings)
        self.engine = Engine(core=self.core)
        self.now_s = 0.0
        self._rng = random.Random(7)
        self._jobs, self._containers = count(1), count(1)
        self._live: dict[str, tuple[str, ...]] = {}
        self.engine.apply(ResourceManagerRegistered(now_s=0.0, cluster_id="bench", epoch=1))
        for number in range(SERVERS):
            name = f"s{number:04d}"
            self.engine.apply(
                ServerChanged(now_s=0.0, server=Server(name, name, f"/r{number // RACK_SERVERS}", CAPACITY))
            )
        for number in range(LENDERS):
            self._queue(f"root.lender{number:02d}", quota_gpus)
        self._queue(SEARCHED, SERVERS * GPUS)
        self.engine.apply(SnapshotEnded(now_s=0.0))
        while len(self._live) < RUNNING:
            self.start()

    def _queue(self, path: str, quota_gpus: int) -> None:
        self.engine.apply(VirtualClusterChanged(now_s=0.0, virtual_cluster=VirtualCluster(path, quota_gpus=quota_gpus)))

    def submit(self, vc: str, containers: int, gpus: int) -> str:
        """Submit a gang, and ask for it."""
        name = f"j{next(self._jobs):07d}"
        job = Job(name, vc, tags=(f"gang:{containers}x{gpus}",), submit_time_s=self.now_s, attempt=1)
        self.engine.apply(JobChanged(now_s=self.now_s, job=job))
        asks = (Ask(RequestKey(1), containers, Resource(1_024, 1, gpus)),)
        self.engine.apply(AsksChanged(now_s=self.now_s, job_id=name, attempt=1, asks=asks))
        return name

    def start(self) -> None:
        """Let a job of some lender start."""
        self.now_s += 1.0
        self.submit(f"root.lender{self._rng.randrange(LENDERS):02d}", *self._rng.choice(SHAPES))
        self.decide()

    def decide(self) -> None:
        """Place what can be placed."""
        for command in self.engine.apply(Pass(now_s=self.now_s)):
            if isinstance(command, PlaceGang):
                ids = tuple(f"c{next(self._containers):08d}" for _ in command.assignments)
                done = OutcomeReported(
                    now_s=self.now_s, decision_id=command.decision_id, code=OutcomeCode.COMMITTED, container_ids=ids
                )
                self.engine.apply(done)
                self._live[command.job_id] = ids

    def fill(self) -> None:
        """Leave nothing free: one job takes what the others left, and does not borrow."""
        free = SERVERS * GPUS - self.engine.cluster().used.gpus
        if free:
            self.submit(SEARCHED, free, 1)
            self.decide()

    def change(self) -> None:
        """Let one job end and the next take its place."""
        name = self._rng.choice([*self._live])
        self.end(name, JobEnd.SUCCEEDED)
        self.start()

    def end(self, name: str, how: JobEnd) -> None:
        """End a job."""
        self.engine.apply(JobEnded(now_s=self.now_s, job_id=name, end=how))
        for container_id in self._live.pop(name, ()):
            self.engine.apply(ContainerReleased(now_s=self.now_s, container_id=container_id))

    def search(self, containers: int, gpus: int) -> tuple[float, bool]:
        """Search for a gang's victims: milliseconds, and whether there are any."""
        name = self.submit(SEARCHED, containers, gpus)
        core = self.core
        want = core.state.jobs[name].want
        assert isinstance(want, JobWant)
        began_ns = time.thread_time_ns()
        found = reclaim(core, want)
        took_ms = (time.thread_time_ns() - began_ns) / 1e6
        self.end(name, JobEnd.KILLED)
        return took_ms, isinstance(found, Found)


def _searches(world: World, shapes: tuple[tuple[int, int], ...]) -> tuple[list[float], int]:
    """Search, with garbage collected between the searches, as the service does it."""
    world.fill()
    took, found = [], 0
    garbage = Garbage()
    garbage.begin()
    garbage.freeze()
    for turn in range(ROUNDS):
        took_ms, any_found = world.search(*shapes[turn % len(shapes)])
        took.append(took_ms)
        found += any_found
        world.change()
        garbage.applied(8)
        garbage.when_idle()
    garbage.end()
    return sorted(took), found


def _figures(name: str, shapes: tuple[tuple[int, int], ...], limit_ms: float, world: World) -> list[Figure]:
    took, found = _searches(world, shapes)
    p99 = took[len(took) * 99 // 100]
    said = f"{found} of {len(took)} found somebody"
    return [
        Figure(f"{name}, p99", p99, "ms", limit_ms, note=said),
        Figure(f"{name}, median", statistics.median(took), "ms"),
    ]


def measure() -> Measured:
    """Search for small gangs and for large ones, where many may be stopped and where nobody may."""
    figures = []
    for name, shapes, limit_ms in (("gangs of up to 8 GPUs", WANTS, 5.0), ("gangs of 64 GPUs", LARGE, 30.0)):
        figures += _figures(name, shapes, limit_ms, World(quota_gpus=8, min_run_s=0.0))
        figures += _figures(f"{name}, few may be stopped", shapes, limit_ms, World(quota_gpus=8, min_run_s=1_900.0))
        figures += _figures(
            f"{name}, nobody borrows", shapes, limit_ms, World(quota_gpus=SERVERS * GPUS, min_run_s=0.0)
        )
    configuration = {
        "servers": SERVERS,
        "gpus_a_server": GPUS,
        "running": RUNNING,
        "lenders": LENDERS,
        "rounds": ROUNDS,
    }
    return Measured(tuple(figures), configuration)
