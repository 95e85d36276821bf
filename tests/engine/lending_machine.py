"""A resource manager among queues that lend to each other: what comes and goes, is ordered, dies, dies late or never."""

from __future__ import annotations

import hypothesis.strategies as st
import msgspec
from hypothesis.stateful import precondition, rule

from tests.engine.lending import LEAVES, NAMES, PATHS, SERVERS, Submission, queues, servers, submissions
from tests.engine.machines import EngineMachine
from tests.engine.world import ask, worker
from yarn_gpu_sched.engine.commands import AnyDecision, PlaceGang, RefuseJob, RequeueJob, StopContainers, WarnJob
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    CheckpointReported,
    ContainerReleased,
    ContainerSeen,
    JobChanged,
    JobEnded,
    OutcomeReported,
    Pass,
    PreemptionModeChanged,
    ResourceManagerRegistered,
    SnapshotEnded,
    VirtualClusterChanged,
    VirtualClusterRemoved,
)
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.job import JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster


class LendingMachine(EngineMachine):
    """See the module. ``told`` are the queues as configured last, ``dying`` who was ordered to start anew and has not yet."""

    told: dict[str, VirtualCluster]
    jobs: dict[str, Submission]
    dying: dict[str, int]

    # The link

    def register(self, settle_left_s: float, epoch: int = 1, cluster: str = "c") -> None:
        super().register(settle_left_s, epoch, cluster)

    def registered(self) -> None:
        self.told.clear()
        self.dying.clear()

    def lose(self, sure: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        super().lose(sure)

    def snapshot_end(self) -> None:
        super().snapshot_end()

    def seen(self, job_id: str, server_id: str, resource: Resource, attempt: int, am: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        super().seen(job_id, server_id, resource, attempt, am)

    @rule(sure=st.integers(0, 9), settle_left_s=st.sampled_from([0.0, 0.0, 2.0]), epoch=st.sampled_from([1, 2]))
    def register_again(self, sure: int, settle_left_s: float, epoch: int) -> None:
        """Seldom, and with all that there was."""
        if sure > 1:
            return
        state, told = self.engine._core.state, list(self.told.values())
        fleet = [use.server for use in state.servers.values()]
        known = [
            (one.job, one.asks, list(one.containers.values()))
            for one in state.jobs.values()
            if one.known and not one.end
        ]
        self.open.clear()
        self.world.apply(
            ResourceManagerRegistered(now_s=self.now_s, cluster_id="c", epoch=epoch, settle_left_s=settle_left_s)
        )
        self.registered()
        for one in fleet:
            self.server(one)
        for vc in told:
            self.configure(vc)
        for job, asks, containers in known:
            self.world.apply(JobChanged(now_s=self.now_s, job=job))
            self.world.apply(AsksChanged(now_s=self.now_s, job_id=job.job_id, attempt=job.attempt, asks=asks))
            for container in containers:
                self.world.apply(ContainerSeen(now_s=self.now_s, container=container))
        self.world.apply(SnapshotEnded(now_s=self.now_s))

    # The cluster

    @rule(one=servers)
    def a_server(self, one: Server) -> None:
        self.server(one)

    @rule(server_id=st.sampled_from(SERVERS), state=st.sampled_from(ServerState))
    def a_server_drains_or_returns(self, server_id: str, state: ServerState) -> None:
        use = self.engine._core.state.servers.get(server_id)
        if use is not None:
            self.server(msgspec.structs.replace(use.server, state=state))

    @rule(vc=queues)
    def configure(self, vc: VirtualCluster) -> None:
        self.told[vc.path] = vc
        self.world.apply(VirtualClusterChanged(now_s=self.now_s, virtual_cluster=vc))

    @rule(path=st.sampled_from(PATHS))
    def remove_queue(self, path: str) -> None:
        self.told.pop(path, None)
        self.world.apply(VirtualClusterRemoved(now_s=self.now_s, path=path))

    @rule(
        mode=st.sampled_from(Mode), seconds=st.sampled_from([0.0, 0.0, 3.0]), back=st.sampled_from([True, True, False])
    )
    def switch(self, mode: Mode, seconds: float, back: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        """Say that it is off, watched or armed, mostly for a while."""
        self.world.apply(PreemptionModeChanged(now_s=self.now_s, mode=mode, why="said"))
        if back:
            self.go_on(seconds)
            self.world.apply(PreemptionModeChanged(now_s=self.now_s, mode=Mode.ON, why="again"))

    # Jobs

    @rule(several=st.lists(submissions, min_size=1, max_size=4))
    def submit(self, several: list[Submission]) -> None:
        for one in several:
            record = self.engine._core.state.jobs.get(one.job_id)
            if record is not None and record.known:
                continue
            self.jobs[one.job_id] = one
            self.world.apply(JobChanged(now_s=self.now_s, job=one.job(float(len(self.world.events) // 8))))
            self.ask(one.job_id, one.asks(one.short))

    def unused(self) -> list[str]:
        """List the names that no job has."""
        return [name for name in NAMES if name not in self.engine._core.state.jobs]

    @rule(vc=st.sampled_from(LEAVES), gpus=st.sampled_from([1, 2, 4]), most=st.sampled_from([2, 16, 16]))
    def fill(self, vc: str, gpus: int, most: int) -> None:
        """Let a queue have what is free, as small jobs."""
        free = sum(use.gpus_free // gpus for use in self.engine._core.state.servers.values() if use.usable)
        several = [Submission(name, vc, (1, gpus)) for name in self.unused()[: min(free, most)]]
        self.submit(several)
        self.pass_and_commit()

    def ask(self, job_id: str, asks: tuple[Ask, ...]) -> None:
        attempt = self.engine._core.state.jobs[job_id].job.attempt
        self.world.apply(AsksChanged(now_s=self.now_s, job_id=job_id, attempt=attempt, asks=asks))

    @rule(job_id=st.sampled_from(NAMES), more=st.sampled_from([0, 0, 1, 2]))
    def ask_again(self, job_id: str, more: int) -> None:
        """Ask for all of it, or for more containers of an application without a gang."""
        record, one = self.engine._core.state.jobs.get(job_id), self.jobs.get(job_id)
        if record is None or one is None or record.end is not None or not record.known:
            return
        if record.has_workers:
            self.ask(job_id, (ask(more, worker(one.shape[1]), 1, partition=one.partition),) if one.plain else ())
        else:
            self.ask(job_id, one.asks(0))

    @rule(job_id=st.sampled_from(NAMES), vc=st.sampled_from(LEAVES))
    def move(self, job_id: str, vc: str) -> None:
        record = self.engine._core.state.jobs.get(job_id)
        if record is not None and record.known:
            self.world.apply(JobChanged(now_s=self.now_s, job=msgspec.structs.replace(record.job, vc=vc)))

    @rule(job_id=st.sampled_from(NAMES))
    def checkpoint(self, job_id: str) -> None:
        self.world.apply(CheckpointReported(now_s=self.now_s, job_id=job_id))

    @rule(job_id=st.sampled_from(NAMES), how=st.sampled_from(JobEnd), leaves=st.sampled_from([False, True, True, True]))
    def end_whole(self, job_id: str, how: JobEnd, leaves: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        self.world.apply(JobEnded(now_s=self.now_s, job_id=job_id, end=how))
        self.dying.pop(job_id, None)
        if leaves:
            self.leave(job_id, 99)

    def leave(self, job_id: str, most: int) -> None:
        """Let so many containers of a job go."""
        record = self.engine._core.state.jobs.get(job_id)
        for container_id in sorted(record.containers)[:most] if record is not None else ():
            self.world.apply(ContainerReleased(now_s=self.now_s, container_id=container_id, lost=True))

    @rule(job_id=st.sampled_from(NAMES), asks=st.booleans())
    def lose_the_master(self, job_id: str, asks: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        """Let an attempt end as its master is killed: its containers go too, unless they are kept."""
        record = self.engine._core.state.jobs.get(job_id)
        if record is not None and record.known and record.end is None and record.containers:
            self.start_anew(job_id, asks=asks)

    def start_anew(self, job_id: str, *, asks: bool) -> None:
        record = self.engine._core.state.jobs[job_id]
        if record.end is not None or not record.known:
            return
        kept = record.job.keeps_containers and not record.requeued
        if not kept:
            self.leave(job_id, 99)
        again = msgspec.structs.replace(record.job, attempt=record.job.attempt + 1)
        self.world.apply(JobChanged(now_s=self.now_s, job=again))
        if asks and not kept and job_id in self.jobs:
            self.ask(job_id, self.jobs[job_id].asks(0))

    # What was ordered

    @precondition(lambda self: self.open)
    @rule(
        pick=st.integers(0, 50),
        code=st.sampled_from([OutcomeCode.COMMITTED, OutcomeCode.INVALID, OutcomeCode.NO_FIT]),
        short=st.just(0),
    )
    def outcome(self, pick: int, code: OutcomeCode, short: int) -> None:
        del short
        decision = self.open.pop(sorted(self.open)[pick % len(self.open)])
        self.tell(decision, code)

    def tell(self, decision: AnyDecision, code: OutcomeCode) -> None:
        ids: tuple[str, ...] = ()
        if code is OutcomeCode.COMMITTED and isinstance(decision, PlaceGang):
            self.made += len(decision.assignments)
            ids = tuple(f"k{self.made - number:05}" for number in range(len(decision.assignments)))
        event = OutcomeReported(now_s=self.now_s, decision_id=decision.decision_id, code=code, container_ids=ids)
        self.world.apply(event)
        if code is not OutcomeCode.COMMITTED:
            return
        if isinstance(decision, RequeueJob):
            self.dying[decision.job_id] = decision.attempt
        elif isinstance(decision, StopContainers):
            for container_id in decision.container_ids:
                self.world.apply(ContainerReleased(now_s=self.now_s, container_id=container_id, lost=True))
        elif isinstance(decision, RefuseJob):
            self.world.apply(JobEnded(now_s=self.now_s, job_id=decision.job_id, end=JobEnd.FAILED))

    def commit_all(self) -> None:
        for decision_id in sorted(self.open):
            self.tell(self.open.pop(decision_id), OutcomeCode.COMMITTED)

    @precondition(lambda self: self.dying)
    @rule(pick=st.integers(0, 50), most=st.sampled_from([1, 99, 99, 99]), asks=st.booleans())
    def die(self, pick: int, most: int, asks: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        """Let who was ordered to start anew do so, or lose a container at first."""
        job_id = sorted(self.dying)[pick % len(self.dying)]
        self.leave(job_id, most)
        record = self.engine._core.state.jobs.get(job_id)
        if record is None or record.job.attempt != self.dying[job_id]:
            del self.dying[job_id]
        elif not record.containers:
            del self.dying[job_id]
            self.start_anew(job_id, asks=asks)

    # Passes

    @rule(obey=st.booleans())
    def pass_and_commit(self, obey: bool = True) -> None:  # noqa: FBT001, FBT002 # hypothesis passes by name
        """Let all be done that can be done at this moment."""
        for _ in range(40):
            self.decide()
            if not self.open and not (obey and self.dying):
                return
            self.commit_all()
            while obey and self.dying:
                self.die(0, 99, asks=True)
        raise AssertionError("still deciding")

    @rule(seconds=st.sampled_from([0.5, 2.0, 7.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.world.now_s += seconds

    @rule(seconds=st.sampled_from([1.0, 4.0, 4.0, 20.0, 50.0]))
    def go_on(self, seconds: float) -> None:
        """Let time go on, pass by pass, as the engine wants to be woken."""
        end_s = self.now_s + seconds
        for _ in range(100):
            self.pass_and_commit()
            wake_s = self.engine.next_wake_s()
            if wake_s is None or wake_s > end_s:
                break
            self.world.now_s = max(self.now_s, wake_s)
        else:
            raise AssertionError("wakes for nothing")
        self.world.now_s = end_s
        self.pass_and_commit()

    def decide(self) -> None:
        self.world.apply(Pass(now_s=self.now_s))
        for command in self.world.commands:
            if isinstance(command, PlaceGang | RefuseJob | RequeueJob | WarnJob | StopContainers):
                self.open[command.decision_id] = command
        self.world.commands.clear()
        self.nobody_waits_in_vain()
