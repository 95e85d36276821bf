"""What is only tried wakes nobody who waits for spare memory: a pass comes to its end soon."""

from __future__ import annotations

from tests.engine.reclaims import Reclaiming
from tests.engine.world import ask, server, worker


def test_one_that_finds_no_place_on_what_is_kept_is_not_tried_again_and_again_in_a_pass() -> None:
    """It names a server that is full; another job waits for more memory than there is for who asks no GPUs."""
    world = Reclaiming(4, 4, reserve_after_s=1_500.0)
    for server_id in ("s0", "s1"):
        world.change(server(server_id, 4, rack="/r0", memory_mb=8_192))
    world.configure("root.a", quota_gpus=0)
    world.gang("r0", 4, 1, "root.c")
    world.gang("r1", 2, 1, "root.c")
    world.gang("g", 4, 1, "root.a", "locality:0")
    world.submit("plain", "gang:2", vc="root.c")
    world.ask("plain", ask(2, worker(0, memory_mb=8_000)))
    world.step(2_000.0)
    assert world.kept("g") == 2
    world.submit("b", "gang:2x1", vc="root.c")
    world.ask("b", ask(2, worker(1), at={"s0": 2}, strict=True))
    world.step(world.now_s + 119.0)
    before = world.engine.counters.searches
    world.step(world.now_s + 1.0)
    assert world.engine.counters.searches - before < 10
