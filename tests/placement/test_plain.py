"""A container without GPUs goes where it strands no GPU, with little to spare; the search is compared with looking everywhere."""

from __future__ import annotations

import random

import pytest

from tests.engine.world import server
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.server_use import Part, ServerUse
from yarn_gpu_sched.placement import FreeIndex, Kind
from yarn_gpu_sched.placement.spare import cell_of, spare_mb, spare_vcores

STATES = 1_500
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9)


def cluster(*servers: Server, cpu: bool = False, cpu_share: float = 0.5) -> ClusterState:
    state = ClusterState(FreeIndex(place_on_cpu_servers=cpu), cpu_share)
    for one in servers:
        state.put_server(one)
    return state


def take(state: ClusterState, name: str, memory_mb: int, vcores: int, mask: int = 0) -> None:
    with state.transaction() as plan:
        assert plan.take(Part(state.servers[name], memory_mb, vcores, mask, mask.bit_count()))
        plan.commit()


def place(state: ClusterState, memory_mb: int, vcores: int) -> str | None:
    assert isinstance(state.index, FreeIndex)
    found = state.index.find("", (Kind(1, 0, memory_mb, vcores),))
    if found is None:
        return None
    ((use, kind, containers),) = found.portions
    assert (found.level, kind, containers) == (0, 0, 1)
    return use.server_id


def random_state(rng: random.Random, *, cpu: bool) -> ClusterState:
    state = cluster(cpu=cpu, cpu_share=rng.choice((0.0, 0.25, 0.5)))
    for number in rng.sample(range(9), rng.randint(1, 6)):
        capacity = Resource(rng.choice((8, 16, 33)), rng.choice((4, 8, 17)), rng.randint(0, 3))
        running = ServerState.RUNNING if rng.random() < 0.9 else ServerState.DRAINING
        name = f"s{number}"
        state.put_server(Server(name, name, f"/r{rng.randint(1, 3)}", capacity, state=running))
        mask = rng.randint(0, 3)
        with state.transaction() as plan:
            if plan.take(Part(state.servers[name], rng.randint(0, 9), rng.randint(0, 9), mask, mask.bit_count())):
                plan.commit()
    return state


def holders(state: ClusterState, memory_mb: int, vcores: int, *, cpu: bool) -> set[str]:
    """Look at every server for room; for spare room, unless no server has spare room even when empty."""
    uses = [use for use in state.servers.values() if use.usable and (use.gpus or cpu)]
    strict = any(spare_when_empty(use, memory_mb, vcores) for use in uses)
    return {use.server_id for use in uses if room(use, memory_mb, vcores, strict=strict)}


def spare_when_empty(use: ServerUse, memory_mb: int, vcores: int) -> bool:
    capacity = use.server.capacity
    enough = capacity.memory_mb - use.gpus * use.share_mb >= memory_mb
    return enough and capacity.vcores - use.gpus * use.share_vcores >= vcores


def room(use: ServerUse, memory_mb: int, vcores: int, *, strict: bool) -> bool:
    kept_mb, kept_vcores = (use.gpus_free * use.share_mb, use.gpus_free * use.share_vcores) if strict else (0, 0)
    return use.memory_free_mb - kept_mb >= memory_mb and use.vcores_free - kept_vcores >= vcores


@pytest.mark.parametrize("cpu", [False, True])
def test_a_place_is_found_if_there_is_one(cpu: bool) -> None:  # noqa: FBT001 # a column of the table
    rng = random.Random(7)
    found_none = found_one = 0
    for number in range(STATES):
        state = random_state(rng, cpu=cpu)
        memory_mb, vcores = rng.choice(SIZES), rng.choice(SIZES)
        fitting = holders(state, memory_mb, vcores, cpu=cpu)
        where = place(state, memory_mb, vcores)
        assert where in fitting if fitting else where is None, f"state {number}: {memory_mb} MB, {vcores} vcores"
        found_none, found_one = found_none + (where is None), found_one + (where is not None)
    assert min(found_none, found_one) > STATES // 20


def test_it_goes_where_little_is_spare() -> None:
    state = cluster(server("a", memory_mb=64_000), server("b", memory_mb=8_000), server("c", memory_mb=16_000))
    assert place(state, 1_000, 1) == "b"
    assert place(state, 3_000, 1) == "c"
    assert place(state, 9_000, 1) == "a"


def test_of_equally_spare_ones_the_first_by_domain_then_by_id() -> None:
    state = cluster(server("c", rack="/r1"), server("b", rack="/r2"), server("a", rack="/r2"), server("d", rack="/r1"))
    assert place(state, 1_000, 1) == "c"
    take(state, "c", 33_000, 1)
    assert place(state, 1_000, 1) == "d"
    take(state, "d", 33_000, 1)
    assert place(state, 1_000, 1) == "a"


def test_gpus_that_are_taken_give_their_share_free() -> None:
    state = cluster(server("a", 2, memory_mb=1_000, vcores=10))
    take(state, "a", 100, 1)
    assert place(state, 450, 1) is None, "400 MB are spare, and 500 would be on an empty server"
    take(state, "a", 0, 0, 0b01)
    assert place(state, 450, 1) == "a", "650 MB are spare"
    take(state, "a", 200, 1)
    assert place(state, 451, 1) is None
    assert place(state, 450, 1) == "a"


def test_where_no_server_ever_has_so_much_spare_the_share_is_taken_on_the_fullest() -> None:
    state = cluster(
        server("a", 4, memory_mb=1_000, vcores=10), server("b", 4, memory_mb=1_000, vcores=10), cpu_share=0.1
    )
    assert place(state, 100, 1) == "a"
    take(state, "b", 10, 1, 0b0001)
    assert place(state, 400, 1) == "b"
    assert place(state, 991, 1) == "a"
    assert place(state, 100, 10) == "a"
    assert place(state, 1_001, 1) is None
    assert place(state, 1, 11) is None


def test_servers_without_gpus_are_for_others_unless_asked_for() -> None:
    assert place(cluster(server("a", 0)), 1, 1) is None
    assert place(cluster(server("a", 0), cpu=True), 65_536, 64) == "a"
    assert place(cluster(server("a", 0), cpu=True), 65_537, 64) is None


@pytest.mark.parametrize(
    ("memory_mb", "vcores", "cell"),
    [
        (-1, -1, 0),
        (0, 0, 0),
        (1, 1, 1 << 6 | 1),
        (1_023, 7, 10 << 6 | 3),
        (1_024, 8, 11 << 6 | 4),
        (-5, 3, 2),
        (4, -1, 3 << 6),
    ],
)
def test_a_cell_is_the_magnitude_of_what_is_spare(memory_mb: int, vcores: int, cell: int) -> None:
    use = ServerUse(server("a", 2, memory_mb=1_000, vcores=10), 0.5)
    use.memory_free_mb, use.vcores_free = memory_mb + 2 * 250, vcores + 2 * 2
    assert (spare_mb(use), spare_vcores(use), cell_of(use)) == (memory_mb, vcores, cell)
