"""Random tenants whose gangs soon have waited too long: all laws hold, and whatever is asked of anybody at any time is answered."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import initialize, invariant, rule

from tests.engine.lending import LEAVES, PATHS, SERVERS, SHAPES, Submission
from tests.engine.lending_machine import LendingMachine
from tests.engine.machines import RACKS, run
from tests.engine.world import World, server
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.model.job import JobEnd
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.policy import policy_named

settings = st.builds(
    EngineSettings,
    policy=st.just("philly"),
    ended_jobs_max=st.just(2),
    repair_hold_s=st.just(2.0),
    gang_hold_s=st.just(3.0),
    requeue_after_s=st.just(10.0),
    relax_after_s=st.sampled_from([0.0, 4.0]),
    preemption=st.sampled_from([Mode.OFF, Mode.OFF, Mode.OBSERVE, Mode.ON]),
    preempt_after_s=st.just(2.0),
    preempt_grace_s=st.just(3.0),
    preempt_hold_s=st.just(5.0),
    preempt_min_run_s=st.just(0.0),
    preempt_pause_s=st.just(0.0),
    reserve_after_s=st.sampled_from([1.0, 3.0, 12.0]),
)


class Reserving(LendingMachine):
    """Fills the cluster, and lets gangs wait."""

    counted: ClassVar[Counter[str]] = Counter()

    @initialize(
        chosen=settings,
        racks=st.lists(st.sampled_from(RACKS), min_size=2, max_size=4),
        quotas=st.lists(st.sampled_from([None, 0, 2, 4, 8, 12]), min_size=7, max_size=7),
        gpus=st.sampled_from([1, 1, 2]),
        hog=st.sampled_from(LEAVES),
    )
    def start(self, chosen: EngineSettings, racks: list[str], quotas: list[int | None], gpus: int, hog: str) -> None:
        self.told: dict[str, VirtualCluster] = {}
        self.jobs: dict[str, Submission] = {}
        self.dying: dict[str, int] = {}
        policy = policy_named("philly")
        engine = Engine(chosen, policy=policy)
        self.begin(engine, policy, World(engine=engine))
        for number, rack in enumerate(racks):
            self.server(server(SERVERS[number], 4, rack=rack))
        for path, quota in zip(PATHS, quotas, strict=True):
            self.configure(VirtualCluster(path, quota))
        self.fill(hog, gpus, 16)
        self.wait_long([(4, 1)], LEAVES.index(hog), 5.0)

    @rule(
        shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
        leaf=st.integers(0, 4),
        seconds=st.sampled_from([0.0, 2.0, 5.0, 40.0]),
    )
    def wait_long(self, shapes: list[tuple[int, int]], leaf: int, seconds: float) -> None:
        """Let gangs come, and time go by with all that is decided committed."""
        for number, shape in enumerate(shapes):
            names = self.unused()
            if names:
                self.submit([Submission(names[0], LEAVES[(leaf + number) % len(LEAVES)], shape)])
        self.go_on(seconds)

    @rule(leaf=st.sampled_from(LEAVES), runtime_s=st.sampled_from([1, 5, 20, 300]), gpus=st.sampled_from([1, 1, 2]))
    def declare(self, leaf: str, runtime_s: int, gpus: int) -> None:
        """Let a job come that says how long it runs."""
        names = self.unused()
        if names:
            self.submit([Submission(names[0], leaf, (1, gpus), tags=(f"runtime:{runtime_s}",))])
            self.pass_and_commit()

    @rule(pick=st.integers(0, 50), leaf=st.sampled_from(LEAVES))
    def one_goes_and_another_comes(self, pick: int, leaf: str) -> None:
        running = sorted(self.engine._core.running)
        if running:
            self.end_whole(running[pick % len(running)], JobEnd.SUCCEEDED, leaves=True)
            self.fill(leaf, 1, 2)

    @invariant()
    def all_is_answered(self) -> None:
        if not hasattr(self, "world"):
            return
        engine, core = self.engine, self.engine._core
        before = engine.digest()
        views = {view.job_id: view for view in engine.reservations()}
        assert list(views) == list(dict.fromkeys(views))
        for job_id, view in views.items():
            assert sum(gpus for _, gpus, _ in view.servers) == view.gpus
            kept = sum(mask.bit_count() for _, mask in engine.held().get(job_id, ()))
            assert sum(kept for _, _, kept in view.servers) == view.kept_gpus == kept <= view.gpus
            self.counted["kept"] += bool(kept)
        for job_id in [*core.state.jobs]:
            reason, outlook = engine.waiting(job_id), engine.outlook(job_id, core.now_s)
            assert (reason is None) == (outlook is None)
            if reason is None or outlook is None:
                continue
            self.counted[reason.code.value] += 1
            assert reason.code is not ReasonCode.RESERVED or views
            assert outlook.when
        assert engine.digest() == before

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.counted["made"] += self.engine.counters.reserved
        super().teardown()


def test_whatever_comes_all_laws_hold_and_all_is_answered() -> None:
    Reserving.counted.clear()
    run(Reserving, 40, 25)
    assert min(Reserving.counted[what] for what in ("made", "kept", "reserved", "cluster_full", "vc_quota")) > 0
