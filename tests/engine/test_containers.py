"""What a resource manager says of containers: of ones that nobody knew, of known ones anew, and that they are gone."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine.commands import Bind, JobTouched, Unbind
from yarn_gpu_sched.engine.events import ContainerSeen, ResourceManagerRegistered, SnapshotEnded
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.resource import Resource


def world_of(*tags: str, **fields: object) -> World:
    """Bring up two servers with GPUs and one without, and a job."""
    world = World().up(server("s1"), server("s2"), server("cpu", 0))
    world.submit("j", *tags, **fields)
    return world


def said(world: World, since: int) -> list[tuple[str, ...]]:
    """List what was made known of containers since then."""
    found: list[tuple[str, ...]] = []
    for command in world.commands[since:]:
        if isinstance(command, Bind):
            found.append(("bind", command.container_id, command.server_id, *map(str, command.gpu_indices)))
        if isinstance(command, Unbind):
            found.append(("unbind", command.container_id, command.server_id))
    return found


def test_a_container_on_a_server_that_nobody_knows_is_not_counted() -> None:
    world = world_of()
    world.seen("k", "j", "elsewhere", worker(1), gpu_indices=(0,))
    assert world.live("j") == []
    assert world.engine.cluster().used == Resource()


def test_a_container_that_nobody_knew_is_in_use_and_made_known() -> None:
    world = world_of()
    before = len(world.commands)
    world.seen("k", "j", "s1", worker(2), gpu_indices=(1, 3))
    assert said(world, before) == [("bind", "k", "s1", "1", "3")]
    assert JobTouched(job_id="j") in world.commands[before:]
    assert world.engine.cluster().used == worker(2)


def test_the_same_news_again_is_no_news() -> None:
    world = world_of()
    world.seen("k", "j", "s1", worker(1), gpu_indices=(0,))
    before = len(world.commands)
    world.seen("k", "j", "s1", worker(1), gpu_indices=(0,))
    assert world.commands[before:] == []


def test_a_container_that_is_ending_is_still_in_use_and_its_job_is_told() -> None:
    world = world_of()
    world.seen("k", "j", "s1", worker(1), gpu_indices=(0,))
    before = len(world.commands)
    world.seen("k", "j", "s1", worker(1), gpu_indices=(0,), ending=True)
    assert [one.ending for one in world.live("j")] == [True]
    assert world.commands[before:] == [JobTouched(job_id="j")]
    assert world.engine.cluster().used == worker(1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"server_id": "s2"}, [("unbind", "k", "s1"), ("bind", "k", "s2", "0", "1")]),
        ({"gpu_indices": (2, 3)}, [("bind", "k", "s1", "2", "3")]),
        ({"resource": worker(2, 2_048)}, [("bind", "k", "s1", "0", "1")]),
        ({"job_id": "other"}, [("bind", "k", "s1", "0", "1")]),
        ({"application_master": True}, [("bind", "k", "s1", "0", "1")]),
        ({"server_id": "cpu"}, [("unbind", "k", "s1")]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_a_container_has_may_change_and_is_counted_once(
    fields: dict[str, object], expected: list[tuple[str, ...]]
) -> None:
    world = world_of()
    world.submit("other")
    first: dict[str, object] = {"job_id": "j", "server_id": "s1", "resource": worker(2), "gpu_indices": (0, 1)}
    world.seen("k", **first)  # type: ignore[arg-type] # arguments by name
    before = len(world.commands)
    changed = first | fields
    world.seen("k", **changed)  # type: ignore[arg-type] # arguments by name
    assert said(world, before) == expected
    (now,) = world.engine._core.state.containers.values()
    assert {name: getattr(now, name) for name in changed} == changed
    assert world.engine.cluster().used == changed["resource"]
    assert len(world.engine._core.state.servers[str(changed["server_id"])].containers) == 1


def test_a_container_that_moves_from_a_server_without_gpus_is_made_known_only() -> None:
    world = world_of()
    world.seen("k", "j", "cpu", worker(0))
    before = len(world.commands)
    world.seen("k", "j", "s1", worker(0))
    assert said(world, before) == [("bind", "k", "s1")]


def test_a_container_whose_gpus_are_not_named_keeps_those_it_has_only_where_it_has_them() -> None:
    world = world_of()
    world.seen("a", "j", "s1", worker(1), gpu_indices=(0,))
    world.seen("k", "j", "s1", worker(2), gpu_indices=(2, 3))
    world.seen("k", "j", "s1", worker(2), ending=True)
    assert [one.gpu_indices for one in world.live("j")] == [(0,), (2, 3)]
    world.seen("k", "j", "s1", worker(1))
    assert [one.gpu_indices for one in world.live("j")] == [(0,), (1,)], "another number: the lowest free ones"
    world.seen("k", "j", "s2", worker(1))
    assert [one.gpu_indices for one in world.live("j")] == [(0,), (0,)], "another server: the lowest free ones there"


def test_a_container_counts_for_the_gang_of_the_attempt_it_turns_out_to_be_of() -> None:
    world = world_of("gang:2x1", attempt=2)
    world.seen("k", "j", "s1", worker(1), gpu_indices=(0,), attempt=1)
    assert state_of(world) is JobState.PENDING
    world.seen("k", "j", "s1", worker(1), gpu_indices=(0,), attempt=2)
    assert state_of(world) is JobState.RUNNING


def test_members_are_counted_anew_when_what_was_said_of_one_changes() -> None:
    world = world_of("gang:2")
    world.seen("k1", "j", "cpu", worker(0))
    world.seen("k2", "j", "cpu", worker(0), attempt=0)
    assert state_of(world) is JobState.PENDING, "one of two members was served"
    world.seen("k1", "j", "cpu", worker(0, 2_048))
    assert state_of(world) is JobState.PENDING, "still one of two"
    world.seen("k2", "j", "cpu", worker(0))
    assert state_of(world) is JobState.RUNNING


def test_a_member_that_turns_out_to_be_another_jobs_counts_for_that_gang_and_no_more_for_the_first() -> None:
    world = world_of("gang:2")
    world.submit("other", "gang:2")
    world.seen("k1", "other", "cpu", worker(0))
    world.seen("k2", "j", "cpu", worker(0))
    world.seen("k2", "other", "cpu", worker(0))
    assert (state_of(world), state_of(world, "other")) == (JobState.PENDING, JobState.RUNNING)
    world.ask("j", ask(1, worker(1)))
    assert world.decide() == [], "both of its members are still to come"
    world.ask("j", ask(2, worker(1)))
    assert [len(one.assignments) for one in world.decide()] == [2]


def state_of(world: World, job_id: str = "j") -> JobState:
    view = world.engine.job(job_id)
    assert view is not None
    return view.state


def test_a_release_is_told_where_there_are_gpus_and_counts_once() -> None:
    world = world_of()
    world.seen("k1", "j", "s1", worker(1), gpu_indices=(0,))
    world.seen("k2", "j", "cpu", worker(0))
    before = len(world.commands)
    for name in ("k1", "k2", "k1", "unheard-of"):
        world.release(name)
    assert said(world, before) == [("unbind", "k1", "s1")]
    assert world.engine.cluster().used == Resource()


def test_a_release_lets_who_waits_go_on() -> None:
    world = world_of()
    world.seen("k1", "j", "s1", worker(4), gpu_indices=(0, 1, 2, 3))
    world.seen("k2", "j", "s2", worker(4), gpu_indices=(0, 1, 2, 3))
    world.submit("w")
    world.ask("w", ask(1, worker(1)))
    assert world.decide() == []
    world.release("k2")
    assert [one.job_id for one in world.decide()] == ["w"]


def test_a_job_that_only_its_containers_spoke_of_goes_with_the_last_of_them() -> None:
    world = world_of()
    world.seen("k1", "ghost", "s1", worker(1), gpu_indices=(0,))
    world.seen("k2", "ghost", "s1", worker(1), gpu_indices=(1,))
    world.release("k1")
    assert world.engine.job("ghost") is not None
    world.release("k2")
    assert world.engine.job("ghost") is None
    assert [view.job.job_id for view in world.engine.jobs()[0]] == ["j"]


def test_after_a_snapshot_what_it_did_not_speak_of_is_taken_back_in_the_order_of_ids() -> None:
    world = world_of()
    for name, where in (("k3", "s1"), ("k1", "s2"), ("k2", "s1"), ("k4", "cpu")):
        world.seen(name, "j", where, worker(0))
    world.seen("am", "j", "s1", AM, application_master=True)
    world.apply(ResourceManagerRegistered(now_s=0.0, cluster_id="c", epoch=1))
    world.change(server("s1"))
    world.submit("j", submit_time_s=1.0)
    world.seen("k2", "j", "s1", worker(0))
    before = len(world.commands)
    world.apply(SnapshotEnded(now_s=0.0))
    assert said(world, before) == [("unbind", "am", "s1"), ("unbind", "k1", "s2"), ("unbind", "k3", "s1")]
    before = len(world.commands)
    world.apply(SnapshotEnded(now_s=0.0))
    assert said(world, before) == []


def test_what_a_lost_server_still_runs_when_it_is_back_is_in_use_and_no_member_any_more() -> None:
    world = World().up(server("s1"), server("s2"))
    world.submit("j", "gang:2x4", submit_time_s=1.0)
    world.ask("j", ask(2, worker(4)))
    world.run()
    world.ask("j")
    orphan = world.live("j")[0]
    world.remove(orphan.server_id)
    assert world.why("j").startswith("gang_degraded: 1 of 2 containers of the gang were lost")
    world.change(server(orphan.server_id))
    world.apply(ContainerSeen(now_s=world.now_s, container=msgspec.structs.replace(orphan, ending=True)))
    world.ask("j", ask(1, worker(4)))
    assert world.run() == [], "its GPUs are in use until its server has confirmed its end"
    assert world.why("j").startswith("gang_degraded: 1 of 2 containers of the gang were lost")
    world.release(orphan.container_id)
    (single,) = world.run()
    assert [one.server_id for one in single.assignments] == [orphan.server_id]
    assert world.why("j") == ""


def test_an_ending_container_shows_no_gang_to_be_placed() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:2x1")
    world.seen("old", "j", "s1", worker(1), ending=True)
    world.ask("j", ask(2, worker(1)))
    (gang,) = world.run()
    assert len(gang.assignments) == 2
