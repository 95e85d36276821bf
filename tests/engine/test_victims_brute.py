"""On small clusters whom the engine would stop is held against every set of jobs there is.

Always: the gang would have a place without them, and without any proper part of them it would not. Mostly: no other set costs less.
"""

from __future__ import annotations

import random
from itertools import combinations

from tests.engine.reclaims import Reclaiming
from yarn_gpu_sched.engine.views import PlanView
from yarn_gpu_sched.model.container import Container

WORLDS = 400
GPUS = 4
SHAPES = [(1, 1), (1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (3, 1), (4, 1)]
WANTS = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (3, 1), (4, 1), (2, 3), (5, 1), (2, 4), (6, 1)]
LEVELS = ((), ("locality:0",), ("locality:1",))
COST_BASE_S = 300.0
LEAST_COST_SHARE = 0.95

Job = tuple[str, float, tuple[tuple[str, int], ...]]
"""A job that may be stopped: its name, its cost, and the servers with the GPUs that it holds there."""


class Small:
    """A cluster that is full, all of it borrowed, and a gang that waits for what it is owed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.racks = rng.choice([1, 2])
        servers = rng.choice([3, 4])
        self.world = Reclaiming(*[GPUS] * servers, racks=self.racks, preempt_min_run_s=0.0)
        self.world.audited = False
        self.world.configure("root.a", quota_gpus=0)
        self.world.configure("root.b", quota_gpus=servers * GPUS)
        self.started: dict[str, float] = {}
        while self.free > 1:
            containers, gpus = rng.choice(SHAPES)
            if containers * gpus <= self.free:
                name = f"a{self.world.submitted}"
                self.started[name] = self.world.now_s
                self.world.gang(name, containers, gpus)
                if not self.world.runs(name):
                    self.world.end(name)
                    del self.started[name]
            self.world.step(self.world.now_s + rng.choice([0.0, 5.0, 100.0, 400.0]))
        self.containers, self.gpus = rng.choice(WANTS)
        self.level = rng.choice(LEVELS)
        self.world.gang("b", self.containers, self.gpus, "root.b", *self.level)

    @property
    def free(self) -> int:
        cluster = self.world.engine.cluster()
        return cluster.capacity.gpus - cluster.used.gpus

    def jobs(self) -> list[Job]:
        """List who may be stopped."""
        found = []
        for name, started_s in self.started.items():
            held = self.world.live(name)
            cost = sum(one.resource.gpus for one in held) * (self.world.now_s - started_s + COST_BASE_S)
            found.append((name, cost, _places(held)))
        return found

    def fits(self, stopped: tuple[Job, ...]) -> bool:
        """Tell, by counting, whether the gang has a place at its level without these jobs."""
        views, _ = self.world.engine.servers()
        free = {view.server.server_id: view.server.capacity.gpus - view.used.gpus for view in views}
        for _, _, places in stopped:
            for server_id, gpus in places:
                free[server_id] += gpus
        domains: dict[str, list[int]] = {}
        for view in views:
            rooms = free[view.server.server_id] // self.gpus
            domains.setdefault(view.server.rack if self.level else "", []).append(rooms)
        width = len(views)
        if self.level == ("locality:0",):
            width = -(-self.containers // (GPUS // self.gpus))
        return any(sum(sorted(rooms)[-width:]) >= self.containers for rooms in domains.values())


def _places(held: list[Container]) -> tuple[tuple[str, int], ...]:
    return tuple((one.server_id, one.resource.gpus) for one in held)


def stopped_by(small: Small, plan: PlanView) -> tuple[Job, ...]:
    names = {victim.job_id for victim in plan.victims}
    return tuple(job for job in small.jobs() if job[0] in names)


def cost(jobs: tuple[Job, ...]) -> float:
    return sum(job[1] for job in jobs)


def least(small: Small) -> float | None:
    """Try every set."""
    jobs = small.jobs()
    costs = [cost(some) for count in range(1, len(jobs) + 1) for some in combinations(jobs, count) if small.fits(some)]
    return min(costs) if costs else None


def test_whom_the_engine_stops_is_needed_and_mostly_of_least_cost() -> None:
    found = cheapest = 0
    for seed in range(WORLDS):
        small = Small(seed)
        if small.world.runs("b"):
            continue
        preview = small.world.engine.preempt_preview("b")
        assert preview is not None
        best = least(small)
        if preview.plan is None:
            assert best is None, f"seed {seed}: {preview.sentence}, and stopping some would make room"
            continue
        assert best is not None, f"seed {seed}: {preview.plan} would make no room"
        chosen = stopped_by(small, preview.plan)
        assert small.fits(chosen), f"seed {seed}: {chosen} would make no room"
        for job in chosen:
            fewer = tuple(one for one in chosen if one is not job)
            assert not small.fits(fewer), f"seed {seed}: {job[0]} is not needed"
        found += 1
        cheapest += cost(chosen) <= best + 1e-6
    assert found > WORLDS // 2
    assert cheapest >= LEAST_COST_SHARE * found, f"{cheapest} of {found} are of least cost"
