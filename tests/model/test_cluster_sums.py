"""Whatever comes, goes, moves and is decided, every sum over the cluster is what counting anew gives."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.engine.world import server
from tests.model.world import MASTER, Seat, decide, empty_state, job, put, put_master
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.laws import STATE_LAWS
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.placement import FreeIndex
from yarn_gpu_sched.placement.audit import index_faults

STEPS = 1_500
SERVERS = ["s1", "s2", "s3"]
JOBS = ["j1", "j2", "j3", "j4"]
QUEUES = ["root.a", "root.b", "root.b.c"]
USERS = ["ann", "bob"]
PARTITIONS = ["", "fast"]
WORKER = Resource(1_024, 2, 1)


class Walk:
    """Does to a state, in random order, whatever an engine may do."""

    def __init__(self, seed: int) -> None:
        self.state = empty_state()
        self.rng = random.Random(seed)
        self.made = 0
        self.steps = [
            *(self.server_changes, self.server_goes, self.job_comes_or_moves, self.job_goes, self.queue_changes),
            *(self.container_comes, self.container_comes, self.container_comes, self.container_goes),
            *(self.decision_begins, self.decision_begins, self.decision_ends, self.decision_ends, self.all_is_void),
        ]

    def number(self) -> int:
        self.made += 1
        return self.made

    def server_changes(self) -> None:
        state = self.rng.choice([ServerState.RUNNING, *ServerState])
        memory_mb = self.rng.choice([2_000, 64_000])
        partition = self.rng.choice(PARTITIONS)
        gpus = self.rng.choice([0, 2, 4])
        self.state.put_server(
            server(self.rng.choice(SERVERS), gpus, memory_mb=memory_mb, state=state, partition=partition)
        )

    def server_goes(self) -> None:
        name = self.rng.choice(SERVERS)
        if name in self.state.servers and self.rng.random() < 0.3:
            there = sorted(self.state.servers[name].containers)
            assert [one.container_id for one in self.state.remove_server(name)] == there
            assert name not in self.state.servers

    def job_comes_or_moves(self) -> None:
        name, queue = self.rng.choice(JOBS), self.rng.choice(QUEUES)
        record = self.state.jobs.get(name)
        if record is None:
            job(self.state, name, queue)
        else:
            self.state.move_job(record, Job(name, queue, user=self.rng.choice(USERS)))

    def job_goes(self) -> None:
        record = self.state.jobs.get(self.rng.choice(JOBS))
        if record is not None and not record.containers and not record.decisions:
            self.state.drop_job(record.job.job_id)

    def queue_changes(self) -> None:
        record = self.state.virtual_cluster(self.rng.choice(QUEUES))
        record.virtual_cluster = VirtualCluster(record.path) if self.rng.random() < 0.5 else None
        self.state.forget_unused(record)

    def container_comes(self) -> None:
        if not self.state.servers or not self.state.jobs:
            return
        where, whose = self.rng.choice(sorted(self.state.servers)), self.rng.choice(sorted(self.state.jobs))
        name, gpu = f"k{self.number()}", self.rng.randint(0, 3)
        if self.rng.random() < 0.5:
            put_master(self.state, name, whose, where)
        elif self.state.servers[where].free_mask >> gpu & 1:
            put(self.state, name, whose, where, WORKER, gpu)

    def container_goes(self) -> None:
        if self.state.containers:
            name = self.rng.choice(sorted(self.state.containers))
            assert self.state.remove_container(name).container_id == name

    def decision_begins(self) -> None:
        master = self.rng.random() < 0.5
        size = MASTER if master else WORKER
        seats: list[Seat] = []
        partition = self.rng.choice(PARTITIONS)
        for name, use in sorted(self.state.servers.items()):
            fits = (
                use.server.partition == partition
                and use.usable
                and use.memory_free_mb >= size.memory_mb
                and use.vcores_free >= size.vcores
            )
            if fits and use.gpus_free >= size.gpus and (not master or not seats):
                lowest = (use.free_mask & -use.free_mask).bit_length() - 1
                seats.append((name, size, () if master else (lowest,)))
        if seats and self.state.jobs:
            decide(self.state, self.number(), self.rng.choice(sorted(self.state.jobs)), *seats, master=master)

    def decision_ends(self) -> None:
        if not self.state.decisions:
            return
        decision = self.state.decisions[self.rng.choice(sorted(self.state.decisions))]
        ids = tuple(f"k{self.number()}" for _ in decision.assignments) if self.rng.random() < 0.5 else ()
        pairs = list(zip(ids, decision.assignments, strict=True)) if ids else []
        expected = [name for name, one in pairs if one.server_id not in decision.lost]
        assert [one.container_id for one in self.state.end(decision, ids)] == expected
        assert self.state.containers.keys() >= set(expected)

    def all_is_void(self) -> None:
        if self.rng.random() < 0.1:
            under_way = sorted(self.state.decisions)
            assert [one.decision_id for one in self.state.void_decisions()] == under_way
            assert not self.state.decisions


def check_masters(state: ClusterState) -> None:
    """Count the masters on servers with GPUs, and those servers."""
    on_gpus = {name for name, use in state.servers.items() if use.gpus}
    masters = [one for one in state.containers.values() if one.application_master and one.server_id in on_gpus]
    decided = [
        one
        for decision in state.decisions.values()
        for one in decision.assignments
        if decision.application_master and one.server_id in on_gpus and one.server_id not in decision.lost
    ]
    total = MASTER.times(len(masters) + len(decided))
    assert state.masters.containers == len(masters) + len(decided)
    assert (state.masters.memory_mb, state.masters.vcores) == (total.memory_mb, total.vcores)
    running = [use.server.capacity for use in state.servers.values() if use.gpus and use.usable]
    assert state.gpu_servers_mb == sum(one.memory_mb for one in running)
    assert state.gpu_servers_vcores == sum(one.vcores for one in running)


def check_virtual_clusters(state: ClusterState) -> None:
    """Expect the virtual clusters that the configuration or a job speaks of, and no others."""
    jobs = [record.job.vc for record in state.jobs.values()]
    for path, record in state.virtual_clusters.items():
        assert record.jobs == jobs.count(path)
        below = [other for other in state.virtual_clusters if other.startswith(f"{path}.")]
        assert record.jobs or record.virtual_cluster is not None or below, f"nobody speaks of {path}"
        held = Counter(dict.fromkeys(record.uses, 0))
        for job_record in state.jobs.values():
            if job_record.job.vc == path or job_record.job.vc.startswith(f"{path}."):
                held.update(gpus_by_partition(state, job_record))
        assert {partition: use.gpus for partition, use in record.uses.items()} == held
        own: Counter[tuple[str, str]] = Counter()
        for job_record in state.jobs.values():
            if job_record.job.vc == path:
                own.update(
                    {(job_record.job.user, name): gpus for name, gpus in gpus_by_partition(state, job_record).items()}
                )
        assert record.user_gpus == {key: gpus for key, gpus in own.items() if gpus}
    assert set(jobs) <= state.virtual_clusters.keys()


def gpus_by_partition(state: ClusterState, record: JobRecord) -> Counter[str]:
    """Count the GPUs that a job holds of each partition."""
    held: Counter[str] = Counter()
    for container in record.containers.values():
        held[state.servers[container.server_id].server.partition] += container.resource.gpus
    for decision_id in record.decisions:
        for part in state.decisions[decision_id].parts:
            held[part.use.server.partition] += part.gpus if decision_id in part.use.in_flight else 0
    return held


def check_jobs(state: ClusterState) -> None:
    """Count what is under way for each job, and what it holds, by its decisions and containers."""
    for name, record in state.jobs.items():
        counts: dict[object, int] = {}
        total = NOTHING
        for decision_id in record.decisions:
            decision = state.decisions[decision_id]
            for key, count in decision.members:
                counts[key] = counts.get(key, 0) + count
            for seat in decision.assignments:
                total = total.plus(seat.resource) if seat.server_id not in decision.lost else total
        for container in record.containers.values():
            total = total.plus(container.resource)
        assert record.in_flight == counts, name
        assert record.used == total, name


@pytest.mark.parametrize("seed", range(3))
def test_every_sum_is_what_counting_anew_gives(seed: int) -> None:
    walk = Walk(seed)
    state = walk.state
    assert isinstance(state.index, FreeIndex)
    for _ in range(STEPS):
        walk.rng.choice(walk.steps)()
        check_masters(state)
        check_virtual_clusters(state)
        check_jobs(state)
        assert STATE_LAWS.broken(state) == []
        assert list(index_faults(state.index, state.servers.values())) == []
    assert walk.made > STEPS // 5
