"""Below 90 % of the GPUs in use nobody is stopped, and from there on somebody is: for clusters of any size (law 7)."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import example, given, settings

from tests.engine.reclaims import Reclaiming
from tests.engine.world import server
from yarn_gpu_sched.model.server import ServerState


def lent(sizes: list[int], idle: int, others: list[int]) -> Reclaiming:
    """Let one-GPU jobs borrow all GPUs but so many; ``others`` are servers that drain and count for nothing."""
    world = Reclaiming(*sizes)
    world.audited = False
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=sum(sizes))
    for number in range(sum(sizes) - idle):
        world.gang(f"a{number}", 1, 1)
    for number, gpus in enumerate(others):
        world.change(server(f"d{number}", gpus, state=ServerState.DRAINING))
    world.step(1_000.0)
    world.gang("b1", idle + 1, 1, "root.b")
    return world


@settings(max_examples=60, deadline=None, derandomize=True)
@example(sizes=[5, 5], others=[])
@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) > 1),
    others=st.lists(st.integers(1, 8), max_size=2),
)
def test_one_gpu_below_the_threshold_nobody_is_stopped_and_at_it_somebody_is(
    sizes: list[int], others: list[int]
) -> None:
    gpus = sum(sizes)
    most_idle = gpus - -(-9 * gpus // 10)
    world = lent(sizes, most_idle, others)
    world.step(2_000.0)
    assert len(world.stopped()) == 1, f"{gpus - most_idle} of {gpus} GPUs are in use"
    assert world.runs("b1")
    world = lent(sizes, most_idle + 1, others)
    world.step(2_000.0)
    assert world.warned() == world.stopped() == [], f"{gpus - most_idle - 1} of {gpus} GPUs are in use"
