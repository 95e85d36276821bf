"""A resource manager that begins anew, and masters that ask again: some what they lack, some all that they ever asked (C12)."""

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.commands import PlaceGang
from yarn_gpu_sched.engine.events import ContainerSeen, ResourceManagerRegistered, SnapshotEnded
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.resync import REPEATED_WITHIN_S

SERVERS = (server("s1"), server("s2"), server("s3"))


def placed(growth: int = 0) -> World:
    """Run a gang of 4 x 2 GPUs; `growth` more is asked and not to be had."""
    world = World().up(*SERVERS)
    world.submit("j", "gang:4x2", submit_time_s=1.0)
    world.ask("j", ask(4, worker(2)))
    world.run()
    if growth:
        world.submit("other", "gang:1x4")
        world.ask("other", ask(1, worker(4)))
        world.run()
    world.ask("j", *([ask(growth, worker(2))] if growth else []))
    world.run()
    return world


def anew(*back: int, growth: int = 0) -> World:
    """Run the gang, and let its resource manager begin anew with these members of it."""
    world = placed(growth)
    held = world.live("j")
    again(world, *[held[number] for number in back])
    return world


def again(world: World, *held: Container, epoch: int = 2, late: bool = False, asked: int = 0) -> None:
    """Register, with a snapshot that speaks of these containers and asks.

    `late`: it ends before its resource manager knows the job.
    """
    now_s = world.now_s
    world.apply(ResourceManagerRegistered(now_s=now_s, cluster_id="c", epoch=epoch, settle_left_s=0.0))
    for one in SERVERS:
        world.change(one)
    if late:
        world.apply(SnapshotEnded(now_s=now_s))
    world.submit("j", "gang:4x2", submit_time_s=1.0, recovered=True)
    if asked:
        world.ask("j", ask(asked, worker(2)))
    for each in held:
        world.apply(ContainerSeen(now_s=now_s, container=each))
    if not late:
        world.apply(SnapshotEnded(now_s=now_s))


def test_of_asks_that_are_repeated_only_what_did_not_come_back_is_placed_near_the_rest() -> None:
    world = anew(0, 1)
    world.ask("j", ask(4, worker(2)))
    new = world.run()
    assert len(new) == 2
    assert len(world.live("j")) == 4
    assert {one.assignments[0].server_id for one in new} <= {"s1", "s2"}
    world.ask("j", ask(2, worker(2)))  # what the resource manager has left of the four
    assert world.run() == []
    assert world.why("j").startswith("not_asked: 2 containers were asked again")


@pytest.mark.parametrize("late", [False, True])
def test_asks_that_come_before_the_servers_are_read_the_same_way(late: bool) -> None:  # noqa: FBT001 # a column of the table
    world = placed()
    held = world.live("j")[:2]
    again(world, late=late)
    world.ask("j", ask(4, worker(2)))
    (too_early,) = world.decide()
    world.refuse(too_early, OutcomeCode.NOT_READY)
    for one in held:
        world.apply(ContainerSeen(now_s=world.now_s, container=one))
    world.now_s += 0.1  # the pause after the refusal
    assert len(world.run()) == 2
    assert len(world.live("j")) == 4


def test_a_careful_master_gets_what_it_asks() -> None:
    world = anew(0, 1)
    world.ask("j", ask(2, worker(2)))
    assert len(world.run()) == 2
    world.ask("j", ask(1, worker(2)))
    assert len(world.run()) == 1


def test_what_is_asked_after_the_repetition_is_meant() -> None:
    world = anew(0, 1, 2, 3)
    world.ask("j", ask(4, worker(2)))
    assert world.run() == []
    world.ask("j")
    world.ask("j", ask(1, worker(2)))
    assert len(world.run()) == 1
    assert len(world.live("j")) == 5


def test_what_is_asked_long_after_the_restart_is_meant_at_once() -> None:
    world = anew(0, 1, 2, 3)
    world.now_s += REPEATED_WITHIN_S + 1
    world.ask("j", ask(4, worker(2)))
    assert len(world.run()) == 2, "all that is free"


def test_why_says_that_an_ask_was_only_repeated() -> None:
    world = anew(0, 1, 2, 3)
    assert world.why("j") == ""
    world.ask("j", ask(4, worker(2)))
    world.run()
    assert world.why("j") == (
        "not_asked: 4 containers were asked again when the resource manager had restarted, as many as the job had asked before;"
        " those that came back meet them, and what is asked anew from now on is placed"
    )


def test_a_member_that_ends_well_is_not_replaced_by_what_was_repeated() -> None:
    world = anew(0, 1, 2, 3)
    world.ask("j", ask(4, worker(2)))
    world.release("k0")
    assert world.run() == []


def test_growth_that_was_pending_is_still_wanted() -> None:
    world = anew(0, 1, 2, 3, growth=2)
    world.ask("j", ask(2, worker(2)))
    assert len(world.run()) == 2


def test_growth_that_is_repeated_with_all_the_rest_is_still_wanted() -> None:
    world = anew(0, 1, 2, 3, growth=2)
    world.ask("j", ask(6, worker(2)))
    assert len(world.run()) == 2
    assert len(world.live("j")) == 6


def test_a_second_new_resource_manager_changes_nothing() -> None:
    world = anew(0, 1)
    world.ask("j", ask(4, worker(2)))
    world.run()
    held = world.live("j")
    again(world, *held, epoch=3)
    world.ask("j", ask(4, worker(2)))
    assert world.run() == []


@pytest.mark.parametrize("left", [2, 1])
def test_a_link_that_is_lost_meanwhile_changes_nothing(left: int) -> None:
    world = anew(0, 1)
    world.ask("j", ask(4, worker(2)))
    world.run()
    held = world.live("j")
    again(world, *held, asked=left)
    assert world.run() == []


def test_asks_that_are_repeated_after_a_link_was_lost_are_told_as_well() -> None:
    world = anew(0, 1, 2, 3)
    again(world, *world.live("j"))
    for _ in range(2):
        world.ask("j", ask(4, worker(2)))
        assert world.run() == []


def test_asks_that_are_told_before_the_containers_after_a_link_was_lost_are_read_the_same_way() -> None:
    world = anew(0, 1)
    again(world, *world.live("j"), asked=4)
    world.run()
    assert len(world.live("j")) == 4


def test_containers_that_come_back_after_a_link_was_lost_count() -> None:
    world = placed()
    held = world.live("j")
    again(world)
    world.ask("j", ask(4, worker(2)))
    again(world, asked=4)
    for one in held:
        world.apply(ContainerSeen(now_s=world.now_s, container=one))
    world.run()
    assert len(world.live("j")) == 4


def test_what_was_withdrawn_while_the_link_was_lost_is_meant_when_it_is_asked_again() -> None:
    world = anew(0, 1, 2, 3)
    world.ask("j", ask(4, worker(2)))
    again(world, *world.live("j"))
    world.ask("j", ask(1, worker(2)))
    assert len(world.run()) == 1


@pytest.mark.parametrize("heard", [False, True])
def test_a_resource_manager_that_begins_anew_before_servers_came_back_makes_nothing_forgotten(heard: bool) -> None:  # noqa: FBT001 # a column of the table
    world = placed()
    held = world.live("j")
    again(world)
    if heard:
        world.ask("j", ask(4, worker(2)))
    again(world, *held, epoch=3)
    world.ask("j", ask(4, worker(2)))
    world.run()
    assert len(world.live("j")) == 4


def test_growth_after_the_repetition_is_wanted_and_no_more() -> None:
    world = anew(0, 1, 2, 3)
    world.ask("j", ask(4, worker(2)))
    assert world.run() == []
    world.ask("j", ask(5, worker(2)))
    assert len(world.run()) == 1
    world.ask("j", ask(4, worker(2)))
    assert world.run() == []


def test_growth_is_wanted_also_after_more_came_back_than_was_left_to_be_met() -> None:
    world = placed()
    held = world.live("j")
    again(world, *held[:2])
    world.ask("j", ask(4, worker(2)))
    world.remove("s2")
    world.run()
    world.change(server("s2"))
    for one in held[2:]:
        world.apply(ContainerSeen(now_s=world.now_s, container=one))
    assert len(world.live("j")) == 6
    world.ask("j", ask(2, worker(2)))
    assert world.run() == []
    world.release("k0")
    world.release("k1")
    world.ask("j", ask(3, worker(2)))
    assert len(world.run()) == 1


def test_a_master_that_takes_back_what_it_repeated_and_asks_less_gets_it() -> None:
    world = anew(0, 1, 2)
    world.ask("j", ask(4, worker(2)))
    (one,) = world.decide()
    world.refuse(one)
    world.ask("j", ask(1, worker(2)))
    assert len(world.run()) == 1


def test_a_container_that_is_told_of_before_its_outcome_did_not_come_back() -> None:
    world = anew(0, 1)
    world.ask("j", ask(6, worker(2)))
    first, *others = world.decide()
    assert len(others) == 3
    new = first.assignments[0]
    world.seen(f"k{world.containers_made}", "j", new.server_id, worker(2), gpu_indices=new.gpu_indices, key=new.key)
    world.commit(first)
    for one in others:
        world.refuse(one)
    world.ask("j", ask(5, worker(2)))
    world.now_s += 1.0
    assert len(world.run()) == 3


def test_a_container_that_was_placed_while_the_link_was_lost_did_not_come_back() -> None:
    world = anew(0, 1)
    world.ask("j", ask(6, worker(2)))
    held = world.live("j")
    first, *_ = world.decide()
    world.apply(ResourceManagerRegistered(now_s=0.0, cluster_id="c", epoch=2, settle_left_s=0.0))
    for one in SERVERS:
        world.change(one)
    world.submit("j", "gang:4x2", submit_time_s=1.0, recovered=True)
    world.ask("j", ask(5, worker(2)))
    for each in held:
        world.apply(ContainerSeen(now_s=0.0, container=each))
    new = first.assignments[0]
    world.seen("k9", "j", new.server_id, worker(2), gpu_indices=new.gpu_indices, key=new.key)
    world.apply(SnapshotEnded(now_s=0.0))
    assert len(world.run()) == 3


def test_each_key_is_read_for_itself() -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", "gang:2x2", submit_time_s=1.0)
    both = (ask(1, worker(2), 1), ask(1, worker(2), 2))
    world.ask("j", *both)
    world.run()
    world.ask("j")
    held = world.live("j")
    world.apply(ResourceManagerRegistered(now_s=0.0, cluster_id="c", epoch=2, settle_left_s=0.0))
    world.change(server("s1"))
    world.change(server("s2"))
    world.submit("j", "gang:2x2", submit_time_s=1.0, recovered=True)
    for one in held:
        world.apply(ContainerSeen(now_s=0.0, container=one))
    world.apply(SnapshotEnded(now_s=0.0))
    world.ask("j", both[0])
    assert world.run() == []
    world.ask("j", *both)
    assert world.run() == [], "the second key was repeated too, in a call of its own"


def test_it_is_written_down_and_taken_up_again() -> None:
    world = anew(0, 1)
    world.ask("j", ask(4, worker(2)))
    restored = Engine.restore(world.engine.snapshot())
    assert restored.digest() == world.engine.digest()
    again_in_the_world = World(engine=restored)
    again_in_the_world.containers_made = world.containers_made
    assert len(again_in_the_world.run()) == 2


def test_a_new_attempt_means_what_it_asks() -> None:
    world = anew(0, 1)
    world.ask("j", ask(4, worker(2)))
    world.submit("j", "gang:4x2", submit_time_s=1.0, recovered=True, attempt=2)
    world.release("k0")
    world.release("k1")
    world.ask("j", ask(4, worker(2)), attempt=2)
    (gang,) = world.run()
    assert isinstance(gang, PlaceGang)
    assert len(gang.assignments) == 4


def test_a_gang_that_had_lost_a_member_and_comes_back_with_none_is_placed_whole() -> None:
    world = placed()
    world.release("k0", lost=True)
    again(world)
    world.ask("j", ask(4, worker(2)))
    world.run()
    assert len(world.live("j")) == 4


def test_a_new_master_that_takes_over_the_gang_means_what_it_asks() -> None:
    world = World().up(*SERVERS)
    world.submit("j", "gang:4x2", submit_time_s=1.0, keeps_containers=True)
    world.ask("j", ask(4, worker(2)))
    world.run()
    world.ask("j")
    held = world.live("j")
    world.apply(ResourceManagerRegistered(now_s=0.0, cluster_id="c", epoch=2, settle_left_s=0.0))
    for one in SERVERS:
        world.change(one)
    world.submit("j", "gang:4x2", submit_time_s=1.0, keeps_containers=True, recovered=True)
    for container in held:
        world.apply(ContainerSeen(now_s=0.0, container=container))
    world.apply(SnapshotEnded(now_s=0.0))
    world.submit("j", "gang:4x2", submit_time_s=1.0, keeps_containers=True, recovered=True, attempt=2)
    world.ask("j", ask(4, worker(2)), attempt=2)
    assert len(world.run()) == 2, "growth, as far as there is room"
