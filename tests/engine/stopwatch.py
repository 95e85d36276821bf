"""How loose gangs may lie, by a clock of the tests' own: it runs while a gang waits whole and no limit forbids it."""

from __future__ import annotations

from collections.abc import Iterable

from tests.engine.ledger import Ledger
from tests.placement.exhaustive import fewest_on_empty
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement import Kind

LOCALITY: dict[str, tuple[int, int | None]] = {
    "locality:0": (0, None),
    "locality:1": (1, None),
    "locality:2@0": (2, 0),
    "locality:1@2": (1, 2),
    "locality:2@9999": (2, 9_999),
}
"""Every tag of locality that is used here: never looser than this level, so many seconds a level."""

Spell = tuple[str, int, float]
"""A job, its attempt, and when it was first seen: time is counted for each."""


class Stopwatch:
    """What time each gang has spent on its ladder."""

    def __init__(self) -> None:
        self._spent_s: dict[Spell, float] = {}
        self._running: dict[Spell, None] = {}
        self._at_s = 0.0

    def note(self, engine: Engine, ledger: Ledger) -> None:
        """Look on after an event: whose time runs from here on."""
        core = engine._core
        self._advance(core.now_s)
        self._running = {_spell(record): None for record in core.state.jobs.values() if _runs(engine, ledger, record)}

    def _advance(self, now_s: float) -> None:
        for spell in self._running:
            self._spent_s[spell] = self._spent_s.get(spell, 0.0) + now_s - self._at_s
        self._at_s = now_s

    def spent_s(self, record: JobRecord, now_s: float) -> float:
        """Say how long a gang's time has run."""
        spell = _spell(record)
        return self._spent_s.get(spell, 0.0) + (now_s - self._at_s if spell in self._running else 0.0)

    def levels(self, engine: Engine, ledger: Ledger, now_s: float) -> dict[str, int]:
        """Say by how many levels, and to which at most, each job's gang may be looser than at first, in a pass at that time."""
        found = {}
        for job_id, record in engine._core.state.jobs.items():
            step_s = _step_s(engine, ledger, record)
            steps = int((self.spent_s(record, now_s) + 1e-6) // step_s) if step_s else 2
            found[job_id] = steps
        return found


def ceiling(record: JobRecord) -> int:
    """Say which level a job's own tag allows at most."""
    return next((LOCALITY[tag][0] for tag in record.job.tags if tag in LOCALITY), 2)


def _spell(record: JobRecord) -> Spell:
    return (record.job.job_id, record.job.attempt, record.first_seen_s)


def _step_s(engine: Engine, ledger: Ledger, record: JobRecord) -> float:
    own_s = next((LOCALITY[tag][1] for tag in record.job.tags if tag in LOCALITY), None)
    if own_s is None:
        of_vc = ledger.setting(record.job.vc, "relax-after-s")
        return engine.settings.relax_after_s if of_vc is None else of_vc
    most_s = ledger.setting(record.job.vc, "relax-after-max-s")
    return min(own_s, engine.settings.relax_after_max_s if most_s is None else most_s)


def _runs(engine: Engine, ledger: Ledger, record: JobRecord) -> bool:
    want = record.want
    waits = isinstance(want, JobWant) and want.gang and want.containers > 1
    return waits and isinstance(want, JobWant) and _step_s(engine, ledger, record) > 0 and not ledger.forbids(want)


def tightest(core: Core, record: JobRecord, kinds: tuple[Kind, ...]) -> int:
    """Give the level at which a gang starts: 0 where some domain would hold it if it were empty, else 2."""
    asked = next(ask.partition for ask in record.asks if not ask.application_master)
    names = {asked} if asked else {"", *core.index.lending}
    return 2 if all(fewest_on_empty(_of(core, name), kinds) is None for name in sorted(names)) else 0


def looseness(core: Core, decision: Decision) -> int:
    """Say how loose a gang lies."""
    uses = [core.state.servers[one.server_id] for one in decision.assignments]
    if len({use.server.domain for use in uses}) > 1:
        return 2
    fewest = fewest_on_empty(_of(core, uses[0].server.partition), kinds_of(decision))
    return 0 if fewest is not None and len({use.server_id for use in uses}) <= fewest else 1


def kinds_of(decision: Decision) -> tuple[Kind, ...]:
    """Tell a decision's containers by kind."""
    counts: dict[Resource, int] = {}
    for one in decision.assignments:
        counts[one.resource] = counts.get(one.resource, 0) + 1
    kinds = [Kind(count, size.gpus, size.memory_mb, size.vcores) for size, count in counts.items()]
    return tuple(sorted(kinds, key=lambda kind: kind[1:], reverse=True))


def _of(core: Core, partition: str) -> Iterable[ServerUse]:
    return [use for use in core.state.servers.values() if use.server.partition == partition]
