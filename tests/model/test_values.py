"""Amounts, asks, servers and decisions: what their few methods give, and what they are when nothing else is said."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from yarn_gpu_sched.model.ask import Ask, RequestKey
from yarn_gpu_sched.model.assignment import Assignment, Level
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.model.server import UNKNOWN_RACK, Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

amounts = st.builds(Resource, *(st.integers(-(10**6), 10**6) for _ in range(3)))


def test_amounts_are_computed_type_by_type() -> None:
    assert Resource(10, 3, 1).plus(Resource(5, 4, 2)) == Resource(15, 7, 3)
    assert Resource(10, 3, 1).minus(Resource(5, 4, 2)) == Resource(5, -1, -1)
    assert Resource(10, 3, 2).times(3) == Resource(30, 9, 6)
    assert Resource(0, 0, 0) == NOTHING


@given(amounts, amounts, st.integers(0, 20))
def test_amounts_obey_arithmetic(one: Resource, other: Resource, count: int) -> None:
    assert one.plus(other) == other.plus(one)
    assert one.plus(other).minus(other) == one
    added = NOTHING
    for _ in range(count):
        added = added.plus(one)
    assert one.times(count) == added


def test_request_keys_are_ordered_by_priority_then_by_id() -> None:
    keys = [RequestKey(2, 0), RequestKey(1, 7), RequestKey(1, 3), RequestKey()]
    assert sorted(keys) == [RequestKey(0, 0), RequestKey(1, 3), RequestKey(1, 7), RequestKey(2, 0)]


def test_an_ask_for_another_number_is_else_the_same() -> None:
    ask = Ask(RequestKey(1, 2), 3, Resource(4, 5, 6), application_master=True, partition="p")
    assert ask.with_count(9) == Ask(RequestKey(1, 2), 9, Resource(4, 5, 6), application_master=True, partition="p")
    assert ask.count == 3


@pytest.mark.parametrize(
    ("rack", "domain"), [("/r1", "/r1"), (UNKNOWN_RACK, "s1:1"), ("/default-rack2", "/default-rack2")]
)
def test_a_domain_is_a_rack_unless_yarn_knows_none(rack: str, domain: str) -> None:
    assert Server("s1:1", "s1", rack, NOTHING).domain == domain


def test_levels_go_from_tight_to_loose() -> None:
    assert sorted(Level) == [Level.FEWEST_SERVERS, Level.ONE_DOMAIN, Level.ANYWHERE]
    assert [int(level) for level in sorted(Level)] == [0, 1, 2], "these numbers are on the wire and in records"


def test_a_decision_without_assignments_is_a_refusal() -> None:
    assert Decision(1, "j", 1).refusal is True
    assert Decision(1, "j", 1, (Assignment(RequestKey(), "s1", NOTHING),)).refusal is False


def test_what_is_not_said_is_the_harmless_case() -> None:
    """Records and messages leave defaults out, so that changing one changes what old records mean."""
    job = Job("j", "root.a")
    assert (job.tags, job.submit_time_s, job.attempt, job.active) == ((), 0.0, 1, True)
    assert (job.recovered, job.unmanaged) == (False, False)
    container = Container("k", "j", 1, "s1", NOTHING)
    assert (container.gpu_indices, container.key) == ((), RequestKey(0, 0))
    assert (container.application_master, container.ending) == (False, False)
    ask = Ask(RequestKey(), 1, NOTHING)
    assert (ask.application_master, ask.partition) == (False, "")
    server = Server("s1", "s1", "/r1", NOTHING)
    assert (server.partition, server.state) == ("", ServerState.RUNNING)
    queue = VirtualCluster("root.a")
    assert (queue.quota_gpus, queue.maximum_gpus, queue.running) == (None, None, True)
    decision = Decision(1, "j", 1)
    assert (decision.level, decision.gang, decision.application_master) == (Level.FEWEST_SERVERS, False, False)
    assert (decision.parts, decision.lost, decision.members, decision.held) == ([], set(), (), NOTHING)


@pytest.mark.parametrize(
    "value",
    [Ask(RequestKey(), 1, NOTHING), Job("j", "root.a"), Resource(), RequestKey(), VirtualCluster("root.a")],
    ids=lambda value: type(value).__name__,
)
def test_values_do_not_change(value: object) -> None:
    """Events, records and several places of the state share them."""
    with pytest.raises(AttributeError, match="immutable"):
        setattr(value, next(iter(value.__struct_fields__)), None)  # type: ignore[attr-defined] # all are msgspec.Struct
