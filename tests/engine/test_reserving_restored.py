"""An engine that is read again keeps the same for gangs that wait, and looks for other places when the live one does."""

from __future__ import annotations

from tests.engine.test_reserving import BOUND_S, Waiting
from tests.engine.world import server
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.events import Pass
from yarn_gpu_sched.engine.reserving import REPLAN_MIN_S, REPLAN_S
from yarn_gpu_sched.model.server import ServerState


def two() -> Waiting:
    """Let two gangs have reservations, of which the second may keep only two of the three GPUs that are free on its server."""
    world = Waiting(*[10] * 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=40)
    for turn in range(4):
        world.gang(f"r{turn}", 1, 7, "root.a", "runtime:90000")
    world.gang("a1", 1, 10, "root.a", "locality:0")
    world.step(100.0)
    world.gang("b1", 1, 10, "root.b", "locality:0")
    world.step(100.0 + BOUND_S)
    assert (world.kept("b1"), world.kept("a1")) == (3, 2)
    return world


def test_how_much_may_be_kept_idle_is_known_again() -> None:
    again = Engine.restore(two().engine.snapshot())
    assert again.audit() == []


def test_it_is_looked_for_another_place_only_if_the_live_one_would() -> None:
    """One of those that it awaits has run longer than it said, and nothing was freed: the live one looks for nothing."""
    world = Waiting(4)
    world.gang("early", 1, 2, "root.a", "runtime:2500")
    world.gang("late", 1, 2, "root.a", "runtime:9000")
    world.gang("g", 1, 4)
    world.step(BOUND_S + 3 * REPLAN_S)
    live, again = world.engine, Engine.restore(world.engine.snapshot())
    for _ in range(3):
        world.now_s += REPLAN_S
        assert live.apply(Pass(now_s=world.now_s)) == again.apply(Pass(now_s=world.now_s))
        assert live.reservations() == again.reservations()
        assert live.digest() == again.digest()


def test_who_found_no_place_is_looked_for_again_when_the_live_one_would() -> None:
    world = Waiting(4, 4)
    world.gang("runs", 1, 2)
    world.change(server("s1", 4, rack="/r1", state=ServerState.UNHEALTHY))
    world.gang("g", 2, 4)
    world.step(BOUND_S)
    assert world.reserved == {}
    world.step(world.now_s + 1.0)
    live, again = world.engine, Engine.restore(world.engine.snapshot())
    world.change(server("s1", 4, rack="/r1"))
    again.apply(world.events[-1])
    assert live.next_wake_s() == again.next_wake_s()
    for seconds in (1.0, 2 * REPLAN_MIN_S):
        world.now_s += seconds
        assert live.apply(Pass(now_s=world.now_s)) == again.apply(Pass(now_s=world.now_s))
        assert live.reservations() == again.reservations()
        assert live.digest() == again.digest()
    assert list(world.reserved) == ["g"]
