"""News in any order while a resource manager restarts: what a job had, and whether its gang was placed, is known as before."""

import msgspec
import pytest

from tests.engine.test_repair import requeues
from tests.engine.test_resync import SERVERS, placed
from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.events import ContainerSeen, ResourceManagerLost, ResourceManagerRegistered, SnapshotEnded
from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import JobEnd, JobState
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.server import Server

WITH_CPU = (server("s1"), server("cpu", 0))
PLAIN = ask(1, worker(0), 2)


def register(world: World, epoch: int, *servers: Server) -> None:
    world.apply(ResourceManagerRegistered(now_s=world.now_s, cluster_id="c", epoch=epoch, settle_left_s=0.0))
    for one in servers:
        world.change(one)


def tell(world: World, attempt: int = 1, **fields: object) -> None:
    world.submit("j", "gang:4x2", submit_time_s=1.0, recovered=True, attempt=attempt, **fields)


def see(world: World, held: list[Container], *, ending: bool = False) -> None:
    for one in held:
        world.apply(ContainerSeen(now_s=world.now_s, container=msgspec.structs.replace(one, ending=ending)))


def end_snapshot(world: World) -> None:
    world.apply(SnapshotEnded(now_s=world.now_s))


def repeats(world: World, expected: int = 4) -> None:
    """Let the master ask again all that it ever asked."""
    world.ask("j", ask(4, worker(2)))
    world.run()
    assert len(world.live("j")) == expected


@pytest.mark.parametrize("late", [False, True])
def test_a_job_that_is_told_of_before_its_attempt_is_known_as_before(late: bool) -> None:  # noqa: FBT001 # a column of the table
    world = placed()
    held = world.live("j")
    register(world, 2, *SERVERS)
    if late:
        end_snapshot(world)
    tell(world, attempt=0, active=False)
    if not late:
        end_snapshot(world)
    tell(world)
    see(world, held)
    repeats(world)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("epoch", [1, 2])
@pytest.mark.parametrize("away_s", [0.0, 130.0])
def test_a_snapshot_that_breaks_off_makes_nothing_forgotten(told: bool, epoch: int, away_s: float) -> None:  # noqa: FBT001 # a column of the table
    world = placed()
    held = world.live("j")
    register(world, epoch, *SERVERS)
    if told:
        tell(world)
    world.apply(ResourceManagerLost(now_s=world.now_s))
    world.now_s += away_s
    register(world, 3, *SERVERS)
    tell(world)
    see(world, held)
    end_snapshot(world)
    repeats(world)


@pytest.mark.parametrize("told", [False, True])
def test_a_resource_manager_that_is_away_for_long_makes_nothing_forgotten(told: bool) -> None:  # noqa: FBT001 # a column of the table
    world = placed()
    held = world.live("j")
    register(world, 2)
    if told:
        tell(world)
    end_snapshot(world)
    world.now_s += 5.0
    world.apply(ResourceManagerLost(now_s=world.now_s))
    world.now_s += 130.0
    register(world, 3, *SERVERS)
    end_snapshot(world)
    tell(world)
    see(world, held)
    repeats(world)


def test_a_gang_that_was_left_out_twice_is_placed_whole() -> None:
    world = placed()
    held = world.live("j")
    register(world, 2, *SERVERS)
    end_snapshot(world)
    see(world, held)
    register(world, 3, *SERVERS)
    end_snapshot(world)
    tell(world)
    world.ask("j", ask(4, worker(2)))
    assert [len(one.assignments) for one in world.run()] == [4]


def test_containers_that_come_back_while_a_decision_is_refused_count() -> None:
    world = placed()
    held = world.live("j")
    register(world, 2, server("s4"), server("s5"))
    tell(world)
    end_snapshot(world)
    world.ask("j", ask(4, worker(2)))
    early = world.decide()
    for one in SERVERS:
        world.change(one)
    see(world, held)
    for decision in early:
        world.refuse(decision, OutcomeCode.NOT_READY)
    world.now_s += 1.0
    world.run()
    assert len(world.live("j")) == 4


def test_a_new_attempt_that_is_told_of_before_the_members_that_it_keeps_is_given_only_what_it_lacks() -> None:
    world = World().up(*SERVERS)
    world.submit("j", "gang:4x2", submit_time_s=1.0, keeps_containers=True)
    world.ask("j", ask(4, worker(2)))
    world.run()
    world.ask("j")
    held = world.live("j")
    register(world, 2, SERVERS[0])
    tell(world, keeps_containers=True)
    end_snapshot(world)
    tell(world, attempt=2, keeps_containers=True)
    for one in SERVERS:
        world.change(one)
    see(world, held[:2])
    world.ask("j", ask(2, worker(2)), attempt=2)
    assert [len(one.assignments) for one in world.run()] == [1, 1]


def test_a_member_without_gpus_that_outlives_an_attempt_counts_for_the_gang_of_the_next() -> None:
    world = World().up(*WITH_CPU)
    world.submit("j", "gang:2x2+1", submit_time_s=1.0, keeps_containers=True)
    world.seen("p", "j", "cpu", worker(0), key=RequestKey(2))
    world.submit("j", "gang:2x2+1", submit_time_s=1.0, keeps_containers=True, attempt=2)
    world.ask("j", ask(2, worker(2)), attempt=2)
    assert [len(one.assignments) for one in world.run()] == [2]


def waiting_with_a_member(tag: str, *, before: bool) -> World:
    """Let a gang of two GPU members and a plain one wait over a restart; the plain one was placed before or after that."""
    world = World().up(*WITH_CPU)
    world.submit("other", "gang:1x2")
    world.ask("other", ask(1, worker(2)))
    world.run()
    world.ask("other")
    (other,) = world.live("other")
    world.submit("j", tag, submit_time_s=5.0)
    if before:
        world.ask("j", ask(2, worker(2)), PLAIN)
        world.seen("p", "j", "cpu", worker(0), key=RequestKey(2))
        world.ask("j", ask(2, worker(2)))
    register(world, 2, *WITH_CPU)
    world.submit("other", "gang:1x2", submit_time_s=1.0, recovered=True)
    world.submit("j", tag, submit_time_s=5.0, recovered=True)
    see(world, [other])
    if before:
        world.seen("p", "j", "cpu", worker(0), key=RequestKey(2))
    end_snapshot(world)
    if not before:
        world.ask("j", ask(2, worker(2)), PLAIN)
        world.seen("p", "j", "cpu", worker(0), key=RequestKey(2))
    world.ask("j", ask(2, worker(2)))
    return world


@pytest.mark.parametrize("tag", ["gang:2x2+1", "gang:3"])
@pytest.mark.parametrize("before", [False, True])
def test_a_gang_that_waits_is_placed_whole_though_a_member_without_gpus_is_there(tag: str, before: bool) -> None:  # noqa: FBT001 # a column of the table
    world = waiting_with_a_member(tag, before=before)
    assert world.run() == []
    assert world.why("j").startswith("cluster_full")
    world.end("other")
    assert [len(one.assignments) for one in world.run()] == [2]


def test_a_member_without_gpus_does_not_show_a_service_that_knows_nothing_that_a_gang_with_gpus_was_placed() -> None:
    world = World()
    register(world, 1, *WITH_CPU)
    world.submit("j", "gang:2x2+1", recovered=True)
    world.seen("p", "j", "cpu", worker(0), key=RequestKey(2))
    end_snapshot(world)
    world.ask("j", ask(2, worker(2)))
    assert [len(one.assignments) for one in world.run()] == [2]


@pytest.mark.parametrize("how", ["lost", "ended well", "server", "being ended"])
def test_a_member_without_gpus_that_goes_before_its_gang_is_placed_counts_no_more(how: str) -> None:
    world = World().up(*WITH_CPU)
    world.submit("j", "gang:3", submit_time_s=1.0)
    world.seen("p", "j", "cpu", worker(0), key=RequestKey(2))
    if how == "server":
        world.remove("cpu")
    elif how == "being ended":
        see(world, world.live("j"), ending=True)
    else:
        world.release("p", lost=how == "lost")
    world.ask("j", ask(2, worker(2)))
    assert world.run() == []
    assert world.why("j").startswith("gang_incomplete")


def test_what_is_being_ended_neither_counts_as_held_nor_as_come_back() -> None:
    world = placed()
    held = world.live("j")
    register(world, 2, *SERVERS)
    tell(world)
    see(world, held, ending=True)
    end_snapshot(world)
    world.ask("j", ask(4, worker(2)))
    for one in held:
        world.release(one.container_id)
    assert [len(one.assignments) for one in world.run()] == [4]


def test_a_server_that_comes_back_with_what_is_being_ended_meets_no_ask() -> None:
    world = placed()
    held = world.live("j")
    register(world, 2, *SERVERS)
    tell(world)
    see(world, held)
    end_snapshot(world)
    repeats(world)
    gone = [one for one in held if one.server_id == held[-1].server_id]
    world.remove(gone[0].server_id)
    world.change(server(gone[0].server_id))
    see(world, gone, ending=True)
    world.ask("j", ask(4 + len(gone), worker(2)))
    for one in gone:
        world.release(one.container_id)
    world.run()
    assert len(world.live("j")) == 4


@pytest.mark.parametrize("asked", [2, 4, 5])
def test_a_gang_that_no_tag_declares_gets_what_did_not_come_back(asked: int) -> None:
    world = World().up(*SERVERS)
    world.configure("root.a", debounce=True)
    world.submit("j", submit_time_s=1.0)
    world.ask("j", ask(4, worker(2)))
    world.now_s = 5.0
    world.run()
    world.ask("j")
    held = world.live("j")
    register(world, 2, *SERVERS)
    world.configure("root.a", debounce=True)
    world.submit("j", submit_time_s=1.0, recovered=True)
    see(world, held[:2])
    end_snapshot(world)
    world.ask("j", ask(asked, worker(2)))
    for _ in range(3):
        world.now_s += 5.0
        world.run()
    assert len(world.live("j")) == max(4, asked)


def test_an_unmanaged_gang_starts_anew_though_its_next_member_without_gpus_is_there_already() -> None:
    world = World().up(server("s1"), server("s2"), server("cpu", 0))
    world.submit("j", "gang:2x4+1", submit_time_s=1.0, unmanaged=True)
    world.ask("j", ask(2, worker(4)), PLAIN)
    world.seen("p0", "j", "cpu", worker(0), key=RequestKey(2))
    world.ask("j", ask(2, worker(4)))
    world.run()
    world.remove("s2")
    world.ask("j", ask(1, worker(4)))
    world.now_s = 600.0
    world.decide()
    world.commit(*requeues(world))
    world.release("p0")
    world.seen("p1", "j", "cpu", worker(0), key=RequestKey(2))
    for one in world.live("j"):
        if one.resource.gpus:
            world.release(one.container_id)
    world.change(server("s2"))
    world.ask("j", ask(2, worker(4)))
    assert [len(one.assignments) for one in world.run()] == [2]


def test_engines_that_heard_the_same_hash_alike_in_whatever_order_containers_came() -> None:
    twins = (World().up(*SERVERS), World().up(*SERVERS))
    for world in twins:
        tell(world)
        order = ("k2", "k1") if world is twins[0] else ("k1", "k2")
        for name in order:
            world.seen(
                name, "j", "s1", worker(int(name[1])), gpu_indices=tuple(range(int(name[1]))) if name == "k2" else (3,)
            )
        register(world, 2, *SERVERS)
        tell(world)
        end_snapshot(world)
    assert twins[0].engine.digest() == twins[1].engine.digest()


def test_a_degraded_gang_whose_job_was_left_out_is_written_down_as_it_is() -> None:
    world = placed()
    world.release("k0", lost=True)
    register(world, 1, *SERVERS)
    end_snapshot(world)
    restored = Engine.restore(world.engine.snapshot())
    assert restored.audit() == []
    assert restored.digest() == world.engine.digest()


def test_a_job_whose_attempt_was_never_told_is_new() -> None:
    world = World().up(*SERVERS)
    world.submit("j", "gang:4x2", submit_time_s=1.0, attempt=0)
    view = world.engine.job("j")
    assert view is not None
    assert (view.job.attempt, view.state) == (0, JobState.PENDING)
    world.end("j", JobEnd.KILLED)
