"""Random tenants while preemption is armed: queues that lend and take back, victims that die, die late or never, switches.

After every event all laws hold, and what law 7 forbids has not happened, as an onlooker counts and clocks it. After every pass
nobody for whom somebody could be stopped waits in vain; a pass before the next wake does nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import initialize, rule

from tests.engine.charges import Charges
from tests.engine.lending import LEAVES, PATHS, SERVERS, SHAPES, Submission
from tests.engine.lending_machine import LendingMachine
from tests.engine.machines import RACKS, run
from tests.engine.onlooker import Onlooker, Watched, WatchedWorld
from tests.engine.world import server
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

FIRST_TIME_S = 1_000.0

settings = st.builds(
    EngineSettings,
    policy=st.just("philly"),
    ended_jobs_max=st.just(2),
    repair_hold_s=st.just(2.0),
    gang_hold_s=st.just(3.0),
    requeue_after_s=st.just(10.0),
    relax_after_s=st.sampled_from([0.0, 4.0]),
    preemption=st.sampled_from([Mode.ON] * 7 + [Mode.OBSERVE]),
    preempt_after_s=st.sampled_from([0.0, 2.0, 2.0]),
    preempt_grace_s=st.sampled_from([3.0, 3.0, 3.0, 0.0]),
    preempt_hold_s=st.just(5.0),
    preempt_min_run_s=st.sampled_from([0.0, 0.0, 4.0]),
    preempt_spare_after=st.sampled_from([1, 3]),
    preempt_victims_per_minute=st.sampled_from([2, 16]),
    preempt_pause_s=st.sampled_from([0.0, 0.0, 5.0]),
)


class Preempting(LendingMachine):
    """Has jobs borrow, and others take back what they lent."""

    events = 0
    counted: ClassVar[Counter[str]] = Counter()

    @initialize(
        chosen=settings,
        racks=st.lists(st.sampled_from(RACKS), min_size=2, max_size=4),
        quotas=st.lists(st.sampled_from([1, 2, 4, 4, 6]), min_size=5, max_size=5),
        above=st.lists(st.sampled_from([None, None, 4, 8]), min_size=2, max_size=2),
        hog=st.sampled_from(LEAVES),
        gpus=st.sampled_from([1, 1, 2, 4]),
        shape=st.sampled_from(SHAPES[:7]),
        seconds=st.sampled_from([0.0, 2.0, 6.0]),
    )
    def start(  # noqa: PLR0913, PLR0917 # hypothesis passes what it draws by name
        self,
        chosen: EngineSettings,
        racks: list[str],
        quotas: list[int],
        above: list[int | None],
        hog: str,
        gpus: int,
        shape: tuple[int, int],
        seconds: float,
    ) -> None:
        self.told: dict[str, VirtualCluster] = {}
        self.jobs: dict[str, Submission] = {}
        self.dying: dict[str, int] = {}
        self.watched = Watched()
        engine = Engine(chosen, policy=self.watched)
        world = WatchedWorld(engine=engine)
        world.now_s = FIRST_TIME_S
        self.onlooker = world.onlooker = self.watched.onlooker = Onlooker(world, self.told)
        self.begin(engine, self.watched, world)
        for number, rack in enumerate(racks):
            self.server(server(SERVERS[number], 4, rack=rack))
        for path, quota in zip(PATHS, [*quotas, *above], strict=True):
            self.configure(VirtualCluster(path, quota))
        self.fill(hog, gpus, 16)
        self.want_back(lent=True, gpus=gpus, shape=shape, pick=len(racks), seconds=seconds)

    @rule(
        lent=st.sampled_from([True, True, False]),
        gpus=st.sampled_from([1, 1, 2, 4]),
        shape=st.sampled_from(SHAPES),
        pick=st.integers(0, 50),
        seconds=st.sampled_from([0.0, 2.0, 6.0, 6.0]),
    )
    def want_back(self, lent: bool, gpus: int, shape: tuple[int, int], pick: int, seconds: float) -> None:  # noqa: FBT001 # hypothesis passes by name
        """Submit a gang in a queue that is below its quota with it, where one that is above its own has what is free."""
        charges = Charges(self.engine._core, self.told)
        size = shape[0] * shape[1]
        quotas = {path: charges.quota(path) or 0 for path in LEAVES}
        rooms = [path for path in LEAVES if charges.gpus(path, "") + size <= quotas[path]]
        if not rooms:
            return
        vc = rooms[pick % len(rooms)]
        over = [path for path in LEAVES if path != vc and charges.gpus(path, "") >= quotas[path]]
        if lent and over:
            self.fill(over[pick % len(over)], gpus, 16)
            self.world.now_s += self.engine.settings.preempt_min_run_s
        if names := self.unused():
            self.submit([Submission(names[0], vc, shape)])
        if seconds:
            self.go_on(seconds)

    # Passes

    @rule()
    def wait_for_the_next_wake(self) -> None:
        wake_s = self.engine.next_wake_s()
        if wake_s is not None:
            self.world.now_s = max(self.now_s, wake_s)
        self.decide()

    @rule(part=st.sampled_from([0.1, 0.9]))
    def wait_less(self, part: float) -> None:
        """Pass when nobody need: nothing is decided then."""
        self.pass_and_commit()
        wake_s = self.engine.next_wake_s()
        self.world.now_s += part * (10.0 if wake_s is None else max(0.0, wake_s - self.now_s))
        if self.now_s == wake_s:
            return
        self.decide()
        assert not self.open, f"{self.open} at {self.now_s}, and the next wake was {wake_s}"

    @rule()
    def decide(self) -> None:
        super().decide()
        self.nobody_is_spared_in_vain()

    def nobody_is_spared_in_vain(self) -> None:
        """Nobody waits for whom somebody could be stopped now: what was found before holds still."""
        core = self.engine._core
        if not core.session.deciding or not core.session.settled:
            return
        for job_id, record in core.state.jobs.items():
            want = record.want
            if not isinstance(want, JobWant) or not core.queue.is_blocked(want) or want.line.first() is not record:
                continue
            preview = self.engine.preempt_preview(job_id)
            if preview is not None and preview.plan is not None and preview.plan.stage == "proposed":
                assert preview.hindrances, f"{preview.plan} could be, and is not"

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.watched.onlooker = None
            Preempting.events += len(self.world.events)
            Preempting.counted.update(self.onlooker.counted)
        super().teardown()


@pytest.mark.timeout(600)  # less than a minute of work, on a machine that may be busy
def test_law_7_holds_among_tenants_that_take_back() -> None:
    run(Preempting, examples=100, steps=45)
    counted = Preempting.counted
    assert Preempting.events >= 8_000
    assert min(counted["begun"], counted["stopped"], counted["warned"]) >= 20, counted
    assert counted["stopped after the grace"] >= 10, counted


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
def test_law_7_holds_among_tenants_that_take_back_for_long() -> None:
    Preempting.events = 0
    run(Preempting, examples=1_400, steps=80)
    assert Preempting.events >= 150_000
