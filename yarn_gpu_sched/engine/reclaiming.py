"""Finds whom to stop for a gang (law 7), and proves it: their places are freed in a transaction, and the gang is placed there.

What is found is irreducible: without any one of the victims the gang would find no place at its level. Nothing is changed here.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from yarn_gpu_sched.engine.dealing import lowest
from yarn_gpu_sched.engine.ends import unwatched
from yarn_gpu_sched.engine.finding import find_quietly
from yarn_gpu_sched.engine.foreseeing import NOTHING_FORESEEN, foreseen
from yarn_gpu_sched.engine.keeping import kept_for
from yarn_gpu_sched.engine.planning import parts_of
from yarn_gpu_sched.engine.victim_search import FEW, Chosen, Shape, Site, enumerate_cheaper, propose
from yarn_gpu_sched.engine.victims import Candidate, Candidates, above_quota, candidates, warned, within_quota
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.preemption import Need
from yarn_gpu_sched.model.server_use import Part, mask_of
from yarn_gpu_sched.model.shares import lineage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.loans import Borrowed
    from yarn_gpu_sched.engine.want import JobWant
    from yarn_gpu_sched.model.preemption import Plan
    from yarn_gpu_sched.model.transaction import Transaction
    from yarn_gpu_sched.placement import Placement

PROVEN_MAX = 4
"""Proposals that are tried, the cheapest first; then the cheapest jobs of all, one, two, four and so on, until they are enough."""

CHEAP_MIN = 64
CHEAP_PER_GPU = 32
"""Of many who may be stopped so many of the cheapest are looked at first: only if they don't do as well as any, all of them."""

PERCENT = 100
NOBODY: dict[int, int] = {}


class Condition(enum.Enum):
    """What keeps a gang from having others stopped."""

    FITS = "fits"
    OVER_QUOTA = "over_quota"
    UNDER_THRESHOLD = "under_threshold"
    NO_VICTIM = "no_victim"
    TOO_FEW = "too_few"
    RATE = "rate"


class Failing(NamedTuple):
    """Why nobody is stopped, in words with the numbers; ``again_s``: when that may be otherwise if nothing else happens."""

    condition: Condition
    sentence: str
    again_s: float | None = None


class Found(NamedTuple):
    """Whom to stop, and what the gang then takes; ``in_use`` of ``usable`` GPUs of the partition were when it was found."""

    victims: tuple[Candidate, ...]
    placement_level: Level
    needs: tuple[Need, ...]
    in_use: int
    usable: int


def reclaim(core: Core, want: JobWant) -> Found | Failing:
    """Find whom to stop for a gang, or say why nobody is."""
    failing = _may_not(core, want)
    if failing is not None:
        return failing
    in_use, usable = gpus_in_use(core, want.partition)
    who = candidates(core, want)
    if not who.ripe:
        return Failing(Condition.NO_VICTIM, _nobody(core, who), who.ripens_s)
    search = _Search(core, want, who, kept_for(core, want.record))
    if search.fits():
        return Failing(Condition.FITS, "who is being stopped for other gangs leaves room for it")
    found = search.run()
    if found is None:
        free = usable - in_use
        sentence = (
            f"{free} GPUs are free, and stopping all {len(who.ripe)} who borrow and may be stopped would not make room"
        )
        return Failing(Condition.TOO_FEW, sentence, who.ripens_s)
    victims, placement, needs = found
    return Found(victims, placement.level, needs, in_use, usable)


def prove_again(core: Core, want: JobWant, plan: Plan, held: list[Part]) -> Found | Failing:
    """Look at the conditions again when a grace ends: who of the warned is still needed; ``held``: what is held for the gang."""
    failing = _may_not(core, want)
    if failing is not None:
        return failing
    in_use, usable = gpus_in_use(core, want.partition)
    who = warned(core, want, plan)
    proof = _Search(core, want, who, held).prove(frozenset(range(len(who.ripe))))
    if proof is None:
        return Failing(
            Condition.TOO_FEW, "who was warned does not borrow any more, or its GPUs are not enough any more"
        )
    victims, placement, needs = proof
    return Found(victims, placement.level, needs, in_use, usable)


def _nobody(core: Core, who: Candidates) -> str:
    """Say why none of those who borrow may be stopped."""
    if not who.borrow:
        return "nobody borrows in a queue that would have to give back"
    young, least_s = who.unripe, core.settings.preempt_min_run_s
    return (
        f"nobody who borrows may be stopped: of {who.borrow}, {young} have run for less than {least_s:g} s, "
        f"{who.borrow - young} are spared, being stopped already or not to be stopped at all"
    )


def _may_not(core: Core, want: JobWant) -> Failing | None:
    """Say why nobody may be stopped for a gang now, whoever borrows; None if somebody may."""
    over = within_quota(core, want)
    if over:
        return Failing(Condition.OVER_QUOTA, _over_quota(core, want, over))
    if is_crowded(core, want.partition):
        return None
    in_use, usable = gpus_in_use(core, want.partition)
    percent = core.settings.preempt_threshold_percent
    sentence = f"{in_use} of {usable} GPUs are in use, held or reserved, and that must be {percent} % of them"
    return Failing(Condition.UNDER_THRESHOLD, sentence)


def is_crowded(core: Core, partition: str) -> bool:
    """Tell whether so many GPUs of a partition are in use, held or reserved that somebody may be stopped (10 x >= 9 y)."""
    in_use, usable = gpus_in_use(core, partition)
    return usable > 0 and PERCENT * in_use >= core.settings.preempt_threshold_percent * usable


def gpus_in_use(core: Core, partition: str) -> tuple[int, int]:
    """Count the GPUs of a partition's healthy servers that do not drain: those in use, held or reserved, and all."""
    found = core.index.partitions.get(partition)
    if found is None:
        return 0, 0
    found.refresh()
    usable = found.gpus
    return usable - found.gpus_free, usable


def _over_quota(core: Core, want: JobWant, path: str) -> str:
    quota = core.in_force.limits(path, want.partition).quota_gpus
    used = core.state.tenants.by_path[path].gpus_used(want.partition)
    if not quota:
        return f"queue {path} has no quota, so it may borrow and nothing is taken back for it"
    return f"queue {path} uses {used} GPUs of its quota of {quota}, and with {want.gpus} more it would borrow itself"


Proof = tuple[tuple[Candidate, ...], "Placement", tuple[Need, ...]]


class _Search:
    """One search; all that it does to the servers is undone at its end."""

    def __init__(self, core: Core, want: JobWant, who: Candidates, held: Sequence[Part] = ()) -> None:
        self._core = core
        self._want = want
        self._who = who
        self._ripe, self._costs = who.ripe, who.costs
        self._held = held
        self._parts: dict[int, list[Part]] = {}
        self._foreseen = foreseen(core, want.job_id) if core.preemption.plans else NOTHING_FORESEEN
        self._kinds = [kind for kind in want.kinds if kind.gpus]
        self._counts_tell = len(self._kinds) == 1 and self._foreseen == NOTHING_FORESEEN and not held

    def fits(self) -> bool:
        """Tell whether there will be a place anyway, once those are stopped that others have had stopped."""
        if self._foreseen is NOTHING_FORESEEN:
            return False
        with self._core.state.transaction() as plan:
            self._foresee_left(plan)
            self._foresee_taken(plan)
            return self._find() is not None

    def _foresee_left(self, plan: Transaction) -> None:
        for part in self._foreseen[0]:
            plan.release(part)

    def _foresee_taken(self, plan: Transaction) -> None:
        """Take what other gangs will take, as far as it is free by now: some of it this one's own victims may have to leave."""
        for part in self._foreseen[1]:
            mask = part.mask & part.use.free_mask
            if mask:
                plan.take(Part(part.use, 0, 0, mask, mask.bit_count()))

    def run(self) -> Proof | None:
        """Search."""
        if not self._may_be_enough():
            return None
        best: Proof | None = None
        proposed = self._sets()
        if not proposed and self._counts_tell:
            return None
        for chosen in proposed:
            if best is not None and self._cost(chosen) >= _cost(best[0]):
                continue
            proof = self.prove(chosen)
            if proof is not None and (best is None or _cost(proof[0]) < _cost(best[0])):
                best = proof
        return self._any() if best is None else self._cheaper(best)

    def _may_be_enough(self) -> bool:
        """Tell whether all who may be stopped hold as many GPUs as the gang lacks."""
        lacking = self._want.gpus - self._core.index.partition(self._want.partition).gpus_free
        for part in (*self._foreseen[0], *self._held):
            lacking -= part.gpus
        for one in self._ripe:
            if lacking <= 0:
                break
            lacking -= one.gpus
        return lacking <= 0

    def _cost(self, chosen: Chosen) -> float:
        return sum([self._costs[place] for place in chosen])

    # What is tried

    def _sets(self) -> list[Chosen]:
        """List the sets that may be enough by counts, the cheapest first."""
        want = self._want
        if len(self._kinds) != 1:
            return []
        kind = self._kinds[0]
        fewest = self._core.index.fewest_servers(want.partition, want.kinds)
        shape = Shape(kind.containers, kind.gpus, want.demand.ceiling, fewest)
        costs = self._costs
        cheap = CHEAP_MIN + CHEAP_PER_GPU * want.gpus
        found = propose(shape, self._sites(cheap), costs[:cheap]) if cheap < len(costs) else []
        if not found or found[0].cost > costs[cheap] * len(found[0].chosen):
            found = propose(shape, self._sites(len(costs)), costs)
        return [proposal.chosen for proposal in found[:PROVEN_MAX]]

    def _sites(self, count: int) -> list[list[Site]]:
        """List the servers of each domain that may be placed on, with what the cheapest who may be stopped hold there."""
        held: dict[str, dict[int, int]] = {}
        for place, one in enumerate(self._ripe[:count]):
            for server_id, gpus in one.places:
                there = held.get(server_id)
                if there is None:
                    held[server_id] = there = {}
                if freed := self._freed(one, server_id, gpus):
                    there[place] = freed
        domains = []
        for domain in self._core.index.partition(self._want.partition).domains:
            sites = []
            for use in domain.uses:
                there = held.get(use.server_id, NOBODY)
                if (there or use.gpus_free) and use.indexed and use.gpus:
                    sites.append(Site(use.gpus, use.gpus_free, () if use.irregular else tuple(there.items())))
            domains.append(sites)
        return domains

    def _freed(self, one: Borrowed, server_id: str, gpus: int) -> int:
        """Count how many of so many GPUs that somebody holds on a server could be given out then."""
        use = self._core.state.servers[server_id]
        if not use.fitness.sick | use.fitness.busy:
            return gpus
        return sum(use.would_free(mask_of(each.gpu_indices)) for each in one.containers if each.server_id == server_id)

    def _cheaper(self, best: Proof) -> Proof:
        """Look through the cheaper sets one by one, where those who may be stopped are few."""
        if len(self._ripe) > FEW:
            return best
        lacking = self._want.gpus - self._core.index.partition(self._want.partition).gpus_free
        gpus = [one.gpus for one in self._ripe]
        for chosen in enumerate_cheaper(self._costs, gpus, lacking, _cost(best[0])):
            proof = self.prove(chosen) if self._may_be_room(chosen) else None
            if proof is not None:
                return proof
        return best

    def _may_be_room(self, chosen: Chosen) -> bool:
        """Tell whether by counts of GPUs there may be room for the gang without these jobs."""
        if not self._counts_tell:
            return True
        kind = self._kinds[0]
        each = kind.gpus
        slots = self._core.index.slots(self._want.partition, each)
        freed: dict[str, int] = {}
        for place in chosen:
            for server_id, gpus in self._ripe[place].places:
                freed[server_id] = freed.get(server_id, 0) + self._freed(self._ripe[place], server_id, gpus)
        for server_id, gpus in freed.items():
            free = self._core.state.servers[server_id].gpus_free
            slots += (free + gpus) // each - free // each
        return slots >= kind.containers

    def _any(self) -> Proof | None:
        """Stop the cheapest, two, four and so on, until there is a place: whatever the gang is made of, and wherever it may go."""
        count = 1
        while count < 2 * len(self._ripe):
            proof = self.prove(frozenset(range(min(count, len(self._ripe)))))
            if proof is not None:
                return proof
            count *= 2
        return None

    # What is proven

    def prove(self, chosen: Chosen) -> Proof | None:
        """Place the gang without these jobs, and then without as few of them as will do."""
        left = dict.fromkeys(sorted(chosen))
        if not self._may_go(left):
            return None
        with unwatched(self._core, [self._want.partition]), self._core.state.transaction() as plan:
            self._foresee_left(plan)
            for part in self._held:
                plan.release(part)
            before: dict[str, int] = {}
            for place in left:
                for part in self._parts_of(place):
                    before.setdefault(part.use.server_id, part.use.free_mask)
                    plan.release(part)
            self._foresee_taken(plan)
            placement = self._find()
            if placement is None:
                return None
            for place in list(left)[::-1]:
                fewer = self._find_with(plan, place)
                if fewer is not None:
                    placement = fewer
                    del left[place]
            victims = tuple(self._who.at(place) for place in left)
            return victims, placement, _needs(self._want, placement, before)

    def _find_with(self, plan: Transaction, place: int) -> Placement | None:
        """Find a place although a job is not stopped; if there is none, it is as before."""
        checkpoint = plan.checkpoint()
        placement = self._find() if all(plan.take(part) for part in self._parts_of(place)) else None
        if placement is None:
            plan.rollback(checkpoint)
        return placement

    def _find(self) -> Placement | None:
        return find_quietly(self._core, self._want.demand, self._want.line.barred)

    def _parts_of(self, place: int) -> list[Part]:
        parts = self._parts.get(place)
        if parts is None:
            held = parts_of(self._core, self._ripe[place].containers)
            parts = self._parts[place] = [part for part in held if part.use.usable and not part.use.irregular]
        return parts

    def _may_go(self, left: dict[int, None]) -> bool:
        """Tell whether every queue up to the common one is above its quota before each of the victims goes, the smallest first."""
        core, partition = self._core, self._want.partition
        mine = lineage(self._want.vc)
        taken: dict[str, int] = {}
        for one in sorted((self._ripe[place] for place in left), key=lambda one: one.gpus):
            vc = one.record.job.vc
            for path in () if one.record.tenure.idle else lineage(vc):
                if path in mine:
                    continue
                if not above_quota(core, path, partition, leaf=path == vc, taken=taken.get(path, 0)):
                    return False
                taken[path] = taken.get(path, 0) + one.gpus
        return True


def _cost(victims: tuple[Candidate, ...]) -> float:
    return sum([one.cost for one in victims])


def _needs(want: JobWant, placement: Placement, before: dict[str, int]) -> tuple[Need, ...]:
    """Say what the gang takes on each server: of its GPUs those first that nobody must leave."""
    taken: dict[str, list[int]] = {}
    portions: dict[str, list[tuple[int, int]]] = {}
    for use, kind, count in placement.portions:
        portions.setdefault(use.server_id, []).append((kind, count))
        _, gpus, memory_mb, vcores = want.kinds[kind]
        needed = taken.setdefault(use.server_id, [0, 0, 0, use.free_mask])
        needed[0] += count * gpus
        needed[1] += count * memory_mb
        needed[2] += count * vcores
    return tuple(
        Need(server_id, _first(free, before.get(server_id, free), gpus), memory_mb, vcores, tuple(portions[server_id]))
        for server_id, (gpus, memory_mb, vcores, free) in sorted(taken.items())
    )


def _first(free: int, rather: int, gpus: int) -> int:
    """Take so many GPUs of a mask, of some rather."""
    mine, _ = lowest(free & rather, gpus, 1)
    rest, _ = lowest(free & ~rather, gpus - mine.bit_count(), 1)
    return mine | rest
