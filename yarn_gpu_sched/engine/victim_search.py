"""Which jobs would free enough for a gang, cheaply: by counts of GPUs alone, so what is proposed here must still be proven.

For a gang that goes on one server the cheapest set on each server is found exactly; for one on several, server by server, always
where a container's place costs least.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from yarn_gpu_sched.model.assignment import ANYWHERE, FEWEST_SERVERS, Level

FEW = 16
"""Where no more jobs than that may be stopped, sets of them are looked at one by one, the cheapest first."""

ENUMERATED_MAX = 256
"""Of these sets so many are looked at."""

Chosen = frozenset[int]
"""Jobs by their place in the list of those that may be stopped."""


class Site(NamedTuple):
    """A server: its GPUs, those that are free, and how many the jobs that may be stopped hold there."""

    gpus: int
    free: int
    held: tuple[tuple[int, int], ...]

    @property
    def reach(self) -> int:
        """GPUs that could be free."""
        return self.free + sum([gpus for _, gpus in self.held])


class Shape(NamedTuple):
    """A gang of ``containers`` with ``gpus`` each, at ``ceiling``, the loosest level that it may have; on how few servers."""

    containers: int
    gpus: int
    ceiling: Level
    fewest_servers: int | None


class Proposal(NamedTuple):
    """Jobs whose GPUs would be enough, by counts; ``cost`` is what stopping all of them loses."""

    cost: float
    chosen: Chosen


def propose(shape: Shape, domains: list[list[Site]], costs: list[float]) -> list[Proposal]:
    """Propose sets of jobs, the cheapest first; none where even all of them would not free enough."""
    found: dict[Chosen, None] = {}
    everywhere = [site for sites in domains for site in sites]
    regions = [everywhere] if shape.ceiling is ANYWHERE else domains
    for chosen in _on_one_server(shape, everywhere, costs):
        found[chosen] = None
    if not found or shape.containers > 1:
        for sites in regions:
            width = shape.fewest_servers if shape.ceiling is FEWEST_SERVERS else None
            several = _on_several(shape, sites, costs, width)
            if several is not None:
                found[several] = None
    return sorted((Proposal(sum([costs[place] for place in chosen]), chosen) for chosen in found), key=_in_order)


def _in_order(proposal: Proposal) -> tuple[float, int, list[int]]:
    return proposal.cost, len(proposal.chosen), sorted(proposal.chosen)


# One server


def _on_one_server(shape: Shape, sites: list[Site], costs: list[float]) -> list[Chosen]:
    """Find the cheapest set that lets the whole gang go on one server; those that cost more than it by their bound are left out."""
    need = shape.containers * shape.gpus
    bounds = []
    for site in sites:
        if site.gpus >= need and site.reach >= need:
            cheapest = min([costs[place] / gpus for place, gpus in site.held], default=0.0)
            youngest = site.held[0][0] if site.held else 0  # of containers that cost the same the youngest go first
            bounds.append((cheapest * (need - site.free), youngest, site))
    bounds.sort(key=lambda one: one[:2])
    best: tuple[float, Chosen] | None = None
    for bound, _, site in bounds:
        if best is not None and bound >= best[0]:
            break
        cost, chosen = _cheapest(site.held, costs, need - site.free)[-1]
        if best is None or cost < best[0]:
            best = cost, frozenset(chosen)
    return [] if best is None else [best[1]]


def _cheapest(
    held: tuple[tuple[int, int], ...], costs: list[float], lacking: int
) -> list[tuple[float, tuple[int, ...]]]:
    """Find for 0 to ``lacking`` GPUs the cheapest jobs that hold so many; infinite where they do not."""
    nothing: tuple[int, ...] = ()
    best = [(0.0, nothing)] + [(float("inf"), nothing)] * max(0, lacking)
    for place, gpus in held:
        price = costs[place]
        for count in range(lacking, 0, -1):
            cost, chosen = best[count - gpus if count > gpus else 0]
            if (cost + price, len(chosen) + 1) < (best[count][0], len(best[count][1])):
                best[count] = cost + price, (*chosen, place)
    return best


# Several servers


class _Filling:
    """Chooses victims until the sites hold the gang, always those that cost least for each container's place that they make."""

    def __init__(self, shape: Shape, sites: list[Site], costs: list[float]) -> None:
        self._each = shape.gpus
        self._left = shape.containers
        self._sites = sites
        self._costs = costs
        self.chosen: set[int] = set()
        self._sites_of: dict[int, list[int]] = {}
        self._free = [site.free for site in sites]
        for number, site in enumerate(sites):
            for place, _ in site.held:
                self._sites_of.setdefault(place, []).append(number)
        self._version = [0] * len(sites)
        self._wanted = [0] * len(sites)
        self._offers: list[tuple[float, int, int, tuple[int, ...]]] = []

    def fill(self) -> bool:
        """Choose; False if all of them together are not enough."""
        self._left -= sum([free // self._each for free in self._free])
        for number in range(len(self._sites)):
            self._expect(number)
        while self._left > 0 and self._offers:
            _, number, version, chosen = heappop(self._offers)
            if version != self._version[number]:
                continue
            if chosen:
                self._choose(chosen)
            else:
                self._offer(number)
        return self._left <= 0

    def _expect(self, number: int) -> None:
        """Note what a place on a server costs at least: what it really costs is looked at once that is the least.

        What is offered then are as many places as are lacking now.
        """
        rates = [self._costs[place] / gpus for place, gpus in self._sites[number].held if place not in self.chosen]
        if rates:
            self._wanted[number] = self._left
            lacking = self._each - self._free[number] % self._each
            heappush(self._offers, (min(rates) * lacking, number, self._version[number], ()))

    def _offer(self, number: int) -> None:
        """Offer what makes places on a server at the least cost for each."""
        free, site = self._free[number], self._sites[number]
        held = tuple([one for one in site.held if one[0] not in self.chosen])
        places = min((free + sum([gpus for _, gpus in held])) // self._each - free // self._each, self._wanted[number])
        if places <= 0:
            return
        lacking = (free // self._each + places) * self._each - free
        best = _cheapest(held, self._costs, lacking)
        cost, _, chosen = min(
            (
                best[lacking - (places - made) * self._each][0] / made,
                made,
                best[lacking - (places - made) * self._each][1],
            )
            for made in range(1, places + 1)
        )
        heappush(self._offers, (cost, number, self._version[number], chosen))

    def _choose(self, chosen: tuple[int, ...]) -> None:
        touched: dict[int, None] = {}
        for place in chosen:
            self.chosen.add(place)
            for number in self._sites_of[place]:
                gpus = sum([gpus for one, gpus in self._sites[number].held if one == place])
                self._left += self._free[number] // self._each
                self._free[number] += gpus
                self._left -= self._free[number] // self._each
                touched[number] = None
        for number in touched:
            self._version[number] += 1
            self._expect(number)


def _on_several(shape: Shape, sites: list[Site], costs: list[float], width: int | None) -> Chosen | None:
    """Find a cheap set that lets the gang go on these servers; on so few of them, if ``width`` says so."""
    if width is not None:
        sites = _narrowed(shape, sites, costs, width)
    filling = _Filling(shape, sites, costs)
    return frozenset(filling.chosen) if filling.fill() else None


def _narrowed(shape: Shape, sites: list[Site], costs: list[float], width: int) -> list[Site]:
    """Take the servers on which all that could be free costs least, the most places first."""
    each = shape.gpus

    def order(site: Site) -> tuple[int, float]:
        places = site.reach // each
        lacking = max(0, places * each - site.free)
        return -places, _cheapest(site.held, costs, lacking)[-1][0]

    return sorted((site for site in sites if site.reach >= each), key=order)[:width]


def enumerate_cheaper(costs: list[float], gpus: list[int], lacking: int, below: float) -> list[Chosen]:
    """List sets of few jobs that cost less than ``below`` and hold so many GPUs, the cheapest first; ``costs`` ascend."""
    found = []
    heap: list[tuple[float, int, tuple[int, ...]]] = [(cost, 0, (0,)) for cost in costs[:1]]
    looked = 0
    while heap and looked < ENUMERATED_MAX:
        cost, last, chosen = heappop(heap)
        if cost >= below:
            break
        looked += 1
        if sum([gpus[place] for place in chosen]) >= lacking:
            found.append(frozenset(chosen))
        if last + 1 < len(costs):
            heappush(heap, (cost + costs[last + 1], last + 1, (*chosen, last + 1)))
            heappush(heap, (cost - costs[last] + costs[last + 1], last + 1, (*chosen[:-1], last + 1)))
    return found
