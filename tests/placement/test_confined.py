"""Containers that may not go anywhere: compared with an exhaustive search, and what is preferred where it can be had."""

from __future__ import annotations

import random

import pytest

from tests.placement.exhaustive import fewest, holds, row_of
from tests.placement.test_brute_force import check_placement, describe, random_kinds, random_state
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement import FreeIndex, Kind, Placement, Reach, find_confined

STATES = 3_000


def random_reach(rng: random.Random, state: ClusterState) -> Reach:
    hosts = [use.server.host for use in state.servers.values()]
    some = [*rng.sample(hosts, rng.randint(0, len(hosts))), *(f"/r{n}" for n in range(1, 4) if rng.random() < 0.2)]
    if rng.random() < 0.5:
        return Reach(excluded=tuple(some))
    return Reach(tuple((place, 99) for place in some), strict=bool(some) and rng.random() < 0.7)


def admitted(state: ClusterState, reach: Reach) -> list[ServerUse]:
    uses = [use for use in state.servers.values() if use.usable and use.gpus]
    named = {place for place, _ in reach.places}
    return [
        use
        for use in uses
        if not {use.server.host, use.server.rack} & set(reach.excluded)
        and (not reach.strict or {use.server.host, use.server.rack} & named)
    ]


def exists(state: ClusterState, kinds: tuple[Kind, ...], uses: list[ServerUse], ceiling: Level) -> bool:
    """Tell whether some way is left at all, by trying every way."""
    every = [use for use in state.servers.values() if use.usable and use.gpus]
    strict = all(
        any(holds(row_of(use, empty=True), (kind._replace(containers=1),), (1,), strict=True) for use in every)
        for kind in kinds
        if not kind.gpus
    )
    domains: dict[str, list[ServerUse]] = {}
    for use in uses:
        domains.setdefault(use.server.domain, []).append(use)
    groups = [*domains.values(), uses] if ceiling is Level.ANYWHERE else [*domains.values()]
    counts = [fewest([row_of(use, empty=False) for use in those], kinds, strict=strict) for those in groups]
    if ceiling is not Level.FEWEST_SERVERS:
        return any(count is not None for count in counts)
    whole: dict[str, list[ServerUse]] = {}
    for use in every:
        whole.setdefault(use.server.domain, []).append(use)
    empty = [fewest([row_of(use, empty=True) for use in those], kinds, strict=strict) for those in whole.values()]
    best = min((count for count in empty if count is not None), default=0)
    return any(count is not None and count <= best for count in counts)


@pytest.mark.timeout(600)
def test_it_finds_a_place_wherever_there_is_one() -> None:
    rng = random.Random(20_261_130)
    seen = {True: 0, False: 0}
    for number in range(STATES):
        state, index = random_state(rng)
        kinds, reach, ceiling = random_kinds(rng), random_reach(rng, state), rng.choice(list(Level))
        free = {use.server_id: (use.free_mask, use.memory_free_mb) for use in state.servers.values()}
        placement = find_confined(index, "", kinds, (reach,) * len(kinds), ceiling)
        uses = admitted(state, reach)
        where = f"state {number}: {kinds} {reach} {ceiling} on {describe(state)}"
        assert (placement is not None) == exists(state, kinds, uses, ceiling), where
        assert free == {use.server_id: (use.free_mask, use.memory_free_mb) for use in state.servers.values()}, where
        seen[placement is not None] += 1
        if placement is not None:
            check_placement(state, kinds, placement)
            assert placement.level <= ceiling, where
            assert {use.server_id for use, _, _ in placement.portions} <= {use.server_id for use in uses}, where
    assert min(seen.values()) > 500, f"too one-sided: {seen}"


def cluster(racks: int = 2, servers: int = 2, gpus: int = 4) -> FreeIndex:
    index = FreeIndex()
    state = ClusterState(index, 0.1)
    for rack in range(racks):
        for number in range(servers):
            host = f"s{rack}{number}"
            state.put_server(Server(f"{host}:1", host, f"/r{rack}", Resource(64, 32, gpus)))
    return index


def hosts(placement: Placement | None) -> dict[str, int]:
    assert placement is not None
    found: dict[str, int] = {}
    for use, _, count in placement.portions:
        found[use.server.host] = found.get(use.server.host, 0) + count
    return found


def one(containers: int, gpus: int = 1) -> tuple[Kind, ...]:
    return (Kind(containers, gpus, 1, 1),)


def test_preferred_places_are_taken_while_they_hold_it() -> None:
    prefers = (Reach((("s11", 2),)),)
    assert hosts(find_confined(cluster(), "", one(4), prefers, Level.ANYWHERE)) == {"s11": 4}
    assert hosts(find_confined(cluster(), "", one(2, 4), prefers, Level.ANYWHERE)) == {"s10": 1, "s11": 1}
    assert hosts(find_confined(cluster(), "", one(3, 4), prefers, Level.ANYWHERE)).keys() == {"s00", "s01", "s10"}


def test_a_preferred_rack_is_taken_before_another() -> None:
    prefers = (Reach((("/r1", 4),)),)
    assert hosts(find_confined(cluster(), "", one(4), prefers, Level.ANYWHERE)).keys() <= {"s10", "s11"}


def test_no_more_than_are_wanted_at_a_strict_place() -> None:
    strict = (Reach((("s00", 1), ("s10", 1)), strict=True),)
    assert hosts(find_confined(cluster(), "", one(2), strict, Level.ANYWHERE)) == {"s00": 1, "s10": 1}
    assert find_confined(cluster(), "", one(3), strict, Level.ANYWHERE) is None
    rack = (Reach((("/r0", 3),), strict=True),)
    assert sum(hosts(find_confined(cluster(), "", one(3, 2), rack, Level.ANYWHERE)).values()) == 3
    assert find_confined(cluster(), "", one(4, 2), rack, Level.ANYWHERE) is None


def test_members_without_names_go_near_those_with_names() -> None:
    kinds = (Kind(1, 2, 1, 1), Kind(2, 1, 1, 1))
    reach = (Reach((("s10", 1),), strict=True), Reach())
    placement = find_confined(cluster(), "", kinds, reach, Level.ANYWHERE)
    assert hosts(placement).keys() <= {"s10", "s11"}
    assert placement is not None
    assert placement.level is not Level.ANYWHERE


def test_a_ceiling_forbids_what_spans_domains() -> None:
    assert find_confined(cluster(), "", one(3, 4), (Reach(),), Level.ONE_DOMAIN) is None
    assert find_confined(cluster(), "", one(2, 4), (Reach(),), Level.FEWEST_SERVERS) is not None
    assert find_confined(cluster(), "", one(3, 4), (Reach(),), Level.ANYWHERE) is not None


def test_an_excluded_rack_holds_nothing() -> None:
    assert hosts(find_confined(cluster(), "", one(2, 4), (Reach(excluded=("/r0",)),), Level.ANYWHERE)).keys() == {
        "s10",
        "s11",
    }
    everything = (Reach(excluded=("/r0", "s10", "s11")),)
    assert find_confined(cluster(), "", one(1), everything, Level.ANYWHERE) is None
