"""Random tenants: queues in a tree that change under their jobs, users, limits, a ladder; policy `philly`.

After every event all laws hold, and a line is forbidden exactly where a limit, counted anew, forbids it. After every pass nobody
waits in vain, no limit was exceeded by a decision, and no gang lies looser than its own clock, kept here, had run out for.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.engine.ledger import MAXIMA, QUOTAS, SETTINGS, Ledger, queue
from tests.engine.lent import anew, kept
from tests.engine.machines import JOBS, RACKS, SERVERS, EngineMachine, run
from tests.engine.stopwatch import Stopwatch, ceiling, kinds_of, looseness, tightest
from tests.engine.world import AM, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    ContainerSeen,
    JobChanged,
    OutcomeReported,
    VirtualClusterChanged,
    VirtualClusterRemoved,
)
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.policy import policy_named

NAMES = [*JOBS, *(f"n{number}" for number in range(10))]
PATHS = ["root.a", "root.b", "root.p", "root.p.x", "root.p.y", "root.p.x.z"]
LEAVES = ["root.a", "root.b", "root.p.x", "root.p.y", "root.p.x.z"]
LOCALITIES = [(), (), (), ("locality:0",), ("locality:1",), ("locality:2@0",), ("locality:1@2",), ("locality:2@9999",)]

servers = st.builds(
    server,
    st.sampled_from(SERVERS),
    st.sampled_from([0, 2, 4, 4, 4]),
    rack=st.sampled_from(RACKS),
    memory_mb=st.sampled_from([8_192, 65_536]),
    vcores=st.sampled_from([8, 64]),
    partition=st.sampled_from(["", "", "", "p"]),
    state=st.sampled_from([ServerState.RUNNING] * 6 + [ServerState.DRAINING, ServerState.UNHEALTHY]),
    lends=st.booleans(),
)
queues = st.builds(
    queue,
    st.sampled_from(PATHS),
    st.sampled_from(QUOTAS),
    st.sampled_from(sorted(MAXIMA)),
    settings=st.lists(st.sampled_from(SETTINGS), max_size=2).map(tuple),
    elsewhere=st.tuples(st.sampled_from(QUOTAS), st.sampled_from(["", "", "[yarn.io/gpu=2]", "50"])),
    most_gpus=st.sampled_from([None, None, 4]),
)
shapes = st.sampled_from(
    [(1, 1, 0), (1, 2, 0), (2, 1, 0), (2, 2, 0), (3, 1, 0), (4, 1, 0), (2, 1, 1), (2, 4, 0), (3, 2, 0)]
)
"""Containers, GPUs of each, and containers without GPUs beside them."""


class Submission(NamedTuple):
    """A job that asks for its gang at once, as its tag spells it; ``short``: so many containers too few."""

    job_id: str
    vc: str
    user: str
    shape: tuple[int, int, int]
    spelled: str
    locality: tuple[str, ...]
    attempt: int
    priority: int
    partition: str
    master: int | None
    short: int
    memory_mb: int

    @property
    def tags(self) -> tuple[str, ...]:
        """Say what it is."""
        count, gpus, plain = self.shape
        shape = f"gang:{count}x{gpus}" + (f"+{plain}" if plain else "")
        return {"x": (shape,), "plain": (f"gang:{count + plain}",), "none": ()}[self.spelled] + self.locality

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Ask for all of it, its master too where it has one that is ours."""
        count, gpus, plain = self.shape
        found = [ask(count - self.short, worker(gpus, self.memory_mb), 1, partition=self.partition)]
        if plain:
            found.append(ask(plain, worker(0, self.memory_mb), 2, partition=self.partition))
        if self.master is not None:
            of = worker(self.master) if self.master else AM
            found.append(ask(1, of, 0, am=True, partition=self.partition))
        return tuple(found)


submissions = st.builds(
    Submission,
    job_id=st.sampled_from(NAMES),
    vc=st.sampled_from(LEAVES),
    user=st.sampled_from(["ann", "bob"]),
    shape=shapes,
    spelled=st.sampled_from(["x", "x", "plain", "none"]),
    locality=st.sampled_from(LOCALITIES),
    attempt=st.sampled_from([1, 1, 1, 1, 2]),
    priority=st.sampled_from([0, 0, 0, 1]),
    partition=st.sampled_from(["", "", "", "p"]),
    master=st.sampled_from([None, None, None, 0, 1]),
    short=st.sampled_from([0, 0, 0, 0, 1]),
    memory_mb=st.sampled_from([1_024, 1_024, 3_000]),
)


class Tenants(EngineMachine):
    """Submits gangs whole, in queues that come, change and go."""

    events = 0
    passes = 0
    placed = 0
    forbidden = 0
    borrowed = 0

    @initialize(
        a_pass=st.sampled_from([2, 1_024]),
        relax_s=st.sampled_from([0.0, 4.0, 4.0]),
        relax_max_s=st.sampled_from([6.0, 3_600.0]),
        fleet=st.lists(servers, min_size=4, max_size=6, unique_by=lambda one: one.server_id),
        tree=st.lists(queues, max_size=4),
        first=st.lists(submissions, max_size=8),
    )
    def start(  # hypothesis passes what it draws by name
        self,
        a_pass: int,
        relax_s: float,
        relax_max_s: float,
        fleet: list[Server],
        tree: list[VirtualCluster],
        first: list[Submission],
    ) -> None:
        chosen = EngineSettings(
            policy="philly",
            ended_jobs_max=1,
            decisions_per_pass_max=a_pass,
            repair_hold_s=2.0,
            gang_hold_s=3.0,
            requeue_after_s=10.0,
            relax_after_s=relax_s,
            relax_after_max_s=relax_max_s,
        )
        self.told: dict[str, VirtualCluster] = {}
        self.stopwatch = Stopwatch()
        self.begin(Engine(chosen), policy_named("philly"))
        for one in fleet:
            self.server(one)
        for vc in tree:
            self.configure(vc)
        self.submit(first)

    def registered(self) -> None:
        self.told.clear()

    @rule(
        settle_left_s=st.sampled_from([0.0, 5.0]),
        cluster=st.sampled_from(["c", "c", "c", "d"]),
        whole=st.integers(0, 9),
    )
    def register_again(self, settle_left_s: float, cluster: str, whole: int) -> None:
        """Mostly with all that there was; else with nothing, and its snapshot may end much later."""
        state, told = self.engine._core.state, list(self.told.values())
        fleet = [use.server for use in state.servers.values()]
        known = [(one.job, one.asks, list(one.containers.values())) for one in state.jobs.values() if one.known]
        self.register(settle_left_s, 2, cluster)
        if whole:
            for one in fleet:
                self.server(one)
            for vc in told:
                self.configure(vc)
            for job, asks, containers in known:
                self.world.apply(JobChanged(now_s=self.now_s, job=job))
                self.ask(job.job_id, job.attempt, asks)
                for container in containers:
                    self.world.apply(ContainerSeen(now_s=self.now_s, container=container))
            self.snapshot_end()

    @rule(path=st.sampled_from(LEAVES))
    def little_quota(self, path: str) -> None:
        """Let whatever runs in a queue, beyond one GPU, be borrowed from now on."""
        self.configure(VirtualCluster(path, 1))

    @rule(one=servers)
    def a_server(self, one: Server) -> None:
        self.server(one)

    @rule(several=st.lists(servers, min_size=2, max_size=6))
    def many_servers(self, several: list[Server]) -> None:
        for one in several:
            self.server(one)

    @rule(vc=queues)
    def configure(self, vc: VirtualCluster) -> None:
        self.told[vc.path] = vc
        self.world.apply(VirtualClusterChanged(now_s=self.now_s, virtual_cluster=vc))

    @rule(path=st.sampled_from(PATHS), again=st.booleans())
    def remove_queue(self, path: str, again: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        gone = self.told.pop(path, None)
        self.world.apply(VirtualClusterRemoved(now_s=self.now_s, path=path))
        if again and gone is not None:
            self.configure(gone)

    @rule(job_id=st.sampled_from(NAMES), vc=st.sampled_from(LEAVES))
    def move(self, job_id: str, vc: str) -> None:
        record = self.engine._core.state.jobs.get(job_id)
        if record is not None and record.known:
            self.world.apply(JobChanged(now_s=self.now_s, job=msgspec.structs.replace(record.job, vc=vc)))

    @rule(several=st.lists(submissions, min_size=1, max_size=5))
    def submit(self, several: list[Submission]) -> None:
        for one in several:
            at_s = float(len(self.world.events) // 8)
            job = Job(one.job_id, one.vc, one.user, "n", one.tags, at_s, one.attempt, priority=one.priority)
            self.world.apply(JobChanged(now_s=self.now_s, job=job))
            self.ask(one.job_id, one.attempt, one.asks)

    def ask(self, job_id: str, attempt: int, asks: tuple[Ask, ...]) -> None:
        self.world.apply(AsksChanged(now_s=self.now_s, job_id=job_id, attempt=attempt, asks=asks))

    @precondition(lambda self: self.open)
    @rule()
    def commit_all(self) -> None:
        for decision_id in sorted(self.open):
            decision = self.open.pop(decision_id)
            ids: tuple[str, ...] = ()
            if isinstance(decision, PlaceGang):
                self.made += len(decision.assignments)
                ids = tuple(f"k{self.made - number}" for number in range(len(decision.assignments)))
            event = OutcomeReported(
                now_s=self.now_s, decision_id=decision_id, code=OutcomeCode.COMMITTED, container_ids=ids
            )
            self.world.apply(event)

    @rule()
    def pass_and_commit(self) -> None:
        self.decide()
        if self.open:
            self.commit_all()

    @rule()
    def wait_for_the_next_wake(self) -> None:
        wake_s = self.engine.next_wake_s()
        if wake_s is not None:
            self.world.now_s = max(self.now_s, wake_s)
        self.decide()

    @rule()
    def pass_by_a_clock_that_went_back(self) -> None:
        """Take the time that was seen last."""
        self.world.now_s -= 60.0
        self.decide()
        self.world.now_s += 60.0

    def decide(self) -> None:
        before, first = Ledger(self.engine, self.told), len(self.world.places)
        steps = self.stopwatch.levels(self.engine, before, max(self.now_s, self.engine._core.now_s))
        super().decide()
        after = Ledger(self.engine, self.told)
        type(self).passes += 1
        for decision in self.world.places[first:]:
            type(self).placed += 1
            self.keeps_limits(decision, before, after)
            self.keeps_level(decision, steps)

    def keeps_limits(self, decision: PlaceGang, before: Ledger, after: Ledger) -> None:
        core = self.engine._core
        job = core.state.jobs[decision.job_id].job
        total = core.state.decisions[decision.decision_id].total
        partition = core.state.servers[decision.assignments[0].server_id].server.partition
        for limit in after.limits(job.vc, partition):
            place = (limit.path, limit.partition, limit.kind)
            if getattr(total, limit.kind):
                assert after.held[place] <= max(limit.most, before.held[place]), f"{decision.job_id} exceeds {limit}"
        most = after.setting(job.vc, "max-gpus-per-user")
        if most is not None and total.gpus:
            user = (job.vc, job.user)
            assert after.user_gpus[user] <= max(most, before.user_gpus[user]), (
                f"{decision.job_id}: {user} may use {most}"
            )

    def keeps_level(self, decision: PlaceGang, steps: dict[str, int]) -> None:
        core = self.engine._core
        made, record = core.state.decisions[decision.decision_id], core.state.jobs[decision.job_id]
        if made.gang and len(decision.assignments) > 1:
            loose = looseness(core, made)
            allowed = min(ceiling(record), tightest(core, record, kinds_of(made)) + steps[decision.job_id])
            assert loose <= decision.level, f"{decision} is at level {loose}"
            assert loose <= allowed, f"{decision} is at level {loose}, its time allows {allowed}"

    @invariant()
    def limits_forbid_what_they_should(self) -> None:
        if not hasattr(self, "world"):
            return
        ledger = Ledger(self.engine, self.told)
        for job_id, record in self.engine._core.state.jobs.items():
            want = record.want
            if isinstance(want, JobWant):
                forbids = ledger.forbids(want)
                type(self).forbidden += forbids
                assert (want.line.forbidden is not None) == forbids, f"{job_id}: {want.line.forbidden}"
        self.stopwatch.note(self.engine, ledger)

    @invariant()
    def who_borrows_is_known(self) -> None:
        """Hold what is kept of it against what is worked out anew."""
        if hasattr(self, "world"):
            core = self.engine._core
            known = kept(core)
            type(self).borrowed += sum(len(borrowed) for borrowed, _, _ in known.values())
            assert known == anew(core)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            type(self).events += len(self.world.events)
        super().teardown()


@pytest.mark.timeout(600)  # less than a minute of work, on a machine that may be busy
def test_all_laws_hold_among_tenants() -> None:
    run(Tenants, examples=220, steps=50)
    assert Tenants.events >= 20_000
    seen = (Tenants.passes, Tenants.placed, Tenants.forbidden)
    assert min(seen) > 400, seen
    assert Tenants.borrowed > 200, "who borrows is held against what is worked out anew often enough"


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
def test_all_laws_hold_among_tenants_for_long() -> None:
    Tenants.events = 0
    run(Tenants, examples=1_400, steps=80)
    assert Tenants.events >= 200_000
