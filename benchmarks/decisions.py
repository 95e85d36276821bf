"""Measure one decision with commit on clusters of 256, 2,048 and 16,384 servers that are 85 to 90 % full.

A decision is one `Pass` that finds a gang waiting: the search, the check, taking the GPUs and making the command (or finding that
there is no place). Beside it stands what the commit's outcome costs afterwards, and what a loop of about the same length cost that
was timed in turns with the decisions: how far its p99 is from its p50 is the machine's doing.
"""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from benchmarks.decision_world import DecisionWorld, filled, snapshot_s
from benchmarks.figures import Figure, Measured
from yarn_gpu_sched.service.garbage import Garbage

SIZES = (256, 2_048, 16_384)
ROUNDS = 3_000
WARM_ROUNDS = 200
STRETCH_ROUNDS = 20
DISTURBED = 1.4
"""A stretch of rounds counts as disturbed when a yardstick in it took so many times its median."""

UNDISTURBED_MIN = 500
"""With fewer rounds in undisturbed stretches nothing is said of them."""

GC = "as the service: gc.freeze before, collected between decisions when due; default gc: neither"

QUANTILES = (0.5, 0.99, 0.999)

# Free GPUs on each of the 32 servers of a rack. One rack in eight has servers that are empty, the others have pieces.
PIECES = [0] * 20 + [1] * 3 + [2] * 4 + [3] * 2 + [4] * 2 + [6]
WITH_EMPTY = [8] * 10 + [0] * 22
TURNS = [WITH_EMPTY] + [PIECES] * 7
SCATTERED = [[0] * 11 + [1] * 13 + [2] * 8]
"""No rack has 64 GPUs free: a gang of 64 goes anywhere."""


@dataclass(frozen=True, slots=True)
class Case:
    """Gangs that are asked one after the other; `limit_us` is for p99."""

    name: str
    gangs: tuple[tuple[int, int], ...]
    limit_us: float
    turns: list[list[int]]
    placed: bool = True


CASES = (
    Case(
        "at most 8 GPUs", ((1, 1), (1, 2), (2, 1), (1, 4), (2, 2), (4, 1), (1, 8), (2, 4), (4, 2), (8, 1)), 100, TURNS
    ),
    Case("64 GPUs on 8 servers", ((8, 8), (16, 4)), 300, TURNS),
    Case("64 GPUs anywhere", ((64, 1),), 600, SCATTERED),
    Case("no place", ((16, 8), (4, 6), (1, 5)), 50, SCATTERED, placed=False),
)


def measure() -> Measured:
    """Measure every case on every size, and what follows from them together."""
    figures: list[Figure] = _yardstick()
    p50s: dict[str, list[float]] = {case.name: [] for case in CASES}
    visits: dict[str, list[float]] = {case.name: [] for case in CASES}
    fills: dict[str, str] = {}
    for servers in SIZES:
        for case in CASES:
            world = filled(servers, case.turns)
            fills[f"{case.name}, {servers} servers"] = f"{world.fill:.1%}"
            run = _Run(world, case)
            figures.extend(run.figures(servers))
            p50s[case.name].append(run.p50_us)
            visits[case.name].append(run.visits)
            del world, run
            gc.unfreeze()
            gc.collect()
    figures.extend(_together(p50s, visits))
    figures.append(_snapshot())
    return Measured(
        tuple(figures),
        {
            "rounds": ROUNDS,
            "sizes": SIZES,
            "gpus_a_server": 8,
            "servers_a_rack": 32,
            "gc": GC,
            "fill": fills,
        },
    )


def _yardstick() -> list[Figure]:
    """Time a loop that has nothing to do with decisions: it tells how quick and how quiet the machine is just now."""
    times = [_loop_ns(1_000) for _ in range(ROUNDS)]
    note = "no limit; some 25 to 40 µs where nobody else is at work"
    return [
        Figure(f"yardstick: 1,000 additions, p{q * 100:g}", _quantile(times, q), "µs", note=note) for q in QUANTILES
    ]


def _loop_ns(additions: int) -> int:
    begin = time.thread_time_ns()
    total = 0
    for number in range(additions):
        total += number
    return time.thread_time_ns() - begin


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _snapshot() -> Figure:
    """Absorb a snapshot; the conversion from the wire is not in it."""
    took_s = snapshot_s(servers=4_096, containers=10_000)
    note = "4,096 servers, 10,000 containers, 1,000 jobs that ask, and the first pass; the engine's part"
    return Figure("snapshot absorbed", took_s, "s", 1, note=note)


def _together(times: dict[str, list[float]], visits: dict[str, list[float]]) -> list[Figure]:
    figures = []
    for name, values in times.items():
        ratio = max(values) / min(values)
        figures.append(Figure(f"{name}: largest against smallest time", ratio, "x", 3, note="p50, as the service"))
    for name, counts in visits.items():
        spread = (max(counts) - min(counts)) / min(counts) * 100
        note = " / ".join(f"{count:.2f}" for count in counts)
        figures.append(Figure(f"{name}: index entries visited, spread", spread, "%", 10, note=f"{note} a decision"))
    return figures


@dataclass(frozen=True, slots=True)
class _Times:
    """Nanoseconds of each round: the decision, the outcome of its commit, the yardstick.

    ``interrupted`` counts how often another process had this processor meanwhile.
    """

    decided: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    yardstick: list[int] = field(default_factory=list)
    interrupted: list[int] = field(default_factory=list)

    def undisturbed(self) -> _Times:
        """Keep the stretches in which no yardstick took much longer than most: what is slow there is not the machine's doing."""
        most_ns = statistics.median(self.yardstick) * DISTURBED
        kept = _Times()
        for start in range(0, len(self.decided), STRETCH_ROUNDS):
            stretch = slice(start, start + STRETCH_ROUNDS)
            if max(self.yardstick[stretch]) <= most_ns:
                kept.decided.extend(self.decided[stretch])
                kept.committed.extend(self.committed[stretch])
                kept.yardstick.extend(self.yardstick[stretch])
                kept.interrupted.extend(self.interrupted[stretch])
        return kept


class _Run:
    """A case on one cluster: garbage is collected as Python does it by default, then as the service does."""

    def __init__(self, world: DecisionWorld, case: Case) -> None:
        self._world = world
        self._case = case
        self._step: Callable[[int], tuple[int, int]] = self._place if case.placed else self._find_no_place
        warm = sorted(self._step(number)[0] for number in range(WARM_ROUNDS))
        loops = sorted(_loop_ns(1_000) for _ in range(WARM_ROUNDS))
        self._additions = max(1, 1_000 * warm[WARM_ROUNDS // 2] // loops[WARM_ROUNDS // 2])
        self._default = self._times(after=lambda: None)
        garbage = Garbage()
        garbage.begin()
        garbage.freeze()
        before = world.visits
        self._served = self._times(after=partial(self._collect, garbage))
        self.visits = (world.visits - before) / ROUNDS
        self.p50_us = _quantile(self._served.decided, 0.5)
        garbage.end()

    def _collect(self, garbage: Garbage) -> None:
        """Do what the service does when nothing waits."""
        garbage.applied(self._world.events_applied())
        garbage.when_idle()

    def _times(self, *, after: Callable[[], None]) -> _Times:
        """Make decisions; let the cluster change a little after each."""
        taken = _Times()
        for number in range(ROUNDS):
            switches = _switches()
            taken.yardstick.append(_loop_ns(self._additions))
            decided_ns, committed_ns = self._step(number)
            taken.decided.append(decided_ns)
            taken.committed.append(committed_ns)
            taken.interrupted.append(_switches() - switches)
            if self._case.turns is TURNS:
                self._world.swap()
            after()
        return taken

    def _place(self, number: int) -> tuple[int, int]:
        """Place a gang, then end it, so that the cluster stays as full."""
        world = self._world
        gang = self._case.gangs[number % len(self._case.gangs)]
        world.submit(*gang)
        placed, decided_ns = world.decide()
        assert placed is not None, f"{gang} found no place"
        committed_ns = world.commit(placed)
        world.end(len(world.running) - 1)
        return decided_ns, committed_ns

    def _find_no_place(self, number: int) -> tuple[int, int]:
        world = self._world
        job_id = world.submit(*self._case.gangs[number % len(self._case.gangs)])
        placed, decided_ns = world.decide()
        assert placed is None, "there should be no place"
        world.withdraw(job_id)
        return decided_ns, 0

    def figures(self, servers: int) -> list[Figure]:
        """Give p50, p99 and p99.9 of every way."""
        figures = []
        for way, times in self._ways():
            rounds = len(times.decided)
            interrupted = sum(map(bool, times.interrupted)) / rounds
            for quantile, limit in zip(QUANTILES, (None, self._case.limit_us, None), strict=True):
                name = f"{self._case.name}, {servers} servers, {way}, p{quantile * 100:g}"
                note = f"yardstick {_quantile(times.yardstick, quantile):.0f} µs, {rounds} rounds, {interrupted:.0%} interrupted"
                if self._case.placed:
                    note += f", outcome {_quantile(times.committed, quantile):.0f} µs"
                figures.append(Figure(name, _quantile(times.decided, quantile), "µs", limit, note=note))
        return figures

    def _ways(self) -> list[tuple[str, _Times]]:
        ways = [("as the service", self._served), ("default gc", self._default)]
        undisturbed = self._served.undisturbed()
        if len(undisturbed.decided) < UNDISTURBED_MIN:
            return ways
        return [*ways, ("as the service, undisturbed", undisturbed)]


def _quantile(times_ns: list[int], quantile: float) -> float:
    """Give a quantile of nanoseconds in microseconds."""
    return statistics.quantiles(times_ns, n=1_000, method="inclusive")[round(quantile * 1_000) - 1] / 1_000
