"""Which of several places is taken: the tightest level, the fullest server, the tightest domain, then the order of ids."""

import random

import pytest

from tests.engine.world import server
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.server import UNKNOWN_RACK
from yarn_gpu_sched.model.server_use import Part
from yarn_gpu_sched.placement import FreeIndex, Kind
from yarn_gpu_sched.placement.audit import index_faults
from yarn_gpu_sched.placement.pack import EXACT_STEPS_MAX, Effort, Row, pack


def cluster(*free: tuple[str, str, int], gpus: int = 8) -> tuple[ClusterState, FreeIndex]:
    """Make servers (id, rack, free GPUs)."""
    index = FreeIndex()
    state = ClusterState(index, 0.1)
    for name, rack, _ in free:
        state.put_server(server(name, gpus, rack=rack, memory_mb=800_000, vcores=800))
    for name, _, left in free:
        hold(state, name, gpus - left)
    return state, index


def hold(state: ClusterState, name: str, gpus: int) -> None:
    use = state.servers[name]
    mask = sum(1 << place for place in [place for place in range(use.gpus) if use.free_mask >> place & 1][:gpus])
    with state.transaction() as plan:
        assert plan.take(Part(use, gpus, gpus, mask, gpus))
        plan.commit()


def found(index: FreeIndex, *kinds: Kind) -> tuple[int, dict[str, int]] | None:
    placement = index.find("", kinds)
    if placement is None:
        return None
    servers: dict[str, int] = {}
    for portion in placement.portions:
        servers[portion.use.server_id] = servers.get(portion.use.server_id, 0) + portion.containers
    return int(placement.level), servers


def gang(containers: int, gpus: int) -> Kind:
    return Kind(containers, gpus, 1, 1)


def test_a_small_gang_goes_on_the_fullest_server_that_fits() -> None:
    _, index = cluster(("a", "/r1", 8), ("b", "/r1", 3), ("c", "/r1", 2))
    assert found(index, gang(1, 2)) == (0, {"c": 1})
    assert found(index, gang(3, 1)) == (0, {"b": 3})


def test_of_equally_full_servers_the_one_in_the_tightest_domain() -> None:
    _, index = cluster(("a", "/r1", 2), ("b", "/r1", 8), ("c", "/r2", 2), ("d", "/r2", 4))
    assert found(index, gang(1, 2)) == (0, {"c": 1})


def test_then_the_first_by_id_whatever_the_order_of_coming() -> None:
    _, index = cluster(("c", "/r2", 2), ("b", "/r1", 2), ("a", "/r1", 2))
    assert found(index, gang(1, 2)) == (0, {"c": 1})
    _, index = cluster(("c", "/r1", 2), ("b", "/r1", 2), ("a", "/r1", 2))
    assert found(index, gang(1, 2)) == (0, {"a": 1})


def test_the_fewest_servers_of_an_empty_cluster_come_before_one_domain() -> None:
    _, index = cluster(*((f"a{n}", "/r1", 4) for n in range(4)), ("b0", "/r2", 8), ("b1", "/r2", 8), ("b2", "/r2", 8))
    assert found(index, gang(16, 1)) == (0, {"b0": 8, "b1": 8})


def test_one_domain_comes_before_any_that_spans_the_tightest_first() -> None:
    _, index = cluster(
        *((f"a{n}", "/r1", 7) for n in range(4)), *((f"b{n}", "/r2", 4) for n in range(4)), ("c", "/r3", 8)
    )
    assert found(index, gang(4, 4)) == (1, {"b0": 1, "b1": 1, "b2": 1, "b3": 1})


def test_anywhere_comes_last_on_the_fewest_servers() -> None:
    _, index = cluster(("a", "/r1", 3), ("b", "/r2", 5), ("c", "/r3", 6))
    assert found(index, gang(12, 1)) == (2, {"c": 6, "b": 5, "a": 1})
    assert found(index, gang(9, 1)) == (2, {"c": 6, "a": 3})


def test_servers_of_the_default_rack_are_domains_of_their_own() -> None:
    _, index = cluster(("a", UNKNOWN_RACK, 8), ("b", UNKNOWN_RACK, 8))
    assert found(index, gang(2, 8)) == (2, {"a": 1, "b": 1})
    assert found(index, gang(1, 8)) == (0, {"a": 1})


def test_gpus_that_no_container_can_use_do_not_count() -> None:
    _, index = cluster(("a", "/r1", 3), ("b", "/r1", 3))
    assert found(index, gang(3, 2)) is None
    assert found(index, gang(2, 2)) == (1, {"a": 1, "b": 1})


def test_memory_and_vcores_are_checked_too() -> None:
    _, index = cluster(("a", "/r1", 8), ("b", "/r1", 4))
    assert found(index, Kind(2, 1, 400_001, 1)) == (0, {"a": 1, "b": 1})
    assert found(index, Kind(2, 1, 1, 790)) == (0, {"a": 1, "b": 1})
    assert found(index, Kind(2, 1, 1, 801)) is None


def test_members_of_several_sizes_find_the_servers_that_hold_them() -> None:
    _, index = cluster(("a", "/r1", 4), ("b", "/r1", 2), ("c", "/r2", 8))
    assert found(index, gang(1, 4), gang(1, 2)) == (0, {"c": 2})
    assert found(index, gang(1, 8), gang(1, 4), gang(1, 2)) == (2, {"c": 1, "a": 1, "b": 1})


def test_an_unknown_partition_has_no_place() -> None:
    _, index = cluster(("a", "/r1", 8))
    assert index.find("p", (gang(1, 1),)) is None
    assert index.fewest_servers("p", (gang(1, 1),)) is None
    assert index.fewest_servers("", (gang(16, 1),)) is None
    assert index.slots("p", 1) == 0


def test_the_index_follows_whatever_happens() -> None:
    """Servers come, go, change and fill in random order."""
    rng = random.Random(5)
    index = FreeIndex(place_on_cpu_servers=True)
    state = ClusterState(index, 0.1)
    for step in range(1_500):
        name = f"s{rng.randint(0, 40):02d}"
        if name not in state.servers or rng.random() < 0.1:
            partition = rng.choice(("", "", "p"))
            state.put_server(server(name, rng.choice((0, 4, 8)), rack=f"/r{rng.randint(0, 9)}", partition=partition))
        elif rng.random() < 0.1:
            state.remove_server(name)
        elif state.servers[name].gpus_free:
            hold(state, name, rng.randint(1, state.servers[name].gpus_free))
        if rng.random() < 0.3:
            index.find(rng.choice(("", "p")), (gang(rng.randint(1, 12), rng.randint(1, 8)),))
        if step % 5 == 0:
            assert list(index_faults(index, state.servers.values())) == []


def test_a_pack_of_many_servers_fills_the_emptiest_first() -> None:
    rows = [Row(8, 100, 100, 0, 0)] * 20
    packed = pack(rows, (Kind(4, 4, 1, 1), Kind(3, 2, 1, 1)), Effort(), strict=True)
    assert packed == [(0, (2, 0)), (1, (2, 0)), (2, (0, 3))]
    assert pack(rows, (Kind(41, 4, 1, 1), Kind(1, 2, 1, 1)), Effort(), strict=True) is None


@pytest.mark.parametrize("sizes", [6, 12, 400, 8_000])
@pytest.mark.parametrize("servers", [4, 8, 300])
def test_a_gang_of_many_sizes_is_looked_at_within_bounds(sizes: int, servers: int) -> None:
    """Each row alone has more ways than anybody can look at, and there is no way: nothing is cut short by being found."""
    kinds = tuple(Kind(2 * servers, 0, 1_000 + size, 1) for size in range(sizes))
    effort = Effort()
    choices = effort.choices
    rows = [Row(0, sizes * 1_500, sizes * 2, 0, 0)] * servers
    assert pack(rows, kinds, effort, strict=False) is None
    assert choices - effort.choices <= EXACT_STEPS_MAX
    assert effort.tries >= -1


def test_with_no_effort_left_nothing_more_is_looked_at() -> None:
    effort = Effort(tries=0, choices=0)
    assert pack([Row(0, 100, 100, 0, 0)] * 2, (Kind(1, 0, 2, 1), Kind(1, 0, 1, 1)), effort, strict=True) is None
    assert pack([Row(0, 100, 100, 0, 0)] * 2, (Kind(1, 0, 2, 1), Kind(1, 0, 1, 1)), Effort(), strict=True) is not None
    assert effort.choices == 0


def test_nothing_looser_than_the_ceiling_is_looked_for() -> None:
    """A gang on the ladder looks for its place whenever something was freed: that costs nothing for places that it may not have."""
    _, index = cluster(*((f"s{number:02}", f"/r{number % 4}", 8 if number < 12 else 1) for number in range(40)))
    wide, spread = gang(4, 8), gang(8, 4)
    assert {int(level): index.find("", (wide,), level) is not None for level in Level} == {0: False, 1: False, 2: True}
    before = index.visits.entries
    assert index.find("", (wide,), Level.ONE_DOMAIN) is None
    assert index.visits.entries - before <= 3
    assert index.find("", (gang(3, 8),), Level.FEWEST_SERVERS) is not None
    _, index = cluster(*((f"s{number}", "/r1", 4) for number in range(8)))
    assert {int(level): index.find("", (spread,), level) is not None for level in Level} == {0: False, 1: True, 2: True}
