"""The free GPUs of one partition, indexed so that a change and a search cost the same on small and large clusters.

Sets of domains are integers: bit i stands for ``domains[i]``, and the domains are in the order of their ids. A ladder is a list of
such sets: ``ladder[n - 1]`` are the domains whose count is at least n, so a change by one flips one bit, and "which domains have
at least n" is one look.
"""

from bisect import bisect_left

from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.domain import Domain, Signature
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.pack import Row
from yarn_gpu_sched.placement.spare import CELL_BITS, MAGNITUDE_MAX

RUNGS_MAX = 8_192
"""Longest ladder: counts beyond it are told apart by looking at the domains themselves."""

EMPTIED_MAX = 64
"""Empty domains, besides half of all, that are kept before the rest is numbered anew."""

TOUCHED_MAX = 4_096
"""Touched servers that are told one by one: a list of this length means that any may have been."""

Ladder = list[int]


class Partition:
    """Servers of one partition, by domain and by what is free.

    ``exact[f]`` are the domains that have a server with exactly f free GPUs, ``ladders[f]`` count their servers with f or more,
    ``totals`` their free GPUs, ``slots[g]`` the containers of g GPUs that would fit by GPUs alone. ``servers_at_least[f]`` counts
    servers of the partition. ``cells`` and ``rows`` find servers by spare memory and vcores. While ``watched``, ``touched``
    collects the servers whose amounts changed, for whoever waits for spare memory or vcores; that one clears it.
    """

    def __init__(self, *, place_on_cpu_servers: bool) -> None:
        self.place_on_cpu_servers = place_on_cpu_servers
        self.by_id: dict[str, Domain] = {}
        self.domains: list[Domain] = []
        self.slot_sizes: list[int] = []
        self.empty_answers: dict[tuple[Kind, ...], int | None] = {}
        self._signatures: dict[Signature, int] = {}
        self._remade: dict[str, Domain] = {}
        self._capacities: tuple[tuple[Row, int], ...] | None = None
        self.watched = False
        self.touched: list[ServerUse] = []
        self._reorder = False
        self._emptied = 0
        self._stale: dict[str, Domain] = {}
        self._reset()

    def _reset(self) -> None:
        self.gpus_max = 0
        self.gpus_free = 0
        self.exact: list[int] = [0]
        self.servers_at_least: list[int] = [0]
        self.ladders: list[Ladder] = [[]]
        self.totals: Ladder = []
        self.slots: dict[int, Ladder] = {size: [] for size in self.slot_sizes}
        self.cells: dict[int, int] = {}
        self.rows: list[int] = []

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
        self._forget_answers(domain)
        if use is domain.uses[-1]:
            self._leave(domain, use)
            domain.uses.pop()
        else:
            self._take_out(domain)
            domain.uses.remove(use)
        use.domain = None
        if not domain.uses:
            self._emptied += 1
            self._reorder = self._reorder or self._emptied > len(self.domains) // 2 + EMPTIED_MAX

    def refresh(self) -> None:
        """Give domains and servers new numbers where one came or went in the middle. Searches call this first."""
        if not self._stale and not self._reorder:
            return
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
        return self._capacities

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
        self.update(use)

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

    def _grow(self, domain: Domain, gpus: int) -> None:
        while len(domain.by_free) <= gpus:
            domain.by_free.append(0)
            domain.at_least.append(0)
        while len(self.exact) <= gpus:
            self.exact.append(0)
            self.servers_at_least.append(0)
            self.ladders.append([])
        self.gpus_max = max(self.gpus_max, gpus)

    # One server's amounts

    def update(self, use: ServerUse) -> None:
        """Learn that the free amounts of a server changed."""
        if not use.indexed:
            return
        domain: Domain = use.domain  # type: ignore[assignment] # an indexed server has its domain; a check costs time here
        if use.gpus_free != use.indexed_gpus:
            self._move(domain, use.bit, use.indexed_gpus, use.gpus_free)
            use.indexed_gpus = use.gpus_free
        memory_mb = use.memory_free_mb - use.gpus_free * use.share_mb
        vcores = use.vcores_free - use.gpus_free * use.share_vcores
        cell = memory_mb.bit_length() << CELL_BITS if memory_mb > 0 else 0  # as cell_of: a call costs time here
        if vcores > 0:
            cell |= vcores.bit_length()
        if self.watched and len(self.touched) < TOUCHED_MAX:
            self.touched.append(use)
        if cell != use.cell:
            if use.cell >= 0:
                self._leave_cell(domain, use)
            self._enter_cell(domain, use, cell)

    def _move(self, domain: Domain, bit: int, before: int, after: int) -> None:
        flag = domain.bit
        by_free, exact = domain.by_free, self.exact
        by_free[before] ^= bit
        if not by_free[before]:
            exact[before] ^= flag
        if not by_free[after]:
            exact[after] ^= flag
        by_free[after] |= bit
        self.gpus_free += after - before
        if after > before:
            self._count_up(domain, flag, before, after)
            return
        at_least, servers, ladders = domain.at_least, self.servers_at_least, self.ladders
        for free in range(after + 1, before + 1):
            count = at_least[free] = at_least[free] - 1
            servers[free] -= 1
            if count < RUNGS_MAX:
                ladders[free][count] ^= flag
        old = domain.gpus_free
        new = domain.gpus_free = old - before + after
        totals = self.totals
        for rung in range(new, min(RUNGS_MAX, old)):
            totals[rung] ^= flag
        for size, ladder in self.slots.items():
            fewer = before // size - after // size
            if fewer:
                old = domain.slots[size]
                new = domain.slots[size] = old - fewer
                for rung in range(new, min(RUNGS_MAX, old)):
                    ladder[rung] ^= flag

    def _count_up(self, domain: Domain, flag: int, before: int, after: int) -> None:
        at_least, servers, ladders = domain.at_least, self.servers_at_least, self.ladders
        for free in range(before + 1, after + 1):
            count = at_least[free]
            at_least[free] = count + 1
            servers[free] += 1
            _climb(ladders[free], flag, count, count + 1)
        old = domain.gpus_free
        domain.gpus_free = old - before + after
        _climb(self.totals, flag, old, domain.gpus_free)
        for size, ladder in self.slots.items():
            more = after // size - before // size
            if more:
                old = domain.slots.get(size, 0)
                domain.slots[size] = old + more
                _climb(ladder, flag, old, old + more)

    def slot_ladder(self, size: int) -> Ladder:
        """Give the ladder of containers of ``size`` GPUs; the first time, it is made."""
        if size == 1:
            return self.totals
        ladder = self.slots.get(size)
        if ladder is None:
            ladder = self.slots[size] = []
            self.slot_sizes.append(size)
            for domain in self.domains:
                domain.slots[size] = sum(domain.at_least[size::size])
                _climb(ladder, domain.bit, 0, domain.slots[size])
        return ladder

    # Spare memory and vcores

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
        domain.by_cell[cell] ^= use.bit
        if domain.by_cell[cell]:
            return
        self.cells[cell] ^= domain.bit
        if not self.cells[cell]:
            self.rows[cell >> CELL_BITS] ^= 1 << (cell & MAGNITUDE_MAX)


def _climb(ladder: Ladder, flag: int, old: int, new: int) -> None:
    top = min(new, RUNGS_MAX)
    while len(ladder) < top:
        ladder.append(0)
    for rung in range(old, top):
        ladder[rung] ^= flag
