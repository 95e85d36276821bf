"""No loop of decisions and refusals: whatever a resource manager refuses, a job is tried seldom, unless it asks otherwise."""

import random

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang, RefuseJob, RequeueJob
from yarn_gpu_sched.model.outcome import OutcomeCode

REFUSALS = [code for code in OutcomeCode if code is not OutcomeCode.COMMITTED]
HOUR_S = 3_600.0
TRIES_MAX = 9 + 120
"""Of a job in an hour: nine pauses that double from 0.1 s to 30 s, and then two tries a minute."""

JOBS: dict[str, tuple[tuple[str, ...], tuple[tuple[int, int, int], ...]]] = {
    "gang": (("gang:2x2",), ((2, 2, 1),)),
    "gang of two keys": (("gang:3x1+1",), ((1, 0, 1), (3, 1, 2))),
    "singles": ((), ((1, 1, 1), (1, 2, 2), (1, 0, 3))),
    "many singles": ((), ((7, 1, 1), (7, 2, 2))),
    "never fits": (("gang:9x9",), ()),
    "master": (("gang:2x2",), ((1, 0, 0),)),
    "master with GPUs": (("gang:2x2",), ((1, 1, 0),)),
}
Sent = PlaceGang | RefuseJob | RequeueJob


class Refuser:
    """A resource manager that refuses, and a driver that runs a pass whenever the engine says that it is time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World(EngineSettings(repair_hold_s=5, requeue_after_s=60)).up(*(server(f"s{n}") for n in range(8)))
        self.tries: dict[str, int] = {}
        self.passes = 0
        self.seen = 0

    def submit(self, job_id: str) -> None:
        tags, asked = JOBS[job_id]
        self.world.submit(job_id, *tags)
        self.world.ask(job_id, *(ask(count, worker(gpus), key, am=key == 0) for count, gpus, key in asked))

    def run(self, until_s: float) -> None:
        world = self.world
        while (wake_s := world.engine.next_wake_s()) is not None and wake_s <= until_s:
            world.now_s = max(world.now_s, wake_s)
            world.decide()
            self.passes += 1
            sent = [one for one in world.commands[self.seen :] if isinstance(one, Sent)]
            self.seen = len(world.commands)
            self.rng.shuffle(sent)
            for one in sent:
                self.tries[one.job_id] = self.tries.get(one.job_id, 0) + 1
                world.refuse(one, self.rng.choice(REFUSALS))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("job_id", JOBS)
def test_who_is_always_refused_is_tried_ever_more_seldom(job_id: str, seed: int) -> None:
    refuser = Refuser(seed)
    refuser.submit(job_id)
    refuser.run(HOUR_S)
    containers = max(1, sum(count for count, _, _ in JOBS[job_id][1]))
    assert 100 < refuser.tries[job_id] <= TRIES_MAX * containers
    assert refuser.passes <= 2 * TRIES_MAX, "a pass that decides nothing is not asked for"


@pytest.mark.parametrize("every_s", [0.0, 1.0])
def test_who_asks_otherwise_again_and_again_is_tried_once_for_each_time(every_s: float) -> None:
    refuser = Refuser(0)
    world = refuser.world
    world.submit("j")
    changes = 200
    for number in range(changes):
        world.ask("j", ask(1, worker(1 + number % 2)))
        refuser.run(world.now_s)
        world.now_s += every_s
    assert changes <= refuser.tries["j"] <= changes + TRIES_MAX
    world.ask("j", ask(1, worker(3)))
    tries = refuser.tries["j"]
    refuser.run(world.now_s + EngineSettings().backoff_max_s - 1.0)
    assert refuser.tries["j"] == tries + 1, "the pause has not become shorter"


def test_all_of_them_at_once() -> None:
    refuser = Refuser(0)
    for job_id in JOBS:
        refuser.submit(job_id)
    refuser.run(HOUR_S)
    assert refuser.passes <= 2 * TRIES_MAX * len(JOBS)


def test_a_degraded_gang_that_can_be_neither_repaired_nor_started_anew() -> None:
    refuser = Refuser(0)
    refuser.submit("gang")
    refuser.world.run()
    refuser.world.ask("gang")
    refuser.world.release(refuser.world.live("gang")[0].container_id, lost=True)
    refuser.world.ask("gang", ask(1, worker(2)))
    refuser.run(HOUR_S)
    assert 100 < refuser.tries["gang"] <= 2 * TRIES_MAX
    assert refuser.passes <= 4 * TRIES_MAX


def test_the_reason_is_the_refusal() -> None:
    world = World().up(server("s1"))
    world.submit("j")
    world.ask("j", ask(1, AM, 0, am=True))
    world.refuse(world.decide()[0], OutcomeCode.QUEUE_LIMIT)
    assert world.why("j") == (
        "refused_by_rm: the resource manager refused the last decision as queue_limit (not so); tried again in 0.1 s"
    )
