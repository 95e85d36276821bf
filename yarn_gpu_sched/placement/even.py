"""The search for gangs whose containers are all alike and have GPUs: exact, and quick wherever GPUs are what is scarce.

The counts of GPUs come from the index. Memory and vcores are checked on each server that is chosen; where they hold less than the
GPUs promise, the servers concerned are looked at one by one.
"""

from collections.abc import Iterator

from yarn_gpu_sched.model.assignment import ANYWHERE, FEWEST_SERVERS, ONE_DOMAIN, Level
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.domain import Domain
from yarn_gpu_sched.placement.empty import fewest_on_empty
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.partition import Partition
from yarn_gpu_sched.placement.placement import Placement, Portion
from yarn_gpu_sched.placement.tally import Tally, at_least, least, plus
from yarn_gpu_sched.placement.visits import Visits


def find_even(partition: Partition, kind: Kind, visits: Visits, ceiling: Level = ANYWHERE) -> Placement | None:
    """Find a place: the fewest servers in one domain, then the tightest domain that holds it, then anywhere; up to the ceiling."""
    visits.entries += 1
    if partition.slots_free(kind.gpus) < kind.containers:
        return None
    fewest = fewest_on_empty(partition, (kind,))
    if fewest == 1:
        use = _one_server(partition, kind, visits)
        if use is not None:
            return Placement(FEWEST_SERVERS, [Portion(use, 0, kind.containers)])
        if kind.containers == 1:
            return None
    elif fewest is not None:
        portions = _within(partition, _candidates(partition, kind, fewest), kind, fewest, visits)
        if portions is not None:
            return Placement(FEWEST_SERVERS, portions)
    if fewest is not None and ceiling is not FEWEST_SERVERS:
        domains = at_least(partition.slots_of(kind.gpus), kind.containers)
        portions = _within(partition, domains, kind, kind.containers, visits)
        if portions is not None:
            return Placement(ONE_DOMAIN, portions)
    everywhere = (1 << len(partition.domains)) - 1
    portions = _fill(partition, everywhere, kind, visits) if ceiling is ANYWHERE else None
    return None if portions is None else Placement(ANYWHERE, portions)


def _one_server(partition: Partition, kind: Kind, visits: Visits) -> ServerUse | None:
    """Find the fullest server that holds all of it; of several the one in the tightest domain."""
    memory_mb, vcores = kind.containers * kind.memory_mb, kind.containers * kind.vcores
    exact = partition.exact
    for free in range(kind.containers * kind.gpus, len(exact)):
        domains = exact[free]
        while domains:
            visits.entries += 1
            domain = tightest(partition, domains)
            domains ^= domain.bit
            servers = domain.by_free[free]
            while servers:
                visits.entries += 1
                use = domain.first(servers)
                servers &= servers - 1
                if use.memory_free_mb >= memory_mb and use.vcores_free >= vcores:
                    return use
    return None


def _candidates(partition: Partition, kind: Kind, servers: int) -> int:
    """Give the domains in which so few servers may hold it: with no room to spare all of them do, else it must be tried.

    If the j-th best of a server's containers is to count, the rest can bring at most what so many servers bring when full.
    """
    size, count = kind.gpus, kind.containers
    steps = partition.gpus_max // size
    domains, known = -1, 0
    free, servers_with = partition.gpus_max, partition.servers_with()
    enough: Tally = []
    for step in range(steps, 0, -1):
        needed = -((servers * (step - 1) - count) // (steps - step + 1))
        if needed <= known:
            continue
        while free >= step * size:
            enough = plus(enough, servers_with[free])
            free -= 1
        domains &= at_least(enough, needed)
        if not domains:
            return 0
        known = needed
    return domains


def _within(partition: Partition, domains: int, kind: Kind, servers_max: int, visits: Visits) -> list[Portion] | None:
    """Place it within one of these domains, the tightest first, on at most so many servers."""
    visits.entries += 1
    while domains:
        domain = tightest(partition, domains)
        domains ^= domain.bit
        portions = _fill(partition, domain.bit, kind, visits)
        if portions is not None and len(portions) <= servers_max:
            return portions
    return None


def _fill(partition: Partition, domains: int, kind: Kind, visits: Visits) -> list[Portion] | None:
    """Place it on the fewest servers of these domains: the emptiest first, what is left on the fullest that holds it."""
    left = kind.containers
    portions: list[Portion] = []
    for use in emptiest_first(partition, domains, kind.gpus, visits):
        if left * kind.gpus <= use.gpus_free:
            last = _fullest(partition, domains, kind, left, use, visits)
            if last is None:
                break
            portions.append(Portion(last, 0, left))
            return portions
        count = use.gpus_free // kind.gpus
        if use.memory_free_mb < count * kind.memory_mb or use.vcores_free < count * kind.vcores:
            break
        portions.append(Portion(use, 0, count))
        left -= count
    else:
        return None
    return _fill_slowly(partition, domains, kind, visits)


def _fullest(
    partition: Partition, domains: int, kind: Kind, left: int, use: ServerUse, visits: Visits
) -> ServerUse | None:
    """Find the fullest server for the last containers; ``use`` is the next of the emptiest, so fuller ones are unused yet."""
    for free in range(left * kind.gpus, use.gpus_free):
        found = partition.exact[free] & domains
        if found:
            visits.entries += 1
            domain = partition.domains[(found & -found).bit_length() - 1]
            use = domain.first(domain.by_free[free])
            break
    fits = use.memory_free_mb >= left * kind.memory_mb and use.vcores_free >= left * kind.vcores
    return use if fits else None


def _fill_slowly(partition: Partition, domains: int, kind: Kind, visits: Visits) -> list[Portion] | None:
    """Do what `_fill` does where memory or vcores are scarce: look at every server that has GPUs enough."""
    rooms: list[tuple[int, int, ServerUse]] = []
    for place, use in enumerate(emptiest_first(partition, domains, kind.gpus, visits)):
        room = room_for(use, kind)
        if room > 0:
            rooms.append((-room, place, use))
    rooms.sort()
    left = kind.containers
    portions: list[Portion] = []
    for number, (room, _, use) in enumerate(rooms):
        if left <= -room:
            last = min(
                (other for other in rooms[number:] if -other[0] >= left), key=lambda other: (-other[0], -other[1])
            )
            portions.append(Portion(last[2], 0, left))
            return portions
        portions.append(Portion(use, 0, -room))
        left += room
    return None


def room_for(use: ServerUse, kind: Kind) -> int:
    """Count the containers of a kind that fit on a server."""
    room = use.gpus_free // kind.gpus
    if kind.memory_mb:
        room = min(room, use.memory_free_mb // kind.memory_mb)
    if kind.vcores:
        room = min(room, use.vcores_free // kind.vcores)
    return room


def emptiest_first(partition: Partition, domains: int, gpus_min: int, visits: Visits) -> Iterator[ServerUse]:
    """Go through the servers of a set of domains that have so many GPUs free, those with the most first."""
    exact = partition.exact
    for free in range(len(exact) - 1, gpus_min - 1, -1):
        found = exact[free] & domains
        while found:
            visits.entries += 1
            low = found & -found
            found ^= low
            domain = partition.domains[low.bit_length() - 1]
            uses, servers = domain.uses, domain.by_free[free]
            while servers:
                low = servers & -servers
                servers ^= low
                visits.entries += 1
                yield uses[low.bit_length() - 1]


def members(domain: Domain, servers: int) -> Iterator[ServerUse]:
    """Go through a set of servers in the order of their ids."""
    uses = domain.uses
    while servers:
        low = servers & -servers
        servers ^= low
        yield uses[low.bit_length() - 1]


def tightest(partition: Partition, domains: int) -> Domain:
    """Give the domain with the fewest free GPUs of a set that is not empty; of several the first."""
    if domains & (domains - 1):
        domains = least(partition.totals, domains)
    return partition.domains[(domains & -domains).bit_length() - 1]
