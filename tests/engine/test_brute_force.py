"""Whole passes of policy `philly` on small clusters are held against a scheduler that tries everything.

Turn by turn it says which gang must be placed next and how tightly: the queues whose share is used least, level by level, users by
their use, then priority and order of submission; limits counted anew; places found by trying every number on every server.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.engine.ledger import Ledger, queue, up
from tests.engine.stopwatch import LOCALITY, Stopwatch, ceiling
from tests.engine.world import World, ask, server, worker
from tests.placement.exhaustive import expected, fewest_on_empty
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.server_use import ServerUse, mask_of
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

CLUSTERS = 300
STEP_S = 10.0
LEAVES = ["root.a", "root.b", "root.p.x", "root.p.y"]
SHAPES = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (4, 1), (2, 3), (2, 4), (1, 4), (5, 1), (3, 2), (6, 1)]

Turn = tuple[tuple[bool, float, str], ...]


class Oracle:
    """Knows who is next, of the gangs that wait before a pass, and takes over what the engine has decided, one by one."""

    def __init__(self, small: Small) -> None:
        core = small.world.engine._core
        self._ledger = Ledger(small.world.engine, small.told)
        self._quotas = small.quotas
        self._steps = small.stopwatch.levels(small.world.engine, self._ledger, small.world.now_s)
        self._lending = [*core.index.lending]
        self._uses = {use.server_id: _copy(use, core.state.cpu_share) for use in core.state.servers.values()}
        wants = [record.want for record in core.state.jobs.values()]
        self.waiting = [want for want in wants if isinstance(want, JobWant) and want.gang]
        self.reasons: Counter[str] = Counter()

    def turn(self, want: JobWant) -> tuple[Turn, str, int, float, str]:
        turn = []
        for path in [*up(want.vc)][-2::-1]:
            used, quota = self._ledger.held[path, want.partition, "gpus"], self._quotas.get((path, want.partition))
            turn.append((not quota, used / quota if quota else float(used), path))
        if self._ledger.said(want.vc, "user-fairness") == "true":
            user = want.record.job.user
            turn.append((False, float(self._ledger.user_gpus_of[want.vc, user, want.partition]), user))
        job = want.record.job
        return tuple(turn), want.partition, -job.priority, job.submit_time_s, job.job_id

    def next(self) -> tuple[JobWant, int] | None:
        """Say who must be placed next, and at which level."""
        for want in sorted(self.waiting, key=self.turn):
            if self._ledger.forbids(want):
                self.reasons["limit"] += 1
                continue
            level = self._level(want)
            if level is not None:
                return want, level
        return None

    def _level(self, want: JobWant) -> int | None:
        names = [want.partition] if want.partition else ["", *self._lending]
        fits = any(fewest_on_empty(self._of(name), want.kinds) is not None for name in names)
        allowed = min(ceiling(want.record), (0 if fits else 2) + self._steps[want.job_id])
        for name in names:
            if self._ledger.exceeds(want, name):
                self.reasons["lent"] += 1
                continue
            found = expected(self._of(name), want.kinds)
            if found is not None and found[0] <= allowed:
                return found[0]
            self.reasons["level" if found is not None else "room"] += 1
        return None

    def _of(self, partition: str) -> Iterable[ServerUse]:
        return [use for use in self._uses.values() if use.server.partition == partition]

    def take(self, decision: PlaceGang) -> None:
        """Take over what was decided."""
        for number, one in enumerate(decision.assignments):
            use, name = self._uses[one.server_id], f"{decision.decision_id}/{number}"
            assert use.free_mask & mask_of(one.gpu_indices) == mask_of(one.gpu_indices)
            use.containers[name] = Container(name, decision.job_id, 1, one.server_id, one.resource, one.gpu_indices)
            use.recount()
            self._ledger.add(decision.job_id, use.server.partition, one.resource)
        self.waiting = [want for want in self.waiting if want.job_id != decision.job_id]


class Small:
    """A small random cluster, its queues and its jobs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.told: dict[str, VirtualCluster] = {}
        self.quotas: dict[tuple[str, str], int] = {}
        self.stopwatch = Stopwatch()
        self.lends = rng.random() < 0.5
        settings = EngineSettings(policy="philly", relax_after_s=rng.choice((0.0, STEP_S)))
        self.world = World(engine=Engine(settings))
        self.world.up(*(self.server(number) for number in range(rng.randint(2, 4))))
        for path in rng.sample([*LEAVES, "root.p"], rng.randint(0, 4)):
            self.queue(path)
        self.jobs = 0
        for number in range(rng.randint(0, 6)):
            self.hold(number)
        self.submit_some()
        self.look()

    def server(self, number: int) -> Server:
        rng = self.rng
        partition = rng.choice(("", "", "", "p"))
        return server(
            f"s{number}",
            rng.choice((2, 3, 4, 4)),
            rack=rng.choice(("/r1", "/r1", "/r1", "/r2", "/default-rack")),
            memory_mb=rng.choice((8, 64)),
            vcores=rng.choice((6, 64)),
            partition=partition,
            lends=self.lends and partition == "p",
        )

    def queue(self, path: str) -> None:
        rng = self.rng
        quota = {name: rng.choice((None, 0, 2, 4, 6)) for name in ("", "p")}
        texts = {name: "" if quota[name] is None else f"[yarn.io/gpu={quota[name]}]" for name in quota}
        self.quotas = {key: units for key, units in self.quotas.items() if key[0] != path}
        self.quotas |= {(path, name): units for name, units in quota.items() if units is not None}
        settings = []
        if rng.random() < 0.4:
            settings.append(("user-fairness", "true"))
        if rng.random() < 0.3:
            settings.append(("max-gpus-per-user", rng.choice(("2", "4"))))
        if rng.random() < 0.2:
            settings.append(("relax-after-s", "3"))
        most = rng.choice(("", "", "[yarn.io/gpu=2]", "[yarn.io/gpu=4]", "[vcores=3,yarn.io/gpu=6]"))
        elsewhere = (texts["p"], rng.choice(("", "", "[yarn.io/gpu=2]")))
        vc = queue(path, texts[""], most, settings=tuple(settings), elsewhere=elsewhere)
        self.told[path] = vc
        self.world.configure(
            path, maximum_gpus=vc.maximum_gpus, capacities=vc.capacities, settings=vc.settings, parent=path == "root.p"
        )

    def hold(self, number: int) -> None:
        """Let somebody hold some of a server, charged to a queue."""
        rng, state = self.rng, self.world.engine._core.state
        use = state.servers[rng.choice(sorted(state.servers))]
        if use.gpus_free:
            self.world.submit(f"h{number}", vc=rng.choice(LEAVES), user=rng.choice(("ann", "bob")))
            self.world.seen(f"held{number}", f"h{number}", use.server_id, worker(rng.randint(1, use.gpus_free), 1))

    def submit_some(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 6)):
            self.jobs += 1
            containers, gpus = rng.choice(SHAPES)
            plain = rng.choice((0, 0, 0, 1))
            tag = f"gang:{containers}x{gpus}" + (f"+{plain}" if plain else "")
            locality = rng.choice(((), (), (), (rng.choice(sorted(LOCALITY)),)))
            self.world.submit(
                f"j{self.jobs}",
                tag,
                *locality,
                vc=rng.choice(LEAVES),
                user=rng.choice(("ann", "bob")),
                priority=rng.choice((0, 0, 0, 1)),
                recovered=True,
            )
            partition = rng.choice(("", "", "", "p"))
            size = rng.choice((1, 1, 3))
            asks = [ask(containers, worker(gpus, size), 1, partition=partition)]
            if plain:
                asks.append(ask(plain, worker(0, size), 2, partition=partition))
            self.world.ask(f"j{self.jobs}", *asks)

    def change(self) -> None:
        """End somebody, let others come, or change a queue."""
        rng, world = self.rng, self.world
        running = [name for name, record in sorted(world.engine._core.state.jobs.items()) if record.containers]
        if running and rng.random() < 0.6:
            world.end(rng.choice(running))
        if rng.random() < 0.5:
            self.submit_some()
        if rng.random() < 0.2:
            self.queue(rng.choice([*LEAVES, "root.p"]))
        self.look()

    def look(self) -> None:
        self.stopwatch.note(self.world.engine, Ledger(self.world.engine, self.told))

    def decide(self, seen: Counter[str]) -> None:
        """One pass, held against the oracle turn by turn."""
        oracle = Oracle(self)
        decisions = self.world.decide()
        for decision in decisions:
            found = oracle.next()
            assert found is not None, f"{decision} must not be"
            assert (found[0].job_id, found[1]) == (decision.job_id, int(decision.level)), f"{decision}"
            oracle.take(decision)
            seen[f"level {found[1]}"] += 1
        assert oracle.next() is None, "somebody waits in vain"
        seen += oracle.reasons
        self.look()
        self.world.commit(*decisions)
        self.look()


def _copy(use: ServerUse, cpu_share: float) -> ServerUse:
    twin = ServerUse(use.server, cpu_share)
    twin.containers = dict(use.containers)
    twin.recount()
    return twin


@pytest.mark.timeout(600)  # 20 s of work, on a machine that may be busy
def test_every_pass_places_who_must_be_placed_in_turn_and_as_tightly_as_can_be() -> None:
    rng = random.Random(20_261_130)
    seen: Counter[str] = Counter()
    for _ in range(CLUSTERS):
        small = Small(rng)
        for _ in range(4):
            small.decide(seen)
            small.world.now_s += rng.choice((0.0, 2.0, STEP_S))
            small.change()
    assert min(seen[key] for key in ("level 0", "level 1", "level 2", "limit", "lent", "level", "room")) > 5, seen
