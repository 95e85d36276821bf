"""Which servers a gang takes where several would do, to the last MB and vcore."""

from __future__ import annotations

import pytest

from tests.placement.clusters import cluster_of, fill, gang, seats, server, take
from yarn_gpu_sched.placement import Kind


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        (gang(2, 4, 5_000, 10), 1),
        (gang(2, 4, 5_001, 10), None),
        (gang(2, 4, 5_000, 11), None),
        (gang(8, 1, 1_250, 2), 1),
        (gang(8, 1, 1_251, 2), None),
        (gang(8, 1, 1_250, 3), None),
        (gang(1, 4, 5_000, 10), 0),
        (gang(1, 4, 5_001, 10), None),
        (gang(1, 4, 5_000, 11), None),
    ],
)
def test_all_memory_and_vcores_of_a_server_may_be_taken_and_no_more(kind: Kind, level: int | None) -> None:
    """Two servers have 5,000 MB and 10 vcores left of twice as much: on an empty cluster each would fit on one of them."""
    state, index = cluster_of([server(name, 8, memory_mb=10_000, vcores=20) for name in ("a", "b")])
    for name in ("a", "b"):
        take(state, name, 5_000, 10, 0, 1, 2, 3)
    found = seats(index.find("", (kind,)))
    assert (None if found is None else found[0]) == level


def test_the_rest_goes_on_the_fullest_server_that_holds_it_of_the_first_domain() -> None:
    state, index = cluster_of(
        [server(f"{rack}{number}", 8, rack=f"/{rack}") for rack in ("r1", "r2", "r3") for number in range(2)]
    )
    for name, left in (("r10", 8), ("r11", 5), ("r20", 3), ("r21", 5), ("r30", 3), ("r31", 3)):
        fill(state, name, 8 - left)
    assert seats(index.find("", (gang(16, 1),))) == (2, [("r10", 0, 8), ("r11", 0, 5), ("r20", 0, 3)])
    assert seats(index.find("", (gang(15, 1),))) == (2, [("r10", 0, 8), ("r11", 0, 5), ("r20", 0, 2)])
    assert seats(index.find("", (gang(14, 1),))) == (2, [("r10", 0, 8), ("r11", 0, 5), ("r20", 0, 1)])
    assert seats(index.find("", (gang(13, 1),))) == (0, [("r10", 0, 8), ("r11", 0, 5)])


def test_where_memory_is_scarce_the_roomiest_come_first_and_the_rest_goes_on_the_tightest() -> None:
    state, index = cluster_of([server(name, 8, memory_mb=8_000, vcores=80) for name in ("a", "b", "c", "d")])
    for name, memory_mb in (("a", 5_000), ("b", 3_000), ("c", 6_000), ("d", 5_500)):
        take(state, name, memory_mb, 1)
    each_1000_mb = (gang(7, 1, 1_000, 1),)
    assert seats(index.find("", each_1000_mb)) == (1, [("b", 0, 5), ("d", 0, 2)])
    assert seats(index.find("", (gang(8, 1, 1_000, 1),))) == (1, [("b", 0, 5), ("a", 0, 3)])
    assert seats(index.find("", (gang(9, 1, 1_000, 1),))) == (1, [("b", 0, 5), ("a", 0, 3), ("d", 0, 1)])
    assert index.find("", (gang(13, 1, 1_000, 1),)) is None


def test_a_server_that_gets_none_of_a_kind_is_not_told_for_it() -> None:
    state, index = cluster_of([server("a", 8), server("b", 4)])
    fill(state, "a", 1)
    found = seats(index.find("", (gang(1, 4), gang(1, 3), gang(2, 2))))
    assert found == (0, [("a", 0, 1), ("a", 1, 1), ("b", 2, 2)])


def test_each_domain_that_is_looked_at_is_counted() -> None:
    state, index = cluster_of([server(f"s{number}", 8, rack=f"/r{number % 4}") for number in range(8)])
    for number in range(8):
        take(state, f"s{number}", 65_000, 1)
    costs = []
    for kinds in ((gang(2, 8, 600),), (gang(1, 8, 600),), (gang(4, 8, 600),), (gang(99, 8),)):
        before = index.visits.entries
        assert index.find("", kinds) is None
        costs.append(index.visits.entries - before)
    assert costs[-1] == 1, "that there are too few GPUs is known at one look"
    assert min(costs[:3]) >= 8, "each server was looked at before it was said that none has the memory"
