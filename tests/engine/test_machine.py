"""Random events in any order: every law holds after each of them, and nobody who could be placed is left waiting."""

from __future__ import annotations

import os

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.engine.world import World, ask
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang, RefuseJob, RequeueJob
from yarn_gpu_sched.engine.deciding import masters_admit
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    ContainerReleased,
    ContainerSeen,
    JobChanged,
    JobEnded,
    OutcomeReported,
    ResourceManagerLost,
    ResourceManagerRegistered,
    ServerChanged,
    ServerRemoved,
    SnapshotEnded,
    VirtualClusterChanged,
    VirtualClusterRemoved,
)
from yarn_gpu_sched.engine.finding import find_quietly
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.ask import Ask, RequestKey
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.policy import Fifo, FifoStrict, Las, Policy, Sjf, Srtf, Tiresias

SERVERS = [f"s{number}" for number in range(6)]
JOBS = [f"j{number}" for number in range(8)]
TAGS = [(), (), ("gang:2",), ("gang:3",), ("gang:2x2",), ("gang:3x1",), ("gang:2x1+1",), ("gang:9x4",), ("gang:zero",)]
TAGS += [("gang:2", "locality:0"), ("gang:2x2", "locality:1"), ("gang:2x1", "runtime:5"), ("gang:3x1", "runtime:50")]


class QuickLas(Las):
    """Steps that jobs reach within a run of this test."""

    step_gpu_s = 1.0


class QuickTiresias(Tiresias):
    """The same."""

    step_gpu_s = 1.0


POLICIES = [Fifo, Fifo, FifoStrict, Sjf, Srtf, QuickLas, QuickTiresias]

servers = st.builds(
    Server,
    server_id=st.sampled_from(SERVERS),
    host=st.sampled_from(["h1", "h2"]),
    rack=st.sampled_from(["/r1", "/r2", "/default-rack"]),
    capacity=st.builds(
        Resource,
        memory_mb=st.sampled_from([4_096, 16_384]),
        vcores=st.sampled_from([4, 16]),
        gpus=st.sampled_from([0, 2, 4, 4]),
    ),
    partition=st.sampled_from(["", "", "", "p"]),
    state=st.sampled_from([ServerState.RUNNING] * 4 + [ServerState.DRAINING, ServerState.UNHEALTHY]),
    partition_shared=st.booleans(),
)
PLACES = ["h1", "h2", "/r1", "/r2", "s0"]
places = st.dictionaries(st.sampled_from(PLACES), st.integers(1, 3), max_size=2)
blacklists = st.lists(st.sampled_from(PLACES), max_size=1).map(tuple)
resources = st.builds(
    Resource,
    memory_mb=st.sampled_from([256, 1_024, 3_000]),
    vcores=st.sampled_from([1, 1, 3]),
    gpus=st.sampled_from([0, 1, 1, 2, 4, 5]),
)
asks = st.lists(
    st.builds(
        ask,
        count=st.integers(0, 4),
        resource=resources,
        priority=st.integers(0, 2),
        am=st.booleans(),
        partition=st.sampled_from(["", "", "", "p"]),
        at=st.one_of(st.none(), st.none(), places),
        strict=st.booleans(),
    ),
    max_size=3,
).map(tuple)
refusals = st.sampled_from([code for code in OutcomeCode if code is not OutcomeCode.COMMITTED])


class Machine(RuleBasedStateMachine):
    """Plays resource managers that come, go and say whatever they like."""

    @initialize(
        cpu=st.booleans(),
        kept=st.sampled_from([0, 2, 100]),
        a_pass=st.sampled_from([1, 3, 1_024]),
        relax_s=st.sampled_from([0.0, 0.3, 7.0]),
        policy=st.sampled_from(POLICIES),
    )
    def start(self, cpu: bool, kept: int, a_pass: int, relax_s: float, policy: type[Policy]) -> None:  # noqa: FBT001 # hypothesis passes by name
        chosen = EngineSettings(
            place_on_cpu_servers=cpu,
            ended_jobs_max=kept,
            decisions_per_pass_max=a_pass,
            repair_hold_s=0.3,
            gang_hold_s=0.4,
            requeue_after_s=10.0,
            relax_after_s=relax_s,
        )
        self.policy = policy()
        self.world = World(engine=Engine(chosen, policy=self.policy))
        self.open: dict[int, PlaceGang | RefuseJob | RequeueJob] = {}
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

    @rule(settle_left_s=st.sampled_from([0.0, 5.0]), epoch=st.integers(1, 3), cluster=st.sampled_from(["c", "c", "d"]))
    def register(self, settle_left_s: float, epoch: int = 1, cluster: str = "c") -> None:
        self.open.clear()
        self.world.apply(
            ResourceManagerRegistered(now_s=self.now_s, cluster_id=cluster, epoch=epoch, settle_left_s=settle_left_s)
        )

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

    @rule(server=servers)
    def server(self, server: Server) -> None:
        self.world.apply(ServerChanged(now_s=self.now_s, server=server))

    @rule(several=st.lists(servers, min_size=3, max_size=6))
    def many_servers(self, several: list[Server]) -> None:
        for one in several:
            self.server(one)

    @rule(server_id=st.sampled_from(SERVERS))
    def remove_server(self, server_id: str) -> None:
        self.world.apply(ServerRemoved(now_s=self.now_s, server_id=server_id))

    @rule(
        path=st.sampled_from(["root.a", "root.b"]),
        quota=st.sampled_from([None, 8]),
        gone=st.booleans(),
        debounce=st.booleans(),
    )
    def virtual_cluster(self, path: str, quota: int | None, gone: bool, debounce: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        if gone:
            self.world.apply(VirtualClusterRemoved(now_s=self.now_s, path=path))
        else:
            self.world.apply(
                VirtualClusterChanged(now_s=self.now_s, virtual_cluster=VirtualCluster(path, quota, debounce=debounce))
            )

    @rule(
        job_id=st.sampled_from(JOBS),
        vc=st.sampled_from(["root.a", "root.b"]),
        tags=st.sampled_from(TAGS),
        at_s=st.integers(0, 3),
        attempt=st.sampled_from([1, 1, 1, 2, 3]),
        active=st.sampled_from([True, True, True, False]),
        recovered=st.sampled_from([False, False, True]),
        priority=st.sampled_from([0, 0, 0, 1]),
        keeps=st.booleans(),
        wanted=asks,
    )
    def job(  # noqa: PLR0913, PLR0917 # hypothesis passes what it draws by name
        self,
        job_id: str,
        vc: str,
        tags: tuple[str, ...],
        at_s: int,
        attempt: int,
        active: bool,  # noqa: FBT001 # hypothesis passes by name
        recovered: bool,  # noqa: FBT001 # hypothesis passes by name
        priority: int,
        keeps: bool,  # noqa: FBT001 # hypothesis passes by name
        wanted: tuple[Ask, ...],
    ) -> None:
        job = Job(job_id, vc, "u", "n", tags, float(at_s), attempt, active, recovered, False, priority, keeps)  # noqa: FBT003 - a field, by place
        self.world.apply(JobChanged(now_s=self.now_s, job=job))
        self.asks(job_id, attempt, wanted, ())

    @rule(job_id=st.sampled_from(JOBS), attempt=st.integers(1, 3), wanted=asks, blacklist=blacklists)
    def asks(self, job_id: str, attempt: int, wanted: tuple[Ask, ...], blacklist: tuple[str, ...]) -> None:
        event = AsksChanged(now_s=self.now_s, job_id=job_id, attempt=attempt, asks=wanted, blacklist=blacklist)
        self.world.apply(event)

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
        for record in core.state.jobs.values():
            want = record.want
            if not isinstance(want, JobWant) or not core.queue.is_blocked(want):
                continue
            if not want.application_master or masters_admit(core, want):
                assert find_quietly(core, want.demand) is None, f"{want.job_id} waits in vain"

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
    @rule(
        pick=st.integers(0, 50),
        job_id=st.sampled_from([*JOBS, "stranger"]),
        server_id=st.sampled_from(SERVERS),
        resource=resources,
        attempt=st.integers(1, 2),
        am=st.booleans(),
    )
    def seen_otherwise(
        self,
        pick: int,
        job_id: str,
        server_id: str,
        resource: Resource,
        attempt: int,
        am: bool,  # noqa: FBT001 # hypothesis passes by name
    ) -> None:
        """Say of a known container that it is another's, elsewhere, or of another size."""
        known = self.live()[pick % len(self.live())]
        news = Container(known.container_id, job_id, attempt, server_id, resource, (), am, known.key)
        self.world.apply(ContainerSeen(now_s=self.now_s, container=news))

    @precondition(lambda self: any(isinstance(one, PlaceGang) for one in self.open.values()))
    @rule(pick=st.integers(0, 50))
    def seen_late(self, pick: int) -> None:
        """Let a container turn up where a decision under way wants to go: that decision will be refused."""
        places = [one for _, one in sorted(self.open.items()) if isinstance(one, PlaceGang)]
        decision = places[pick % len(places)]
        one = decision.assignments[0]
        held = {index for known in self.live() if known.server_id == one.server_id for index in known.gpu_indices}
        if held & set(one.gpu_indices):
            return
        self.collided.add(decision.decision_id)
        self.made += 1
        container = Container(f"k{self.made}", "stranger", 1, one.server_id, one.resource, one.gpu_indices)
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

    @invariant()
    def commands_name_live_servers(self) -> None:
        if hasattr(self, "world") and not self.collided:
            for server in self.engine.servers(limit=10)[0]:
                held = [gpu for gpu in server.gpus if gpu.job_id]
                assert len(held) >= server.used.gpus or server.server.capacity.gpus == 0

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        twin = Engine(self.engine.settings, policy=self.policy)
        for event in self.world.events:
            twin.apply(event)
        assert twin.digest() == self.engine.digest()


def run(examples: int, steps: int) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize="YGS_RANDOM" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=chosen)


@pytest.mark.timeout(600)  # 5 s of work, on a machine that may be busy
def test_all_laws_hold_after_every_event() -> None:
    run(examples=60, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
def test_all_laws_hold_after_every_event_for_long() -> None:
    run(examples=2_000, steps=80)
