"""The search for gangs of several kinds of containers, or of several without GPUs: domain by domain, then anywhere.

Within a domain of few servers it is exact (see pack.py). In larger ones, and anywhere, it fills the emptiest servers first; it may
then need more servers than there must be, or in tight places miss a way. How much one search looks at is bounded (`Effort`).
"""

from itertools import islice

from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.empty import ROWS_MAX, fewest_on_empty, plain_needs_spare
from yarn_gpu_sched.placement.even import emptiest_first, tightest
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.pack import Effort, Row, pack
from yarn_gpu_sched.placement.partition import Partition
from yarn_gpu_sched.placement.placement import Placement, Portion
from yarn_gpu_sched.placement.tally import at_least
from yarn_gpu_sched.placement.visits import Visits


def find_mixed(partition: Partition, kinds: tuple[Kind, ...], visits: Visits) -> Placement | None:
    """Find a place: the fewest servers in one domain, then the tightest domain that holds it, then anywhere."""
    fewest = fewest_on_empty(partition, kinds)
    effort = Effort()
    one_domain: list[Portion] | None = None
    domains = _candidates(partition, kinds)
    while domains:
        domain = tightest(partition, domains)
        domains ^= domain.bit
        portions = _pack_on(partition, domain.bit, kinds, effort, visits)
        if portions is not None and fewest is not None and _servers(portions) <= fewest:
            return Placement(Level.FEWEST_SERVERS, portions)
        one_domain = one_domain or portions
    if one_domain is not None:
        return Placement(Level.ONE_DOMAIN, one_domain)
    portions = _pack_on(partition, (1 << len(partition.domains)) - 1, kinds, effort, visits)
    return None if portions is None else Placement(Level.ANYWHERE, portions)


def _servers(portions: list[Portion]) -> int:
    return len({portion.use.server_id for portion in portions})


def _candidates(partition: Partition, kinds: tuple[Kind, ...]) -> int:
    gpus = sum(kind.containers * kind.gpus for kind in kinds)
    domains = (1 << len(partition.domains)) - 1
    if gpus:
        domains &= at_least(partition.totals, gpus)
    for kind in kinds:
        if kind.gpus:
            domains &= at_least(partition.slots_of(kind.gpus), kind.containers)
    return domains


def _pack_on(
    partition: Partition, domains: int, kinds: tuple[Kind, ...], effort: Effort, visits: Visits
) -> list[Portion] | None:
    uses: list[ServerUse] = list(islice(emptiest_first(partition, domains, 0, visits), ROWS_MAX))
    packed = pack([Row.free_of(use) for use in uses], kinds, effort, strict=plain_needs_spare(partition, kinds))
    if packed is None:
        return None
    return [
        Portion(uses[number], place, count) for number, counts in packed for place, count in enumerate(counts) if count
    ]
