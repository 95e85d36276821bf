"""The search for a single container without GPUs: where it strands no GPU."""

from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.empty import plain_needs_spare
from yarn_gpu_sched.placement.even import members
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.partition import Partition
from yarn_gpu_sched.placement.placement import Placement, Portion
from yarn_gpu_sched.placement.spare import CELL_BITS, MAGNITUDE_MAX, spare_mb, spare_vcores
from yarn_gpu_sched.placement.visits import Visits


def find_plain(partition: Partition, kind: Kind, visits: Visits) -> Placement | None:
    """Find a server whose spare memory and vcores hold the container, one with little to spare first."""
    partition.refresh_spare()
    use = _certain(partition, kind, visits) or _near(partition, kind, visits)
    if use is None and not plain_needs_spare(partition, (kind,)):
        use = _from_share(partition, kind, visits)
    return None if use is None else Placement(Level.FEWEST_SERVERS, [Portion(use, 0, 1)])


def _certain(partition: Partition, kind: Kind, visits: Visits) -> ServerUse | None:
    """Look in the cells of a higher magnitude: whatever is there fits."""
    column = kind.vcores.bit_length() + 1 if kind.vcores else 0
    for row in range(kind.memory_mb.bit_length() + 1 if kind.memory_mb else 0, len(partition.rows)):
        columns = partition.rows[row] >> column
        if columns:
            visits.entries += 1
            cell = row << CELL_BITS | (column + (columns & -columns).bit_length() - 1)
            domains = partition.cells[cell]
            domain = partition.domains[(domains & -domains).bit_length() - 1]
            return domain.first(domain.by_cell[cell])
    return None


def _near(partition: Partition, kind: Kind, visits: Visits) -> ServerUse | None:
    """Look in the cells of the same magnitude, server by server."""
    for row in range(kind.memory_mb.bit_length(), len(partition.rows)):
        columns = partition.rows[row] >> kind.vcores.bit_length() << kind.vcores.bit_length()
        while columns:
            low = columns & -columns
            columns ^= low
            use = _in_cell(partition, row << CELL_BITS | (low.bit_length() - 1) & MAGNITUDE_MAX, kind, visits)
            if use is not None:
                return use
    return None


def _in_cell(partition: Partition, cell: int, kind: Kind, visits: Visits) -> ServerUse | None:
    domains = partition.cells[cell]
    while domains:
        low = domains & -domains
        domains ^= low
        domain = partition.domains[low.bit_length() - 1]
        for use in members(domain, domain.by_cell[cell]):
            visits.entries += 1
            if spare_mb(use) >= kind.memory_mb and spare_vcores(use) >= kind.vcores:
                return use
    return None


def _from_share(partition: Partition, kind: Kind, visits: Visits) -> ServerUse | None:
    """Find the server with the fewest free GPUs that holds the container at all."""
    for free, found in enumerate(partition.exact):
        domains = found
        while domains:
            low = domains & -domains
            domains ^= low
            domain = partition.domains[low.bit_length() - 1]
            for use in members(domain, domain.by_free[free]):
                visits.entries += 1
                if use.memory_free_mb >= kind.memory_mb and use.vcores_free >= kind.vcores:
                    return use
    return None
