"""What state machines over an engine share: a resource manager that comes, goes and says whatever it likes."""

from __future__ import annotations

import os

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.engine.world import World
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.commands import AnyDecision, PlaceGang, RefuseJob, RequeueJob
from yarn_gpu_sched.engine.events import (
    ContainerReleased,
    ContainerSeen,
    JobEnded,
    OutcomeReported,
    ResourceManagerLost,
    ResourceManagerRegistered,
    ServerChanged,
    ServerRemoved,
    SnapshotEnded,
)
from yarn_gpu_sched.engine.finding import find_quietly
from yarn_gpu_sched.engine.masters import masters_admit
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.policy import Policy

SERVERS = [f"s{number}" for number in range(6)]
JOBS = [f"j{number}" for number in range(8)]
RACKS = ["/r1", "/r2", "/default-rack"]

resources = st.builds(
    Resource,
    memory_mb=st.sampled_from([256, 1_024, 3_000]),
    vcores=st.sampled_from([1, 1, 3]),
    gpus=st.sampled_from([0, 1, 1, 2, 4, 5]),
)
refusals = st.sampled_from([code for code in OutcomeCode if code is not OutcomeCode.COMMITTED])


class EngineMachine(RuleBasedStateMachine):
    """Links, servers that go, ends, outcomes, containers: what is alike for every policy. `begin` must be called first."""

    policy: Policy
    world: World

    def begin(self, engine: Engine, policy: Policy, world: World | None = None) -> None:
        self.policy = policy
        self.world = world or World(engine=engine)
        self.open: dict[int, AnyDecision] = {}
        self.collided: set[int] = set()
        self.made = 0
        self.register(settle_left_s=0.0)
        self.snapshot_end()

    @property
    def now_s(self) -> float:
        return self.world.now_s

    @property
    def engine(self) -> Engine:
        return self.world.engine

    def live(self) -> list[Container]:
        return sorted(self.engine._core.state.containers.values(), key=lambda one: one.container_id)

    def registered(self) -> None:
        """Note that all that was known of the cluster is void."""

    @rule(settle_left_s=st.sampled_from([0.0, 5.0]), epoch=st.integers(1, 3), cluster=st.sampled_from(["c", "c", "d"]))
    def register(self, settle_left_s: float, epoch: int = 1, cluster: str = "c") -> None:
        self.open.clear()
        self.world.apply(
            ResourceManagerRegistered(now_s=self.now_s, cluster_id=cluster, epoch=epoch, settle_left_s=settle_left_s)
        )
        self.registered()

    @rule()
    def snapshot_end(self) -> None:
        self.world.apply(SnapshotEnded(now_s=self.now_s))

    @rule(sure=st.sampled_from([False, False, True]))
    def lose(self, sure: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        if sure:
            self.open.clear()
            self.world.apply(ResourceManagerLost(now_s=self.now_s))
            self.register(settle_left_s=0.0)
            self.snapshot_end()

    @rule(seconds=st.sampled_from([0.05, 0.3, 10.0]))
    def wait(self, seconds: float) -> None:
        self.world.now_s += seconds

    def server(self, server: Server) -> None:
        self.world.apply(ServerChanged(now_s=self.now_s, server=server))

    @rule(server_id=st.sampled_from(SERVERS))
    def remove_server(self, server_id: str) -> None:
        self.world.apply(ServerRemoved(now_s=self.now_s, server_id=server_id))

    @rule(job_id=st.sampled_from(JOBS), how=st.sampled_from(list(JobEnd)))
    def end_job(self, job_id: str, how: JobEnd) -> None:
        self.world.apply(JobEnded(now_s=self.now_s, job_id=job_id, end=how))

    @rule()
    def decide(self) -> None:
        self.world.decide()
        for command in self.world.commands:
            if isinstance(command, PlaceGang | RefuseJob | RequeueJob):
                self.open[command.decision_id] = command
        self.world.commands.clear()
        self.nobody_waits_in_vain()

    def nobody_waits_in_vain(self) -> None:
        """Whoever could be placed now is in a line that is ready, so the next pass would place it."""
        core = self.engine._core
        if not core.session.deciding:
            return
        if core.queue.anybody():
            assert self.engine.next_wake_s() == core.now_s, "somebody is ready and nobody looks again"
        for record in core.state.jobs.values():
            want = record.want
            if not isinstance(want, JobWant) or not core.queue.is_blocked(want) or want.line.forbidden is not None:
                continue
            if not want.application_master or masters_admit(core, want):
                assert find_quietly(core, want.demand, want.line.barred) is None, f"{want.job_id} waits in vain"

    @precondition(lambda self: self.open)
    @rule(pick=st.integers(0, 50), code=st.one_of(st.just(OutcomeCode.COMMITTED), refusals), short=st.just(0))
    def outcome(self, pick: int, code: OutcomeCode, short: int) -> None:
        decision = self.open.pop(sorted(self.open)[pick % len(self.open)])
        if decision.decision_id in self.collided:
            code = OutcomeCode.NO_FIT
        ids: tuple[str, ...] = ()
        if code is OutcomeCode.COMMITTED and isinstance(decision, PlaceGang):
            self.made += len(decision.assignments)
            ids = tuple(f"k{self.made - number}" for number in range(len(decision.assignments) - short))
        for _ in range(2):
            event = OutcomeReported(now_s=self.now_s, decision_id=decision.decision_id, code=code, container_ids=ids)
            self.world.apply(event)

    @rule(
        job_id=st.sampled_from([*JOBS, "stranger"]),
        server_id=st.sampled_from(SERVERS),
        resource=resources,
        attempt=st.integers(1, 2),
        am=st.sampled_from([False, False, True]),
    )
    def seen(self, job_id: str, server_id: str, resource: Resource, attempt: int, am: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        self.made += 1
        container = Container(f"k{self.made}", job_id, attempt, server_id, resource, (), am, RequestKey(1))
        self.world.apply(ContainerSeen(now_s=self.now_s, container=container))

    @precondition(lambda self: self.live())
    @rule(pick=st.integers(0, 50), again=st.booleans(), lost=st.booleans())
    def release(self, pick: int, again: bool, lost: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        container_id = self.live()[pick % len(self.live())].container_id
        for _ in range(1 + again):
            self.world.apply(ContainerReleased(now_s=self.now_s, container_id=container_id, lost=lost))

    @precondition(lambda self: self.live())
    @rule(pick=st.integers(0, 50))
    def ending(self, pick: int) -> None:
        known = self.live()[pick % len(self.live())]
        fields = {name: getattr(known, name) for name in Container.__struct_fields__}
        news = Container(**{**fields, "ending": True, "gpu_indices": ()})
        self.world.apply(ContainerSeen(now_s=self.now_s, container=news))

    @rule()
    def swap(self) -> None:
        """Go on with an engine that was restored from a snapshot."""
        restored = Engine.restore(self.engine.snapshot(), self.policy)
        assert restored.audit() == []
        assert restored.digest() == self.engine.digest()
        self.world.engine = restored

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        twin = Engine(self.engine.settings, policy=self.policy)
        for event in self.world.events:
            twin.apply(event)
        assert twin.digest() == self.engine.digest()


def run(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> None:
    """Play so many runs of so many steps; the same ones every time, unless YGS_RANDOM is set."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize="YGS_RANDOM" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)
