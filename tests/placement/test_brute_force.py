"""The search is compared with an exhaustive one on small random clusters."""

from __future__ import annotations

import random

import pytest

from tests.placement.exhaustive import Row, expected, row_of
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.server_use import Part, ServerUse
from yarn_gpu_sched.placement import FreeIndex, Kind, Placement
from yarn_gpu_sched.placement.audit import index_faults

STATES = 10_000
CPU_SHARE = 0.25


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
        assert found == expected(state.servers.values(), kinds), f"state {number}: {kinds} on {describe(state)}"
        seen[found and found[0]] = seen.get(found and found[0], 0) + 1
        if number % 100 == 0:
            assert list(index_faults(index, state.servers.values())) == []
    assert min(seen[key] for key in (None, 0, 1, 2)) > 50, f"too one-sided: {seen}"


def describe(state: ClusterState) -> list[tuple[str, str, Row]]:
    return [(use.server_id, use.server.domain, row_of(use, empty=False)) for use in state.servers.values()]
