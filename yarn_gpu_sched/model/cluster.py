"""The state of one cluster: servers, jobs, containers, virtual clusters, decisions under way, and the sums over them.

Every change of use goes through here, so the sums and the placement index follow it.
"""

from collections.abc import Iterator
from typing import Protocol

from yarn_gpu_sched.model.assignment import Assignment
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.server_use import FIT, Fitness, Part, ServerUse, mask_of
from yarn_gpu_sched.model.tenants import Masters, Tenants, VirtualClusterRecord
from yarn_gpu_sched.model.transaction import Transaction


class ServerIndex(Protocol):
    """Whoever must know at once that a server's free amounts changed."""

    def add(self, use: ServerUse) -> None:
        """Learn of a server."""

    def remove(self, use: ServerUse) -> None:
        """Forget a server."""

    def update(self, use: ServerUse) -> None:
        """Learn that the free amounts of a server changed."""

    def clear(self) -> None:
        """Forget all servers."""


class ClusterState:
    """What is where, and the sums over it. ``masters_changes`` counts the changes of what masters hold, whosever they are."""

    def __init__(self, index: ServerIndex, cpu_share: float) -> None:
        self.index = index
        self.cpu_share = cpu_share
        self.servers: dict[str, ServerUse] = {}
        self.containers: dict[str, Container] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.tenants = Tenants()
        self.virtual_clusters = self.tenants.by_path
        self.decisions: dict[int, Decision] = {}
        self.capacity = NOTHING
        self.used_mb = self.used_vcores = self.used_gpus = 0
        self.gpu_servers_mb = self.gpu_servers_vcores = 0
        self.masters = Masters()
        self.masters_changes = 0

    @property
    def used(self) -> Resource:
        """What live containers and decisions under way hold on all servers."""
        return Resource(self.used_mb, self.used_vcores, self.used_gpus)

    def transaction(self) -> Transaction:
        """Begin a change of servers' use that is undone unless it is committed."""
        return Transaction(self.index)

    # Servers

    def put_server(self, server: Server, fitness: Fitness = FIT) -> None:
        """Add a server or change it; what is in use there stays in use. ``fitness``: what is said of its GPUs."""
        use = self.servers.get(server.server_id)
        if use is None:
            use = self.servers[server.server_id] = ServerUse(server, self.cpu_share, fitness)
        else:
            self._count_server(use, -1)
            self.index.remove(use)
            if server.partition != use.server.partition:
                self._move_charges(use, server.partition)
            use.fitness = fitness
            use.set_server(server, self.cpu_share)
        self._count_server(use, 1)
        self.index.add(use)

    def put_fitness(self, use: ServerUse, fitness: Fitness) -> None:
        """Take what is said of a server's GPUs; what is in use there stays in use."""
        if not use.fitness.same_capacity(fitness):
            self.put_server(use.server, fitness)
            return
        use.fitness = fitness
        use.recount()
        self.index.update(use)

    def _move_charges(self, use: ServerUse, partition: str) -> None:
        """Charge what is held on a server to another partition."""
        held = [(container.job_id, container.resource) for container in use.containers.values()]
        for decision_id, part in use.in_flight.items():
            amount = Resource(part.memory_mb, part.vcores, part.gpus)
            held.append((self.decisions[decision_id].job_id, amount))
        for job_id, amount in held:
            job = self.jobs[job_id].job
            self.tenants.charge(job.vc, job.user, use.server.partition, amount, -1)
            self.tenants.charge(job.vc, job.user, partition, amount, 1)

    def remove_server(self, server_id: str) -> list[Container]:
        """Remove a server and all that is in use there; return the containers that are gone with it."""
        use = self.servers[server_id]
        gone = [use.containers[container_id] for container_id in sorted(use.containers)]
        for container in gone:
            self.remove_container(container.container_id)
        for decision_id in sorted(use.in_flight):
            self._lose(self.decisions[decision_id], use)
        self._count_server(use, -1)
        self.index.remove(use)
        del self.servers[server_id]
        return gone

    def _count_server(self, use: ServerUse, sign: int) -> None:
        capacity = use.server.capacity
        self.capacity = self.capacity.plus(capacity) if sign > 0 else self.capacity.minus(capacity)
        if not use.gpus:
            return
        if use.usable:
            self.gpu_servers_mb += sign * capacity.memory_mb
            self.gpu_servers_vcores += sign * capacity.vcores
        for container in use.containers.values():
            if container.application_master:
                self._count_master(container.job_id, container.resource, sign)
        for decision_id in use.in_flight:
            decision = self.decisions[decision_id]
            if decision.application_master:
                self._count_master(decision.job_id, decision.total, sign)

    def _count_master(self, job_id: str, resource: Resource, sign: int) -> None:
        self.masters_changes += 1
        self.masters.count(resource, sign)
        self.virtual_clusters[self.jobs[job_id].job.vc].masters.count(resource, sign)

    # Jobs and virtual clusters

    def add_job(self, job: Job, now_s: float) -> JobRecord:
        """Add a job that is not known."""
        record = JobRecord(job, now_s)
        self.put_job(record)
        return record

    def put_job(self, record: JobRecord) -> None:
        """Add a job that is written up elsewhere, without containers or decisions."""
        self.jobs[record.job.job_id] = record
        self.virtual_cluster(record.job.vc).jobs += 1

    def drop_job(self, job_id: str) -> None:
        """Forget a job that holds nothing and has nothing under way."""
        record = self.jobs.pop(job_id)
        self._leave(record.job.vc)

    def move_job(self, record: JobRecord, job: Job) -> None:
        """Take what is newly said of a job, and charge it to the virtual cluster and the user that are named now."""
        before, record.job = record.job, job
        if (before.vc, before.user) == (job.vc, job.user):
            return
        self.virtual_cluster(job.vc).jobs += 1
        for partition, amount in self._holds(record):
            self.tenants.charge(before.vc, before.user, partition, amount, -1)
            self.tenants.charge(job.vc, job.user, partition, amount, 1)
        for amount in self._masters_of(record):
            self.masters_changes += 1
            self.virtual_clusters[before.vc].masters.count(amount, -1)
            self.virtual_clusters[job.vc].masters.count(amount, 1)
        self._leave(before.vc)

    def _holds(self, record: JobRecord) -> Iterator[tuple[str, Resource]]:
        """List what a job holds, with the partitions."""
        for container in record.containers.values():
            yield self.servers[container.server_id].server.partition, container.resource
        for decision_id in record.decisions:
            for part in self.decisions[decision_id].parts:
                if decision_id in part.use.in_flight:
                    yield part.use.server.partition, Resource(part.memory_mb, part.vcores, part.gpus)

    def _masters_of(self, record: JobRecord) -> Iterator[Resource]:
        """List what a job's masters hold on servers with GPUs."""
        for container in record.containers.values():
            if container.application_master and self.servers[container.server_id].gpus:
                yield container.resource
        for decision_id in record.decisions:
            decision = self.decisions[decision_id]
            for part in decision.parts if decision.application_master else ():
                if decision_id in part.use.in_flight and part.use.gpus:
                    yield Resource(part.memory_mb, part.vcores, part.gpus)

    def _leave(self, vc: str) -> None:
        virtual_cluster = self.virtual_clusters[vc]
        virtual_cluster.jobs -= 1
        self.forget_unused(virtual_cluster)

    def virtual_cluster(self, path: str) -> VirtualClusterRecord:
        """Get a virtual cluster; it comes to be where nobody has spoken of it."""
        return self.tenants.get(path)

    def forget_unused(self, virtual_cluster: VirtualClusterRecord) -> None:
        """Forget a virtual cluster that neither configuration nor any job speaks of."""
        self.tenants.forget_unused(virtual_cluster)

    def _charge(self, record: JobRecord, partition: str, amount: Resource, sign: int) -> None:
        memory_mb, vcores, gpus = sign * amount.memory_mb, sign * amount.vcores, sign * amount.gpus
        record.used_mb += memory_mb
        record.used_vcores += vcores
        record.used_gpus += gpus
        self.used_mb += memory_mb
        self.used_vcores += vcores
        self.used_gpus += gpus
        self.tenants.charge(record.job.vc, record.job.user, partition, amount, sign)

    # Containers

    def add_container(self, container: Container) -> None:
        """Add a live container of a known job on a known server. It may over-commit the server."""
        use = self.servers[container.server_id]
        self.containers[container.container_id] = container
        use.containers[container.container_id] = container
        self.jobs[container.job_id].containers[container.container_id] = container
        self._charge(self.jobs[container.job_id], use.server.partition, container.resource, 1)
        if container.application_master and use.gpus:
            self._count_master(container.job_id, container.resource, 1)
        use.recount()
        self.index.update(use)

    def remove_container(self, container_id: str) -> Container:
        """Remove a container that its server has lost."""
        container = self.containers.pop(container_id)
        use, record = self.servers[container.server_id], self.jobs[container.job_id]
        del use.containers[container_id], record.containers[container_id]
        self._charge(record, use.server.partition, container.resource, -1)
        if container.application_master and use.gpus:
            self._count_master(container.job_id, container.resource, -1)
        resource = container.resource
        use.give(resource.memory_mb, resource.vcores, mask_of(container.gpu_indices), resource.gpus)
        self.index.update(use)
        return container

    def replace_container(self, container: Container) -> None:
        """Change what is said of a live container whose server and amounts stay."""
        self.containers[container.container_id] = container
        self.servers[container.server_id].containers[container.container_id] = container
        self.jobs[container.job_id].containers[container.container_id] = container

    # Decisions

    def begin(self, decision: Decision) -> None:
        """Account for a decision whose parts have just been taken on their servers."""
        record = self.jobs[decision.job_id]
        decision_id = decision.decision_id
        self.decisions[decision_id] = decision
        record.decisions.add(decision_id)
        for part in decision.parts:
            part.use.in_flight[decision_id] = part
        for partition, amount in _by_partition(decision):
            self._charge(record, partition, amount, 1)
        for key, count in decision.members if decision.attempt == record.job.attempt else ():
            record.in_flight[key] = record.in_flight.get(key, 0) + count
        if decision.application_master and decision.parts and decision.parts[0].use.gpus:
            self._count_master(decision.job_id, decision.total, 1)

    def void_decisions(self) -> list[Decision]:
        """Give back what all decisions under way hold, and return them: their outcomes will not be known."""
        void = [self.decisions[decision_id] for decision_id in sorted(self.decisions)]
        for decision in void:
            self.end(decision, ())
        return void

    def end(self, decision: Decision, container_ids: tuple[str, ...]) -> list[Container]:
        """Close a decision: its containers live from here on, or with no ids what it held is free. Return the containers."""
        record = self.jobs[decision.job_id]
        self._forget(decision, record)
        if not container_ids:
            for part in decision.parts:
                self._give_back(decision, record, part)
            return []
        live = []
        for container_id, assignment in zip(container_ids, decision.assignments, strict=True):
            if assignment.server_id not in decision.lost:
                live.append(self._come_alive(container_id, assignment, decision, record))
        for part in decision.parts:
            part.use.in_flight.pop(decision.decision_id, None)
        return live

    def _forget(self, decision: Decision, record: JobRecord) -> None:
        del self.decisions[decision.decision_id]
        record.decisions.discard(decision.decision_id)
        if decision.attempt != record.job.attempt:
            return
        for key, count in decision.members:
            left = record.in_flight.get(key, 0) - count
            if left > 0:
                record.in_flight[key] = left
            else:
                record.in_flight.pop(key, None)

    def _come_alive(
        self, container_id: str, assignment: Assignment, decision: Decision, record: JobRecord
    ) -> Container:
        container = Container(
            container_id=container_id,
            job_id=decision.job_id,
            attempt=decision.attempt,
            server_id=assignment.server_id,
            resource=assignment.resource,
            gpu_indices=assignment.gpu_indices,
            application_master=decision.application_master,
            key=assignment.key,
        )
        self.containers[container_id] = container
        self.servers[assignment.server_id].containers[container_id] = container
        record.containers[container_id] = container
        return container

    def _lose(self, decision: Decision, use: ServerUse) -> None:
        record = self.jobs[decision.job_id]
        for part in decision.parts:
            if part.use is use:
                self._give_back(decision, record, part)
        decision.parts = [part for part in decision.parts if part.use is not use]
        decision.lost.add(use.server_id)

    def _give_back(self, decision: Decision, record: JobRecord, part: Part) -> None:
        use = part.use
        if use.in_flight.pop(decision.decision_id, None) is None:
            return
        amount = Resource(part.memory_mb, part.vcores, part.gpus)
        self._charge(record, use.server.partition, amount, -1)
        if decision.application_master and use.gpus:
            self._count_master(decision.job_id, amount, -1)
        use.give(part.memory_mb, part.vcores, part.mask, part.gpus)
        self.index.update(use)


def _by_partition(decision: Decision) -> list[tuple[str, Resource]]:
    """Say what a decision holds of which partition: of one, unless a server went to another while it was under way."""
    parts = decision.parts
    if len(parts) == 1:
        return [(parts[0].use.server.partition, decision.held)]
    if len({part.use.server.partition for part in parts}) <= 1:
        return [(parts[0].use.server.partition, decision.held)] if parts else []
    return [(part.use.server.partition, Resource(part.memory_mb, part.vcores, part.gpus)) for part in parts]
