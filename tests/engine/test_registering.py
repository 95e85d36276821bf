"""Who registers decides what is kept: the same resource manager, one that began anew, or that of another cluster."""

from __future__ import annotations

import pytest

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.events import (
    JobEnded,
    OutcomeReported,
    ResourceManagerLost,
    ResourceManagerRegistered,
    SnapshotEnded,
    VirtualClusterChanged,
)
from yarn_gpu_sched.model.job import JobEnd, JobState
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster


def register(world: World, cluster_id: str = "c", epoch: int = 1, start_time_ms: int = 0, left_s: float = 60.0) -> None:
    world.apply(
        ResourceManagerRegistered(
            now_s=world.now_s,
            cluster_id=cluster_id,
            epoch=epoch,
            start_time_ms=start_time_ms,
            settle_left_s=left_s,
        )
    )


def state(world: World, job_id: str) -> JobState:
    view = world.engine.job(job_id)
    assert view is not None
    return view.state


def placed_gang() -> World:
    """Let a gang of two be placed; nothing else is there."""
    world = World().up(server("s1"))
    world.submit("j", "gang:2x1")
    world.ask("j", ask(2, worker(1)))
    world.run()
    return world


@pytest.mark.parametrize(
    ("again", "kept"),
    [
        ({}, True),
        ({"epoch": 2}, False),
        ({"start_time_ms": 5}, False),
        ({"cluster_id": "d"}, False),
    ],
    ids=lambda value: next(iter(value), "same") if isinstance(value, dict) else None,
)
def test_only_the_same_resource_manager_remembers_that_a_gang_was_placed(again: dict[str, object], kept: bool) -> None:  # noqa: FBT001 # a column of the table
    world = placed_gang()
    register(world, **again)  # type: ignore[arg-type] # arguments by name
    world.change(server("s1"))
    world.submit("j", "gang:2x1", submit_time_s=1.0)
    assert (state(world, "j") is JobState.RUNNING) is kept
    record = world.engine._core.state.jobs["j"]
    assert record.level == (0 if kept else None)
    assert record.first_seen_s == 0.0


def test_a_later_attempt_after_registering_has_its_gang_yet_to_be_placed() -> None:
    world = placed_gang()
    register(world)
    world.submit("j", "gang:2x1", submit_time_s=1.0, attempt=2)
    assert state(world, "j") is JobState.PENDING
    assert world.engine._core.state.jobs["j"].level is None


@pytest.mark.parametrize(("cluster_id", "missed"), [("c", {"s1", "s2"}), ("d", set())])
def test_capacity_settles_once_all_servers_of_before_are_back_unless_the_cluster_is_another(
    cluster_id: str, missed: set[str]
) -> None:
    world = World().up(server("s1"), server("s2"))
    world.decide()
    register(world, cluster_id)
    session = world.engine._core.session
    assert set(session.missing) == missed
    world.change(server("s1"))
    world.apply(SnapshotEnded(now_s=0.0))
    world.decide()
    assert session.settled is False
    world.change(server("s2"))
    world.decide()
    assert session.settled is (cluster_id == "c")
    world.now_s = 60.0
    world.decide()
    assert (session.settled, session.missing) == (True, {})


def test_servers_that_never_come_back_are_not_missed_any_more_once_their_time_is_over() -> None:
    world = World().up(server("s1"), server("s2"))
    register(world)
    world.change(server("s1"))
    world.apply(SnapshotEnded(now_s=0.0))
    world.now_s = 60.0
    world.decide()
    session = world.engine._core.session
    assert (session.settled, session.missing) == (True, {})


def test_what_was_seen_of_the_same_cluster_counts_as_before_and_only_once() -> None:
    world = World().up(server("s1"), server("s2"))
    register(world, epoch=2, left_s=0.0)
    world.change(server("s1"))
    world.change(server("s2"))
    world.apply(SnapshotEnded(now_s=0.0))
    world.submit("fits", "gang:2x4")
    world.submit("does not", "gang:3x4")
    world.decide()
    assert [one.job_id for one in world.refusals] == ["does not"]


def test_between_registration_and_snapshot_nothing_is_decided_also_the_second_time() -> None:
    world = placed_gang()
    register(world)
    world.change(server("s1"))
    world.submit("k", submit_time_s=2.0)
    world.ask("k", ask(1, worker(1)))
    assert world.decide() == []
    world.apply(SnapshotEnded(now_s=0.0))
    assert [one.job_id for one in world.decide()] == ["k"]


def test_the_end_of_a_snapshot_from_nobody_or_twice_is_nothing() -> None:
    world = World()
    world.apply(SnapshotEnded(now_s=0.0))
    assert world.engine.cluster().connected is False
    assert world.engine._core.session.snapshot_ended is False
    world.up(server("s1"))
    world.submit("j")
    world.apply(SnapshotEnded(now_s=0.0))
    assert state(world, "j") is JobState.PENDING


def test_after_a_loss_nothing_is_decided_until_a_new_snapshot_is_whole() -> None:
    world = World().up(server("s1"))
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    world.apply(ResourceManagerLost(now_s=0.0))
    assert world.engine._core.session.snapshot_ended is False
    assert world.decide() == []
    world.apply(SnapshotEnded(now_s=0.0))
    assert world.decide() == [], "it is of the stream that was lost"
    reason = world.engine.waiting("j")
    assert reason is not None
    assert reason.code is ReasonCode.NO_RESOURCE_MANAGER


def test_a_loss_gives_back_what_was_under_way_and_the_gang_waits_again() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:2x1")
    world.ask("j", ask(2, worker(1)))
    (placed,) = world.decide()
    world.apply(ResourceManagerLost(now_s=0.0))
    record = world.engine._core.state.jobs["j"]
    assert (record.gang_under_way, record.want is not None) == (False, True)
    assert world.engine.cluster().used == Resource()
    world.commit(placed)
    assert world.engine.cluster().used == Resource(), "its outcome is not heard any more"


def test_a_loss_while_an_older_attempts_gang_is_under_way_leaves_the_new_one_alone() -> None:
    world = World().up(server("s1", 8))
    world.submit("j", "gang:2x1")
    world.ask("j", ask(2, worker(1)))
    world.decide()
    world.ask("j", ask(2, worker(1)), attempt=2)
    (second,) = world.decide()
    assert second.attempt == 2
    world.apply(OutcomeReported(now_s=0.0, decision_id=1, code=OutcomeCode.NO_ATTEMPT))
    record = world.engine._core.state.jobs["j"]
    assert record.gang_under_way is True, "the older one's outcome does not speak of it"
    world.commit(second)
    assert state(world, "j") is JobState.RUNNING


def test_jobs_that_a_snapshot_left_out_end_in_their_order_and_keep_what_was_known() -> None:
    world = World(EngineSettings(ended_jobs_max=2)).up(server("s1"))
    world.now_s = 3.0
    for name, submitted_s in (("c", 1.0), ("a", 2.0), ("b", 3.0)):
        world.submit(name, submit_time_s=submitted_s, vc="root.x")
    register(world)
    world.change(server("s1"))
    world.seen("k", "b", "s1", worker(1), gpu_indices=(0,))
    world.now_s = 7.0
    world.apply(SnapshotEnded(now_s=7.0))
    views, _ = world.engine.jobs()
    assert [(view.job.job_id, view.end, view.ended_s, view.first_seen_s) for view in views] == [
        ("a", JobEnd.KILLED, 7.0, 3.0),
        ("b", JobEnd.KILLED, 7.0, 3.0),
    ], "of three that ended at once the first submitted is dropped"
    assert views[1].used == worker(1)
    assert [use.used for use in world.engine.virtual_clusters()[0]] == [worker(1)]
    assert (world.engine._core.session.previous, world.engine.cluster().jobs_pending) == ({}, 0)


@pytest.mark.parametrize(("attempt", "expected"), [(1, JobState.RUNNING), (2, JobState.PENDING)])
def test_a_job_that_comes_after_the_snapshot_has_its_gang_if_the_attempt_is_the_same(
    attempt: int, expected: JobState
) -> None:
    world = placed_gang()
    register(world)
    world.change(server("s1"))
    world.apply(SnapshotEnded(now_s=0.0))
    assert state(world, "j") is JobState.ENDED
    world.submit("j", "gang:2x1", submit_time_s=1.0, attempt=attempt)
    assert state(world, "j") is expected


def test_a_job_that_was_to_be_refused_and_comes_after_the_snapshot_is_refused_then() -> None:
    world = World().up(server("s1"))
    world.submit("bad", "gang:zero")
    register(world)
    world.apply(SnapshotEnded(now_s=0.0))
    world.decide()
    assert world.refusals == []
    world.submit("bad", "gang:zero", submit_time_s=1.0)
    world.decide()
    assert [one.job_id for one in world.refusals] == ["bad"]


def test_a_job_of_before_whose_end_is_told_during_the_snapshot_ends_so() -> None:
    world = placed_gang()
    register(world)
    world.submit("j", "gang:2x1", submit_time_s=1.0)
    world.apply(JobEnded(now_s=0.0, job_id="j", end=JobEnd.SUCCEEDED))
    world.apply(SnapshotEnded(now_s=0.0))
    view = world.engine.job("j")
    assert view is not None
    assert (view.end, view.diagnostics) == (JobEnd.SUCCEEDED, "")


def test_registering_forgets_pauses_refusals_and_checks_that_were_due() -> None:
    world = World().up(server("s1"), settle_left_s=60.0)
    world.submit("paused")
    world.ask("paused", ask(1, worker(1)))
    world.refuse(world.decide()[0])
    world.submit("bad", "gang:zero")
    register(world)
    core = world.engine._core
    assert (core.resting, core.to_refuse, core.to_check, core.changed_partitions) == ([], {}, {}, {})
    assert core.queue.listed() == []
    world.apply(SnapshotEnded(now_s=0.0))
    assert world.decide() == []
    assert world.refusals == []


def test_registering_forgets_containers_that_nobody_told_the_job_of() -> None:
    world = World().up(server("s1"))
    world.seen("k", "ghost", "s1", worker(1))
    register(world)
    world.apply(SnapshotEnded(now_s=0.0))
    assert world.engine.job("ghost") is None
    assert world.engine.jobs() == ([], 0)


def test_virtual_clusters_are_those_that_the_new_snapshot_names() -> None:
    world = World().up(server("s1"))
    for path in ("root.a", "root.b"):
        world.apply(VirtualClusterChanged(now_s=0.0, virtual_cluster=VirtualCluster(path, 4)))
    register(world)
    assert world.engine.virtual_clusters() == ([], 0)
    world.apply(VirtualClusterChanged(now_s=0.0, virtual_cluster=VirtualCluster("root.b", 3)))
    world.apply(SnapshotEnded(now_s=0.0))
    uses, _ = world.engine.virtual_clusters()
    assert [(use.virtual_cluster.path, use.virtual_cluster.quota_gpus) for use in uses] == [("root.b", 3)]


def test_a_line_that_waited_before_waits_no_more() -> None:
    world = World().up(server("s1"))
    for name in ("slots", "plain"):
        world.submit(name)
    world.ask("slots", ask(1, worker(4, 99_000)))
    world.ask("plain", ask(1, worker(0, 60_000)))
    world.decide()
    register(world)
    queue = world.engine._core.queue
    assert (queue.listed(), list(queue.faults())) == ([], [])
    world.change(server("s1", memory_mb=200_000))
    world.submit("slots", submit_time_s=1.0)
    world.ask("slots", ask(1, worker(4, 99_000)))
    world.apply(SnapshotEnded(now_s=0.0))
    assert [one.job_id for one in world.run()] == ["slots"]
