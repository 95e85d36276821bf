"""News of a new attempt arrives in parts: a resource manager changes while it is looked at."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine.commands import RequeueJob


@pytest.mark.parametrize("told_before", [0, 1])
def test_asks_that_come_before_their_attempt_are_not_lost(told_before: int) -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:2x2", attempt=told_before, active=False, submit_time_s=1.0)
    world.ask("j", ask(1, AM, 0, am=True), attempt=told_before + 1)
    assert world.decide() == [], "not active yet"
    world.submit("j", "gang:2x2", attempt=told_before + 1, submit_time_s=1.0)
    (master,) = world.run()
    assert (master.job_id, master.attempt) == ("j", told_before + 1)
    assert world.engine.audit() == []


def test_asks_of_a_newer_attempt_void_those_of_the_attempt_before() -> None:
    world = World().up(server("s1"))
    world.submit("j")
    world.ask("j", ask(3, worker(1)))
    world.ask("j", ask(1, worker(2)), attempt=2)
    (single,) = world.run()
    assert single.attempt == 2
    assert [one.resource.gpus for one in single.assignments] == [2]
    assert world.ask("j", ask(3, worker(1))) == [], "the older attempt's asks come too late"


def kept(*, gang: str = "gang:3x2") -> World:
    """Run a gang of 3 x 2 GPUs whose application keeps its containers when its master dies."""
    world = World().up(server("s1"), server("s2"), server("s3"))
    world.submit("j", gang, keeps_containers=True, submit_time_s=1.0)
    world.ask("j", ask(3, worker(2)))
    world.run()
    world.ask("j")
    return world


def second_attempt(world: World, gang: str = "gang:3x2") -> None:
    world.submit("j", gang, keeps_containers=True, submit_time_s=1.0, attempt=2)
    world.ask("j", ask(1, AM, 0, am=True), attempt=2)
    world.run()
    world.ask("j", attempt=2)


def test_members_that_outlive_their_attempt_are_still_the_gang() -> None:
    world = kept()
    second_attempt(world)
    assert world.why("j") == ""
    world.ask("j", ask(1, worker(2)), attempt=2)
    (growth,) = world.run()
    assert len(growth.assignments) == 1


def test_a_member_of_an_earlier_attempt_that_is_lost_is_replaced_where_it_was() -> None:
    world = kept()
    second_attempt(world)
    lost = world.live("j")[0]
    world.release(lost.container_id, lost=True)
    assert world.why("j").startswith("gang_degraded: 1 of 3 containers of the gang were lost; 2 GPUs are held")
    world.ask("j", ask(1, worker(2)), attempt=2)
    (single,) = world.run()
    assert [one.server_id for one in single.assignments] == [lost.server_id]
    world.ask("j", attempt=2)
    assert world.why("j") == ""


def test_a_degraded_gang_stays_so_in_the_next_attempt_and_only_what_it_misses_is_placed() -> None:
    world = kept()
    world.release(world.live("j")[0].container_id, lost=True)
    second_attempt(world)
    world.ask("j", ask(1, worker(2)), attempt=2)
    (single,) = world.run()
    assert len(single.assignments) == 1
    assert len(world.live("j")) == 3


def test_a_gang_none_of_which_outlived_its_attempt_is_placed_again_as_a_whole() -> None:
    world = kept()
    world.release_all("j")
    second_attempt(world)
    world.ask("j", ask(3, worker(2)), attempt=2)
    (gang,) = world.run()
    assert len(gang.assignments) == 3


def test_containers_of_an_earlier_attempt_that_are_not_kept_are_no_members() -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", "gang:2x2", submit_time_s=1.0)
    world.ask("j", ask(2, worker(2)))
    world.run()
    world.submit("j", "gang:2x2", submit_time_s=1.0, attempt=2)
    world.ask("j", ask(2, worker(2)), attempt=2)
    (gang,) = world.run()
    assert len(gang.assignments) == 2


def test_members_of_the_attempt_before_the_new_start_of_a_whole_job_do_not_count() -> None:
    world = kept()
    world.submit("other", "gang:1x4")
    world.ask("other", ask(1, worker(4)))
    world.run()
    world.release(world.live("j")[0].container_id, lost=True)
    world.ask("j", ask(1, worker(4)))
    world.now_s = 600.0
    world.decide()
    order = next(command for command in world.commands if isinstance(command, RequeueJob))
    world.commit(order)
    second_attempt(world)
    assert len(world.live("j")) == 2, "they are just being ended"
    world.ask("j", ask(3, worker(2)), attempt=2)
    assert world.why("j").startswith("cluster_full: asks 6 GPUs at once, 3 x 2")


def test_a_resource_manager_that_restarts_gives_kept_members_back() -> None:
    world = kept()
    second_attempt(world)
    held = world.live("j")
    world.up(server("s1"), server("s2"), server("s3"), epoch=2)
    world.submit("j", "gang:3x2", keeps_containers=True, submit_time_s=1.0, attempt=2, recovered=True)
    for one in held:
        world.seen(one.container_id, "j", one.server_id, one.resource, gpu_indices=one.gpu_indices)
    world.ask("j", ask(1, worker(2)), attempt=2)
    (single,) = world.run()
    assert len(single.assignments) == 1
