"""Who is never stopped for another, whatever it borrows."""

from tests.engine.reclaims import AFTER_S, Reclaiming, borrowed
from yarn_gpu_sched.engine.commands import StopContainers


def test_applications_with_an_unmanaged_master_are_never_stopped() -> None:
    world = Reclaiming(4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=4)
    world.gang("a1", 4, 1, unmanaged=True)
    world.step(1_000.0)
    world.gang("b1", 4, 1, "root.b")
    world.step(3_000.0)
    assert world.stopped() == []


def test_a_job_that_cannot_start_anew_is_not_stopped_as_a_whole_but_single_containers_of_it_may_be() -> None:
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=8)
    world.singles("a1", 4, 1, one_attempt=True)
    world.gang("a2", 4, 1, one_attempt=True)
    world.step(1_000.0)
    world.gang("b1", 4, 1, "root.b")
    world.step(3_000.0)
    assert world.stopped() == ["a1"] * 4
    world.gang("b2", 4, 1, "root.b")
    world.step(5_000.0)
    assert (world.stopped(), world.runs("b1"), world.runs("b2")) == (["a1"] * 4, True, False)


def test_a_victim_that_the_resource_manager_does_not_even_warn_is_not_waited_for() -> None:
    world = borrowed()
    world.gang("b1", 4, 1, "root.b")
    world.step(1_000.0 + AFTER_S, obey=False)
    assert world.warned() == ["a2"]
    world.decline()
    world.step(1_000.0 + AFTER_S + 1.0)
    assert world.engine.preemption().plans == ()
    world.step(5_000.0)
    assert (world.warned(), world.stopped()) == (["a2"], [])


def test_of_an_application_without_a_gang_the_youngest_containers_go_on_whichever_server_they_are() -> None:
    world = Reclaiming(4, 4)
    world.configure("root.a", quota_gpus=0)
    world.configure("root.b", quota_gpus=4)
    world.singles("a1", 8, 1)
    held = sorted(one.container_id for one in world.live("a1"))
    world.step(1_000.0)
    world.gang("b1", 2, 1, "root.b")
    world.step(3_000.0)
    stopped = [one for one in world.commands if isinstance(one, StopContainers)]
    assert sorted(name for one in stopped for name in one.container_ids) == held[-2:]
