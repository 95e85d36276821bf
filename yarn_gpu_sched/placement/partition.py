"""The free GPUs of one partition, indexed so that a change and a search cost the same on small and large clusters.

Sets of domains are integers: bit i stands for ``domains[i]``, and the domains are in the order of their ids. What is counted for
each domain is in tallies (see tally.py).

A server that changes is only noted; the next look takes up all that was noted (`refresh`), so the counts of a domain follow once,
however many of its servers a gang takes. What few searches look at follows only when one does: tallies by free GPUs, and where
servers stand by spare memory and vcores.
"""

from bisect import bisect_left
from functools import lru_cache
from operator import mul

from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.domain import Domain, Signature
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.pack import Row
from yarn_gpu_sched.placement.spare import CELL_BITS, MAGNITUDE_MAX, cell_of
from yarn_gpu_sched.placement.tally import Tally, change, ones

EMPTIED_MAX = 64
"""Empty domains, besides half of all, that are kept before the rest is numbered anew."""

TOUCHED_MAX = 4_096
"""Touched servers that are told one by one: a list of this length means that any may have been."""


class Partition:
    """Servers of one partition, by domain and by what is free.

    ``exact[f]`` are the domains that have a server with exactly f free GPUs, ``servers_with()[f]`` tallies these servers,
    ``totals`` the free GPUs, ``slots_of(g)`` the containers of g GPUs that would fit by GPUs alone. ``counts[f]`` is how many
    servers of the partition have exactly f free GPUs (neither is kept for 0). ``cells`` and ``rows`` find servers by spare memory
    and vcores, for whoever calls `refresh_spare` first.
    While ``watched``, ``touched`` collects the servers whose amounts changed, for whoever waits for spare memory or vcores; that
    one clears it. ``changed`` are the servers that nobody has looked at since they changed: whoever reads anything here calls
    `refresh` first.
    """

    def __init__(self, *, place_on_cpu_servers: bool) -> None:
        self.place_on_cpu_servers = place_on_cpu_servers
        self.by_id: dict[str, Domain] = {}
        self.domains: list[Domain] = []
        self.empty_answers: dict[tuple[Kind, ...], int | None] = {}
        self._signatures: dict[Signature, int] = {}
        self._remade: dict[str, Domain] = {}
        self._capacities: tuple[tuple[Row, int], ...] | None = None
        self._gpus = 0
        self.watched = False
        self.touched: list[ServerUse] = []
        self.changed: list[ServerUse] = []
        self._uncounted: list[Domain] = []
        self._slots: dict[int, Tally] = {}
        self._reorder = False
        self._emptied = 0
        self._stale: dict[str, Domain] = {}
        self._reset()

    def _reset(self) -> None:
        self.gpus_max = 0
        self.gpus_free = 0
        self.exact: list[int] = [0]
        self.counts: list[int] = [0]
        self._slots_free: dict[int, int] = {}
        self._servers_with: list[Tally] = [[]]
        self._untallied: list[Domain] = []
        self.totals: Tally = []
        self._slots = {size: [] for size in self._slots}
        self.cells: dict[int, int] = {}
        self.rows: list[int] = []
        self._unsorted: dict[str, ServerUse] = {}

    # Servers come and go

    def add(self, use: ServerUse) -> None:
        """Learn of a server."""
        domain = self._domain(use.server.domain)
        use.domain = domain
        self._forget_answers(domain)
        if domain.uses and use.server_id < domain.uses[-1].server_id:
            self._take_out(domain)
            place = bisect_left(domain.uses, use.server_id, key=lambda known: known.server_id)
            domain.uses.insert(place, use)
            return
        use.bit = 1 << len(domain.uses)
        domain.uses.append(use)
        if domain.domain_id not in self._stale:
            self._enter(domain, use)

    def remove(self, use: ServerUse) -> None:
        """Forget a server."""
        domain = use.domain
        assert isinstance(domain, Domain)
        self._follow()
        self._forget_answers(domain)
        if use is domain.uses[-1]:
            self._leave(domain, use)
            self._count()
            domain.uses.pop()
        else:
            self._take_out(domain)
            domain.uses.remove(use)
        use.domain = None
        if not domain.uses:
            self._emptied += 1
            self._reorder = self._reorder or self._emptied > len(self.domains) // 2 + EMPTIED_MAX

    def refresh(self) -> None:
        """Take up all changes since the last look; give new numbers where a domain or server came or went in the middle."""
        if self._stale or self._reorder:
            self._renumber()
        if self.changed:
            self._follow()

    def _renumber(self) -> None:
        if self._reorder:
            self.signatures()
            self._reset()
            self.by_id = {key: domain for key, domain in sorted(self.by_id.items()) if domain.uses}
            self.domains = list(self.by_id.values())
            for place, domain in enumerate(self.domains):
                domain.clear(1 << place)
            self._stale = dict(self.by_id)
            self._reorder = False
            self._emptied = 0
        for domain in self._stale.values():
            for place, use in enumerate(domain.uses):
                use.bit = 1 << place
                self._enter(domain, use)
        self._stale.clear()

    def signatures(self) -> list[Signature]:
        """List the ways in which domains are made, each once."""
        for domain in self._remade.values():
            self._count_signature(domain.signature, -1)
            domain.signature = domain.empty_signature()
            self._count_signature(domain.signature, 1)
        self._remade.clear()
        return list(self._signatures)

    def _count_signature(self, signature: Signature, step: int) -> None:
        count = self._signatures.get(signature, 0) + step
        if signature and count > 0:
            self._signatures[signature] = count
        else:
            self._signatures.pop(signature, None)

    def capacities(self) -> tuple[tuple[Row, int], ...]:
        """List the makes of usable servers that may be placed on, and how many there are of each."""
        if self._capacities is None:
            counts: dict[Row, int] = {}
            self.signatures()
            for signature, domains in self._signatures.items():
                for row, count in signature:
                    if row.gpus or self.place_on_cpu_servers:
                        counts[row] = counts.get(row, 0) + count * domains
            self._capacities = tuple(sorted(counts.items()))
            self._gpus = sum(row.gpus * count for row, count in self._capacities)
        return self._capacities

    @property
    def gpus(self) -> int:
        """Count the GPUs of usable servers."""
        self.capacities()
        return self._gpus

    def _domain(self, domain_id: str) -> Domain:
        domain = self.by_id.get(domain_id)
        if domain is None:
            domain = self.by_id[domain_id] = Domain(domain_id)
            if self.domains and domain_id < self.domains[-1].domain_id:
                self._reorder = True
                self._stale[domain_id] = domain
            domain.clear(1 << len(self.domains))
            self.domains.append(domain)
        return domain

    def _forget_answers(self, domain: Domain) -> None:
        self._remade[domain.domain_id] = domain
        self._capacities = None
        self.empty_answers.clear()

    def _take_out(self, domain: Domain) -> None:
        if domain.domain_id not in self._stale:
            self._stale[domain.domain_id] = domain
            for use in domain.uses:
                self._leave(domain, use)
            self._count()

    def _enter(self, domain: Domain, use: ServerUse) -> None:
        if not use.usable or not (use.gpus or self.place_on_cpu_servers):
            return
        use.indexed = True
        use.indexed_gpus = 0
        use.cell = -1
        if use.gpus:
            self._grow(domain, use.gpus)
            if not domain.by_free[0]:
                self.exact[0] |= domain.bit
            domain.by_free[0] |= use.bit
        self.changed.append(use)

    def _leave(self, domain: Domain, use: ServerUse) -> None:
        if not use.indexed:
            return
        use.indexed = False
        if use.gpus:
            if use.indexed_gpus:
                self._move(domain, use.bit, use.indexed_gpus, 0)
            domain.by_free[0] ^= use.bit
            if not domain.by_free[0]:
                self.exact[0] ^= domain.bit
        self._leave_cell(domain, use)
        self._unsorted.pop(use.server_id, None)

    def _grow(self, domain: Domain, gpus: int) -> None:
        while len(domain.by_free) <= gpus:
            domain.by_free.append(0)
            domain.counts.append(0)
            domain.tallied.append(0)
        while len(self.exact) <= gpus:
            self.exact.append(0)
            self.counts.append(0)
            self._servers_with.append([])
        self.gpus_max = max(self.gpus_max, gpus)

    # Amounts of servers

    def _follow(self) -> None:
        """Take up the servers that changed."""
        if self.watched:
            self.touched += self.changed[: TOUCHED_MAX - len(self.touched)]
        for use in self.changed:
            if use.indexed:
                self._place(use)
        self.changed.clear()
        self._count()

    def _place(self, use: ServerUse) -> None:
        """Put a server where its free GPUs belong; the counts of its domain, and where its spare belongs, follow later."""
        gpus_free = use.gpus_free
        if gpus_free != use.indexed_gpus:
            domain: Domain = use.domain  # type: ignore[assignment] # an indexed server has its domain; a check costs time here
            self._move(domain, use.bit, use.indexed_gpus, gpus_free)
            use.indexed_gpus = gpus_free
        self._unsorted[use.server_id] = use

    def _move(self, domain: Domain, bit: int, before: int, after: int) -> None:
        by_free, exact = domain.by_free, self.exact
        by_free[before] ^= bit
        if not by_free[before]:
            exact[before] ^= domain.bit
        if not by_free[after]:
            exact[after] ^= domain.bit
        by_free[after] |= bit
        if not domain.moved:
            self._uncounted.append(domain)
        domain.moved |= 1 << before | 1 << after

    def _count(self) -> None:
        """Count anew in the domains where servers moved."""
        for domain in self._uncounted:
            gpus_free, counts = domain.gpus_free, domain.counts
            for free in ones(domain.moved & ~1):
                before = counts[free]
                after = domain.by_free[free].bit_count()
                if after != before:
                    counts[free] = after
                    self.counts[free] += after - before
                    gpus_free += free * (after - before)
            if not domain.lags:
                self._untallied.append(domain)
            domain.lags |= domain.moved
            domain.moved = 0
            self.gpus_free += gpus_free - domain.gpus_free
            change(self.totals, domain.bit, domain.gpus_free, gpus_free)
            domain.gpus_free = gpus_free
        self._uncounted.clear()
        self._slots_free.clear()

    def _tally(self) -> None:
        """Let the tallies by free GPUs follow what was counted."""
        for domain in self._untallied:
            for free in ones(domain.lags & ~1):
                before, after = domain.tallied[free], domain.counts[free]
                change(self._servers_with[free], domain.bit, before, after)
                domain.tallied[free] = after
            domain.lags = 0
            for size, tally in self._slots.items():
                self._count_slots(domain, size, tally)
        self._untallied.clear()

    def servers_with(self) -> list[Tally]:
        """Give how many servers with exactly so many free GPUs the domains have, by that number; not kept for 0."""
        self._tally()
        return self._servers_with

    def slots_free(self, size: int) -> int:
        """Count the containers of ``size`` GPUs that all servers together hold by GPUs alone."""
        if size > self.gpus_max:
            return 0
        slots = self._slots_free.get(size)
        if slots is None:
            slots = self._slots_free[size] = slots_in(self.counts, size)
        return slots

    def _count_slots(self, domain: Domain, size: int, tally: Tally) -> None:
        before = domain.slots.get(size, 0)
        after = slots_in(domain.counts, size)
        if after != before:
            domain.slots[size] = after
            change(tally, domain.bit, before, after)

    def slots_of(self, size: int) -> Tally:
        """Give how many containers of ``size`` GPUs the domains hold by GPUs alone; the first time, it is counted."""
        if size == 1:
            return self.totals
        self._tally()
        tally = self._slots.get(size)
        if tally is None:
            tally = self._slots[size] = []
            for domain in self.domains:
                self._count_slots(domain, size, tally)
        return tally

    @property
    def slot_sizes(self) -> list[int]:
        """List the sizes for which it is counted."""
        return list(self._slots)

    # Spare memory and vcores

    def refresh_spare(self) -> None:
        """Put the servers that changed where their spare memory and vcores belong."""
        for use in self._unsorted.values():
            cell = cell_of(use)
            if cell != use.cell:
                domain: Domain = use.domain  # type: ignore[assignment] # an indexed server has its domain
                self._leave_cell(domain, use)
                self._enter_cell(domain, use, cell)
        self._unsorted.clear()

    def _enter_cell(self, domain: Domain, use: ServerUse, cell: int) -> None:
        use.cell = cell
        servers = domain.by_cell.get(cell, 0)
        domain.by_cell[cell] = servers | use.bit
        if servers:
            return
        domains = self.cells.get(cell, 0)
        self.cells[cell] = domains | domain.bit
        if not domains:
            row = cell >> CELL_BITS
            while len(self.rows) <= row:
                self.rows.append(0)
            self.rows[row] |= 1 << (cell & MAGNITUDE_MAX)

    def _leave_cell(self, domain: Domain, use: ServerUse) -> None:
        cell = use.cell
        if cell < 0:
            return  # it was not yet in any
        domain.by_cell[cell] ^= use.bit
        if domain.by_cell[cell]:
            return
        self.cells[cell] ^= domain.bit
        if not self.cells[cell]:
            self.rows[cell >> CELL_BITS] ^= 1 << (cell & MAGNITUDE_MAX)


def slots_in(counts: list[int], size: int) -> int:
    """Count the containers of ``size`` GPUs that fit, by GPUs alone, where ``counts[f]`` servers have f free."""
    return sum(map(mul, counts, _slots_of_servers(size, len(counts))))


@lru_cache(maxsize=1_024)
def _slots_of_servers(size: int, levels: int) -> tuple[int, ...]:
    return tuple(free // size for free in range(levels))
