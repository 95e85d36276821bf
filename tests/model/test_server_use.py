"""What is free on a server: taken and given back bit by bit, or counted anew where a resource manager held GPUs twice."""

from __future__ import annotations

import pytest

from tests.engine.world import server
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.server_use import FIT, Fitness, Part, ServerUse, mask_of


def use_of(gpus: int = 4, *containers: Container, cpu_share: float = 0.1, fitness: Fitness = FIT) -> ServerUse:
    """Make a server of 65,536 MB and 64 vcores with these containers."""
    use = ServerUse(server("s1", gpus), cpu_share, fitness)
    use.containers.update({one.container_id: one for one in containers})
    use.recount()
    return use


def container(name: str, *indices: int, gpus: int | None = None) -> Container:
    count = len(indices) if gpus is None else gpus
    return Container(name, "j", 1, "s1", Resource(100, 2, count), indices)


def free(use: ServerUse) -> tuple[int, int, int, int]:
    return use.memory_free_mb, use.vcores_free, use.gpus_free, use.free_mask


@pytest.mark.parametrize(
    ("gpus", "cpu_share", "share_mb", "share_vcores"),
    [
        (4, 0.0, 16_384, 16),
        (4, 0.1, 14_745, 14),
        (3, 0.1, 19_660, 19),
        (1, 0.5, 32_768, 32),
        (0, 0.1, 0, 0),
        (4, 1.0, 0, 0),
    ],
)
def test_each_gpu_has_its_share_of_what_is_not_for_cpu_work(
    gpus: int, cpu_share: float, share_mb: int, share_vcores: int
) -> None:
    use = use_of(gpus, cpu_share=cpu_share)
    assert (use.share_mb, use.share_vcores) == (share_mb, share_vcores)


def test_a_new_server_is_free_and_not_indexed() -> None:
    use = use_of()
    assert free(use) == (65_536, 64, 4, 0b1111)
    assert (use.indexed, use.domain, use.used) == (False, None, Resource())
    assert (use.capacity_mask, use.usable, use.irregular) == (0b1111, True, False)


@pytest.mark.parametrize("state", [ServerState.DRAINING, ServerState.UNHEALTHY])
def test_only_a_running_server_is_usable(state: ServerState) -> None:
    assert ServerUse(server("s1", state=state), 0.1).usable is False


def test_what_is_taken_is_not_free_until_it_is_given_back() -> None:
    use = use_of()
    use.take(100, 2, 0b0101, 2)
    assert free(use) == (65_436, 62, 2, 0b1010)
    assert use.used == Resource(100, 2, 2)
    use.take(50, 1, 0, 0)
    assert free(use) == (65_386, 61, 2, 0b1010)
    use.give(100, 2, 0b0101, 2)
    use.give(50, 1, 0, 0)
    assert free(use) == (65_536, 64, 4, 0b1111)
    assert use.used == Resource()


def test_containers_and_decisions_are_counted_together() -> None:
    use = use_of(4, container("k1", 0), container("k2", 2))
    use.in_flight[7] = Part(use, 1_000, 3, 0b1000, 1)
    use.recount()
    assert free(use) == (65_536 - 1_200, 64 - 7, 1, 0b0010)
    assert use.used == Resource(1_200, 7, 3)
    assert use.irregular is False


@pytest.mark.parametrize(
    ("containers", "irregular", "gpus_free", "free_mask"),
    [
        ((container("k1", 0), container("k2", 1)), False, 2, 0b1100),
        ((container("k1", 0), container("k2", 0)), True, 2, 0b1110),
        ((container("k1", 0, gpus=2),), True, 2, 0b1110),
        ((container("k1", 0, 1, gpus=1),), True, 2, 0b1100),
        ((container("k1", 4),), False, 3, 0b1111),
        ((container("k1", 0, 1, 2, 3), container("k2", 0, 1, 2, 3)), True, 0, 0),
    ],
    ids=["regular", "one GPU twice", "more than named", "more named", "an index beyond", "all of it twice"],
)
def test_irregular_is_what_cannot_be_undone_bit_by_bit(
    containers: tuple[Container, ...],
    irregular: bool,  # noqa: FBT001 # a column of the table
    gpus_free: int,
    free_mask: int,
) -> None:
    use = use_of(4, *containers)
    assert (use.irregular, use.gpus_free, use.free_mask) == (irregular, gpus_free, free_mask)


def test_a_decision_on_a_gpu_that_a_container_has_is_irregular() -> None:
    use = use_of(4, container("k1", 0))
    use.in_flight[7] = Part(use, 10, 1, 0b1, 1)
    use.recount()
    assert (use.irregular, use.gpus_free) == (True, 2)


def test_a_gpu_that_is_held_and_not_healthy_is_no_riddle() -> None:
    """Whoever holds it is foretold to leave the healthy ones, and not this one."""
    use = use_of(4, container("k1", 0, 1, gpus=2), fitness=Fitness(4, sick=0b1, busy=0b1000))
    before = (65_436, 62, 1, 0b0100)
    assert (free(use), use.irregular, use.gpus_healthy) == (before, False, 3)
    assert (use.would_free(0b0011), use.would_free(0b1001)) == (1, 0)
    use.give(100, 2, 0b0011, 2)
    assert free(use) == (65_536, 64, 2, 0b0110)
    use.take(100, 2, 0b0011, 2)  # it was only tried
    assert free(use) == before


def test_where_the_resource_manager_counts_fewer_gpus_another_one_may_be_given_out_instead() -> None:
    use = use_of(2, container("k1", 0), container("k2", 1), fitness=Fitness(3, sick=0b1))
    assert (use.gpus_free, use.would_free(0b1)) == (0, 1)
    use.give(100, 2, 0b1, 1)
    assert (use.gpus_free, use.free_mask) == (1, 0b100)


def test_an_irregular_server_is_counted_anew_when_something_goes() -> None:
    first, second = container("k1", 0), container("k2", 0)
    use = use_of(4, first, second)
    del use.containers["k2"]
    use.give(100, 2, 0b1, 1)
    assert free(use) == (65_436, 62, 3, 0b1110)
    assert use.irregular is False


def test_an_irregular_server_goes_on_counting_what_is_taken() -> None:
    use = use_of(4, container("k1", 0), container("k2", 0))
    use.take(10, 1, 0b0110, 2)
    assert free(use) == (65_536 - 210, 64 - 5, 0, 0b1000)


def test_over_commitment_is_shown_as_it_is() -> None:
    big = Container("k1", "j", 1, "s1", Resource(70_000, 100, 0))
    use = use_of(4, big)
    assert (use.memory_free_mb, use.vcores_free, use.gpus_free) == (-4_464, -36, 4)


@pytest.mark.parametrize(
    ("containers", "wanted", "indices"),
    [
        ((), 2, (0, 1)),
        ((container("k1", 0), container("k2", 2)), 2, (1, 3)),
        ((container("k1", 0, 1, 2, 3),), 2, (4, 5)),
        ((container("k1", 1, 2, 3),), 2, (0, 4)),
        ((container("k1", 0),), 0, ()),
    ],
)
def test_the_lowest_free_indices_then_those_past_the_last(
    containers: tuple[Container, ...], wanted: int, indices: tuple[int, ...]
) -> None:
    assert use_of(4, *containers).free_indices(wanted) == indices


def test_indices_of_decisions_are_not_free() -> None:
    use = use_of(4, container("k1", 1))
    use.in_flight[7] = Part(use, 10, 1, 0b101, 2)
    assert use.free_indices(2) == (3, 4)


def test_a_changed_description_counts_anew() -> None:
    use = use_of(4, container("k1", 3))
    use.set_server(server("s1", 2, memory_mb=1_000, vcores=10), 0.1)
    assert (use.gpus, use.capacity_mask, use.free_mask, use.gpus_free) == (2, 0b11, 0b11, 1)
    assert (use.memory_free_mb, use.vcores_free, use.share_mb, use.irregular) == (900, 8, 450, False)
    use.give(100, 2, 0b1000, 1)
    assert (use.gpus_free, use.free_mask) == (2, 0b11)
    use.take(100, 2, 0b1000, 1)  # it was only tried
    assert (use.gpus_free, use.free_mask) == (1, 0b11)


@pytest.mark.parametrize(("indices", "mask"), [((), 0), ((0,), 1), ((1, 3), 0b1010), ((63,), 1 << 63)])
def test_a_mask_has_a_bit_for_each_index(indices: tuple[int, ...], mask: int) -> None:
    assert mask_of(indices) == mask
