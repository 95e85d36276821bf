"""Degraded gangs while a resource manager registers again, and while attempts follow one another (law 4)."""

import pytest

from tests.engine.test_repair import REQUEUE_S, lost_a_server, requeues
from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine.events import ContainerSeen, ResourceManagerRegistered, SnapshotEnded


def registers_again(
    world: World, *, late: bool = False, attempt: int = 1, keeps_containers: bool = False, epoch: int = 1
) -> None:
    """Let the resource manager tell all again, the same one unless it has another epoch; `late`: its jobs after the snapshot."""
    held = world.live("j")
    now_s = world.now_s
    world.apply(ResourceManagerRegistered(now_s=now_s, cluster_id="c", epoch=epoch))
    world.change(server("s1"))
    if late:
        world.apply(SnapshotEnded(now_s=now_s))
    world.submit("j", "gang:2x4", submit_time_s=1.0, attempt=attempt, keeps_containers=keeps_containers)
    for one in held:
        world.apply(ContainerSeen(now_s=now_s, container=one))
    if not late:
        world.apply(SnapshotEnded(now_s=now_s))


@pytest.mark.parametrize("late", [False, True])
def test_a_gang_that_is_told_of_late_is_as_degraded_as_before(late: bool) -> None:  # noqa: FBT001 # a column of the table
    world = lost_a_server()
    world.now_s = 10.0
    registers_again(world, late=late)
    assert world.why("j").startswith("gang_degraded: 1 of 2 containers")
    world.ask("j", ask(1, worker(4)))
    assert world.run() == []
    assert world.engine.next_wake_s() == REQUEUE_S
    world.now_s = REQUEUE_S
    world.decide()
    assert len(requeues(world)) == 1


@pytest.mark.parametrize("late", [False, True])
def test_a_gang_that_attempts_share_is_one_when_its_job_is_told_of_with_a_new_attempt(late: bool) -> None:  # noqa: FBT001 # a column of the table
    world = World().up(server("s1"), server("s2"))
    world.submit("j", "gang:2x4", submit_time_s=1.0, keeps_containers=True)
    world.ask("j", ask(2, worker(4)))
    world.run()
    world.ask("j")
    world.submit("j", "gang:2x4", submit_time_s=1.0, keeps_containers=True, attempt=2)
    world.remove("s2")
    registers_again(world, late=late, attempt=3, keeps_containers=True)
    world.change(server("s2"))
    world.ask("j", ask(1, worker(4)), attempt=3)
    assert [len(one.assignments) for one in world.run()] == [1], "the member that is missing, not a gang"


@pytest.mark.parametrize("committed", [False, True])
def test_an_order_to_start_anew_holds_over_a_lost_link_if_it_was_carried_out(committed: bool) -> None:  # noqa: FBT001 # a column of the table
    world = lost_a_server()
    world.ask("j", ask(1, worker(4)))
    world.now_s = REQUEUE_S
    world.decide()
    if committed:
        world.commit(*requeues(world))
    registers_again(world)
    world.ask("j", ask(1, worker(4)))
    world.decide()
    assert len(requeues(world)) == (1 if committed else 2)


def test_an_order_to_start_anew_is_given_again_if_the_attempt_outlived_its_resource_manager() -> None:
    world = lost_a_server()
    world.ask("j", ask(1, worker(4)))
    world.now_s = REQUEUE_S
    world.decide()
    world.commit(*requeues(world))
    registers_again(world, epoch=2)
    world.ask("j", ask(1, worker(4)))
    world.decide()
    assert len(requeues(world)) == 2


@pytest.mark.parametrize("members", [1, 2])
def test_a_gang_of_a_master_that_is_not_ours_starts_anew_also_if_nobody_was_left_to_end(members: int) -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", f"gang:{members}x4", submit_time_s=1.0, unmanaged=True)
    world.ask("j", ask(members, worker(4)))
    world.run()
    world.ask("j")
    for container in world.live("j"):
        world.remove(container.server_id)
    world.ask("j", ask(members, worker(4)))
    world.now_s = REQUEUE_S
    world.decide()
    world.commit(*requeues(world))
    world.change(server("s1"))
    world.change(server("s2"))
    (placed,) = world.run()
    assert len(placed.assignments) == members


def test_a_gang_of_a_master_that_is_not_ours_may_go_unseen_and_starts_anew() -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", "gang:2x4", submit_time_s=1.0, unmanaged=True)
    world.ask("j", ask(2, worker(4)))
    world.run()
    world.remove("s2")
    world.ask("j", ask(1, worker(4)))
    world.now_s = REQUEUE_S
    world.decide()
    world.commit(*requeues(world))
    world.apply(ResourceManagerRegistered(now_s=world.now_s, cluster_id="c", epoch=1))
    world.change(server("s1"))
    world.change(server("s2"))
    world.submit("j", "gang:2x4", submit_time_s=1.0, unmanaged=True)
    world.apply(SnapshotEnded(now_s=world.now_s))
    world.ask("j", ask(2, worker(4)))
    (placed,) = world.run()
    assert len(placed.assignments) == 2


def test_a_replacement_that_the_attempt_before_asked_for_makes_the_gang_whole() -> None:
    world = World().up(server("s1"), server("s2"), server("s3"))
    world.submit("j", "gang:2x4", submit_time_s=1.0, keeps_containers=True)
    world.ask("j", ask(2, worker(4)))
    world.run()
    world.ask("j")
    world.remove("s2")
    world.ask("j", ask(1, worker(4)))
    (replacement,) = world.decide()
    world.submit("j", "gang:2x4", submit_time_s=1.0, keeps_containers=True, attempt=2)
    world.commit(replacement)
    assert world.why("j") == ""
    assert len(world.live("j")) == 2
