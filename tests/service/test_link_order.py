"""What breaks the rules of the link ends the stream with a clear status, and harms nothing."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest

from tests.service import changes
from tests.service.conftest import settled
from tests.service.raw_link import RawLink
from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX
from yarn_gpu_sched.protocol.v1 import link_pb2
from yarn_gpu_sched.service import Service

Code = grpc.StatusCode
Link = Callable[[], RawLink]
Mistake = Callable[[RawLink], Awaitable[None]]

GOOD = link_pb2.ConnectRequest(sequence=4, batch=link_pb2.Batch(changes=[changes.server()]))


async def _empty_message(link: RawLink) -> None:
    await link.say(link_pb2.ConnectRequest())


async def _wrong_sequence(link: RawLink, sequence: int) -> None:
    await link.say(link_pb2.ConnectRequest(heartbeat=link_pb2.Heartbeat()), sequence)


AFTER_SNAPSHOT: dict[str, tuple[Mistake, Code, str]] = {
    "garbage": (lambda link: link.raw(b"\xff\xfe\xfd"), Code.INVALID_ARGUMENT, "UNREADABLE_MESSAGE"),
    "half a message": (
        lambda link: link.raw(GOOD.SerializeToString()[:-3]),
        Code.INVALID_ARGUMENT,
        "UNREADABLE_MESSAGE",
    ),
    "text that is no UTF-8": (
        lambda link: link.raw(GOOD.SerializeToString().replace(b"rack-a", b"rack-\xff")),
        Code.INVALID_ARGUMENT,
        "UNREADABLE_MESSAGE",
    ),
    "nothing said": (_empty_message, Code.INVALID_ARGUMENT, "EMPTY_MESSAGE"),
    "a sequence left out": (lambda link: _wrong_sequence(link, 5), Code.ABORTED, "OUT_OF_SEQUENCE"),
    "a message twice": (lambda link: _wrong_sequence(link, 3), Code.ABORTED, "OUT_OF_SEQUENCE"),
    "an old message": (lambda link: _wrong_sequence(link, 1), Code.ABORTED, "OUT_OF_SEQUENCE"),
    "no sequence": (lambda link: _wrong_sequence(link, 0), Code.ABORTED, "OUT_OF_SEQUENCE"),
    "Register again": (lambda link: link.register(), Code.FAILED_PRECONDITION, "REGISTERED_TWICE"),
    "snapshot_end again": (
        lambda link: link.batch(snapshot_end=True),
        Code.FAILED_PRECONDITION,
        "SNAPSHOT_ENDED_TWICE",
    ),
    "too many changes": (
        lambda link: link.batch(*[changes.released("c")] * 4_097),
        Code.INVALID_ARGUMENT,
        "BAD_FIELD",
    ),
    "a change without content": (
        lambda link: link.batch(changes.server("gpu-9:1"), link_pb2.Change()),
        Code.INVALID_ARGUMENT,
        "BAD_FIELD",
    ),
    "too large": (
        lambda link: link.batch(changes.server(host="h" * MESSAGE_BYTES_MAX)),
        Code.RESOURCE_EXHAUSTED,
        "",
    ),
}


@pytest.mark.parametrize("name", AFTER_SNAPSHOT)
async def test_a_mistake_ends_the_stream_and_a_good_one_follows(service: Service, link: Link, name: str) -> None:
    mistake, code, reason = AFTER_SNAPSHOT[name]
    bad = await link().open(changes.server(), changes.job())
    await mistake(bad)
    ended = await bad.end()
    assert (ended.code, ended.reason) == (code, reason)
    assert ended.sentence
    engine = await settled(service)
    assert not engine.cluster().connected

    good = await link().open(changes.server(), changes.job(), changes.asks())
    assert len(await good.decisions()) == 1
    assert (await settled(service)).cluster().connected


BEFORE_REGISTER: dict[str, tuple[Mistake, Code, str]] = {
    "garbage": (lambda link: link.raw(b"\xff\xfe\xfd"), Code.INVALID_ARGUMENT, "UNREADABLE_MESSAGE"),
    "nothing": (lambda link: link.raw(b""), Code.ABORTED, "OUT_OF_SEQUENCE"),
    "changes": (lambda link: link.batch(changes.server()), Code.FAILED_PRECONDITION, "NOT_REGISTERED"),
    "a heartbeat": (lambda link: link.heartbeat(), Code.FAILED_PRECONDITION, "NOT_REGISTERED"),
    "the end": (lambda link: link.call.done_writing(), Code.FAILED_PRECONDITION, "NOT_REGISTERED"),
    "unknown version": (
        lambda link: link.register(protocol_version=2),
        Code.FAILED_PRECONDITION,
        "UNKNOWN_VERSION",
    ),
    "no version": (lambda link: link.register(protocol_version=0), Code.FAILED_PRECONDITION, "UNKNOWN_VERSION"),
    "no cluster": (lambda link: link.register(cluster_id=""), Code.INVALID_ARGUMENT, "BAD_FIELD"),
    "hostile cluster": (lambda link: link.register(cluster_id="a/../b\n"), Code.INVALID_ARGUMENT, "BAD_FIELD"),
    "negative epoch": (lambda link: link.register(epoch=-1), Code.INVALID_ARGUMENT, "BAD_FIELD"),
    "endless settling": (lambda link: link.register(settle_s=3_601.0), Code.INVALID_ARGUMENT, "BAD_FIELD"),
    "no number": (lambda link: link.register(active_s=float("nan")), Code.INVALID_ARGUMENT, "BAD_FIELD"),
    "long agent": (lambda link: link.register(agent="a" * 129), Code.INVALID_ARGUMENT, "BAD_FIELD"),
    "too large": (
        lambda link: link.register(agent="a" * MESSAGE_BYTES_MAX),
        Code.RESOURCE_EXHAUSTED,
        "",
    ),
}


@pytest.mark.parametrize("name", BEFORE_REGISTER)
async def test_a_stream_must_begin_with_a_good_register(service: Service, link: Link, name: str) -> None:
    mistake, code, reason = BEFORE_REGISTER[name]
    bad = link()
    await mistake(bad)
    ended = await bad.end()
    assert (ended.code, ended.reason) == (code, reason)
    assert (await settled(service)).cluster().cluster_id == ""
    await link().open()


async def test_an_unknown_version_is_told_the_known_ones(link: Link) -> None:
    bad = link()
    await bad.register(protocol_version=7)
    assert (await bad.end()).sentence == "protocol version 7 is not known here; known: 1"


async def test_a_bad_field_is_named_with_its_place_and_what_would_be_right(link: Link) -> None:
    bad = await link().open()
    await bad.batch(changes.server(), changes.container(gpu_indices=(0, 0)), changes.released())
    ended = await bad.end()
    assert ended.code is Code.INVALID_ARGUMENT
    assert ended.fields == ["batch.changes[1].container.gpu_indices"]
    assert ended.sentence == "batch.changes[1].container.gpu_indices: [0, 0] must be ascending, each once"


async def test_nothing_of_a_batch_with_a_bad_field_is_applied(service: Service, link: Link) -> None:
    bad = await link().open(changes.server("gpu-1:1"))
    await bad.batch(changes.server("gpu-2:1"), changes.job("job-2"), changes.server("gpu-3:1", state=9))
    ended = await bad.end()
    assert ended.fields == ["batch.changes[2].server.state"]
    assert "must be one of 1 (RUNNING), 2 (DRAINING), 3 (UNHEALTHY)" in ended.sentence
    engine = await settled(service)
    assert [view.server.server_id for view in engine.servers()[0]] == ["gpu-1:1"]
    assert engine.job("job-2") is None


async def test_the_end_of_a_stream_is_the_loss_of_its_resource_manager(service: Service, link: Link) -> None:
    one = await link().open(changes.server())
    await one.call.done_writing()
    ended = await one.end()
    assert ended.code is Code.OK
    assert not (await settled(service)).cluster().connected


async def test_a_killed_resource_manager_comes_back(service: Service, link: Link) -> None:
    one = await link().open(changes.server(), changes.job())
    one.call.cancel()
    async with asyncio.timeout(20):
        while service.driver.session is not None:
            await asyncio.sleep(0.001)
    assert not (await settled(service)).cluster().connected
    await link().open(changes.server(), start_time_ms=2)
    assert (await settled(service)).cluster().connected


async def test_a_long_batch_is_applied_whole_before_the_stream_may_be_replaced(service: Service, link: Link) -> None:
    one = await link().open()
    await one.batch(*[changes.server(f"gpu-{index}:1") for index in range(3_000)])
    two = await link().open(changes.server())
    assert (await one.end()).reason == "REPLACED"
    await settled(service)
    assert service.engine.servers()[1] == 1
    await two.heartbeat()
