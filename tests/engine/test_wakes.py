"""Whatever was freed wakes whom it serves: after a pass nobody who could be placed is left waiting."""

import random

import pytest

from tests.engine.world import World, ask, server
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.finding import find_quietly
from yarn_gpu_sched.engine.masters import masters_admit
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState


def nobody_waits_in_vain(world: World) -> int:
    """Check that; return how many wait."""
    core = world.engine._core
    waiting = 0
    for record in core.state.jobs.values():
        want = record.want
        if not isinstance(want, JobWant) or not core.queue.is_blocked(want):
            continue
        waiting += 1
        if not want.application_master or masters_admit(core, want):
            assert find_quietly(core, want.demand) is None, f"{want.job_id} waits in vain"
    return waiting


class Crowd:
    """More jobs than fit, of every kind, on small servers whose memory and vcores are scarce too."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lends = seed % 2 == 1
        settings = EngineSettings(ended_jobs_max=10, cpu_share=0.3, am_share=self.rng.choice((0.1, 0.3)))
        self.world = World(settings, audited=False)
        self.world.up(*(self.server(f"s{number}") for number in range(8)))
        self.jobs = 0
        self.open: list[PlaceGang] = []

    def server(self, name: str) -> Server:
        rng = self.rng
        state = rng.choice([ServerState.RUNNING] * 5 + [ServerState.DRAINING])
        return server(
            name,
            rng.choice((2, 4, 4, 8)),
            rack=f"/r{rng.randint(1, 3)}",
            memory_mb=rng.choice((16, 24, 40)),
            vcores=rng.choice((12, 24)),
            partition=(partition := rng.choice(("", "", "", "p"))),
            state=state,
            lends=self.lends and partition == "p",
        )

    def resource(self, *, plain: bool) -> Resource:
        rng = self.rng
        gpus = 0 if plain else rng.choice((1, 1, 2, 4))
        return Resource(rng.choice((1, 2, 4, 7)), rng.choice((1, 1, 3)), gpus)

    def submit(self) -> None:
        rng, world = self.rng, self.world
        self.jobs += 1
        job_id = f"j{self.jobs}"
        partition = rng.choice(("", "", "", "p"))
        containers = rng.randint(1, 5)
        tags = rng.choice(((), (f"gang:{containers}",)))
        world.submit(job_id, *tags, recovered=True)
        asks = [ask(containers, self.resource(plain=rng.random() < 0.3), 1, partition=partition)]
        if rng.random() < 0.3:
            asks.append(ask(rng.randint(1, 3), self.resource(plain=rng.random() < 0.5), 2, partition=partition))
        if rng.random() < 0.4:
            asks.append(ask(1, self.resource(plain=True), 0, am=True, partition=partition))
        world.ask(job_id, *asks)

    def free_something(self) -> None:
        rng, world = self.rng, self.world
        live = sorted(world.engine._core.state.containers)
        if live and rng.random() < 0.7:
            world.release(rng.choice(live))
            return
        running = sorted(job_id for job_id, record in world.engine._core.state.jobs.items() if record.containers)
        if running:
            world.end(rng.choice(running))

    def step(self) -> None:
        rng, world = self.rng, self.world
        action = rng.random()
        if action < 0.45:
            self.submit()
        elif action < 0.9:
            self.free_something()
        else:
            world.change(self.server(f"s{rng.randint(0, 7)}"))
        world.now_s += rng.choice((0.0, 0.1, 40.0))
        self.open.extend(world.decide())
        rng.shuffle(self.open)
        while len(self.open) > rng.randint(0, 1):
            (world.refuse if rng.random() < 0.1 else world.commit)(self.open.pop())
        self.open.extend(world.decide())


@pytest.mark.parametrize("seed", range(8))
def test_nobody_who_could_be_placed_is_left_waiting(seed: int) -> None:
    crowd = Crowd(seed)
    waited = 0
    for step in range(250):
        crowd.step()
        waited += nobody_waits_in_vain(crowd.world)
        if step % 25 == 0:
            assert crowd.world.engine.audit() == []
    assert waited > 1_000
    assert len(crowd.world.places) > 100
