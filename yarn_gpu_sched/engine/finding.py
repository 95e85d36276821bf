"""Where a demand finds a place: in its partition, and what may go anywhere in the default one, in partitions that lend."""

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.want import FREE, Demand
from yarn_gpu_sched.placement import Placement, find_confined


def find(core: Core, demand: Demand) -> Placement | None:
    """Find a place for all of a demand now, or None."""
    placement = _find_in(core, demand.partition, demand)
    if placement is None and not demand.partition:
        for partition in core.index.lending:
            placement = _find_in(core, partition, demand)
            if placement is not None:
                break
    return placement


def find_quietly(core: Core, demand: Demand) -> Placement | None:
    """Find a place for somebody who only wants to know: the visits are not counted."""
    with core.index.visits.quiet():
        return find(core, demand)


def partitions_of(core: Core, demand: Demand) -> list[str]:
    """List the partitions that may serve a demand."""
    return [demand.partition] if demand.partition else ["", *core.index.lending]


def _find_in(core: Core, partition: str, demand: Demand) -> Placement | None:
    if not demand.confined:
        return core.index.find(partition, demand.kinds)
    if partition not in core.index.partitions:
        return None
    reach = demand.reach or (FREE,) * len(demand.kinds)
    return find_confined(core.index, partition, demand.kinds, reach, demand.ceiling)
