"""Servers change and go; what is over-committed is shown, and nothing new goes there."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine.commands import Bind, Unbind
from yarn_gpu_sched.engine.views import ServerView
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import UNKNOWN_RACK, ServerState


def the_server(world: World) -> ServerView:
    (only,), _ = world.engine.servers()
    return only


def test_fewer_gpus_than_before_shrink_capacity_at_once_and_are_shown() -> None:
    world = World().up(server("s1", 4))
    world.submit("j", "gang:3x1")
    world.ask("j", ask(3, worker(1)))
    world.run()
    world.change(server("s1", 2))
    view = the_server(world)
    assert (view.server.capacity.gpus, view.used.gpus) == (2, 3)
    assert [(gpu.index, gpu.job_id) for gpu in view.gpus] == [(0, "j"), (1, "j"), (2, "j")]
    world.submit("k")
    world.ask("k", ask(1, worker(1)))
    assert world.run() == []
    world.release("k0")
    assert world.run() == []
    world.release("k1")
    assert [one.assignments[0].gpu_indices for one in world.run()] == [(0,)]


def test_more_memory_in_use_than_there_is_keeps_everything_away() -> None:
    world = World().up(server("s1", 4, memory_mb=10_000))
    world.seen("x", "stranger", "s1", Resource(12_000, 1, 0))
    world.submit("k")
    world.ask("k", ask(1, worker(1, 1)))
    assert world.run() == []
    assert the_server(world).used.memory_mb == 12_000
    assert world.why("k").startswith("other_resources: ")


def test_a_container_without_indices_gets_the_lowest_free_ones() -> None:
    world = World().up(server("s1", 4))
    world.seen("a", "x", "s1", worker(1), gpu_indices=(1,))
    world.seen("b", "x", "s1", worker(2))
    world.seen("c", "x", "s1", worker(2))
    assert [one.gpu_indices for one in world.live("x")] == [(1,), (0, 2), (3, 4)]
    assert the_server(world).used.gpus == 5
    binds = [one.gpu_indices for one in world.commands if isinstance(one, Bind)]
    assert binds == [(1,), (0, 2), (3, 4)]


def test_news_of_a_known_container_keeps_its_indices() -> None:
    world = World().up(server("s1", 4))
    world.seen("a", "x", "s1", worker(2))
    commands_before = len([one for one in world.commands if isinstance(one, Bind)])
    world.seen("a", "x", "s1", worker(2), ending=True)
    (known,) = world.live("x")
    assert (known.ending, known.gpu_indices) == (True, (0, 1))
    assert len([one for one in world.commands if isinstance(one, Bind)]) == commands_before
    assert the_server(world).used.gpus == 2


@pytest.mark.parametrize("state", [ServerState.DRAINING, ServerState.UNHEALTHY])
def test_nothing_is_placed_on_a_server_that_does_not_run(state: ServerState) -> None:
    """C13: a server that is decommissioned takes nothing new, and is usable at once when it is back."""
    world = World().up(server("s1", state=state))
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    assert world.run() == []
    world.change(server("s1"))
    assert len(world.run()) == 1
    world.change(server("s1", state=state))
    assert the_server(world).used.gpus == 1


def test_a_removed_server_takes_its_containers_along() -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", "gang:2x4")
    world.ask("j", ask(2, worker(4)))
    world.run()
    gone = world.remove("s1")
    assert [one for one in gone if isinstance(one, Unbind)] == [Unbind(container_id="k0", server_id="s1")]
    assert [one.container_id for one in world.live("j")] == ["k1"]
    assert world.remove("s1") == []


def test_the_same_event_twice_changes_nothing() -> None:
    world = World().up(server("s1"))
    digest = world.engine.digest()
    assert world.change(server("s1")) == []
    assert world.engine.digest() == digest


def test_partitions_are_kept_apart() -> None:
    world = World().up(server("s1"), server("s2", partition="p"))
    world.submit("j", "gang:2x4")
    world.ask("j", ask(2, worker(4)))
    world.submit("k", "gang:1x4")
    world.ask("k", ask(1, worker(4), partition="p"))
    world.submit("m")
    world.ask("m", ask(1, AM, 0, am=True, partition="p"))
    placed = {one.job_id: one.assignments[0].server_id for one in world.run()}
    assert placed == {"k": "s2", "m": "s2"}


def test_a_server_that_changes_its_partition_serves_the_new_one() -> None:
    world = World().up(server("s1", partition="p"), settle_left_s=60.0)
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    assert world.run() == []
    world.change(server("s1"))
    assert len(world.run()) == 1


def test_the_default_rack_promises_no_domain() -> None:
    world = World().up(server("s1", rack=UNKNOWN_RACK), server("s2", rack=UNKNOWN_RACK))
    world.submit("j", "gang:2x4")
    world.ask("j", ask(2, worker(4)))
    (placed,) = world.run()
    assert placed.level is Level.ANYWHERE


def test_containers_on_servers_without_gpus_are_counted_and_not_made_known() -> None:
    world = World().up(server("cpu", 0))
    world.seen("a", "x", "cpu", worker(0))
    assert the_server(world).containers == 1
    world.release("a")
    assert not any(isinstance(one, Bind | Unbind) for one in world.commands)
    assert world.engine.job("x") is None
