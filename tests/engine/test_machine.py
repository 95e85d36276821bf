"""Random events in any order: every law holds after each of them, and nobody who could be placed is left waiting."""

from __future__ import annotations

import os

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.engine.health_rules import HealthRules
from tests.engine.machines import JOBS, SERVERS, EngineMachine, resources, run
from tests.engine.world import ask
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    ContainerSeen,
    JobChanged,
    VirtualClusterChanged,
    VirtualClusterRemoved,
)
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.policy import Fifo, FifoStrict, Las, Policy, Sjf, Srtf, Tiresias

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


class Machine(HealthRules, EngineMachine):
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
        made = policy()
        self.begin(Engine(chosen, policy=made), made)

    @rule(server=servers)
    def a_server(self, server: Server) -> None:
        self.server(server)

    @rule(several=st.lists(servers, min_size=3, max_size=6))
    def many_servers(self, several: list[Server]) -> None:
        for one in several:
            self.server(one)

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

    @invariant()
    def commands_name_live_servers(self) -> None:
        if hasattr(self, "world") and not self.collided:
            for server in self.engine.servers(limit=10)[0]:
                held = [gpu for gpu in server.gpus if gpu.job_id]
                assert len(held) >= server.used.gpus or server.server.capacity.gpus == 0


@pytest.mark.timeout(600)  # 5 s of work, on a machine that may be busy
def test_all_laws_hold_after_every_event() -> None:
    run(Machine, examples=60, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
def test_all_laws_hold_after_every_event_for_long() -> None:
    run(Machine, examples=2_000, steps=80)
