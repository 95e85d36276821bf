"""Inside a server the best connected GPUs are taken, and where nobody knows how they are connected the lowest."""

from __future__ import annotations

from itertools import combinations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.engine.monitored import Monitored
from tests.engine.world import ask, worker
from yarn_gpu_sched.engine.dealing import Links, best_connected, lowest
from yarn_gpu_sched.engine.events import TelemetryChanged
from yarn_gpu_sched.model.health import Telemetry
from yarn_gpu_sched.model.server_use import indices_of


def links_of(*groups: tuple[int, ...], slots: int = 8) -> Links:
    """Connect the GPUs of each group by NVLink, and all others across the board."""
    together = {pair for group in groups for pair in combinations(group, 2)}
    return tuple(
        tuple(0 if a == b else 100 if (min(a, b), max(a, b)) in together else 10 for b in range(slots))
        for a in range(slots)
    )


QUADS = links_of((0, 1, 2, 3), (4, 5, 6, 7))
PAIRS = links_of((0, 5), (1, 4), (2, 7), (3, 6))


def test_a_container_of_two_gets_a_pair() -> None:
    assert best_connected(0b1111_1111, 2, 1, PAIRS) == (0b10_0001, ((0, 5),))
    assert best_connected(0b1101_1110, 2, 1, PAIRS) == (0b1_0010, ((1, 4),))


def test_four_containers_of_one_go_to_one_quad_and_not_across() -> None:
    """Two of the first quad are in use: the other one is whole."""
    assert best_connected(0b1111_1100, 1, 4, QUADS) == (0b1111_0000, ((4,), (5,), (6,), (7,)))


def test_a_single_gpu_leaves_the_whole_quad_whole() -> None:
    assert best_connected(0b1111_1000, 1, 1, QUADS) == (0b1000, ((3,),))
    assert best_connected(0b0001_1111, 1, 1, QUADS) == (0b1_0000, ((4,),))


def test_two_containers_of_two_get_a_pair_each() -> None:
    mask, each = best_connected(0b1111_1111, 2, 2, PAIRS)
    assert mask.bit_count() == 4
    assert all(pair in {(0, 5), (1, 4), (2, 7), (3, 6)} for pair in each)


@given(mask=st.integers(1, 0xFFFF), gpus=st.integers(1, 4), containers=st.integers(1, 4), data=st.data())
def test_what_is_dealt_is_free_and_each_once(mask: int, gpus: int, containers: int, data: st.DataObject) -> None:
    scores = st.integers(0, 3)
    links = tuple(tuple(data.draw(scores) for _ in range(12)) for _ in range(12))
    if mask.bit_count() < gpus * containers:
        return
    taken, each = best_connected(mask, gpus, containers, links)
    assert taken & ~mask == 0
    assert sorted(index for one in each for index in one) == list(indices_of(taken))
    assert [len(one) for one in each] == [gpus] * containers


@given(mask=st.integers(1, 0xFF), gpus=st.integers(1, 4), data=st.data())
def test_no_other_set_is_better_connected(mask: int, gpus: int, data: st.DataObject) -> None:
    links = tuple(tuple(data.draw(st.integers(0, 2)) for _ in range(8)) for _ in range(8))
    if mask.bit_count() < gpus:
        return
    taken, _ = best_connected(mask, gpus, 1, links)

    def score(some: tuple[int, ...]) -> int:
        return sum(links[a][b] for a, b in combinations(some, 2))

    assert score(indices_of(taken)) == max(score(some) for some in combinations(indices_of(mask), gpus))


def test_servers_of_64_gpus_are_dealt_one_by_one() -> None:
    links = links_of(tuple(range(32)), tuple(range(32, 64)), slots=64)
    taken, _ = best_connected((1 << 64) - 1, 16, 1, links)
    assert len({index // 32 for index in indices_of(taken)}) == 1


def test_without_telemetry_the_lowest_are_taken() -> None:
    assert lowest(0b1110, 1, 2) == (0b110, ((1,), (2,)))


@pytest.mark.parametrize(("links", "expected"), [(((0, 1, 9, 1),) * 4, None), ((), (0, 1))])
def test_a_gang_gets_the_gpus_that_are_connected(links: Links, expected: tuple[int, ...] | None) -> None:
    world = Monitored("s1")
    told = ((0, 1, 9, 1), (1, 0, 1, 1), (9, 1, 0, 1), (1, 1, 1, 0)) if links else ()
    world.apply(TelemetryChanged(now_s=0.0, host="s1", telemetry=Telemetry.LIVE, links=told))
    world.submit("j", "gang:1x2")
    world.ask("j", ask(1, worker(2)))
    (decision,) = world.decide()
    assert decision.assignments[0].gpu_indices == (expected or (0, 2))
