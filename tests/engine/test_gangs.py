"""Gangs are placed whole, in order of submission, and later jobs may pass a blocked one."""

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine.commands import Bind, JobTouched, Unbind
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.job import JobState


def two_servers() -> World:
    return World().up(server("s1"), server("s2"))


def test_a_gang_that_fits_is_placed_whole() -> None:
    world = two_servers()
    world.submit("j", "gang:4x2")
    world.ask("j", ask(4, worker(2)))
    (placed,) = world.run()
    assert [(one.server_id, one.gpu_indices) for one in placed.assignments] == [
        ("s1", (0, 1)),
        ("s1", (2, 3)),
        ("s2", (0, 1)),
        ("s2", (2, 3)),
    ]
    assert placed.level is Level.FEWEST_SERVERS
    view = world.engine.job("j")
    assert view is not None
    assert (view.state, view.used.gpus, view.level, view.gpus_pending) == (JobState.RUNNING, 8, 0, 0)


def test_a_gang_that_fits_only_in_part_holds_nothing_and_starts_when_the_rest_is_free() -> None:
    world = two_servers()
    world.submit("first", "gang:3x2")
    world.ask("first", ask(3, worker(2)))
    world.run()
    world.submit("second", "gang:2x4")
    world.ask("second", ask(2, worker(4)))
    assert world.run() == []
    assert world.engine.cluster().used.gpus == 6
    world.end("first")
    assert [placed.job_id for placed in world.run()] == ["second"]


def test_a_gang_waits_until_all_of_it_is_asked() -> None:
    world = two_servers()
    world.submit("j", "gang:4")
    world.ask("j", ask(3, worker(1)))
    assert world.run() == []
    assert world.why("j").startswith("gang_incomplete: the gang gang:4 has 4 containers")
    world.ask("j", ask(3, worker(1)), ask(1, worker(0), 2))
    (placed,) = world.run()
    assert len(placed.assignments) == 4


def test_later_small_jobs_pass_a_blocked_gang() -> None:
    world = two_servers()
    world.submit("holder", "gang:1x4")
    world.ask("holder", ask(1, worker(4)))
    world.run()
    world.submit("large", "gang:2x4")
    world.ask("large", ask(2, worker(4)))
    world.submit("small", "gang:2x1")
    world.ask("small", ask(2, worker(1)))
    assert [placed.job_id for placed in world.run()] == ["small"]
    assert world.engine.job("large").state is JobState.PENDING  # type: ignore[union-attr] # it was submitted above


def test_the_first_submitted_of_two_that_fit_alone_goes_first() -> None:
    world = two_servers()
    for job_id, at_s in (("late", 9.0), ("early", 3.0)):
        world.submit(job_id, "gang:2x4", submit_time_s=at_s)
        world.ask(job_id, ask(2, worker(4)))
    assert [placed.job_id for placed in world.run()] == ["early"]
    world.end("early")
    assert [placed.job_id for placed in world.run()] == ["late"]


def test_two_gangs_that_could_each_take_half_never_deadlock() -> None:
    for number in range(100):
        world = World(audited=number % 10 == 0).up(server("s1"), server("s2", rack="/r2"))
        asks = {"a": ask(4, worker(2)), "b": ask(2, worker(4))}
        order = ["a", "b"] if number % 2 else ["b", "a"]
        for job_id in order:
            world.submit(job_id, "gang:4" if job_id == "a" else "gang:2")
        for job_id in reversed(order):
            world.ask(job_id, asks[job_id])
        done = []
        for _ in range(2):
            (placed,) = world.run()
            assert len(world.live(placed.job_id)) == len(placed.assignments)
            done.append(placed.job_id)
            world.end(placed.job_id)
        assert done == order


def test_containers_beyond_the_gang_are_growth_placed_one_by_one() -> None:
    world = two_servers()
    world.submit("j", "gang:3")
    world.ask("j", ask(5, worker(1)))
    sizes = [len(placed.assignments) for placed in world.run()]
    assert sizes == [3, 1, 1]


def test_an_untagged_job_gets_single_containers_each_its_own_decision() -> None:
    world = two_servers()
    world.submit("j")
    world.ask("j", ask(2, worker(1)), ask(1, worker(0), 2))
    placed = world.decide()
    assert [len(one.assignments) for one in placed] == [1, 1, 1]
    assert len({one.decision_id for one in placed}) == 3


def test_a_new_attempt_starts_the_gang_anew() -> None:
    world = two_servers()
    job = world.submit("j", "gang:2x2")
    world.ask("j", ask(2, worker(2)))
    world.run()
    world.submit("j", "gang:2x2", attempt=2, submit_time_s=job.submit_time_s)
    assert world.engine.job("j").state is JobState.PENDING  # type: ignore[union-attr] # it was submitted above
    world.ask("j", ask(1, worker(2)), attempt=2)
    assert world.run() == []
    world.ask("j", ask(2, worker(2)), attempt=1)
    assert world.run() == []
    world.ask("j", ask(2, worker(2)), attempt=2)
    (placed,) = world.run()
    assert (placed.attempt, len(placed.assignments)) == (2, 2)


def test_what_a_gang_loses_later_is_replaced_by_a_single_container() -> None:
    world = two_servers()
    world.submit("j", "gang:3x2")
    world.ask("j", ask(3, worker(2)))
    world.run()
    world.release(world.live("j")[0].container_id)
    world.ask("j", ask(1, worker(2)))
    (placed,) = world.run()
    assert len(placed.assignments) == 1
    assert len(world.live("j")) == 3


def test_members_of_several_keys_and_sizes_are_one_gang() -> None:
    world = two_servers()
    world.submit("j", "gang:4")
    world.ask("j", ask(1, worker(0), 1), ask(2, worker(2), 2), ask(1, worker(4), 3))
    (placed,) = world.run()
    assert sorted(len(one.gpu_indices) for one in placed.assignments) == [0, 2, 2, 4]
    assert {one.key.priority for one in placed.assignments if len(one.gpu_indices) == 4} == {3}


def test_two_sizes_at_one_request_key_are_both_served() -> None:
    world = two_servers()
    world.submit("j")
    world.ask("j", ask(2, worker(2), 3), ask(1, worker(0), 3))
    world.run()
    assert sorted(one.resource.gpus for one in world.live("j")) == [0, 2, 2]


def test_gpus_are_made_known_when_a_container_lives_and_when_it_is_gone() -> None:
    world = World().up(server("s1"))
    world.submit("j", "gang:1x2")
    world.ask("j", ask(1, worker(2)))
    world.run()
    assert [one for one in world.commands if isinstance(one, Bind)] == [
        Bind(container_id="k0", job_id="j", server_id="s1", gpu_indices=(0, 1))
    ]
    gone = world.release("k0")
    assert gone == [Unbind(container_id="k0", server_id="s1"), JobTouched(job_id="j")]
    assert world.release("k0") == []


def test_an_ended_jobs_containers_stay_in_use_until_they_are_released() -> None:
    world = two_servers()
    world.submit("a", "gang:2x4")
    world.ask("a", ask(2, worker(4)))
    world.run()
    world.end("a", release=False)
    world.submit("b", "gang:2x4")
    world.ask("b", ask(2, worker(4)))
    assert world.run() == []
    world.release_all("a")
    assert [placed.job_id for placed in world.run()] == ["b"]


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_no_gpu_is_given_twice(gpus: int) -> None:
    world = two_servers()
    for number in range(8 // gpus):
        world.submit(f"j{number}", f"gang:1x{gpus}")
        world.ask(f"j{number}", ask(1, worker(gpus)))
    held = [(one.server_id, index) for placed in world.run() for one in placed.assignments for index in one.gpu_indices]
    assert len(held) == len(set(held)) == 8


def test_the_masters_ask_goes_before_the_gang() -> None:
    world = two_servers()
    world.submit("j", "gang:2x1")
    world.ask("j", ask(1, AM, 0, am=True), ask(2, worker(1)))
    first, second = world.run()
    assert (len(first.assignments), len(second.assignments)) == (1, 2)
    view = world.engine.job("j")
    assert view is not None
    assert [one.application_master for one in view.containers] == [True, False, False]
