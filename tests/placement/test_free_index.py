"""The index as a whole: partitions, what follows a change, and what is counted of a search."""

from __future__ import annotations

import random

import pytest

from tests.placement.clusters import cluster_of, fill, gang, seats, server, take
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.server_use import Part
from yarn_gpu_sched.placement import TOUCHED_MAX, FreeIndex, Kind
from yarn_gpu_sched.placement import partition as partition_module
from yarn_gpu_sched.placement.audit import index_faults
from yarn_gpu_sched.placement.partition import slots_in
from yarn_gpu_sched.placement.tally import Tally, change


def faults(state: ClusterState) -> list[str]:
    assert isinstance(state.index, FreeIndex)
    return list(index_faults(state.index, state.servers.values()))


def test_each_partition_has_its_own_servers() -> None:
    _, index = cluster_of([server("a", 4), server("b", 8, partition="p")])
    assert seats(index.find("", (gang(1, 4),))) == (0, [("a", 0, 1)])
    assert seats(index.find("p", (gang(1, 4),))) == (0, [("b", 0, 1)])
    assert index.find("", (gang(1, 8),)) is None
    assert (index.slots("", 4), index.slots("p", 4), index.slots("q", 4)) == (1, 2, 0)


def test_a_server_that_changes_its_partition_is_only_in_the_new_one() -> None:
    state, index = cluster_of([server("a", 4)])
    state.put_server(server("a", 4, partition="p"))
    assert index.find("", (gang(1, 1),)) is None
    assert seats(index.find("p", (gang(1, 1),))) == (0, [("a", 0, 1)])
    fill(state, "a", 1)
    assert (index.slots("", 1), index.slots("p", 1)) == (0, 3)
    assert faults(state) == []


def test_after_clearing_nothing_is_known() -> None:
    state, index = cluster_of([server("a", 4)])
    index.clear()
    assert index.find("", (gang(1, 1),)) is None
    assert index.partitions == {}
    again = FreeIndex()
    again.add(state.servers["a"])
    assert again.slots("", 1) == 4


@pytest.mark.parametrize(("gpus_each", "slots"), [(1, 14), (2, 6), (3, 4), (4, 2), (7, 1), (8, 0), (9, 0), (100, 0)])
def test_slots_are_what_fits_by_gpus_alone(gpus_each: int, slots: int) -> None:
    state, index = cluster_of([server("a", 8), server("b", 4), server("c", 4, rack="/r2"), server("d", 8)])
    state.put_server(server("d", 8, state=ServerState.UNHEALTHY))
    fill(state, "a", 1)
    fill(state, "b", 1)
    assert index.slots("", gpus_each) == slots


def test_slots_follow_what_is_taken_and_given_back() -> None:
    state, index = cluster_of([server("a", 8), server("b", 8)])
    assert index.slots("", 4) == 4
    with state.transaction() as plan:
        assert plan.take(Part(state.servers["a"], 1, 1, 0b1, 1))
        assert index.slots("", 4) == 3
    assert index.slots("", 4) == 4


@pytest.mark.parametrize(
    ("counts", "size", "slots"), [([], 1, 0), ([5], 1, 0), ([1, 2, 3], 1, 8), ([1, 2, 3, 4], 2, 7)]
)
def test_slots_in_counts_of_servers(counts: list[int], size: int, slots: int) -> None:
    assert slots_in(counts, size) == slots


def test_a_search_counts_what_it_looked_at_and_a_quiet_one_does_not() -> None:
    _, index = cluster_of([server("a", 4), server("b", 4)])
    for kinds in ((gang(1, 1),), (gang(2, 4),), (gang(9, 4),), (gang(1, 0),), (gang(1, 2), gang(1, 1))):
        before = index.visits.entries
        with index.visits.quiet():
            quiet = index.find("", kinds)
        assert index.visits.entries == before
        assert seats(index.find("", kinds)) == seats(quiet)
        assert index.visits.entries > before, kinds


@pytest.mark.parametrize(
    ("memory_mb", "looked_at"), [(1, 1), (33_000, 4), (65_000, 4), (66_000, 4)], ids=["any", "near", "share", "none"]
)
def test_a_search_for_a_container_without_gpus_counts_too(memory_mb: int, looked_at: int) -> None:
    """Each of 4 servers has 65,536 MB, and half of it to spare: most are looked at one by one only near that."""
    _, index = cluster_of([server(f"s{number}", 4) for number in range(4)], cpu_share=0.5)
    index.find("", (gang(1, 0, memory_mb),))
    before = index.visits.entries
    index.find("", (gang(1, 0, memory_mb),))
    assert index.visits.entries - before >= looked_at


def test_a_gang_on_one_server_is_found_at_the_same_cost_however_many_there_are() -> None:
    costs = []
    for servers in (4, 400):
        state, index = cluster_of(
            [server(f"s{number:04d}", 8, rack=f"/r{number // 8:03d}") for number in range(servers)]
        )
        fill(state, "s0001", 5)
        index.find("", (gang(1, 2),))
        before = index.visits.entries
        assert seats(index.find("", (gang(1, 2),))) == (0, [("s0001", 0, 1)])
        costs.append(index.visits.entries - before)
    assert costs[0] == costs[1] > 0


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (gang(1, 0, 4_000, 1), {"a"}),
        (gang(1, 0, 500, 1), {"a", "b"}),
        (gang(1, 0, 501, 1), {"a"}),
        (gang(1, 0, 1, 6), {"a", "b"}),
        (gang(1, 0, 1, 7), {"a"}),
        (gang(1, 0, 5_001, 1), {"a"}),
        (gang(1, 0, 10_001, 1), set()),
        (gang(1, 0, 1, 51), {"a"}),
        (gang(1, 0, 1, 101), set()),
    ],
)
def test_whether_one_of_these_servers_would_hold_it(kind: Kind, holds: set[str]) -> None:
    """Server a has 10,000 MB and 100 vcores, b a tenth of it; half is the GPUs' share, c does not run."""
    state, index = cluster_of(
        [
            server("a", 2, memory_mb=10_000, vcores=100),
            server("b", 2, memory_mb=1_000, vcores=10),
            server("c", 2, memory_mb=90_000, vcores=900, state=ServerState.UNHEALTHY),
            server("d", 2, memory_mb=90_000, vcores=900, partition="p"),
        ],
        cpu_share=0.5,
    )
    uses = [state.servers[name] for name in ("a", "b", "c")]
    assert {use.server_id for use in uses if index.may_hold_plain("", kind, [use])} == holds
    assert index.may_hold_plain("", kind, uses) is bool(holds)
    assert index.may_hold_plain("", kind, []) is False


def test_what_was_touched_is_told_only_while_somebody_watches() -> None:
    state, index = cluster_of([server("a", 4), server("b", 4)])
    partition = index.partition("")
    take(state, "a", 1, 1)
    partition.refresh()
    assert partition.touched == []
    take(state, "a", 1, 1)
    index.watch("")
    assert partition.touched == [], "that was before"
    take(state, "b", 1, 1)
    take(state, "b", 1, 1, 0)
    partition.refresh()
    assert {use.server_id for use in partition.touched} == {"b"}


def test_no_more_servers_are_told_one_by_one_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "TOUCHED_MAX", 3)
    state, index = cluster_of([server(f"s{number}", 4) for number in range(5)])
    partition = index.partition("")
    partition.refresh()
    partition.watched = True
    for number in range(5):
        take(state, f"s{number}", 1, 1)
        partition.refresh()
    assert len(partition.touched) == 3
    assert TOUCHED_MAX > 1_000


def test_what_few_searches_look_at_follows_once_however_often_a_server_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    state, index = cluster_of([server("a", 4), server("b", 4)])
    assert index.find("", (gang(2, 4),)) is not None
    tallied: list[int] = []

    def counted(tally: Tally, domain: int, before: int, after: int) -> None:
        if tally is not partition.totals:
            tallied.append(before ^ after)
        change(tally, domain, before, after)

    partition = index.partition("")
    monkeypatch.setattr(partition_module, "change", counted)
    for round_number in range(50):
        with state.transaction() as plan:
            assert plan.take(Part(state.servers["a"], 1, 1, 1, 1))
            assert index.slots("", 4) == 1, round_number
    assert tallied == []
    take(state, "b", 1, 1, 0)
    assert index.find("", (gang(2, 4),)) is None
    assert index.find("", (gang(2, 2),)) is not None
    assert len([one for one in tallied if one]) <= 4, "of b, with four free GPUs before and three now"
    assert faults(state) == []


class Random:
    """A cluster to which anything happens, with many domains that empty and come again."""

    def __init__(self, seed: int, *, cpu: bool) -> None:
        self.rng = random.Random(seed)
        self.state, self.index = cluster_of([], cpu=cpu)

    def step(self) -> None:
        name = f"s{self.rng.randint(0, 25):02d}"
        use = self.state.servers.get(name)
        if use is None or self.rng.random() < 0.15:
            running = ServerState.RUNNING if self.rng.random() < 0.8 else ServerState.DRAINING
            partition, rack = self.rng.choice(("", "", "p")), f"/r{self.rng.randint(0, 12):02d}"
            gpus = self.rng.choice((0, 2, 4, 8))
            self.state.put_server(server(name, gpus, rack=rack, partition=partition, state=running))
        elif self.rng.random() < 0.4:
            self.state.remove_server(name)
        elif use.usable and use.gpus_free:
            fill(self.state, name, self.rng.randint(1, use.gpus_free))
        elif use.usable and use.memory_free_mb > 9_000:
            take(self.state, name, self.rng.choice((1, 900, 9_000)), 1)

    def found(self) -> list[tuple[int, list[tuple[str, int, int]]] | None]:
        return [seats(self.index.find(partition, kinds)) for partition in ("", "p") for kinds in GANGS]

    def counted(self) -> list[object]:
        pairs = [(partition, kinds) for partition in ("", "p") for kinds in GANGS]
        return [
            [self.index.fewest_servers(partition, kinds) for partition, kinds in pairs],
            [self.index.fits_empty(partition, kinds) for partition, kinds in pairs],
            [self.index.slots(partition, size) for partition in ("", "p") for size in (1, 2, 3, 8)],
        ]

    def hand_over(self, other: FreeIndex, *, backwards: bool) -> None:
        """Let another index follow the servers: each has one at a time."""
        for name in sorted(self.state.servers, reverse=backwards):
            use = self.state.servers[name]
            self.index.remove(use)
            other.partition(use.server.partition)
            other.add(use)
        self.index = self.state.index = other


GANGS = [(gang(1, 2),), (gang(3, 2),), (gang(6, 2),), (gang(20, 1),), (gang(1, 0, 100),), (gang(2, 2), gang(1, 1))]


@pytest.mark.parametrize("cpu", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_an_index_that_followed_answers_as_one_that_is_new(
    seed: int,
    cpu: bool,  # noqa: FBT001 # a column of the table
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What happened before, and in which order servers came, does not matter (law 12)."""
    monkeypatch.setattr(partition_module, "EMPTIED_MAX", 2)
    world = Random(seed, cpu=cpu)
    places = 0
    for number in range(700):
        world.step()
        if number % 7 == 0:
            found, counted = world.found(), world.counted()
            old = world.index
            world.hand_over(FreeIndex(place_on_cpu_servers=cpu), backwards=number % 2 == 0)
            assert world.found() == found
            assert world.counted() == counted
            assert faults(world.state) == []
            world.hand_over(old, backwards=False)
            places += any(one is not None for one in found)
        if number % 3 == 0:
            assert faults(world.state) == []
    assert places > 50


def test_domains_that_are_empty_for_good_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "EMPTIED_MAX", 3)
    state, index = cluster_of([server("s0", 4, rack="/r0")])
    most = 0
    for number in range(1, 30):
        state.put_server(server(f"s{number}", 4, rack=f"/r{number}"))
        state.remove_server(f"s{number - 1}")
        assert index.slots("", 4) == 1
        most = max(most, len(index.partition("").domains))
    assert most < 12
    assert faults(state) == []
