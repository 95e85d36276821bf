"""What a resource manager says of jobs: new, changed, of a later attempt, moved, recovered, ended; in any order, and twice."""

from __future__ import annotations

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.commands import JobTouched
from yarn_gpu_sched.engine.events import JobChanged, JobEnded
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.job import Job, JobEnd, JobState
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.model.resource import Resource


def world_of(*servers: str) -> World:
    return World().up(*(server(name) for name in servers or ("s1", "s2")))


def tell(world: World, job_id: str = "j", *tags: str, **fields: object) -> list[object]:
    """Say something of a job that is known; what is not said is as `World.submit` has it for the first."""
    values: dict[str, object] = {"vc": "root.a", "submit_time_s": 1.0, **fields}
    job = Job(job_id=job_id, tags=tags, **values)  # type: ignore[arg-type] # the fields of Job, by name
    return list(world.apply(JobChanged(now_s=world.now_s, job=job)))


def view(world: World, job_id: str = "j") -> JobView:
    found = world.engine.job(job_id)
    assert found is not None
    return found


def code(world: World, job_id: str = "j") -> ReasonCode | None:
    reason = world.engine.waiting(job_id)
    return None if reason is None else reason.code


def listed(world: World) -> list[str]:
    return [one.job.job_id for one in world.engine.jobs()[0]]


def test_the_same_news_again_is_no_news() -> None:
    world = world_of()
    world.submit("j", "gang:2")
    assert tell(world, "j", "gang:2") == []


def test_news_of_an_older_attempt_or_of_an_ended_job_is_none() -> None:
    world = world_of()
    world.submit("j", attempt=3)
    assert tell(world, attempt=2, vc="root.b") == []
    assert (view(world).job.attempt, view(world).job.vc) == (3, "root.a")
    world.end("j")
    assert tell(world, attempt=4) == []
    assert view(world).state is JobState.ENDED


def test_a_job_that_containers_spoke_of_first_takes_its_place_in_the_order_of_submission() -> None:
    world = world_of()
    world.seen("k", "c", "s1", worker(4), gpu_indices=(0, 1, 2, 3))
    assert listed(world) == []
    for name in ("b", "a"):
        world.submit(name)
        world.ask(name, ask(1, worker(4)))
    world.submit("c")
    world.ask("c", ask(1, worker(4)))
    assert listed(world) == ["b", "a", "c"]
    assert [one.job_id for one in world.run()] == ["b"]
    world.release("k")
    assert [one.job_id for one in world.run()] == ["a"]


def test_a_later_attempt_begins_with_nothing_asked_and_nothing_refused() -> None:
    world = world_of()
    world.submit("j", "gang:2")
    world.ask("j", ask(2, worker(1)))
    world.refuse(world.decide()[0])
    assert code(world) is ReasonCode.REFUSED_BY_RM
    tell(world, "j", "gang:2", attempt=2)
    assert (code(world), view(world).gpus_pending) == (ReasonCode.NOT_ASKED, 0)
    assert world.ask("j", ask(2, worker(1)), attempt=1) == [], "asks of the attempt before"
    world.ask("j", ask(2, worker(1)), attempt=2)
    assert [len(one.assignments) for one in world.decide()] == [2]


def test_a_later_attempt_counts_served_members_anew() -> None:
    world = World().up(server("s1"), server("cpu", 0))
    world.submit("j", "gang:2")
    world.seen("k1", "j", "cpu", worker(0))
    tell(world, "j", "gang:2", attempt=2)
    world.ask("j", ask(1, worker(1)), attempt=2)
    assert code(world) is ReasonCode.GANG_INCOMPLETE, "the one served was of the attempt before"
    world.seen("k2", "j", "cpu", worker(0), attempt=2)
    assert [len(one.assignments) for one in world.decide()] == [1]


def test_a_later_attempt_forgets_the_level_of_the_one_before() -> None:
    world = world_of()
    world.submit("j", "gang:2x1")
    world.ask("j", ask(2, worker(1)))
    world.run()
    assert world.engine._core.state.jobs["j"].level == 0
    tell(world, "j", "gang:2x1", attempt=2)
    assert world.engine._core.state.jobs["j"].level is None


def test_tags_that_change_are_read_anew() -> None:
    world = World().up(server("s1"), server("cpu", 0))
    world.submit("j", "gang:9")
    world.seen("k", "j", "cpu", worker(0))
    world.ask("j", ask(1, worker(1)))
    assert code(world) is ReasonCode.GANG_INCOMPLETE
    tell(world, "j", "gang:2")
    assert code(world) is ReasonCode.DECIDED
    world.submit("other", "gang:3")
    world.ask("other", ask(1, worker(1)))
    assert code(world, "other") is ReasonCode.GANG_INCOMPLETE
    tell(world, "other", submit_time_s=2.0)
    assert code(world, "other") is ReasonCode.DECIDED


def test_a_tag_that_became_unreadable_refuses_the_job_and_is_none() -> None:
    world = world_of()
    world.submit("j", "gang:2")
    tell(world, "j", "gang:zero")
    assert view(world).gang_containers == 0
    world.decide()
    assert [one.job_id for one in world.refusals] == ["j"]


@pytest.mark.parametrize(
    ("tags", "containers", "state"),
    [
        (("gang:2",), [worker(0)], JobState.PENDING),
        (("gang:2",), [worker(0), worker(0)], JobState.RUNNING),
        (("gang:2",), [worker(1)], JobState.RUNNING),
        (("gang:1x1+2",), [worker(0), worker(0)], JobState.PENDING),
        (("gang:1x1+2",), [worker(0), worker(0), worker(0)], JobState.PENDING),
        (("gang:1x1+2",), [worker(1)], JobState.RUNNING),
        ((), [worker(0)], JobState.RUNNING),
    ],
)
def test_containers_that_were_there_before_show_whether_the_gang_was_placed(
    tags: tuple[str, ...], containers: list[Resource], state: JobState
) -> None:
    world = World().up(server("s1"), server("cpu", 0))
    for number, resource in enumerate(containers):
        where = "s1" if resource == worker(1) else "cpu"
        world.seen(f"k{number}", "j", where, resource)
    world.submit("j", *tags)
    world.ask("j", ask(1, worker(1)))
    assert view(world).state is state


def test_containers_that_came_before_their_attempt_are_counted_with_it() -> None:
    world = world_of()
    world.submit("j", "gang:2x1")
    world.seen("k", "j", "s1", worker(1), attempt=2)
    assert view(world).state is JobState.PENDING
    tell(world, "j", "gang:2x1", attempt=2)
    assert view(world).state is JobState.RUNNING


def test_any_worker_of_a_recovered_job_shows_that_its_gang_was_placed_a_master_does_not() -> None:
    world = World().up(server("s1"), server("cpu", 0))
    world.submit("j", "gang:2", recovered=True)
    world.seen("am", "j", "cpu", AM, application_master=True)
    assert view(world).state is JobState.PENDING
    world.seen("k", "j", "cpu", worker(0))
    assert view(world).state is JobState.RUNNING


def test_a_job_that_turns_out_to_be_recovered_is_not_refused_any_more() -> None:
    world = world_of()
    world.submit("j", "gang:zero")
    tell(world, "j", "gang:zero", recovered=True)
    assert world.decide() == []
    assert world.refusals == []
    assert code(world) is ReasonCode.NOT_ASKED


def test_other_news_of_a_refused_job_leave_it_refused() -> None:
    world = world_of()
    world.submit("j", "gang:zero")
    tell(world, "j", "gang:zero", user="somebody")
    world.decide()
    assert [one.job_id for one in world.refusals] == ["j"]
    assert code(world) is ReasonCode.REFUSED


def test_the_first_container_of_a_job_without_a_gang_says_its_level() -> None:
    world = world_of()
    world.submit("j")
    world.ask("j", ask(2, worker(1)))
    world.run()
    assert world.engine._core.state.jobs["j"].level == 0


def test_a_refused_job_that_ends_by_itself_is_not_refused_any_more() -> None:
    world = world_of()
    world.submit("j", "gang:zero")
    world.end("j", JobEnd.FAILED)
    world.decide()
    assert world.refusals == []


def test_a_job_that_moves_while_it_waits_is_counted_where_it_is() -> None:
    world = world_of()
    world.submit("j")
    tell(world, vc="root.b")
    uses, _ = world.engine.virtual_clusters()
    assert [(use.virtual_cluster.path, use.jobs_pending) for use in uses] == [("root.b", 1)]


@pytest.mark.parametrize(
    ("asks", "refused"),
    [
        ((ask(1, worker(2), 1), ask(1, worker(2), 2)), ""),
        ((ask(1, worker(2), 1), ask(1, worker(2), 2, partition="p")), 'name partitions "" and "p"'),
        ((ask(1, worker(2), 1), ask(1, AM, 0, am=True, partition="p")), ""),
        ((ask(1, worker(1)),), "says 2 GPUs a container, an ask has 1"),
        ((ask(1, worker(0)),), "says 2 GPUs a container, an ask has 0"),
        ((ask(1, worker(2), 1), ask(1, worker(3), 2), ask(1, worker(4), 3)), "an ask has 3"),
    ],
)
def test_asks_that_contradict_the_tag_are_refused(asks: tuple[Ask, ...], refused: str) -> None:
    world = World().up(server("s1"), server("s2", partition="p"))
    world.submit("j", "gang:2x2")
    world.ask("j", *asks)
    world.decide()
    assert [refused in one.diagnostics for one in world.refusals] == ([True] if refused else [])


def test_a_tag_with_plain_members_allows_containers_without_gpus() -> None:
    world = world_of()
    world.submit("j", "gang:1x2+1")
    world.ask("j", ask(1, worker(2), 1), ask(1, worker(0), 2))
    assert [len(one.assignments) for one in world.decide()] == [2]
    world.submit("k", "gang:1x2+1")
    world.ask("k", ask(1, worker(1), 1))
    world.decide()
    assert [one.diagnostics for one in world.refusals] == [
        'tag "gang:1x2+1" says 2 GPUs or none a container, an ask has 1'
    ]


@pytest.mark.parametrize("kept", [0, 5])
def test_asks_of_nobody_of_the_dead_and_of_the_past_are_not_heard(kept: int) -> None:
    world = World(EngineSettings(ended_jobs_max=kept)).up(server("s1"))
    assert world.ask("nobody", ask(1, worker(1))) == []
    world.seen("k", "ghost", "s1", worker(1))
    assert world.ask("ghost", ask(1, worker(1))) == []
    world.submit("dead")
    world.end("dead", release=False)
    assert world.ask("dead", ask(1, worker(1))) == []
    assert world.decide() == []


def test_an_end_counts_once_and_only_of_a_known_job() -> None:
    world = world_of()
    world.seen("k", "ghost", "s1", worker(1))
    for name in ("ghost", "nobody"):
        assert world.apply(JobEnded(now_s=1.0, job_id=name, end=JobEnd.KILLED)) == []
    world.submit("j")
    world.apply(JobEnded(now_s=2.0, job_id="j", end=JobEnd.FAILED, diagnostics="first"))
    assert world.apply(JobEnded(now_s=3.0, job_id="j", end=JobEnd.KILLED, diagnostics="second")) == []
    ended = view(world)
    assert (ended.end, ended.diagnostics, ended.ended_s) == (JobEnd.FAILED, "first", 2.0)


def test_an_ended_job_waits_for_nothing() -> None:
    world = world_of()
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    world.refuse(world.decide()[0])
    world.end("j")
    assert code(world) is None
    assert world.engine._core.state.jobs["j"].backoff is None
    world.now_s = 60.0
    assert world.decide() == []


def test_an_ended_job_that_is_not_kept_leaves_nothing_behind() -> None:
    world = World(EngineSettings(ended_jobs_max=0)).up(server("s1"), settle_left_s=60.0)
    before = world.engine._core
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    world.submit("bad", "gang:zero")
    commands = world.apply(JobEnded(now_s=0.0, job_id="j", end=JobEnd.SUCCEEDED))
    assert JobTouched(job_id="j") not in commands, "there is nothing left to look at"
    world.end("bad", release=False)
    assert (before.to_check, before.to_refuse, before.ended, before.order) == ({}, {}, {}, [])
    assert (world.engine.jobs(), world.engine.virtual_clusters()) == (([], 0), ([], 0))
    assert before.queue.listed() == []


def test_an_ended_job_that_is_not_kept_goes_with_the_server_that_it_held_something_on() -> None:
    world = World(EngineSettings(ended_jobs_max=0)).up(server("s1"))
    world.submit("j")
    world.seen("k", "j", "s1", worker(1))
    world.end("j", release=False)
    assert listed(world) == ["j"]
    world.remove("s1")
    assert listed(world) == []


def test_a_job_that_asks_anew_after_capacity_settled_is_checked_anew() -> None:
    world = world_of()
    world.submit("j")
    world.ask("j", ask(1, worker(1)))
    world.run()
    world.submit("k")
    world.decide()
    world.ask("k", ask(1, worker(5)))
    world.decide()
    assert [one.job_id for one in world.refusals] == ["k"]
