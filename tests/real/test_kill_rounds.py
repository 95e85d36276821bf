"""kill -9 of the service, the ResourceManager and a NodeManager at random moments, with gangs that run and gangs that wait."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.real import spells
from tests.real.joint import FULL, ServedJoint
from tests.real.lasting import LastingGang

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.both]
ROUNDS = 5
WITHIN_S, AWAY_S = 5.0, 3.0
"""All are killed within this time, and each is started again after so much at most."""


def seed() -> int:
    """Return the seed of the rounds: YGS_SEED, or another each time where chance is wanted."""
    given = os.environ.get("YGS_SEED")
    if given is not None:
        return int(given)
    return random.SystemRandom().randrange(1_000_000) if "YGS_RANDOM" in os.environ else 1


@dataclass
class Round:
    """One round: what runs, what waits, what comes and goes, and what is killed meanwhile."""

    joint: ServedJoint
    workers: Path
    chance: random.Random
    told: list[str] = field(default_factory=list)
    gangs: list[LastingGang] = field(default_factory=list)

    def play(self) -> None:
        """Kill each of the three once; afterwards everything must go on as if nothing had been."""
        running = [self._gang(4, 2, managed=True), self._gang(2, 3)]
        self._until(lambda: all(gang.runs for gang in running), "two gangs run on 14 of 16 GPUs")
        waiting = [self._gang(4, 4), self._gang(3, 2, managed=True), self._gang(2, 3)]
        small = [self._gang(1, self.chance.choice([1, 2]), until="1") for _ in range(6)]
        for gang in waiting:
            self.joint.await_state(gang.app.app_id, FULL, 90)
        self._kill_all()
        self._await_all_back()
        self._none_was_touched(running)
        (self.workers / "stop").touch()
        for gang in [*running, *waiting, *small]:
            gang.await_end(120)
        self._all_succeeded()

    def _gang(self, containers: int, each: int, *, until: str = "stop", managed: bool = False) -> LastingGang:
        gang = LastingGang(self.joint, self.workers, containers, each, until, managed).start()
        self.gangs.append(gang)
        return gang

    def _kill_all(self) -> None:
        """Kill each at a moment of its own, and start it again a while later: any of them may be away while another dies."""
        servers = [name for name in self.joint.cluster.names if name.startswith("gpu")]
        moments: list[tuple[float, Callable[[str], None], str]] = []
        for victim in ("service", "rm", self.chance.choice(servers)):
            dies_s, away_s = self.chance.uniform(0, WITHIN_S), self.chance.uniform(0, AWAY_S)
            self.told.append(f"{victim} after {dies_s:.1f} s, for {away_s:.1f} s")
            cluster = self.joint.cluster
            moments += [(dies_s, cluster.kill, victim), (dies_s + away_s, cluster.start, victim)]
        begun_s = time.monotonic()
        for at_s, do, victim in sorted(moments, key=lambda moment: moment[0]):
            time.sleep(max(0.0, begun_s + at_s - time.monotonic()))  # moments of chance, nothing is waited for
            do(victim)

    def _await_all_back(self) -> None:
        self.joint.cluster.await_servers(wait_s=90)
        self.joint.await_connected(90)

    def _none_was_touched(self, running: list[LastingGang]) -> None:
        for gang in running:
            assert not gang.problem, gang.problem
            assert gang.runs, f"{gang}: {gang.lost}"
            self._until(partial(self._tells_of, gang), f"the service tells of {gang}")
            seen = spells.read(self.workers)
            assert all(seen[one].end_s == float("inf") for one in gang.held)

    def _tells_of(self, gang: LastingGang) -> bool:
        return self.joint.on_gpus_now(gang.app.app_id).keys() == gang.held

    def _all_succeeded(self) -> None:
        self._until(lambda: set(self._ends().values()) == {"SUCCEEDED"}, "every job has succeeded")
        seen = spells.read(self.workers)
        assert not spells.held_twice(seen)
        assert not [one for gang in self.gangs for one in gang.misbound(seen)], "each is told of all of its GPUs"
        given_back = {one["container"] for gang in self.gangs for one in gang.lost}
        ended = {name for name, spell in seen.items() if spell.end_s < float("inf")} - given_back
        assert len(ended) == sum(gang.containers for gang in self.gangs), f"given back: {given_back}"

    def _ends(self) -> dict[str, str]:
        return {gang.app.app_id: str(self.joint.app(gang.app.app_id)["finalStatus"]) for gang in self.gangs}

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        self.joint.until(holds, bool, what, 90)


@contextmanager
def _told(numbers: int, told: list[str]) -> Iterator[None]:
    """Say in a failure what chance chose, so that it can be had again."""
    try:
        yield
    except BaseException as problem:
        problem.add_note(f"YGS_SEED={numbers} plays this again; killed: {'; '.join(told)}")
        raise


def _play(joint: ServedJoint, workers: Path, rounds: int) -> None:
    numbers = seed()
    chance = random.Random(numbers)
    for number in range(1, rounds + 1):
        folder = workers / f"round-{number}"
        folder.mkdir()
        one = Round(joint, folder, chance)
        since_s = time.monotonic()
        with _told(numbers, one.told):
            one.play()
        took_s = time.monotonic() - since_s
        sys.stderr.write(f"round {number} of seed {numbers}: {took_s:.0f} s; killed {'; '.join(one.told)}\n")


@pytest.mark.timeout(300)
def test_a_round_of_kills_loses_no_job_and_gives_no_gpu_twice(joint: ServedJoint, workers: Path) -> None:
    _play(joint, workers, 1)


@pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
@pytest.mark.timeout(1200)
def test_rounds_of_kills_lose_no_job_and_give_no_gpu_twice(joint: ServedJoint, workers: Path) -> None:
    _play(joint, workers, ROUNDS)
