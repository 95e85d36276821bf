"""What the usable servers would hold if they were empty: the fewest servers, whether at all, and beside all shares or not."""

from __future__ import annotations

import pytest

from tests.placement.clusters import cluster_of, fill, gang, server
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.placement import FreeIndex, Kind
from yarn_gpu_sched.placement import empty as empty_module
from yarn_gpu_sched.placement.empty import plain_needs_spare

GANG_OF_TWO_KINDS = (gang(2, 4), gang(2, 2))


def index_of(*servers: Server, cpu: bool = False) -> FreeIndex:
    return cluster_of(servers, cpu=cpu)[1]


def mixed_racks() -> FreeIndex:
    """Make a rack of 2 x 8 and 2 x 4 GPUs and one of 3 x 4."""
    big = [server(f"a{n}", 8, memory_mb=80_000, vcores=80) for n in range(2)]
    small = [server(f"b{n}", 4, memory_mb=40_000, vcores=40) for n in range(2)]
    other = [server(f"c{n}", 4, rack="/r2", memory_mb=40_000, vcores=40) for n in range(3)]
    return index_of(*big, *small, *other)


@pytest.mark.parametrize(
    ("kind", "fewest"),
    [
        (gang(1, 8), 1),
        (gang(2, 8), 2),
        (gang(3, 8), None),
        (gang(16, 1), 2),
        (gang(17, 1), 3),
        (gang(20, 1), 3),
        (gang(21, 1), 4),
        (gang(24, 1), 4),
        (gang(25, 1), None),
        (gang(6, 4), 4),
        (gang(7, 4), None),
        (gang(1, 9), None),
        (gang(2, 3), 1),
        (gang(5, 3), 3),
        (gang(2, 1, 40_001), 2),
        (gang(2, 1, 1, 41), 2),
        (gang(4, 1, 40_000), 2),
        (gang(1, 1, 80_001), None),
        (gang(1, 1, 1, 81), None),
        (gang(3, 1, 40_001), None),
    ],
)
def test_the_fewest_servers_of_one_domain(kind: Kind, fewest: int | None) -> None:
    index = mixed_racks()
    assert index.fewest_servers("", (kind,)) == fewest
    assert index.fewest_servers("", (kind,)) == fewest, "and the same when asked again"


def test_the_fewest_are_counted_on_empty_servers_and_follow_the_servers() -> None:
    state, index = cluster_of([server("a", 4), server("b", 4)])
    fill(state, "a", 4)
    assert index.fewest_servers("", (gang(8, 1),)) == 2
    state.put_server(server("c", 8))
    assert index.fewest_servers("", (gang(8, 1),)) == 1
    state.put_server(server("c", 8, state=ServerState.DRAINING))
    assert index.fewest_servers("", (gang(8, 1),)) == 2
    state.remove_server("b")
    assert index.fewest_servers("", (gang(8, 1),)) is None
    state.put_server(server("b", 4, rack="/r2"))
    assert index.fewest_servers("", (gang(8, 1),)) is None, "no one domain would hold it"


@pytest.mark.parametrize(
    ("kinds", "fewest"),
    [
        (GANG_OF_TWO_KINDS, 2),
        ((gang(3, 4), gang(4, 2)), 3),
        ((gang(3, 4), gang(5, 2)), 4),
        ((gang(3, 4), gang(7, 2)), None),
        ((gang(2, 8), gang(1, 0, 100)), 2),
        ((gang(4, 0, 70_000),), None),
    ],
)
def test_the_fewest_servers_for_several_kinds(kinds: tuple[Kind, ...], fewest: int | None) -> None:
    assert mixed_racks().fewest_servers("", kinds) == fewest


def test_answers_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empty_module, "ANSWERS_MAX", 3)
    index = mixed_racks()
    known = []
    for containers in (1, 2, 3, 4, 4, 5):
        index.fewest_servers("", (gang(containers, 1),))
        known.append(len(index.partition("").empty_answers))
    assert known == [1, 2, 3, 1, 1, 2]


def test_of_a_domain_so_many_servers_are_looked_at_those_with_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empty_module, "ROWS_MAX", 2)
    index = index_of(server("a", 2), server("b", 4), server("c", 8))
    assert index.fewest_servers("", (gang(1, 8), gang(1, 4))) == 2
    assert index.fewest_servers("", (gang(1, 8), gang(1, 4), gang(1, 2))) is None


def test_servers_without_gpus_hold_members_without_gpus_only_where_they_may() -> None:
    servers = [server("a", 4, memory_mb=1_000, vcores=10), server("b", 0, memory_mb=9_000, vcores=90)]
    kinds = (gang(1, 4, 500), gang(2, 0, 4_000, 1))
    assert index_of(*servers, cpu=True).fewest_servers("", kinds) == 2
    assert index_of(*servers).fewest_servers("", kinds) is None


@pytest.mark.parametrize(
    ("kinds", "fits"),
    [
        ((gang(36, 1),), True),
        ((gang(37, 1),), False),
        ((gang(9, 4),), True),
        ((gang(10, 4),), False),
        ((gang(2, 8),), True),
        ((gang(3, 8),), False),
        ((gang(7, 4), gang(4, 2)), True),
        ((gang(7, 4), gang(5, 2)), False),
        ((gang(9, 1, 40_000),), True),
        ((gang(10, 1, 40_000),), False),
        ((gang(1, 1), gang(1, 1, 80_001)), False),
        ((gang(1, 1, 80_001), gang(1, 1)), False),
        ((gang(9, 0, 40_000),), True),
        ((gang(10, 0, 40_000),), False),
    ],
)
def test_whether_all_servers_together_would_hold_it(kinds: tuple[Kind, ...], fits: bool) -> None:  # noqa: FBT001 # a column of the table
    assert mixed_racks().fits_empty("", kinds) is fits


def test_what_is_in_use_or_another_partition_does_not_matter() -> None:
    state, index = cluster_of([server("a", 4), server("b", 8, partition="p")])
    fill(state, "a", 4)
    assert index.fits_empty("", (gang(4, 1),)) is True
    assert index.fits_empty("", (gang(5, 1),)) is False
    assert index.fits_empty("p", (gang(8, 1),)) is True
    assert index.fits_empty("unknown", (gang(1, 1),)) is False


@pytest.mark.parametrize(
    ("kinds", "needs"),
    [
        ((gang(9, 8),), True),
        ((gang(1, 0, 100, 5),), True),
        ((gang(1, 0, 101, 5),), False),
        ((gang(1, 0, 100, 6),), False),
        ((gang(1, 8), gang(1, 0, 100, 1)), True),
        ((gang(1, 0, 100, 1), gang(1, 0, 101, 1)), False),
        ((gang(1, 0, 101, 1), gang(1, 0, 100, 1)), False),
        ((gang(99, 0, 100, 1),), True),
    ],
)
def test_the_share_is_kept_where_an_empty_server_could_keep_it(kinds: tuple[Kind, ...], needs: bool) -> None:  # noqa: FBT001 # a column of the table
    """Of 1,000 MB and 10 vcores on 4 GPUs a tenth is not kept, less what does not divide."""
    index = index_of(server("a", 4, memory_mb=1_000, vcores=13), server("b", 2, memory_mb=10, vcores=10))
    assert plain_needs_spare(index.partition(""), kinds) is needs
