"""The placement index of a cluster: its partitions, and the door to the search."""

from yarn_gpu_sched.model.assignment import ANYWHERE, Level
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.empty import fewest_on_empty, fits_somewhere_empty, plain_needs_spare
from yarn_gpu_sched.placement.even import find_even
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.mixed import find_mixed
from yarn_gpu_sched.placement.partition import Partition
from yarn_gpu_sched.placement.placement import Placement
from yarn_gpu_sched.placement.plain import find_plain
from yarn_gpu_sched.placement.reach import names_of
from yarn_gpu_sched.placement.spare import spare_mb, spare_vcores
from yarn_gpu_sched.placement.visits import Visits


class FreeIndex:
    """Follows the servers of a cluster; finds places for gangs.

    ``lending`` are the partitions that lend what they do not use to the default partition, in order. ``visits`` counts the index
    entries that searches looked at.
    """

    def __init__(self, *, place_on_cpu_servers: bool = False) -> None:
        self._place_on_cpu_servers = place_on_cpu_servers
        self._partition_of: dict[str, Partition] = {}
        self._lending: dict[str, int] = {}
        self.lending: list[str] = []
        self._named: dict[str, dict[str, ServerUse]] = {}
        self.partitions: dict[str, Partition] = {}
        self.visits = Visits()

    def add(self, use: ServerUse) -> None:
        """Learn of a server."""
        partition = self.partition(use.server.partition)
        self._partition_of[use.server_id] = partition
        partition.add(use)
        self._count_lending(use, 1)
        for name in names_of(use):
            self._named.setdefault(name, {})[use.server_id] = use

    def remove(self, use: ServerUse) -> None:
        """Forget a server."""
        self._partition_of.pop(use.server_id).remove(use)
        self._count_lending(use, -1)
        for name in set(names_of(use)):
            del self._named[name][use.server_id]
            if not self._named[name]:
                del self._named[name]

    def named(self, name: str) -> list[ServerUse]:
        """List the servers that a name means: an id, a host or a rack."""
        return list(self._named.get(name, {}).values())

    def at(self, place: str, partition_name: str) -> list[ServerUse]:
        """List the servers of a partition that a name means and that may be placed on: its id, its host or its rack."""
        named = self._named.get(place, {}).values()
        return [use for use in named if use.indexed and use.server.partition == partition_name]

    def _count_lending(self, use: ServerUse, step: int) -> None:
        name = use.server.partition
        if not use.server.partition_shared or not name:
            return
        self._lending[name] = self._lending.get(name, 0) + step
        if not self._lending[name]:
            del self._lending[name]
        self.lending = sorted(self._lending)

    def update(self, use: ServerUse) -> None:
        """Learn that the free amounts of a server changed."""
        if use.indexed:
            self._partition_of[use.server_id].changed.append(use)

    def clear(self) -> None:
        """Forget all servers."""
        self._partition_of.clear()
        self._lending.clear()
        self.lending = []
        self._named.clear()
        self.partitions.clear()

    def partition(self, name: str) -> Partition:
        """Get a partition; it comes to be when first spoken of."""
        found = self.partitions.get(name)
        if found is None:
            found = self.partitions[name] = Partition(place_on_cpu_servers=self._place_on_cpu_servers)
        return found

    def find(self, partition_name: str, kinds: tuple[Kind, ...], ceiling: Level = ANYWHERE) -> Placement | None:
        """Find a place for all containers of a gang, at the tightest level there is, or None.

        Nothing looser than the ceiling is looked for where that saves work: what is found may be looser all the same.
        """
        partition = self.partitions.get(partition_name)
        if partition is None:
            return None
        partition.refresh()
        if len(kinds) > 1:
            return find_mixed(partition, kinds, self.visits)
        kind = kinds[0]
        if kind.gpus:
            return find_even(partition, kind, self.visits, ceiling)
        return (
            find_plain(partition, kind, self.visits)
            if kind.containers == 1
            else find_mixed(partition, kinds, self.visits)
        )

    def fewest_servers(self, partition_name: str, kinds: tuple[Kind, ...]) -> int | None:
        """Count the servers of one domain that would hold a gang if all usable ones were empty; None if no domain would."""
        partition = self.partitions.get(partition_name)
        return None if partition is None else fewest_on_empty(partition, kinds)

    def fits_empty(self, partition_name: str, kinds: tuple[Kind, ...]) -> bool:
        """Tell whether the usable servers would hold a gang if they were empty."""
        partition = self.partitions.get(partition_name)
        return partition is not None and fits_somewhere_empty(partition, kinds)

    def may_hold_plain(self, partition_name: str, kind: Kind, uses: list[ServerUse]) -> bool:
        """Tell whether one of these servers would hold a container without GPUs."""
        strict = plain_needs_spare(self.partition(partition_name), (kind,))
        return any(
            use.indexed
            and (spare_mb(use) if strict else use.memory_free_mb) >= kind.memory_mb
            and (spare_vcores(use) if strict else use.vcores_free) >= kind.vcores
            for use in uses
        )

    def watch(self, partition_name: str) -> None:
        """Collect from now on which servers of a partition change."""
        partition = self.partition(partition_name)
        partition.refresh()  # what changed before is not what somebody waits for from now on
        partition.watched = True

    def slots(self, partition_name: str, gpus_each: int) -> int:
        """Count the containers of so many GPUs that fit by GPUs alone, on all servers of a partition."""
        partition = self.partitions.get(partition_name)
        if partition is None:
            return 0
        partition.refresh()
        return partition.slots_free(gpus_each)
