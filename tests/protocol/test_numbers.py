"""The numbers that both ends of the link hold each other to, and what conversion keeps of a message at their edges."""

from __future__ import annotations

import math
from typing import Any

import pytest

from yarn_gpu_sched.engine.commands import RefuseJob
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.protocol import bounds
from yarn_gpu_sched.protocol.bad_field import BadField, shown
from yarn_gpu_sched.protocol.bounds import checked_count, checked_id, checked_seconds, one_line
from yarn_gpu_sched.protocol.convert import add_decision, change_event, registration
from yarn_gpu_sched.protocol.v1 import decision_pb2, job_pb2, link_pb2


def test_the_bounds_are_those_that_the_protocol_states() -> None:
    """Another number is another protocol: a resource manager's side that keeps to the old one would be refused."""
    stated = {name: getattr(bounds, name) for name in dir(bounds) if name.endswith(("_MAX", "_DEFAULT"))}
    assert stated == {
        "MESSAGE_BYTES_MAX": 1_048_576,
        "CHANGES_MAX": 4_096,
        "DECISIONS_MAX": 1_024,
        "ASSIGNMENTS_MAX": 16_384,
        "ID_CHARACTERS_MAX": 256,
        "PATH_CHARACTERS_MAX": 1_024,
        "QUEUE_LEVELS_MAX": 64,
        "AGENT_CHARACTERS_MAX": 128,
        "TEXT_CHARACTERS_MAX": 4_096,
        "REASON_CHARACTERS_MAX": 500,
        "CALLER_CHARACTERS_MAX": 128,
        "TAGS_MAX": 100,
        "PLACES_MAX": 4_096,
        "PARTITIONS_MAX": 64,
        "QUEUE_SETTINGS_MAX": 64,
        "MEMORY_MB_MAX": 1_099_511_627_776,
        "VCORES_MAX": 1_048_576,
        "GPUS_MAX": 1_024,
        "CONTAINERS_ASKED_MAX": 1_000_000,
        "SETTLE_S_MAX": 3_600,
        "PAGE_SIZE_MAX": 1_000,
        "PAGE_SIZE_DEFAULT": 100,
    }


def test_a_register_says_who_speaks() -> None:
    message = link_pb2.Register(
        protocol_version=1, cluster_id="c", epoch=7, start_time_ms=9, settle_s=30.0, active_s=10.0, agent="shim"
    )
    found = registration(message)
    assert (found.cluster_id, found.epoch, found.start_time_ms, found.settle_left_s, found.agent) == (
        *("c", 7, 9, 20.0),
        "shim",
    )
    event = found.event(3.0)
    assert (event.now_s, event.cluster_id, event.epoch, event.start_time_ms, event.settle_left_s) == (
        3.0,
        "c",
        7,
        9,
        20.0,
    )


@pytest.mark.parametrize(("older", "newer"), [((1, 9), (2, 0)), ((2, 0), (2, 1)), ((2, 5), (10, 0))])
def test_who_is_newer_goes_by_epoch_then_by_start(older: tuple[int, int], newer: tuple[int, int]) -> None:
    fences = [
        registration(link_pb2.Register(protocol_version=1, cluster_id="c", epoch=epoch, start_time_ms=start)).fence
        for epoch, start in (older, newer)
    ]
    assert fences == [older, newer]
    assert fences[0] < fences[1]


def test_a_refusal_names_its_job() -> None:
    message = link_pb2.Decisions()
    add_decision(message, RefuseJob(decision_id=8, job_id="job-2", diagnostics="no"), "session", 9)
    (decision,) = message.decisions
    assert (decision.decision_id, decision.session_id, decision.epoch) == (8, "session", 9)
    assert (decision.refuse_job.job_id, decision.refuse_job.diagnostics) == ("job-2", "no")


@pytest.mark.parametrize("ids", [(), ("k1",), ("k2", "k1")])
def test_an_outcome_keeps_its_containers_in_their_order(ids: tuple[str, ...]) -> None:
    said = decision_pb2.Outcome(decision_id=5, code=decision_pb2.OUTCOME_CODE_COMMITTED, container_ids=ids)
    event: Any = change_event(1.0, link_pb2.Change(outcome=said))
    assert event.container_ids == ids
    assert event.code is OutcomeCode.COMMITTED


def test_a_refused_outcome_has_no_containers() -> None:
    said = decision_pb2.Outcome(decision_id=5, code=decision_pb2.OUTCOME_CODE_NO_FIT, detail="full")
    event: Any = change_event(1.0, link_pb2.Change(outcome=said))
    assert event.container_ids == ()


@pytest.mark.parametrize(
    ("seconds", "nanos", "submit_s"), [(0, 0, 0.0), (5, 500_000_000, 5.5), (-1, 999_999_999, -1e-9)]
)
def test_a_submit_time_is_exact_to_what_a_float_holds(seconds: int, nanos: int, submit_s: float) -> None:
    job = job_pb2.Job(job_id="j", virtual_cluster="root.a")
    job.submit_time.seconds, job.submit_time.nanos = seconds, nanos
    event: Any = change_event(1.0, link_pb2.Change(job=job))
    assert event.job.submit_time_s == submit_s


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(253_402_300_801, 0), (-253_402_300_801, 0), (0, -1), (0, 1_000_000_000)]
)
def test_a_submit_time_that_is_none_is_refused(seconds: int, nanos: int) -> None:
    job = job_pb2.Job(job_id="j", virtual_cluster="root.a")
    job.submit_time.seconds, job.submit_time.nanos = seconds, nanos
    with pytest.raises(BadField, match=r"submit_time\.(seconds|nanos)"):
        change_event(1.0, link_pb2.Change(job=job))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        (7, "7"),
        ("a" * 118, "'" + "a" * 118 + "'"),
        ("a" * 119, "'" + "a" * 119 + "… (119 long)"),
        (10**200, "1" + "0" * 119 + "…"),
        ("ü\x1b", "'\\xfc\\x1b'"),
    ],
)
def test_a_value_is_shown_escaped_and_cut(value: object, text: str) -> None:
    assert shown(value) == text


def test_an_error_names_field_value_and_what_would_be_right_from_the_outermost_message() -> None:
    inner = BadField("vcores", -1, "0 to 9")
    assert str(inner) == "vcores: -1 must be 0 to 9"
    outer = inner.within("resource").within("ask")
    assert (outer.field, str(outer)) == ("ask.resource.vcores", "ask.resource.vcores: -1 must be 0 to 9")
    assert BadField("", "x", "y").within("tags").field == "tags"


@pytest.mark.parametrize(
    ("value", "most", "right"),
    [
        (-0.5, math.inf, "a finite number, 0 or more"),
        (math.inf, math.inf, "a finite number, 0 or more"),
        (math.nan, 60.0, "0 to 60"),
        (60.5, 60.0, "0 to 60"),
    ],
)
def test_seconds_out_of_range_say_what_would_be_right(value: float, most: float, right: str) -> None:
    with pytest.raises(BadField) as caught:
        checked_seconds("settle_s", value, most)
    assert caught.value.right == right


def test_what_is_right_is_given_back_as_it_was() -> None:
    assert checked_seconds("s", 60.0, 60.0) == 60.0
    assert [checked_count("n", value, 1, 3) for value in (1, 2, 3)] == [1, 2, 3]
    assert checked_id("id", "x" * 256) == "x" * 256
    for value in (0, 4):
        with pytest.raises(BadField, match="must be 1 to 3"):
            checked_count("n", value, 1, 3)


@pytest.mark.parametrize(
    ("text", "line"), [("", ""), ("plain", "plain"), ("a\nb\x1b", "a b "), ("x" * 5_000, "x" * 4_096), ("ü", "ü")]
)
def test_a_text_from_outside_is_one_printable_line(text: str, line: str) -> None:
    assert one_line(text) == line
