"""What goes out as a message comes in as the same value."""

import contextlib
from typing import Any

import hypothesis.strategies as st
from google.protobuf.message import DecodeError
from hypothesis import given

from yarn_gpu_sched.engine import events
from yarn_gpu_sched.model.ask import PlaceAsk, RequestKey
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.protocol.convert import (
    BadField,
    change_event,
    container_message,
    container_value,
    job_message,
    job_value,
    resource_message,
    resource_value,
    server_message,
    server_value,
    virtual_cluster_message,
    virtual_cluster_value,
)
from yarn_gpu_sched.protocol.v1 import ask_pb2, decision_pb2, link_pb2

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = texts.filter(bool)
resources = st.builds(Resource, st.integers(0, 1 << 40), st.integers(0, 1 << 20), st.integers(0, 16))
keys = st.builds(RequestKey, st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
servers = st.builds(Server, names, texts, names, resources, texts, st.sampled_from(ServerState), st.booleans())
gpus = st.none() | st.integers(0, (1 << 32) - 1)
virtual_clusters = st.builds(VirtualCluster, names, gpus, gpus, st.booleans(), st.booleans())
whole_ms = st.integers(-(1 << 36), 1 << 42).map(lambda milliseconds: milliseconds / 1_000)
jobs = st.builds(
    Job,
    job_id=names,
    vc=names,
    user=texts,
    name=texts,
    tags=st.lists(texts, max_size=10).map(tuple),
    submit_time_s=whole_ms,
    attempt=st.integers(0, (1 << 32) - 1),
    active=st.booleans(),
    recovered=st.booleans(),
    unmanaged=st.booleans(),
    priority=st.integers(-(1 << 31), (1 << 31) - 1),
    keeps_containers=st.booleans(),
    expire_time_s=st.none() | whole_ms,
    one_attempt=st.booleans(),
)


@st.composite
def containers(draw: st.DrawFn) -> Container:
    indices = tuple(sorted(draw(st.sets(st.integers(0, 1_023), max_size=8))))
    amount = Resource(draw(st.integers(0, 1 << 40)), draw(st.integers(0, 1 << 20)), len(indices))
    return Container(
        container_id=draw(names),
        job_id=draw(names),
        attempt=draw(st.integers(1, (1 << 32) - 1)),
        server_id=draw(names),
        resource=amount,
        gpu_indices=indices,
        application_master=draw(st.booleans()),
        key=draw(keys),
        ending=draw(st.booleans()),
    )


@given(resources)
def test_resource(resource: Resource) -> None:
    assert resource_value("resource", resource_message(resource)) == resource


@given(servers)
def test_server(server: Server) -> None:
    assert server_value(server_message(server)) == server


@given(virtual_clusters)
def test_virtual_cluster(vc: VirtualCluster) -> None:
    assert virtual_cluster_value(virtual_cluster_message(vc)) == vc


@given(jobs)
def test_job(job: Job) -> None:
    assert job_value(job_message(job)) == job


@given(containers())
def test_container(container: Container) -> None:
    assert container_value(container_message(container)) == container


def test_an_absent_submit_time_is_none_at_all() -> None:
    change = link_pb2.Change()
    change.job.job_id, change.job.virtual_cluster = "j", "q"
    event: Any = change_event(1.0, change)
    assert event.job.submit_time_s == 0.0


def test_a_withdrawn_ask_is_left_out() -> None:
    wanted = [ask_pb2.Ask(key=ask_pb2.RequestKey(priority=number), count=number % 2) for number in range(4)]
    change = link_pb2.Change(asks=ask_pb2.JobAsks(job_id="j", attempt=1, asks=wanted))
    event = change_event(1.0, change)
    assert isinstance(event, events.AsksChanged)
    assert [ask.key.priority for ask in event.asks] == [1, 3]


def test_where_an_ask_may_go_and_may_not() -> None:
    places = [ask_pb2.PlaceAsk(place="gpu-a1", count=2), ask_pb2.PlaceAsk(place="/rack-a", count=3)]
    ask = ask_pb2.Ask(count=3, places=places, strict=True)
    change = link_pb2.Change(asks=ask_pb2.JobAsks(job_id="j", attempt=1, asks=[ask], blacklist=["gpu-b1", "/rack-c"]))
    event = change_event(1.0, change)
    assert isinstance(event, events.AsksChanged)
    assert event.asks[0].places == (PlaceAsk("gpu-a1", 2), PlaceAsk("/rack-a", 3))
    assert [place.is_rack for place in event.asks[0].places] == [False, True]
    assert event.asks[0].strict
    assert event.blacklist == ("gpu-b1", "/rack-c")


def test_what_others_said_becomes_one_printable_line() -> None:
    change = link_pb2.Change()
    change.outcome.decision_id, change.outcome.code = 1, decision_pb2.OUTCOME_CODE_NO_FIT
    change.outcome.detail = "no room\x1b[31m\r\nat all" + "." * 10_000
    event = change_event(1.0, change)
    assert isinstance(event, events.OutcomeReported)
    assert event.detail.startswith("no room [31m  at all...")
    assert event.detail.isprintable()
    assert len(event.detail) == 4_096


@given(st.binary(max_size=200))
def test_no_bytes_at_all_make_anything_but_events_or_a_named_field(data: bytes) -> None:
    try:
        change = link_pb2.Change.FromString(data)
    except DecodeError:
        return
    with contextlib.suppress(BadField):
        assert isinstance(change_event(1.0, change), events.Event)
