"""What a transaction does is undone unless it is committed; searches see it meanwhile."""

import pytest

from tests.engine.world import server
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.laws import STATE_LAWS
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import ServerState
from yarn_gpu_sched.model.server_use import Part, ServerUse
from yarn_gpu_sched.placement import FreeIndex, Kind
from yarn_gpu_sched.placement.audit import index_faults


@pytest.fixture
def state() -> ClusterState:
    state = ClusterState(FreeIndex(), 0.1)
    state.put_server(server("s1"))
    state.put_server(server("s2"))
    return state


def amounts(use: ServerUse) -> tuple[int, int, int, int]:
    return (use.memory_free_mb, use.vcores_free, use.gpus_free, use.free_mask)


def faults(state: ClusterState) -> list[str]:
    assert isinstance(state.index, FreeIndex)
    return list(index_faults(state.index, state.servers.values()))


def fits(state: ClusterState, containers: int, gpus: int) -> bool:
    assert isinstance(state.index, FreeIndex)
    return state.index.find("", (Kind(containers, gpus, 1, 1),)) is not None


def test_leaving_without_commit_undoes_everything(state: ClusterState) -> None:
    use = state.servers["s1"]
    before = amounts(use)
    with state.transaction() as plan:
        assert plan.take(Part(use, 100, 2, 0b0011, 2))
        assert amounts(use) == (65_436, 62, 2, 0b1100)
        assert not fits(state, 2, 4)
    assert amounts(use) == before
    assert fits(state, 2, 4)
    assert faults(state) == []


def test_an_error_undoes_everything(state: ClusterState) -> None:
    use = state.servers["s1"]
    before = amounts(use)
    with pytest.raises(RuntimeError, match="no"):
        take_and_fail(state, use)
    assert amounts(use) == before


def take_and_fail(state: ClusterState, use: ServerUse) -> None:
    with state.transaction() as plan:
        plan.take(Part(use, 100, 2, 0b0011, 2))
        raise RuntimeError("no")


def test_a_commit_keeps_it(state: ClusterState) -> None:
    use = state.servers["s1"]
    with state.transaction() as plan:
        plan.take(Part(use, 100, 2, 0b0011, 2))
        plan.commit()
    assert use.gpus_free == 2
    assert faults(state) == []


def test_a_checkpoint_undoes_what_came_after_it(state: ClusterState) -> None:
    first, second = state.servers["s1"], state.servers["s2"]
    with state.transaction() as plan:
        plan.take(Part(first, 1, 1, 0b1, 1))
        here = plan.checkpoint()
        plan.take(Part(second, 1, 1, 0b1, 1))
        plan.take(Part(first, 1, 1, 0b10, 1))
        plan.rollback(here)
        plan.commit()
    assert (first.gpus_free, second.gpus_free) == (3, 4)
    assert faults(state) == []


def test_what_if_something_were_released(state: ClusterState) -> None:
    state.add_job(Job("j", "root.a"), 0.0)
    state.add_container(Container("k", "j", 1, "s1", Resource(10, 1, 4), (0, 1, 2, 3)))
    use = state.servers["s1"]
    assert not fits(state, 2, 4)
    with state.transaction() as plan:
        assert plan.release(Part(use, 10, 1, 0b1111, 4))
        assert fits(state, 2, 4)
    assert not fits(state, 2, 4)
    assert STATE_LAWS.broken(state) == []
    assert faults(state) == []


def test_where_gpus_are_held_twice_nothing_is_foretold(state: ClusterState) -> None:
    state.add_job(Job("j", "root.a"), 0.0)
    for name in ("k1", "k2"):
        state.add_container(Container(name, "j", 1, "s1", Resource(10, 1, 1), (0,)))
    use = state.servers["s1"]
    assert (use.irregular, use.gpus_free) == (True, 2)
    with state.transaction() as plan:
        assert plan.release(Part(use, 10, 1, 0b1, 1)) is False
    state.remove_container("k1")
    assert (use.irregular, use.gpus_free, use.free_mask) == (False, 3, 0b1110)


@pytest.mark.parametrize(
    ("memory_mb", "vcores", "mask", "gpus"),
    [
        (65_537, 1, 1, 1),
        (1, 65, 1, 1),
        (1, 1, 0b11111, 5),
        (1, 1, 0b10000, 1),
        (1, 1, 0b1, 2),
        (1, 1, 0b11, 1),
    ],
)
def test_what_a_server_does_not_have_is_not_taken(
    state: ClusterState, memory_mb: int, vcores: int, mask: int, gpus: int
) -> None:
    use = state.servers["s1"]
    before = amounts(use)
    with state.transaction() as plan:
        assert plan.take(Part(use, memory_mb, vcores, mask, gpus)) is False
        plan.commit()
    assert amounts(use) == before


def test_all_that_a_server_has_is_taken(state: ClusterState) -> None:
    use = state.servers["s1"]
    with state.transaction() as plan:
        assert plan.take(Part(use, 65_536, 64, 0b1111, 4))
        assert plan.take(Part(use, 0, 0, 0, 0))
        plan.commit()
    assert amounts(use) == (0, 0, 0, 0)
    assert faults(state) == []


def test_gpus_that_a_container_holds_without_naming_them_are_not_taken(state: ClusterState) -> None:
    state.add_job(Job("j", "root.a"), 0.0)
    state.add_container(Container("k", "j", 1, "s1", Resource(10, 1, 3), (0,)))
    use = state.servers["s1"]
    assert (use.gpus_free, use.free_mask) == (1, 0b1110)
    with state.transaction() as plan:
        assert plan.take(Part(use, 1, 1, 0b0110, 2)) is False
        assert plan.take(Part(use, 1, 1, 0b0010, 1)) is True


def test_nothing_is_taken_on_a_server_that_does_not_run(state: ClusterState) -> None:
    state.put_server(server("s1", state=ServerState.DRAINING))
    with state.transaction() as plan:
        assert not plan.take(Part(state.servers["s1"], 1, 1, 1, 1))


def test_a_gpu_is_not_taken_twice(state: ClusterState) -> None:
    use = state.servers["s1"]
    with state.transaction() as plan:
        assert plan.take(Part(use, 1, 1, 0b1, 1))
        assert not plan.take(Part(use, 1, 1, 0b1, 1))
