"""The search is compared with an exhaustive one on small random clusters."""

from __future__ import annotations

import random
from itertools import product

import pytest

from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.server_use import Part, ServerUse
from yarn_gpu_sched.placement import FreeIndex, Kind, Placement
from yarn_gpu_sched.placement.audit import index_faults

STATES = 10_000
CPU_SHARE = 0.25

Row = tuple[int, int, int, int, int]
"""Free GPUs, memory and vcores; share of memory and vcores that a free GPU keeps."""


def random_state(rng: random.Random) -> tuple[ClusterState, FreeIndex]:
    index = FreeIndex()
    state = ClusterState(index, CPU_SHARE)
    for number in rng.sample(range(10), rng.randint(1, 6)):
        capacity = Resource(rng.choice((8, 12, 16)), rng.choice((4, 8, 12)), rng.randint(0, 4))
        running = ServerState.RUNNING if rng.random() < 0.9 else ServerState.UNHEALTHY
        state.put_server(Server(f"s{number}", f"s{number}", f"/r{rng.randint(1, 3)}", capacity, state=running))
    for use in state.servers.values():
        for _ in range(rng.randint(0, 2)):
            hold(state, use, rng)
    return state, index


def hold(state: ClusterState, use: ServerUse, rng: random.Random) -> None:
    free = [place for place in range(use.gpus) if use.free_mask >> place & 1]
    taken = rng.sample(free, rng.randint(0, len(free)))
    mask = sum(1 << place for place in taken)
    with state.transaction() as plan:
        if plan.take(Part(use, rng.randint(0, 8), rng.randint(0, 4), mask, len(taken))):
            plan.commit()


def random_kinds(rng: random.Random) -> tuple[Kind, ...]:
    def kind(gpus: int, most: int) -> Kind:
        return Kind(rng.randint(1, most), gpus, rng.choice((1, 1, 2, 3, 5)), rng.choice((1, 1, 2, 3)))

    if rng.random() < 0.65:
        return (kind(rng.choice((0, 1, 1, 2, 3, 4)), rng.choice((1, 4, 10))),)
    first, second = kind(rng.choice((1, 2, 3)), 4), kind(rng.choice((0, 0, 1)), 3)
    if first[1:] == second[1:]:
        return (first,)
    return tuple(sorted((first, second), key=lambda one: one[1:], reverse=True))


def row_of(use: ServerUse, *, empty: bool) -> Row:
    if empty:
        capacity = use.server.capacity
        return (capacity.gpus, capacity.memory_mb, capacity.vcores, use.share_mb, use.share_vcores)
    return (use.gpus_free, use.memory_free_mb, use.vcores_free, use.share_mb, use.share_vcores)


def holds(row: Row, kinds: tuple[Kind, ...], counts: tuple[int, ...], *, strict: bool) -> bool:
    gpus = row[0] - sum(count * kind.gpus for count, kind in zip(counts, kinds, strict=True))
    memory = row[1] - sum(count * kind.memory_mb for count, kind in zip(counts, kinds, strict=True))
    vcores = row[2] - sum(count * kind.vcores for count, kind in zip(counts, kinds, strict=True))
    if min(gpus, memory, vcores) < 0:
        return False
    plain = any(count and not kind.gpus for count, kind in zip(counts, kinds, strict=True))
    return not (strict and plain) or (memory >= gpus * row[3] and vcores >= gpus * row[4])


def fewest(rows: list[Row], kinds: tuple[Kind, ...], *, strict: bool) -> int | None:
    """Count the fewest servers that hold all of it, by trying every number of every kind on every server."""
    start = tuple(kind.containers for kind in kinds)
    reached = {start: 0}
    for row in rows:
        after = dict(reached)
        for left, servers in reached.items():
            for counts in product(*(range(one + 1) for one in left)):
                if any(counts) and holds(row, kinds, counts, strict=strict):
                    rest = tuple(one - count for one, count in zip(left, counts, strict=True))
                    after[rest] = min(after.get(rest, 99), servers + 1)
        reached = after
    return reached.get((0,) * len(kinds))


def expected(state: ClusterState, kinds: tuple[Kind, ...]) -> tuple[int, int] | None:
    """Give the level and the number of servers."""
    uses = sorted((use for use in state.servers.values() if use.usable and use.gpus), key=lambda use: use.server_id)
    strict = all(
        any(holds(row_of(use, empty=True), (kind._replace(containers=1),), (1,), strict=True) for use in uses)
        for kind in kinds
        if not kind.gpus
    )
    domains: dict[str, list[ServerUse]] = {}
    for use in uses:
        domains.setdefault(use.server.domain, []).append(use)
    empty = [fewest([row_of(use, empty=True) for use in those], kinds, strict=strict) for those in domains.values()]
    tightest = sorted(domains.items(), key=lambda item: (sum(use.gpus_free for use in item[1]), item[0]))
    now = [fewest([row_of(use, empty=False) for use in those], kinds, strict=strict) for _, those in tightest]
    best_empty = min((count for count in empty if count is not None), default=None)
    held = [count for count in now if count is not None]
    if best_empty is not None and min(held, default=99) <= best_empty:
        return 0, next(count for count in held if count <= best_empty)
    if held:
        return 1, held[0]
    everywhere = fewest([row_of(use, empty=False) for use in uses], kinds, strict=strict)
    return None if everywhere is None else (2, everywhere)


def check_placement(state: ClusterState, kinds: tuple[Kind, ...], placement: Placement) -> None:
    counts = [0] * len(kinds)
    with state.transaction() as plan:
        for use, place, count in placement.portions:
            kind, mask = kinds[place], 0
            for gpu in range(use.gpus):
                if use.free_mask >> gpu & 1 and mask.bit_count() < count * kind.gpus:
                    mask |= 1 << gpu
            assert plan.take(Part(use, count * kind.memory_mb, count * kind.vcores, mask, count * kind.gpus))
            counts[place] += count
    assert counts == [kind.containers for kind in kinds]


@pytest.mark.timeout(900)  # 12 s of work, on a machine that may be busy
def test_the_search_finds_what_an_exhaustive_one_finds() -> None:
    rng = random.Random(20_261_129)
    seen: dict[object, int] = {}
    for number in range(STATES):
        state, index = random_state(rng)
        kinds = random_kinds(rng)
        placement = index.find("", kinds)
        found = None
        if placement is not None:
            check_placement(state, kinds, placement)
            found = (int(placement.level), len({portion.use.server_id for portion in placement.portions}))
        assert found == expected(state, kinds), f"state {number}: {kinds} on {describe(state)}"
        seen[found and found[0]] = seen.get(found and found[0], 0) + 1
        if number % 100 == 0:
            assert list(index_faults(index, state.servers.values())) == []
    assert min(seen[key] for key in (None, 0, 1, 2)) > 50, f"too one-sided: {seen}"


def describe(state: ClusterState) -> list[tuple[str, str, Row]]:
    return [(use.server_id, use.server.domain, row_of(use, empty=False)) for use in state.servers.values()]
