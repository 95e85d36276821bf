"""The search for containers that may not go anywhere: named or excluded hosts and racks, a ceiling of locality.

It looks at every server of the partition, but only where the plain search has found a place that is not allowed: a place that is
none for whoever may go anywhere is none here either. Kinds that are confined alike are placed together, those with named places
first; so it may miss a way where several groups compete for tight places.
"""

from collections.abc import Iterator

from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.server_use import Part, ServerUse
from yarn_gpu_sched.model.transaction import Transaction
from yarn_gpu_sched.placement.empty import fewest_on_empty, plain_needs_spare
from yarn_gpu_sched.placement.free_index import FreeIndex
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.pack import Effort, Row, pack
from yarn_gpu_sched.placement.partition import Partition
from yarn_gpu_sched.placement.placement import Placement, Portion
from yarn_gpu_sched.placement.reach import Reach, names_of


def find_confined(
    index: FreeIndex, partition_name: str, kinds: tuple[Kind, ...], reach: tuple[Reach, ...], ceiling: Level
) -> Placement | None:
    """Find a place for all containers where they may go, none looser than the ceiling; ``reach`` has an entry a kind."""
    anywhere = index.find(partition_name, kinds)
    if anywhere is None or anywhere.level > ceiling:
        return None
    if not any(each.places for each in reach) and all(reach[kind].admits(use) for use, kind, _ in anywhere.portions):
        return anywhere
    return _Confined(index, partition_name, kinds, reach, ceiling).find()


class _Confined:
    def __init__(
        self, index: FreeIndex, partition_name: str, kinds: tuple[Kind, ...], reach: tuple[Reach, ...], ceiling: Level
    ) -> None:
        self._index = index
        self._partition: Partition = index.partition(partition_name)
        self._kinds = kinds
        self._reach = reach
        self._ceiling = ceiling
        self._fewest = fewest_on_empty(self._partition, kinds)
        self._effort = Effort()
        self._uses = [use for domain in self._partition.domains for use in domain.uses if use.indexed]
        index.visits.entries += len(self._uses)

    def find(self) -> Placement | None:
        """Place group after group, each beside what the groups before it have taken."""
        portions: list[Portion] = []
        with Transaction(self._index) as plan:
            for reach in sorted(set(self._reach), key=lambda each: (not each.strict, not each.places, each)):
                found = self._group(reach, [use for use, _, _ in portions])
                if found is None or not all(plan.take(self._part(portion)) for portion in found):
                    return None
                portions += found
                self._partition.refresh()
        placement = Placement(self._level([use for use, _, _ in portions]), portions)
        return placement if placement.level <= self._ceiling else None

    def _part(self, portion: Portion) -> Part:
        kind = self._kinds[portion.kind]
        mask, free = 0, portion.use.free_mask
        for _ in range(portion.containers * kind.gpus):
            lowest = free & -free
            mask, free = mask | lowest, free ^ lowest
        count = portion.containers
        return Part(portion.use, count * kind.memory_mb, count * kind.vcores, mask, count * kind.gpus)

    def _group(self, reach: Reach, beside: list[ServerUse]) -> list[Portion] | None:
        members = [place for place, each in enumerate(self._reach) if each == reach]
        for uses in self._preferences(reach, beside):
            found = self._tightest(uses, members, reach)
            if found is not None:
                return found
        return None

    def _preferences(self, reach: Reach, beside: list[ServerUse]) -> Iterator[list[ServerUse]]:
        """Give the servers that may do, those that are wanted most first."""
        allowed = [use for use in self._uses if reach.admits(use)]
        if reach.places and not reach.strict:
            named = {place for place, _ in reach.places}
            at_places = [use for use in allowed if not named.isdisjoint(names_of(use))]
            yield at_places
            racks = {use.server.rack for use in at_places}
            yield [use for use in allowed if use.server.rack in racks]
        if beside:
            domains = {use.server.domain for use in beside}
            yield [use for use in allowed if use.server.domain in domains]
        yield allowed

    def _tightest(self, uses: list[ServerUse], members: list[int], reach: Reach) -> list[Portion] | None:
        domains: dict[str, list[ServerUse]] = {}
        for use in uses:
            domains.setdefault(use.server.domain, []).append(use)
        best: list[Portion] | None = None
        for _, inside in sorted(domains.items(), key=lambda item: (sum(use.gpus_free for use in item[1]), item[0])):
            found = self._pack(inside, members, reach)
            if found is not None and (best is None or _servers(found) < _servers(best)):
                best = found
        if self._ceiling is Level.ANYWHERE:
            return best or self._pack(uses, members, reach)
        too_many = best is not None and self._ceiling < self._level([use for use, _, _ in best])
        return None if too_many and len(members) == len(self._kinds) else best

    def _pack(self, uses: list[ServerUse], members: list[int], reach: Reach) -> list[Portion] | None:
        kinds = tuple(self._kinds[place] for place in members)
        # The fullest server first where one will do: small gangs leave the large gaps to others.
        uses = sorted(uses, key=lambda use: (use.gpus_free, use.server_id))
        if sum(kind.containers for kind in kinds) == 1:
            rooms = (self._pack_rows([use], kinds, members, reach) for use in uses)
            return next((found for found in rooms if found is not None), None)
        return self._pack_rows(uses, kinds, members, reach)

    def _pack_rows(
        self, uses: list[ServerUse], kinds: tuple[Kind, ...], members: list[int], reach: Reach
    ) -> list[Portion] | None:
        rows = [Row.free_of(use)._replace(most=reach.most(use)) for use in uses]
        packed = pack(rows, kinds, self._effort, strict=plain_needs_spare(self._partition, kinds))
        if packed is None:
            return None
        if not reach.keeps({uses[number]: sum(counts) for number, counts in packed}):
            return None
        return [
            Portion(uses[number], members[place], count)
            for number, counts in packed
            for place, count in enumerate(counts)
            if count
        ]

    def _level(self, uses: list[ServerUse]) -> Level:
        if len({use.server.domain for use in uses}) > 1:
            return Level.ANYWHERE
        servers = len({use.server_id for use in uses})
        return Level.FEWEST_SERVERS if self._fewest is not None and servers <= self._fewest else Level.ONE_DOMAIN


def _servers(portions: list[Portion]) -> int:
    return len({portion.use.server_id for portion in portions})
