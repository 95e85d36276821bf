"""The search for containers that may not go anywhere: named or excluded hosts and racks, a ceiling of locality.

Where there is no place for whoever may go anywhere, there is none here either. Otherwise it looks at the places that are named and
at the racks around them; at every server of the partition only where the plain search leads to one that is excluded, or over a
ceiling. Kinds that are confined alike are placed together, those with named places first; so it may miss a way where several groups
compete for tight places.
"""

from collections.abc import Iterable, Iterator

from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.server import UNKNOWN_RACK
from yarn_gpu_sched.model.server_use import Part, ServerUse
from yarn_gpu_sched.model.transaction import Transaction
from yarn_gpu_sched.placement.empty import fewest_on_empty, plain_needs_spare
from yarn_gpu_sched.placement.free_index import FreeIndex
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.pack import Effort, Row, pack
from yarn_gpu_sched.placement.partition import Partition
from yarn_gpu_sched.placement.placement import Placement, Portion
from yarn_gpu_sched.placement.reach import Reach


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
        self._name = partition_name
        self._partition: Partition = index.partition(partition_name)
        self._kinds = kinds
        self._reach = reach
        self._ceiling = ceiling
        self._fewest = fewest_on_empty(self._partition, kinds)
        self._effort = Effort()

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
        return None if reach.strict else self._anywhere(reach, members)

    def _preferences(self, reach: Reach, beside: list[ServerUse]) -> Iterator[list[ServerUse]]:
        """Give the servers that are wanted, those that are wanted most first."""
        named = self._at(dict.fromkeys(place for place, _ in reach.places), reach)
        if named:
            yield named
        if not reach.strict:
            racks = dict.fromkeys(use.server.rack for use in named or beside)
            racks.pop(UNKNOWN_RACK, None)
            yield self._at(racks, reach)

    def _at(self, places: Iterable[str], reach: Reach) -> list[ServerUse]:
        found = {use.server_id: use for place in places for use in self._index.at(place, self._name)}
        self._index.visits.entries += len(found)
        return [use for use in found.values() if reach.admits(use)]

    def _anywhere(self, reach: Reach, members: list[int]) -> list[Portion] | None:
        """Let the plain search find it; where that leads to a place that will not do, look at every server."""
        found = self._index.find(self._name, tuple(self._kinds[place] for place in members))
        if found is None:
            return None
        if found.level <= self._ceiling and all(reach.admits(use) for use, _, _ in found.portions):
            return [Portion(use, members[place], count) for use, place, count in found.portions]
        every = [use for domain in self._partition.domains for use in domain.uses if use.indexed]
        self._index.visits.entries += len(every)
        return self._tightest([use for use in every if reach.admits(use)], members, reach)

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
