"""Random tenants while preemption is armed: queues that lend and take back, victims that die, die late or never, switches.

After every event all laws hold, and what law 7 forbids has not happened, as an onlooker counts and clocks it. After every pass
nobody for whom somebody could be stopped waits in vain, and who has waited too long has a reservation where there are any (law 9);
a pass before the next wake does nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import initialize, precondition, rule

from tests.engine.charges import Charges
from tests.engine.lending import LEAVES, PATHS, SERVERS, SHAPES, Submission
from tests.engine.lending_machine import LendingMachine
from tests.engine.machines import RACKS, run
from tests.engine.onlooker import Onlooker, Watched, WatchedWorld
from tests.engine.reservations_seen import ReservationsSeen
from tests.engine.world import server
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.job import JobEnd
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
    reserve_after_s=st.sampled_from([0.0, 0.0, 4.0]),
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
        others=st.lists(st.sampled_from([0, 0, 1, 2]), min_size=5, max_size=5),
        aged=st.booleans(),
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
        others: list[int],
        aged: bool,  # noqa: FBT001 # hypothesis passes by name
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
        self.reservations = ReservationsSeen()
        self.begin(engine, self.watched, world)
        for number, rack in enumerate(racks):
            self.server(server(SERVERS[number], 4, rack=rack))
        for path, quota in zip(PATHS, [*quotas, *above], strict=True):
            self.configure(VirtualCluster(path, quota))
        for path, count in zip(LEAVES, others, strict=True):
            self.fill(path, 1, count)
        self.fill(hog, gpus, 16)
        self.want_back(lent=True, aged=aged, gpus=gpus, shapes=[shape], pick=len(racks), seconds=seconds)

    @rule(
        lent=st.sampled_from([True, True, False]),
        aged=st.sampled_from([True, True, False]),
        gpus=st.sampled_from([1, 1, 2, 4]),
        shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
        pick=st.integers(0, 50),
        seconds=st.sampled_from([0.0, 2.0, 2.0, 6.0, 15.0]),
    )
    def want_back(  # hypothesis passes what it draws by name
        self,
        lent: bool,  # noqa: FBT001 # hypothesis passes by name
        aged: bool,  # noqa: FBT001 # hypothesis passes by name
        gpus: int,
        shapes: list[tuple[int, int]],
        pick: int,
        seconds: float,
    ) -> None:
        """Submit gangs in queues that are below their quotas with each, where one that is above its own has what is free."""
        charges = Charges(self.engine._core, self.told)
        quotas = {path: charges.quota(path) or 0 for path in LEAVES}
        over = [path for path in LEAVES if charges.gpus(path, "") >= quotas[path]]
        if lent and over:
            self.fill(over[pick % len(over)], gpus, 16)
            self.world.now_s += self.engine.settings.preempt_min_run_s if aged else 0.0
        for count, each in shapes:
            rooms = [path for path in LEAVES if charges.gpus(path, "") + count * each <= quotas[path]]
            names = self.unused()
            if rooms and names:
                self.submit([Submission(names[0], rooms[pick % len(rooms)], (count, each))])
        if seconds:
            self.go_on(seconds)

    @precondition(lambda self: self.onlooker.stops)
    @rule(pick=st.integers(0, 50), seconds=st.sampled_from([0.0, 6.0]))
    def turn_the_tables(self, pick: int, seconds: float) -> None:
        """Let the queues of a victim and of whom it was stopped for have each other's quotas."""
        stop, core = self.onlooker.stops[pick % len(self.onlooker.stops)], self.engine._core
        paths = [core.state.jobs[job_id].job.vc for job_id in (stop.victim, stop.by) if job_id in core.state.jobs]
        quotas = [self.told[path].quota_gpus if path in self.told else None for path in paths]
        for path, quota in zip(paths, quotas[::-1], strict=True):
            self.configure(VirtualCluster(path, quota))
        if seconds:
            self.go_on(seconds)

    @rule(pick=st.integers(0, 50), leaf=st.sampled_from(LEAVES))
    def one_goes_and_another_comes(self, pick: int, leaf: str) -> None:
        """Let a small job have what another one leaves, where a larger gang may wait."""
        running = sorted(self.engine._core.running)
        if running:
            self.end_whole(running[pick % len(running)], JobEnd.SUCCEEDED, leaves=True)
            self.fill(leaf, 1, 2)
            self.go_on(6.0)

    @precondition(lambda self: any(plan.stopped_s is None for plan in self.engine._core.preemption.plans.values()))
    @rule(what=st.sampled_from(["lender", "taker", "servers", "gone", "queue"]), pick=st.integers(0, 50))
    def change_in_the_grace(self, what: str, pick: int) -> None:
        """Let something happen while somebody is warned, by which it may not be stopped any more."""
        core = self.engine._core
        plans = [plan for _, plan in sorted(core.preemption.plans.items()) if plan.stopped_s is None]
        plan = plans[pick % len(plans)]
        victim = core.state.jobs.get(plan.victims[pick % len(plan.victims)].job_id)
        if what == "lender" and victim is not None:
            self.configure(VirtualCluster(victim.job.vc, 12))
        elif what == "taker":
            self.configure(VirtualCluster(core.state.jobs[plan.job_id].job.vc, 1))
        elif what == "servers":
            for number in range(3):
                self.server(server(f"t{number}", 1, rack="/r3"))
        elif what == "gone" and victim is not None:
            self.end_whole(victim.job.job_id, JobEnd.SUCCEEDED, leaves=True)
        elif what == "queue":
            self.configure(VirtualCluster("root.p", 12 if pick % 2 else 1))
        self.go_on(4.0)

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

    def registered(self) -> None:
        super().registered()
        self.reservations.begin_anew()

    @rule()
    def decide(self) -> None:
        super().decide()
        self.nobody_is_spared_in_vain()
        self.reservations.look(self.engine, self.told)

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
            type(self).events += len(self.world.events)
            type(self).counted.update(self.onlooker.counted + self.reservations.counted)
        super().teardown()


@pytest.mark.timeout(600)  # less than a minute of work, on a machine that may be busy
def test_law_7_holds_among_tenants_that_take_back() -> None:
    run(Preempting, examples=90, steps=45)
    counted = Preempting.counted
    assert Preempting.events >= 8_000
    assert min(counted["begun"], counted["stopped"], counted["warned"]) >= 20, counted
    assert counted["stopped after the grace"] >= 10, counted
    assert min(counted["reserved"], counted["due"]) >= 50, counted


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
def test_law_7_holds_among_tenants_that_take_back_for_long() -> None:
    Preempting.events = 0
    run(Preempting, examples=1_400, steps=80)
    assert Preempting.events >= 150_000
