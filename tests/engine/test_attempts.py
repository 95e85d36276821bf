"""News of a new attempt arrives in parts: a resource manager changes while it is looked at."""

import pytest

from tests.engine.world import AM, World, ask, server, worker


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
