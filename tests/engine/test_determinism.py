"""The same events give the same commands and the same state, whatever the process and its hash seed (law 12)."""

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.model.server import ServerState

ROOT = Path(__file__).resolve().parents[2]


def story(seed: int = 7) -> str:
    """Live through many random events; hash all commands and the state."""
    rng = random.Random(seed)
    world = World(EngineSettings(ended_jobs_max=20), audited=False)
    names = [f"s{number}" for number in rng.sample(range(100), 24)]
    world.up(*(server(name, rng.choice((0, 2, 4, 8)), rack=f"/r{rng.randint(1, 5)}") for name in names))
    for _ in range(300):
        world.now_s += 0.1
        job_id = f"j{rng.randint(0, 80)}"
        containers, gpus = rng.randint(1, 6), rng.randint(0, 3)
        tags = rng.choice(((), (f"gang:{containers}",), (f"gang:{containers}x{gpus or 1}",)))
        world.submit(job_id, *tags, vc=f"root.v{rng.randint(0, 3)}", submit_time_s=float(rng.randint(0, 50)))
        world.ask(job_id, ask(1, AM, 0, am=True), ask(containers, worker(gpus)), ask(1, worker(0), 3))
        for decision in world.decide():
            (world.refuse if rng.random() < 0.2 else world.commit)(decision)
        ended = f"j{rng.randint(0, 80)}"
        if rng.random() < 0.3 and world.engine.job(ended):
            world.end(ended)
        if rng.random() < 0.1:
            shake(world, rng, rng.choice(names))
    digest = hashlib.sha256(repr(world.commands).encode()).hexdigest()
    return f"{len(world.places)} {digest} {world.engine.digest()}"


def shake(world: World, rng: random.Random, name: str) -> None:
    """Remove a server or change it."""
    if rng.random() < 0.5:
        world.remove(name)
    else:
        state = rng.choice(list(ServerState))
        world.change(server(name, rng.choice((2, 4)), state=state, rack=f"/r{rng.randint(1, 5)}"))


def test_two_processes_with_different_hash_seeds_agree() -> None:
    told = []
    for seed in ("1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", "from tests.engine.test_determinism import story; print(story())"],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        )
        told.append(done.stdout.strip())
    assert told[0] == told[1] == story()
    assert int(told[0].split()[0]) > 50


def looked_at(look: Callable[[Engine], object]) -> str:
    """Let a maximum forbid what waits and be lifted in the same instant, and look in between."""
    world = World(EngineSettings(policy="philly", relax_after_s=10.0), audited=False).up(server("s1"))
    for name, gpus in (("runs", 1), ("waits", 2)):
        world.submit(name, f"gang:2x{gpus}")
        world.ask(name, ask(2, worker(gpus)))
        world.run()
    world.now_s = 5.0
    world.configure("root.a", maximum_gpus=1)
    look(world.engine)
    world.configure("root.a")
    world.now_s = 7.0
    world.decide()
    return world.engine.digest()


LOOKS: list[Callable[[Engine], object]] = [Engine.next_wake_s, Engine.delays, Engine.snapshot, Engine.audit]


@pytest.mark.parametrize("look", LOOKS)
def test_who_only_looks_changes_nothing(look: Callable[[Engine], object]) -> None:
    assert looked_at(look) == looked_at(lambda _engine: None)
