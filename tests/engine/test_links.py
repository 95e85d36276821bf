"""A resource manager registers again: what was known is void, and its snapshot alone makes the state right again."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.commands import Unbind
from yarn_gpu_sched.engine.events import ResourceManagerLost, ResourceManagerRegistered, SnapshotEnded
from yarn_gpu_sched.model.job import JobEnd, JobState


def running() -> World:
    """Let a gang run with its master, and another wait."""
    world = World().up(server("s1"), server("s2"))
    world.submit("runs", "gang:2x4")
    world.ask("runs", ask(1, AM, 0, am=True), ask(2, worker(4)))
    world.run()
    world.submit("waits", "gang:2x2")
    world.ask("waits", ask(2, worker(2)))
    world.run()
    return world


def register(world: World, epoch: int = 1) -> None:
    world.apply(ResourceManagerLost(now_s=world.now_s))
    world.apply(ResourceManagerRegistered(now_s=world.now_s, cluster_id="c", epoch=epoch, settle_left_s=60.0))


def tell_again(world: World) -> None:
    """Tell the snapshot of the same cluster."""
    world.change(server("s1"))
    world.change(server("s2"))
    world.submit("runs", "gang:2x4", submit_time_s=1.0)
    world.seen("k0", "runs", "s1", AM, application_master=True)
    world.seen("k1", "runs", "s1", worker(4), gpu_indices=(0, 1, 2, 3))
    world.seen("k2", "runs", "s2", worker(4), gpu_indices=(0, 1, 2, 3))
    world.submit("waits", "gang:2x2", submit_time_s=2.0)
    world.ask("waits", ask(2, worker(2)))


def test_nothing_is_decided_between_registration_and_the_end_of_the_snapshot() -> None:
    world = World()
    world.apply(ResourceManagerRegistered(now_s=0.0, cluster_id="c", epoch=1))
    world.change(server("s1"))
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    assert world.decide() == []
    assert world.engine.next_wake_s() is None
    world.apply(SnapshotEnded(now_s=0.0))
    assert len(world.run()) == 1


def test_the_state_is_right_again_from_the_snapshot_alone() -> None:
    world = running()
    before = world.engine.cluster()
    world.now_s = 30.0
    register(world)
    assert world.engine.cluster().servers == 0
    tell_again(world)
    commands = world.apply(SnapshotEnded(now_s=world.now_s))
    assert not any(isinstance(one, Unbind) for one in commands)
    after = world.engine.cluster()
    assert (after.used, after.jobs_pending, after.jobs_running) == (before.used, 1, 1)
    view = world.engine.job("runs")
    assert view is not None
    assert (view.first_seen_s, view.state) == (0.0, JobState.RUNNING)
    assert world.run() == []
    world.end("runs")
    assert [one.job_id for one in world.run()] == ["waits"]


def test_what_the_snapshot_does_not_speak_of_is_gone() -> None:
    world = running()
    register(world)
    world.change(server("s1"))
    commands = world.apply(SnapshotEnded(now_s=world.now_s))
    unbound = [one.container_id for one in commands if isinstance(one, Unbind)]
    assert unbound == ["k0", "k1", "k2"]
    for job_id in ("runs", "waits"):
        view = world.engine.job(job_id)
        assert view is not None
        assert (view.state, view.end) == (JobState.ENDED, JobEnd.KILLED)
        assert "no longer knew" in view.diagnostics
    assert world.engine.cluster().used.gpus == 0


@pytest.mark.parametrize("epoch", [1, 2])
@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.parametrize("restored", [False, True])
def test_a_job_that_comes_after_the_snapshot_goes_on(epoch: int, attempt: int, restored: bool) -> None:  # noqa: FBT001 # pytest passes by name
    """A resource manager may be slow to recover its jobs: its first snapshot lacks some."""
    world = running()
    register(world, epoch)
    world.change(server("s1"))
    world.change(server("s2"))
    world.apply(SnapshotEnded(now_s=world.now_s))
    if restored:
        world.engine = Engine.restore(world.engine.snapshot())
    assert world.engine.cluster().jobs_pending == 0
    world.submit("waits", "gang:2x2", submit_time_s=2.0, recovered=True, attempt=attempt, vc="root.b")
    view = world.engine.job("waits")
    assert view is not None
    assert (view.state, view.end, view.ended_s, view.diagnostics) == (JobState.PENDING, None, None, "")
    world.ask("waits", ask(2, worker(2)), attempt=attempt)
    assert [one.job_id for one in world.run()] == ["waits"]
    assert world.engine.cluster().jobs_running == 1


def test_a_job_that_the_snapshot_left_out_ends_as_it_is_told_and_then_for_good() -> None:
    world = running()
    register(world)
    world.apply(SnapshotEnded(now_s=world.now_s))
    for how in (JobEnd.SUCCEEDED, JobEnd.FAILED):
        world.end("waits", how)
        world.submit("waits", "gang:2x2", submit_time_s=2.0)
        view = world.engine.job("waits")
        assert view is not None
        assert (view.state, view.end, view.diagnostics) == (JobState.ENDED, JobEnd.SUCCEEDED, "")


def test_registering_again_without_a_loss_voids_what_is_under_way() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:2x2")
    world.ask("j", ask(2, worker(2)))
    (placed,) = world.decide()
    world.up(server("s1"))
    world.submit("j", "gang:2x2", submit_time_s=1.0)
    world.ask("j", ask(2, worker(2)))
    world.commit(placed)
    assert world.engine.cluster().used.gpus == 0
    (again,) = world.run()
    assert again.decision_id > placed.decision_id


def test_ended_jobs_stay_to_be_looked_at() -> None:
    world = running()
    world.end("runs")
    register(world)
    tell_again(world)
    view = world.engine.job("runs")
    assert view is not None
    assert view.state is JobState.ENDED


def test_a_new_resource_manager_forgets_that_a_gang_was_placed_unless_its_containers_live() -> None:
    world = running()
    register(world, epoch=2)
    world.change(server("s1"))
    world.change(server("s2"))
    world.submit("runs", "gang:2x4", submit_time_s=1.0, recovered=True)
    world.apply(SnapshotEnded(now_s=world.now_s))
    world.ask("runs", ask(1, worker(4)))
    assert world.run() == []
    world.ask("runs", ask(2, worker(4)))
    assert [len(one.assignments) for one in world.run()] == [2]


def test_containers_of_jobs_that_nobody_told_of_are_in_use() -> None:
    world = World().up(server("s1"))
    world.seen("x", "stranger", "s1", worker(3))
    assert world.engine.cluster().used.gpus == 3
    assert world.engine.jobs()[1] == 0
    world.submit("stranger", "gang:3x1")
    (view,), count = world.engine.jobs()
    assert (count, view.used.gpus, view.state) == (1, 3, JobState.RUNNING)


def test_members_that_stock_placement_served_count_for_the_gang() -> None:
    world = World().up(server("s1"), server("cpu", 0))
    world.submit("j", "gang:2x2+1")
    world.ask("j", ask(2, worker(2)), ask(1, worker(0), 2))
    world.ask("j", ask(2, worker(2)))
    assert world.run() == []
    world.seen("x", "j", "cpu", worker(0))
    (placed,) = world.run()
    assert len(placed.assignments) == 2


def test_time_that_runs_backwards_stands_still() -> None:
    world = World().up(server("s1"))
    world.now_s = 100.0
    world.submit("a")
    world.now_s = 50.0
    world.submit("b")
    view = world.engine.job("b")
    assert view is not None
    assert view.first_seen_s == 100.0


def test_a_container_that_turns_out_to_be_another_jobs_leaves_the_first_one_waiting() -> None:
    world = World().up(server("s1"))
    world.submit("first")
    world.submit("second")
    world.seen("k", "first", "s1", worker(1))
    world.seen("k", "second", "s1", worker(1))
    cluster = world.engine.cluster()
    assert (cluster.jobs_pending, cluster.jobs_running, cluster.used.gpus) == (1, 1, 1)
