"""Measure policy `philly` with many tenants: a pass over 10,000 jobs that wait in 50 virtual clusters, and a mixed stream of gangs.

Queues hang below five others, with quotas and maxima at both levels; in every fifth users take turns, in every tenth a user has a
limit. The stream submits, decides, commits, ends and releases; its time is all of the engine's, of every event.
"""

from __future__ import annotations

import random
import statistics
import time
from itertools import count

from benchmarks.figures import Figure, Measured
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    ContainerReleased,
    Event,
    JobChanged,
    JobEnded,
    OutcomeReported,
    Pass,
    ResourceManagerRegistered,
    ServerChanged,
    SnapshotEnded,
    VirtualClusterChanged,
)
from yarn_gpu_sched.model.ask import Ask, RequestKey
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.service.garbage import Garbage

SERVERS = 256
RACK_SERVERS = 32
GPUS = 8
VCS = 50
PARENTS = 5
USERS = 8
PENDING = 10_000
RELAX_AFTER_S = 150.0
ROUNDS = 40
STREAM = 12_000
STRETCH = 1_000
WARM = 2_000
IDLE_GPUS = 64
YARDSTICKS = 2_000
CAPACITY = Resource(memory_mb=1_048_576, vcores=128, gpus=GPUS)
SHAPES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 4), (2, 8), (4, 8), (8, 1), (4, 2), (8, 8))
SMALL = ((1, 1),) * 8 + ((1, 2),) * 4 + ((1, 4),) * 4 + ((1, 8),) * 2 + ((2, 4), (2, 8), (8, 1), (4, 2))
"""As in a trace: most gangs have one GPU, a few several servers."""


def vc_name(number: int) -> str:
    """Name a virtual cluster: ten of them below each of five queues."""
    return f"root.g{number % PARENTS}.vc{number:02d}"


class TenantWorld:
    """An engine with its queues, and somebody who submits to all of them in turn. ``engine_ns`` adds up the engine's time."""

    def __init__(self) -> None:
        self.engine = Engine(EngineSettings(policy="philly", relax_after_s=RELAX_AFTER_S, ended_jobs_max=0))
        self.now_s = 0.0
        self.engine_ns = 0
        self.placed: dict[str, tuple[str, ...]] = {}
        self._rng = random.Random(6)
        self._jobs, self._containers = count(1), count(1)
        self.apply(ResourceManagerRegistered(now_s=0.0, cluster_id="bench", epoch=1))
        for number in range(SERVERS):
            self.change(number)
        for number in range(PARENTS):
            total = SERVERS * GPUS // PARENTS
            self._queue(VirtualCluster(f"root.g{number}", quota_gpus=total, maximum_gpus=2 * total, parent=True))
        for number in range(VCS):
            quota = SERVERS * GPUS // VCS
            settings: tuple[tuple[str, str], ...] = (("user-fairness", "true"),) if number % 5 == 0 else ()
            settings += (("max-gpus-per-user", str(quota)),) if number % 10 == 0 else ()
            self._queue(VirtualCluster(vc_name(number), quota_gpus=quota, maximum_gpus=4 * quota, settings=settings))
        self.apply(SnapshotEnded(now_s=0.0))

    def _queue(self, virtual_cluster: VirtualCluster) -> None:
        self.apply(VirtualClusterChanged(now_s=self.now_s, virtual_cluster=virtual_cluster))

    def change(self, number: int, more_mb: int = 0) -> None:
        """Tell of a server, with so much more memory."""
        name = f"s{number:05d}"
        capacity = Resource(CAPACITY.memory_mb + more_mb, CAPACITY.vcores, GPUS)
        server = Server(name, name, f"/r{number // RACK_SERVERS:04d}", capacity)
        self.apply(ServerChanged(now_s=self.now_s, server=server))

    def apply(self, event: Event) -> list[PlaceGang]:
        """Apply an event and count the time; return what was decided."""
        apply = self.engine.apply
        begin = time.thread_time_ns()
        commands = apply(event)
        self.engine_ns += time.thread_time_ns() - begin
        return [one for one in commands if isinstance(one, PlaceGang)]

    def submit(self, containers: int, gpus: int) -> None:
        """Submit a gang to the next virtual cluster, and all of its asks."""
        number = next(self._jobs)
        job_id, user = f"j{number:07d}", f"user{self._rng.randrange(USERS)}"
        vc = vc_name(self._rng.randrange(VCS))
        tags = (f"gang:{containers}x{gpus}",)
        job = Job(job_id, vc, user, tags=tags, submit_time_s=float(number))
        self.apply(JobChanged(now_s=self.now_s, job=job))
        ask = Ask(RequestKey(1), containers, Resource(gpus * 65_536, gpus * 8, gpus))
        self.apply(AsksChanged(now_s=self.now_s, job_id=job_id, attempt=1, asks=(ask,)))

    def decide(self) -> int:
        """Let the engine decide, and commit that; return the nanoseconds of the pass alone."""
        before = self.engine_ns
        decided = self.apply(Pass(now_s=self.now_s))
        took_ns = self.engine_ns - before
        for one in decided:
            ids = tuple(f"k{next(self._containers):08d}" for _ in one.assignments)
            self.placed[one.job_id] = ids
            code = OutcomeCode.COMMITTED
            self.apply(OutcomeReported(now_s=self.now_s, decision_id=one.decision_id, code=code, container_ids=ids))
        return took_ns

    def end(self) -> None:
        """End a running job."""
        names = list(self.placed)
        job_id = names[self._rng.randrange(len(names))]
        self.apply(JobEnded(now_s=self.now_s, job_id=job_id, end=JobEnd.SUCCEEDED))
        for container_id in self.placed.pop(job_id):
            self.apply(ContainerReleased(now_s=self.now_s, container_id=container_id))

    @property
    def gpus_free(self) -> int:
        """Count the free GPUs."""
        view = self.engine.cluster()
        return view.capacity.gpus - view.used.gpus


def measure() -> Measured:
    """Measure both."""
    figures = [*_passes(), *_stream(), _yardstick()]
    configuration = {"servers": SERVERS, "gpus_a_server": GPUS, "vcs": VCS, "parents": PARENTS, "pending": PENDING}
    return Measured(tuple(figures), configuration | {"stream_gangs": STREAM, "relax_after_s": RELAX_AFTER_S})


def crowded(pending: int = PENDING) -> TenantWorld:
    """Fill a cluster, and let so many jobs of ten shapes wait."""
    world = TenantWorld()
    while world.gpus_free:
        for shape in (*SMALL, (1, 1)):
            world.submit(*shape)
        world.decide()
    waiting = world.engine.cluster().jobs_pending
    for number in range(max(0, pending - waiting)):
        world.submit(*SHAPES[number % len(SHAPES)])
    world.decide()
    return world


def _passes() -> list[Figure]:
    world = crowded()
    pending = world.engine.cluster().jobs_pending
    all_of_them: list[int] = []
    after_an_end: list[int] = []
    nothing: list[int] = []
    searches = world.engine.counters.searches
    for number in range(ROUNDS):
        world.change(number, more_mb=number + 1)
        all_of_them.append(world.decide())
    each = (world.engine.counters.searches - searches) / ROUNDS
    for _ in range(ROUNDS):
        world.end()
        after_an_end.append(world.decide())
        nothing.append(world.decide())
    note = f"{pending:,} jobs wait in {VCS} virtual clusters; {each:.0f} searches a pass"
    return [
        Figure("pass in which every job is ready, median", _ms(all_of_them), "ms", 50, note=note),
        Figure("pass in which every job is ready, slowest", max(all_of_them) / 1e6, "ms", 50),
        Figure("pass after the end of a job, median", _ms(after_an_end), "ms", 50, note="what is freed is placed"),
        Figure("pass in which nothing is new, median", _ms(nothing), "ms", 50),
    ]


def _stream() -> list[Figure]:
    """Keep a cluster almost full: each round submits a gang, decides, and ends so many jobs that about as much is free."""
    world = TenantWorld()
    while world.gpus_free > IDLE_GPUS:
        world.submit(*SMALL[len(world.placed) % len(SMALL)])
        world.decide()
    garbage = Garbage()
    garbage.begin()
    rng = random.Random(7)
    rates = []
    for stretch in range((WARM + STREAM) // STRETCH):
        if stretch == WARM // STRETCH:
            garbage.freeze()
        begin_ns, begin_placed = world.engine_ns, world.engine.counters.decisions
        for _ in range(STRETCH):
            world.now_s += 1.0
            world.submit(*rng.choice(SMALL))
            while world.gpus_free < IDLE_GPUS:
                world.end()
            world.decide()
        rates.append((world.engine.counters.decisions - begin_placed) / (world.engine_ns - begin_ns) * 1e9)
    garbage.end()
    rates = rates[WARM // STRETCH :]
    note = f"median of {len(rates)} stretches of {STRETCH:,}, all events of the engine; quickest {max(rates):,.0f}"
    return [Figure("mixed stream", statistics.median(rates), "gangs/s", 4_000, at_least=True, note=note)]


def _yardstick() -> Figure:
    """Time a loop that has nothing to do with decisions: it tells how quick the machine is just now."""
    times = []
    for _ in range(YARDSTICKS):
        begin = time.thread_time_ns()
        total = 0
        for number in range(1_000):
            total += number
        times.append(time.thread_time_ns() - begin)
    note = "no limit; 23 to 27 µs at full speed"
    return Figure("yardstick: 1,000 additions, median", statistics.median(times) / 1e3, "µs", note=note)


def _ms(times_ns: list[int]) -> float:
    return statistics.median(times_ns) / 1e6
