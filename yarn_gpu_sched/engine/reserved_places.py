"""Where a gang would have room soonest, if those who run end when they say; nobody knows when the others end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from yarn_gpu_sched.engine.ends import Lacks, endings_of, place_after, smallest, unwatched
from yarn_gpu_sched.engine.exceeding import over_limits
from yarn_gpu_sched.engine.finding import keeps_ceiling, partitions_of
from yarn_gpu_sched.engine.keeping import kept_for
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.preemption import Need
from yarn_gpu_sched.placement import Placement, Portion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.ends import Ending
    from yarn_gpu_sched.engine.want import JobWant
    from yarn_gpu_sched.model.server_use import Part

AWAITED_MAX = 10
NEVER_S = float("inf")


class Outlook(NamedTuple):
    """A place: what is taken where, when all of it is free (None: nobody knows), how many GPUs are not, and who holds them."""

    partition: str
    level: Level
    needs: tuple[Need, ...]
    ready_s: float | None
    missing_gpus: int
    awaited: tuple[str, ...]

    @property
    def turn(self) -> tuple[float, int]:
        """Order places by when they are free, where that is known, and then by what is missing."""
        return NEVER_S if self.ready_s is None else self.ready_s, self.missing_gpus


class Places:
    """Looks for places during one pass; who runs is listed once."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._endings: dict[str, list[Ending]] = {}

    def stands(self, needs: Iterable[Need]) -> bool:
        """Tell whether all servers of a place take containers, and have as many healthy GPUs as it takes there."""
        servers = self._core.state.servers
        return all(
            (use := servers.get(need.server_id)) is not None and use.usable and use.gpus_healthy >= need.gpus
            for need in needs
        )

    def serves(self, want: JobWant, needs: tuple[Need, ...], level: int) -> bool:
        """Tell whether a gang could still be placed so if nobody else were there: its asks or the servers may be others by now."""
        demand, servers = want.demand, self._core.state.servers
        portions = [Portion(servers[need.server_id], *one) for need in needs for one in need.portions]
        partitions = [name for name in partitions_of(self._core, demand) if name not in want.line.barred]
        dealt: Counter[int] = Counter()
        for use, kind, count in portions:
            dealt[kind] += count
            if use.server.partition not in partitions or kind >= len(want.kinds):
                return False
            if demand.reach and not demand.reach[kind].admits(use):
                return False
        placement = Placement(Level(level), portions)
        is_all = all(dealt[kind] == one.containers for kind, one in enumerate(want.kinds))
        is_same = is_all and _needs(want, placement) == needs and all(map(self._has_room, needs))
        return is_same and keeps_ceiling(self._core, demand, placement)

    def _has_room(self, need: Need) -> bool:
        use = self._core.state.servers[need.server_id]
        total = use.server.capacity
        return use.gpus_healthy >= need.gpus and total.memory_mb >= need.memory_mb and total.vcores >= need.vcores

    def soonest(self, want: JobWant) -> Outlook | None:
        """Find the place that will be free soonest, rather not where others wait; None if there is none though all end.

        What may go anywhere in the default partition goes to one that lends only if it has no place there.
        """
        partitions = [name for name in partitions_of(self._core, want.demand) if name not in want.line.barred]
        return next((found for name in partitions if (found := self._soonest_in(name, want)) is not None), None)

    def _soonest_in(self, partition: str, want: JobWant) -> Outlook | None:
        reservations = self._core.reservations.by_job.values()
        others = [one for one in reservations if one.job_id != want.job_id and one.partition == partition]
        taken = {server_id for other in others for server_id in other.server_ids}
        own = kept_for(self._core, want.record)
        found = self._where(partition, want, own, taken)
        if found is not None or not others:
            return found
        kept = [part for one in others for part in kept_for(self._core, self._core.state.jobs[one.job_id])]
        return self._where(partition, want, own + kept, set())

    def _where(self, partition: str, want: JobWant, kept: list[Part], taken: set[str]) -> Outlook | None:
        """Find a place on what is free, kept, or freed by who runs on servers that are not taken."""
        core = self._core
        is_own = core.by_vc and partition == want.partition  # at its limits elsewhere it is barred
        lacks = Lacks(want.demand, want.line.barred, over_limits(core, want) if is_own else ())
        with unwatched(core, partitions_of(core, want.demand)), core.state.transaction() as plan:
            for part in kept:
                plan.release(part)
            endings = [one.elsewhere(taken) for one in self._endings_of(partition)]
            # Where it is at its limits only what is freed by those who fill them can be kept at once.
            endings.sort(key=lambda one: not any(excess.relief(one.record, one.parts) for excess in lacks.excesses))
            count = smallest(core, lacks, endings)
            placement = None if count is None else place_after(core, lacks, endings[:count])
        return None if placement is None else self.outlook(want, _needs(want, placement), placement.level)

    def outlook(self, want: JobWant, needs: tuple[Need, ...], level: Level | int) -> Outlook:
        """Say when a place is free: of each server those end first that say when."""
        kept: dict[str, int] = {}
        for part in kept_for(self._core, want.record):
            kept[part.use.server_id] = kept.get(part.use.server_id, 0) + part.gpus
        servers = self._core.state.servers
        partition = servers[needs[0].server_id].server.partition
        lacks = {
            one.server_id: one.gpus - kept.get(one.server_id, 0) - servers[one.server_id].gpus_free for one in needs
        }
        missing = sum(lack for lack in lacks.values() if lack > 0)
        times: list[float | None] = []
        awaited = []
        for one in self._endings_of(partition):
            if not any(lack > 0 for lack in lacks.values()):
                break
            freed = [
                part for part in one.parts if lacks.get(part.use.server_id, 0) > 0 and part.use.would_free(part.mask)
            ]
            if freed:
                awaited.append(one.record.job.job_id)
                times.append(one.ends_s)
            for part in freed:
                lacks[part.use.server_id] -= part.use.would_free(part.mask)
        known = [time_s for time_s in times if time_s is not None]
        is_known = len(known) == len(times) and not any(lack > 0 for lack in lacks.values())
        ready_s = max(known, default=self._core.now_s) if is_known else None
        return Outlook(partition, Level(level), needs, ready_s, missing, tuple(awaited[:AWAITED_MAX]))

    def _endings_of(self, partition: str) -> list[Ending]:
        if partition not in self._endings:
            self._endings[partition] = sorted(endings_of(self._core, [partition], self._core.now_s), key=_expected)
        return self._endings[partition]


def _expected(one: Ending) -> tuple[float, int, str]:
    """Order jobs by when they end, last those of which nobody knows it; of equal ones those on the emptiest servers first."""
    held = max([part.use.gpus_used for part in one.parts])
    return NEVER_S if one.ends_s is None else one.ends_s, held, one.record.job.job_id


def _needs(want: JobWant, placement: Placement) -> tuple[Need, ...]:
    taken: dict[str, list[int]] = {}
    portions: dict[str, list[tuple[int, int]]] = {}
    for use, kind, count in placement.portions:
        portions.setdefault(use.server_id, []).append((kind, count))
        _, gpus, memory_mb, vcores = want.kinds[kind]
        need = taken.setdefault(use.server_id, [0, 0, 0])
        for place, amount in enumerate((gpus, memory_mb, vcores)):
            need[place] += count * amount
    return tuple(
        Need(server_id, 0, memory_mb, vcores, tuple(portions[server_id]), gpus)
        for server_id, (gpus, memory_mb, vcores) in sorted(taken.items())
    )
