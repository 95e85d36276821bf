"""Whether the placement index says what the servers say."""

from collections.abc import Iterable, Iterator

from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.domain import Domain
from yarn_gpu_sched.placement.free_index import FreeIndex
from yarn_gpu_sched.placement.partition import Partition
from yarn_gpu_sched.placement.spare import cell_of
from yarn_gpu_sched.placement.tally import Tally, count_of


def index_faults(index: FreeIndex, uses: Iterable[ServerUse]) -> Iterator[str]:
    """Compare an index with the servers that it follows; yield what differs."""
    by_partition: dict[str, list[ServerUse]] = {}
    for use in uses:
        by_partition.setdefault(use.server.partition, []).append(use)
    for name in sorted({*by_partition, *index.partitions}):
        for fault in _faults(index.partition(name), by_partition.get(name, [])):
            yield f'partition "{name}": {fault}'


def _faults(partition: Partition, uses: list[ServerUse]) -> Iterator[str]:
    partition.refresh()
    partition.refresh_spare()
    placed = [use for use in uses if use.usable and (use.gpus or partition.place_on_cpu_servers)]
    indexed = sorted(use.server_id for domain in partition.domains for use in domain.uses if use.indexed)
    if indexed != sorted(use.server_id for use in placed):
        yield f"servers {indexed} are indexed, not those that may be placed on"
    ids = [domain.domain_id for domain in partition.domains]
    if ids != sorted(ids):
        yield "the domains are not in order"
    free = sum(use.gpus_free for use in placed)
    if partition.gpus_free != free:
        yield f"{partition.gpus_free} GPUs are counted as free, {free} are"
    for domain in partition.domains:
        for fault in _domain_faults(partition, domain):
            yield f"domain {domain.domain_id}: {fault}"
    for gpus, count in enumerate(partition.counts[1:], 1):
        true = sum(use.gpus_free == gpus for use in placed)
        if count != true:
            yield f"{count} servers are counted with {gpus} free GPUs, {true} have them"


def _domain_faults(partition: Partition, domain: Domain) -> Iterator[str]:
    uses = [use for use in domain.uses if use.indexed and use.gpus]
    free = sum(use.gpus_free for use in uses)
    if domain.gpus_free != free:
        yield f"{domain.gpus_free} GPUs are counted as free, {free} are"
    for gpus, exact in enumerate(partition.exact):
        members = sum(use.bit for use in uses if use.gpus_free == gpus)
        known = domain.by_free[gpus] if gpus < len(domain.by_free) else 0
        if members != known or bool(exact & domain.bit) != bool(members):
            yield f"servers {known:b} are known with {gpus} free GPUs, {members:b} have them"
    for use in domain.uses:
        cell = cell_of(use)
        if use.indexed and (use.cell != cell or not domain.by_cell.get(cell, 0) & use.bit):
            yield f"server {use.server_id} is not in the cell of its spare memory and vcores"
    for what, tally, true in _counted(partition, uses):
        count = count_of(tally, domain.bit)
        if count != true:
            yield f"{count} {what} are counted, it has {true}"


def _counted(partition: Partition, uses: list[ServerUse]) -> Iterator[tuple[str, Tally, int]]:
    yield "free GPUs", partition.totals, sum(use.gpus_free for use in uses)
    for gpus, tally in enumerate(partition.servers_with()[1:], 1):
        yield f"servers with {gpus} free GPUs", tally, sum(use.gpus_free == gpus for use in uses)
    for size in partition.slot_sizes:
        yield f"containers of {size} GPUs", partition.slots_of(size), sum(use.gpus_free // size for use in uses)
