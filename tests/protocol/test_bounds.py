"""Every bound that the protocol states, at its edge and one beyond, with the field named."""

from typing import Any, TypeVar

import pytest
from google.protobuf.message import Message

from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.protocol import bounds
from yarn_gpu_sched.protocol.convert import BadField, batch_events, change_event, registration
from yarn_gpu_sched.protocol.v1 import (
    ask_pb2,
    container_pb2,
    decision_pb2,
    job_pb2,
    link_pb2,
    resource_pb2,
    server_pb2,
    virtual_cluster_pb2,
)

Fields = Any
Some = TypeVar("Some", bound=Message)


def server(**fields: Fields) -> link_pb2.Change:
    good = server_pb2.Server(server_id="s:1", host="s", rack="/r", state=server_pb2.SERVER_STATE_RUNNING)
    return link_pb2.Change(server=_with(good, fields))


def virtual_cluster(**fields: Fields) -> link_pb2.Change:
    return link_pb2.Change(virtual_cluster=_with(virtual_cluster_pb2.VirtualCluster(path="root.a"), fields))


def job(**fields: Fields) -> link_pb2.Change:
    return link_pb2.Change(job=_with(job_pb2.Job(job_id="j", virtual_cluster="root.a"), fields))


def asks(**fields: Fields) -> link_pb2.Change:
    return link_pb2.Change(asks=_with(ask_pb2.JobAsks(job_id="j", attempt=1), fields))


def one_ask(**fields: Fields) -> link_pb2.Change:
    return asks(asks=[_with(ask_pb2.Ask(count=1), fields)])


def container(**fields: Fields) -> link_pb2.Change:
    good = container_pb2.Container(container_id="c", job_id="j", attempt=1, server_id="s:1")
    return link_pb2.Change(container=_with(good, fields))


def released(**fields: Fields) -> link_pb2.Change:
    return link_pb2.Change(container_released=container_pb2.ContainerReleased(**fields))


def job_ended(**fields: Fields) -> link_pb2.Change:
    return link_pb2.Change(job_ended=_with(job_pb2.JobEnded(job_id="j", end=job_pb2.JOB_END_FAILED), fields))


def outcome(**fields: Fields) -> link_pb2.Change:
    good = decision_pb2.Outcome(decision_id=1, code=decision_pb2.OUTCOME_CODE_COMMITTED)
    return link_pb2.Change(outcome=_with(good, fields))


def server_removed(text: str) -> link_pb2.Change:
    return link_pb2.Change(server_removed=text)


def virtual_cluster_removed(text: str) -> link_pb2.Change:
    return link_pb2.Change(virtual_cluster_removed=text)


def _with(message: Some, fields: dict[str, Any]) -> Some:
    message.MergeFrom(type(message)(**fields))
    return message


def resource(**fields: int) -> resource_pb2.Resource:
    return resource_pb2.Resource(**fields)


GPUS_2 = resource(gpus=2)

RIGHT: list[link_pb2.Change] = [
    server(server_id="s" * 256, host="h" * 1_024, rack="/" * 1_024, partition="p" * 1_024),
    server(capacity=resource(memory_mb=1 << 40, vcores=1 << 20, gpus=1_024)),
    server(state=server_pb2.SERVER_STATE_DRAINING),
    server(state=server_pb2.SERVER_STATE_UNHEALTHY),
    virtual_cluster(path="q" * 1_024, quota_gpus=(1 << 32) - 1, maximum_gpus=0),
    virtual_cluster(path=".".join("q" * 64)),
    job(job_id="j" * 256, virtual_cluster="q" * 1_024, user="u" * 1_024, name="n" * 100_000),
    job(tags=["t" * 1_024] * 100, attempt=0),
    asks(attempt=(1 << 32) - 1),
    one_ask(count=1_000_000, partition="p" * 1_024),
    one_ask(places=[ask_pb2.PlaceAsk(place="h" * 1_024, count=1_000_000)] * 4_096, strict=True),
    asks(blacklist=["h" * 1_024] * 4_096),
    one_ask(key=ask_pb2.RequestKey(priority=-(1 << 31), allocation_request_id=-(1 << 63))),
    container(container_id="c" * 256, resource=GPUS_2, gpu_indices=[0, 1_023]),
    container(resource=GPUS_2),
    released(container_id="c" * 256),
    job_ended(diagnostics="d" * 100_000),
    outcome(container_ids=[str(index) for index in range(16_384)]),
    outcome(code=decision_pb2.OUTCOME_CODE_NO_FIT, detail="d" * 100_000),
    server_removed("s" * 256),
    virtual_cluster_removed("q" * 1_024),
]

WRONG: list[tuple[link_pb2.Change, str]] = [
    (server(server_id="s" * 257), "server.server_id"),
    (server(host="h" * 1_025), "server.host"),
    (server(rack="/" * 1_025), "server.rack"),
    (server(partition="p" * 1_025), "server.partition"),
    (server(capacity=resource(memory_mb=(1 << 40) + 1)), "server.capacity.memory_mb"),
    (server(capacity=resource(vcores=(1 << 20) + 1)), "server.capacity.vcores"),
    (server(capacity=resource(gpus=1_025)), "server.capacity.gpus"),
    (server(state=99), "server.state"),
    (link_pb2.Change(server=server_pb2.Server(server_id="s", rack="/r")), "server.state"),
    (link_pb2.Change(server=server_pb2.Server(rack="/r", state=server_pb2.SERVER_STATE_RUNNING)), "server.server_id"),
    (link_pb2.Change(server=server_pb2.Server(server_id="s", state=server_pb2.SERVER_STATE_RUNNING)), "server.rack"),
    (virtual_cluster(path="q" * 1_025), "virtual_cluster.path"),
    (virtual_cluster(path=".".join("q" * 65)), "virtual_cluster.path"),
    (link_pb2.Change(virtual_cluster_removed=".".join("q" * 65)), "virtual_cluster_removed"),
    (link_pb2.Change(virtual_cluster=virtual_cluster_pb2.VirtualCluster()), "virtual_cluster.path"),
    (job(job_id="j" * 257), "job.job_id"),
    (link_pb2.Change(job=job_pb2.Job(virtual_cluster="q")), "job.job_id"),
    (link_pb2.Change(job=job_pb2.Job(job_id="j")), "job.virtual_cluster"),
    (job(virtual_cluster="q" * 1_025), "job.virtual_cluster"),
    (job(virtual_cluster=".".join("q" * 65)), "job.virtual_cluster"),
    (job(user="u" * 1_025), "job.user"),
    (job(tags=["t"] * 101), "job.tags"),
    (job(tags=["t" * 1_025]), "job.tags"),
    (job(submit_time={"nanos": -1}), "job.submit_time.nanos"),
    (job(submit_time={"nanos": 1_000_000_000}), "job.submit_time.nanos"),
    (job(submit_time={"seconds": 1 << 62}), "job.submit_time.seconds"),
    (job(expire_time={"nanos": -1}), "job.expire_time.nanos"),
    (job(expire_time={"seconds": 1 << 62}), "job.expire_time.seconds"),
    (virtual_cluster(untagged_jobs=2), "virtual_cluster.untagged_jobs"),
    (link_pb2.Change(asks=ask_pb2.JobAsks(attempt=1)), "asks.job_id"),
    (link_pb2.Change(asks=ask_pb2.JobAsks(job_id="j")), "asks.attempt"),
    (one_ask(count=1_000_001), "asks.asks[0].count"),
    (one_ask(resource=resource(gpus=1_025)), "asks.asks[0].resource.gpus"),
    (one_ask(partition="p" * 1_025), "asks.asks[0].partition"),
    (one_ask(places=[ask_pb2.PlaceAsk(place="h", count=1)] * 4_097), "asks.asks[0].places"),
    (one_ask(places=[ask_pb2.PlaceAsk(count=1)]), "asks.asks[0].places.place"),
    (one_ask(places=[ask_pb2.PlaceAsk(place="h" * 1_025, count=1)]), "asks.asks[0].places.place"),
    (one_ask(places=[ask_pb2.PlaceAsk(place="h")]), "asks.asks[0].places.count"),
    (one_ask(places=[ask_pb2.PlaceAsk(place="h", count=1_000_001)]), "asks.asks[0].places.count"),
    (one_ask(strict=True), "asks.asks[0].strict"),
    (asks(blacklist=["h"] * 4_097), "asks.blacklist"),
    (asks(blacklist=[""]), "asks.blacklist"),
    (asks(blacklist=["h" * 1_025]), "asks.blacklist"),
    (asks(asks=[ask_pb2.Ask(count=1), ask_pb2.Ask(count=2)]), "asks.asks[1].key"),
    (container(container_id="c" * 257), "container.container_id"),
    (container(server_id="s" * 257), "container.server_id"),
    (container(job_id="j" * 257), "container.job_id"),
    (
        link_pb2.Change(container=container_pb2.Container(container_id="c", job_id="j", server_id="s")),
        "container.attempt",
    ),
    (container(resource=resource(memory_mb=(1 << 40) + 1)), "container.resource.memory_mb"),
    (container(resource=GPUS_2, gpu_indices=[0]), "container.gpu_indices"),
    (container(resource=GPUS_2, gpu_indices=[0, 1, 2]), "container.gpu_indices"),
    (container(gpu_indices=[0]), "container.gpu_indices"),
    (container(resource=GPUS_2, gpu_indices=[1, 1]), "container.gpu_indices"),
    (container(resource=GPUS_2, gpu_indices=[1, 0]), "container.gpu_indices"),
    (container(resource=GPUS_2, gpu_indices=[0, 1_024]), "container.gpu_indices"),
    (released(container_id=""), "container_released.container_id"),
    (released(container_id="c" * 257), "container_released.container_id"),
    (link_pb2.Change(job_ended=job_pb2.JobEnded(job_id="j")), "job_ended.end"),
    (job_ended(end=4), "job_ended.end"),
    (job_ended(job_id="j" * 257), "job_ended.job_id"),
    (link_pb2.Change(outcome=decision_pb2.Outcome(decision_id=1)), "outcome.code"),
    (outcome(code=13), "outcome.code"),
    (outcome(code=decision_pb2.OUTCOME_CODE_NO_FIT, container_ids=["c"]), "outcome.container_ids"),
    (outcome(container_ids=["c", "c"]), "outcome.container_ids"),
    (outcome(container_ids=["c" * 257]), "outcome.container_ids"),
    (outcome(container_ids=["a", ""]), "outcome.container_ids"),
    (outcome(container_ids=[str(index) for index in range(16_385)]), "outcome.container_ids"),
    (server_removed(""), "server_removed"),
    (server_removed("s" * 257), "server_removed"),
    (virtual_cluster_removed(""), "virtual_cluster_removed"),
    (virtual_cluster_removed("q" * 1_025), "virtual_cluster_removed"),
    (link_pb2.Change(), "change"),
]


@pytest.mark.parametrize("change", RIGHT, ids=lambda change: str(change.WhichOneof("change")))
def test_what_is_at_the_bound_is_taken(change: link_pb2.Change) -> None:
    change_event(1.0, change)


@pytest.mark.parametrize(("change", "field"), WRONG, ids=[f"{field}-{index}" for index, (_, field) in enumerate(WRONG)])
def test_what_is_beyond_is_refused_with_field_value_and_what_would_be_right(
    change: link_pb2.Change, field: str
) -> None:
    with pytest.raises(BadField) as caught:
        change_event(1.0, change)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert " must be " in str(caught.value)
    assert caught.value.right
    assert len(str(caught.value)) < 700


def test_a_field_of_a_batch_is_named_with_its_place() -> None:
    batch = link_pb2.Batch(changes=[server(), one_ask(count=1_000_001)])
    with pytest.raises(BadField, match=r"batch\.changes\[1\]\.asks\.asks\[0\]\.count: 1000001 must be 0 to 1000000"):
        batch_events(1.0, batch)


def test_a_batch_has_at_most_4096_changes() -> None:
    changes = [released(container_id="c")] * bounds.CHANGES_MAX
    assert len(batch_events(1.0, link_pb2.Batch(changes=changes))) == 4_096
    with pytest.raises(BadField, match=r"batch\.changes: '4097 changes' must be at most 4096"):
        batch_events(1.0, link_pb2.Batch(changes=[*changes, changes[0]]))


GOOD_REGISTER: dict[str, Any] = {"protocol_version": 1, "cluster_id": "c", "epoch": 0, "start_time_ms": 0}


@pytest.mark.parametrize(
    "fields",
    [
        {"cluster_id": "c" * 128},
        {"cluster_id": "Az-09_."},
        {"epoch": (1 << 63) - 1},
        {"settle_s": 3_600.0, "active_s": 1e9},
        {"agent": "a" * 128},
    ],
)
def test_a_register_at_its_bounds_is_taken(fields: dict[str, Any]) -> None:
    registration(link_pb2.Register(**(GOOD_REGISTER | fields)))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cluster_id": ""}, "register.cluster_id"),
        ({"cluster_id": "c" * 129}, "register.cluster_id"),
        ({"cluster_id": "c\n"}, "register.cluster_id"),
        ({"cluster_id": "ü"}, "register.cluster_id"),
        ({"epoch": -1}, "register.epoch"),
        ({"start_time_ms": -1}, "register.start_time_ms"),
        ({"settle_s": 3_600.1}, "register.settle_s"),
        ({"settle_s": -0.1}, "register.settle_s"),
        ({"settle_s": float("nan")}, "register.settle_s"),
        ({"active_s": float("inf")}, "register.active_s"),
        ({"active_s": -1.0}, "register.active_s"),
        ({"agent": "a" * 129}, "register.agent"),
    ],
)
def test_a_register_beyond_its_bounds_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadField) as caught:
        registration(link_pb2.Register(**(GOOD_REGISTER | fields)))
    assert caught.value.field == field


@pytest.mark.parametrize(("active_s", "left_s"), [(0.0, 60.0), (20.0, 40.0), (60.0, 0.0), (1e6, 0.0)])
def test_what_is_left_of_settling(active_s: float, left_s: float) -> None:
    fields = GOOD_REGISTER | {"settle_s": 60.0, "active_s": active_s}
    assert registration(link_pb2.Register(**fields)).settle_left_s == left_s


def test_values_are_shown_escaped_and_cut() -> None:
    with pytest.raises(BadField) as caught:
        change_event(1.0, server(server_id="\x1b[31m" + "s" * 10_000))
    text = str(caught.value)
    assert "\x1b" not in text
    assert "\\x1b[31m" in text
    assert "(10005 long)" in text


def test_every_number_of_an_enumeration_is_known_but_the_unset() -> None:
    for number in decision_pb2.OutcomeCode.values():
        if number:
            event: Any = change_event(1.0, outcome(code=number))
            assert event.code in OutcomeCode
