"""Where a demand finds a place: in its partition, and what may go anywhere in the default one, in partitions that lend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.want import FREE, Demand
from yarn_gpu_sched.model.assignment import ANYWHERE, FEWEST_SERVERS, ONE_DOMAIN
from yarn_gpu_sched.placement import Placement, find_confined

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core


def find(core: Core, demand: Demand, barred: tuple[str, ...] = ()) -> Placement | None:
    """Find a place for all of a demand now, or None; ``barred``: partitions that lend, but not to whom demands it."""
    placement = _find_in(core, demand.partition, demand)
    if placement is None and core.index.lending and not demand.partition:
        for partition in core.index.lending:
            placement = None if partition in barred else _find_in(core, partition, demand)
            if placement is not None:
                break
    return placement


def find_quietly(core: Core, demand: Demand, barred: tuple[str, ...] = ()) -> Placement | None:
    """Find a place for somebody who only wants to know: the visits are not counted."""
    with core.index.visits.quiet():
        return find(core, demand, barred)


def partitions_of(core: Core, demand: Demand) -> list[str]:
    """List the partitions that may serve a demand."""
    return [demand.partition] if demand.partition else ["", *core.index.lending]


def free_gpus(core: Core, partition: str, barred: tuple[str, ...] = ()) -> int:
    """Count the GPUs that are free to whoever asks a partition; where others lend to it, in the one that has most."""
    if partition or not core.index.lending:
        return free_in(core, partition)
    return max(free_in(core, name) for name in ("", *core.index.lending) if name not in barred)


def free_in(core: Core, partition: str) -> int:
    """Count the free GPUs of a partition."""
    found = core.index.partitions.get(partition)
    if found is None:
        return 0
    found.refresh()
    return found.gpus_free


def keeps_ceiling(core: Core, demand: Demand, placement: Placement) -> bool:
    """Tell whether a place is no looser than its level says, and that no looser than the demand's ceiling."""
    uses = {portion.use.server_id: portion.use for portion in placement.portions}
    lent_by = next((use.server.partition for use in uses.values()), demand.partition)
    fewest = core.index.fewest_servers(lent_by, demand.kinds)
    if len({use.server.domain for use in uses.values()}) > 1:
        level = ANYWHERE
    else:
        level = FEWEST_SERVERS if fewest is not None and len(uses) <= fewest else ONE_DOMAIN
    return level <= placement.level <= demand.ceiling


def _find_in(core: Core, partition: str, demand: Demand) -> Placement | None:
    if demand.ceiling is ANYWHERE and not demand.reach:
        return core.index.find(partition, demand.kinds)
    if partition not in core.index.partitions:
        return None
    if not demand.reach and len(demand.kinds) == 1:
        placement = core.index.find(partition, demand.kinds, demand.ceiling)
        return placement if placement is not None and placement.level <= demand.ceiling else None
    reach = demand.reach or (FREE,) * len(demand.kinds)
    return find_confined(core.index, partition, demand.kinds, reach, demand.ceiling)
