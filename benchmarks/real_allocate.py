"""What the shim adds to the ResourceManager's `allocate`, which each heartbeat of each master passes: against stock.

Three ResourceManagers of the same settings run side by side: the shim's, stock, and stock once more as the control.
Masters that beat without pause get a turn at one after the other, and each scheduler's `allocate` is timed inside its
ResourceManager: the RPC around it takes ten times as long and would hide what is looked for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks import generator
from benchmarks.arena import TIMED_SHIM, TIMED_STOCK, Arena, arena
from benchmarks.figures import Figure, Measured
from benchmarks.real import SHIM, configuration, scratch
from benchmarks.tenant_queues import FULL, LEAF_QUEUES, WAITING, queues
from yarn_gpu_sched.embedded import shim_jar

TIMED = Path(__file__).parent / "timed"
SERVERS = {"servers": 64, "server_gpus": 8, "beat_ms": 500}
MASTERS = {"applications": 20, "gangs": 300, "gang": 8, "gap_ms": 100}
TURN_MS, ROUNDS = 250, 40
# Before, it is Java's compilers that are measured.
WARM_UP_CALLS, _WARM_UP_ROUNDS_MAX, _WARM_UP_ROUNDS_WITH_GANGS = 30_000, 400, 20
# While it is suspended, the service neither reads nor answers; after 3 s of it the shim would take it for lost.
_SLOW_ROUNDS = 3
_GANGS_MIN = 10
_P50_US_MAX, _P99_US_MAX = 20.0, 100.0
BEAN = "yarn-gpu-sched:name=Allocate"
_HEAP = ("-Xmx1g", "-Xms1g")


@dataclass(frozen=True, slots=True)
class Phase:
    """How the service behaves in a part of the run. `slow`: it runs for one turn of the shim's out of three."""

    name: str
    gangs: bool = False
    slow: bool = False
    away: bool = False


PHASES = (
    Phase("connected"),
    Phase("connected, placing gangs", gangs=True),
    Phase("service answers slowly, gangs asked", gangs=True, slow=True),
    Phase("service away", away=True),
)


@dataclass(slots=True)
class Contender:
    """One ResourceManager, the masters that beat at it, and in which phase so many calls were made."""

    name: str
    running: Arena
    masters: generator.Held
    calls: dict[str, tuple[int, int]] = field(default_factory=dict)
    gangs: dict[str, int] = field(default_factory=dict)

    def counted(self) -> int:
        """Return how many calls were timed so far."""
        return int(self.running.bean(BEAN)["Calls"])

    def turn(self, phase: Phase) -> None:
        """Let the masters beat for the time of a turn."""
        self.masters.tell(f"{TURN_MS} {int(phase.gangs)}")
        done = self.masters.wait("turn")
        self.gangs[phase.name] = self.gangs.get(phase.name, 0) + done["gangs"]

    def took_us(self) -> dict[str, tuple[list[float], list[float]]]:
        """Return the sorted microseconds of each phase's calls: those that ask nothing, and those that ask."""
        all_ns: list[int] = self.running.bean(BEAN)["TookNs"]
        return {phase: split(all_ns[begin:end]) for phase, (begin, end) in self.calls.items()}


def split(took_ns: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return sorted microseconds of calls that ask nothing, and of those that ask, which are negative."""
    return sorted(ns / 1000 for ns in took_ns if ns >= 0), sorted(-ns / 1000 for ns in took_ns if ns < 0)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value by nearest rank; NaN of nothing."""
    return ordered[max(1, math.ceil(share * len(ordered))) - 1] if ordered else math.nan


def timed_classes(folder: Path) -> Path:
    """Compile the schedulers that time their calls into a new folder, and return it."""
    classes = folder / "classes"
    classes.mkdir()
    generator.compile_java(sorted(TIMED.glob("*.java")), classes, shim_jar())
    return classes


def measure(rounds: int = ROUNDS, warm_up_calls: int = WARM_UP_CALLS) -> Measured:
    """Measure all phases."""
    with scratch() as folder, ExitStack() as stack:
        classes = timed_classes(folder)
        shim, *stock = (
            stack.enter_context(_contender(name, folder / name, scheduler, classes))
            for name, scheduler in (("shim", TIMED_SHIM), ("stock", TIMED_STOCK), ("control", TIMED_STOCK))
        )
        _warm_up(warm_up_calls, shim, *stock)
        for phase in PHASES:
            _run(phase, rounds, shim, stock)
        losses = shim.running.bean(SHIM)["LinkLosses"]
        figures = list(_figures(shim, *stock))
        told = configuration(shim.running) | {"servers": SERVERS, "masters": MASTERS, "turn_ms": TURN_MS}
    # The one loss is the kill before the last phase: a service that is slow is still connected.
    figures.append(Figure("links lost but for the kill", losses - 1, "links", 0.0))
    return Measured(tuple(figures), told | {"rounds": rounds, "heap": " ".join(_HEAP)})


@contextmanager
def _contender(name: str, folder: Path, scheduler: str, classes: Path) -> Iterator[Contender]:
    settings = queues(SERVERS["servers"], SERVERS["server_gpus"])
    with (
        arena(folder, scheduler, SERVERS["servers"], classes=(classes,), flags=_HEAP, settings=settings) as running,
        generator.Held(
            running.conf, "turns", **SERVERS, **MASTERS, queues=LEAF_QUEUES, waiting=WAITING, waiting_queue=FULL
        ) as masters,
    ):
        masters.wait("ready")
        yield Contender(name, running, masters)


def _warm_up(calls: int, *contenders: Contender) -> None:
    for number in range(_WARM_UP_ROUNDS_MAX):
        phase = Phase("warm-up", gangs=number < _WARM_UP_ROUNDS_WITH_GANGS)  # not all that were prepared
        for contender in contenders:
            contender.turn(phase)
        if min(contender.counted() for contender in contenders) >= calls:
            return
    raise TimeoutError(f"fewer than {calls} calls in {_WARM_UP_ROUNDS_MAX} turns of {TURN_MS} ms each")


def _run(phase: Phase, rounds: int, shim: Contender, stock: Sequence[Contender]) -> None:
    contenders = [shim, *stock]
    before = [contender.counted() for contender in contenders]
    if phase.away:
        shim.running.cluster.kill("service")
    service = None if phase.away else psutil.Process(shim.running.pid("service"))
    for number, first in zip(range(rounds), itertools.cycle(range(len(contenders))), strict=False):
        for contender in contenders[first:] + contenders[:first]:  # nobody always follows the same one
            awake = not phase.slow or (contender is shim and number % _SLOW_ROUNDS == 0)
            if service is not None:
                service.resume() if awake else service.suspend()
            contender.turn(phase)
    if service is not None:
        service.resume()
    for contender, begin in zip(contenders, before, strict=True):
        contender.calls[phase.name] = (begin, contender.counted())


def _figures(shim: Contender, stock: Contender, control: Contender) -> Iterator[Figure]:
    ours, theirs, again = shim.took_us(), stock.took_us(), control.took_us()
    for phase in PHASES:
        for kind, what in enumerate(("beats", "asks")):
            taken = [all_us[phase.name][kind] for all_us in (ours, theirs, again)]
            for label, share, limit in (("p50", 0.5, _P50_US_MAX), ("p99", 0.99, _P99_US_MAX), ("p99.9", 0.999, None)):
                yield added(f"{phase.name}: {what}, {label}", taken, share, limit)
        if phase.gangs:
            each = ", ".join(f"{c.name} {c.gangs[phase.name]}" for c in (stock, control))
            placed = shim.gangs[phase.name]
            yield Figure(f"{phase.name}: gangs placed", placed, "gangs", _GANGS_MIN, at_least=True, note=each)


def added(name: str, taken: Sequence[list[float]], share: float, limit: float | None) -> Figure:
    """Return how much more the first took than the two stock ones together, by one quantile of their sorted calls."""
    ours, theirs, again = (quantile(ordered, share) for ordered in taken)
    both = quantile(sorted([*taken[1], *taken[2]]), share)
    note = f"{ours:.1f}; stock {theirs:.1f}, control {again:.1f}; {len(taken[0])} calls"
    return Figure(f"{name}, added", ours - both, "µs", limit, note=note)
