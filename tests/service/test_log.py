"""Log lines: JSON, at the level that was set, with nothing that a terminal would obey."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.protocol.v1 import decision_pb2
from yarn_gpu_sched.service import Service
from yarn_gpu_sched.service.log import configure_logging

Link = Callable[[], RawLink]


@pytest.fixture
def written(service: Service) -> Iterator[io.StringIO]:  # noqa: ARG001 - it sets the log up first
    stream = io.StringIO()
    configure_logging("info", stream)
    yield stream
    configure_logging("error")


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def of(stream: io.StringIO, event: str) -> list[dict[str, Any]]:
    return [entry for entry in entries(stream) if entry["event"] == event]


async def test_who_registers_is_lost_or_refused_is_told(service: Service, link: Link, written: io.StringIO) -> None:
    one = await link().open(epoch=5, agent="shim\x1b[2J 1.0")
    older = link()
    await older.register(epoch=4)
    await older.end()
    await one.call.done_writing()
    await one.end()
    await settled(service)
    (registered,) = of(written, "resource_manager_registered")
    assert (registered["cluster_id"], registered["epoch"], registered["session_id"]) == ("c1", 5, one.session_id)
    (refused,) = of(written, "resource_manager_refused")
    assert refused["reason"] == "OLDER_EPOCH"
    (lost,) = of(written, "resource_manager_lost")
    assert (lost["session_id"], lost["why"]) == (one.session_id, "the stream was closed")
    assert all({"timestamp", "level"} <= entry.keys() for entry in entries(written))


async def test_a_refused_decision_is_told_with_job_decision_and_epoch(
    service: Service, link: Link, written: io.StringIO
) -> None:
    hostile = "job-\x1b[31m\n{}"
    one = await link().open(changes.server(), changes.job(hostile), changes.asks(hostile), epoch=3)
    (decision,) = await one.decisions()
    no_fit = decision_pb2.OUTCOME_CODE_NO_FIT
    await one.batch(changes.outcome(decision.decision_id, code=no_fit, detail="\x1b]0;title\x07"))
    await until(lambda: of(written, "decision_refused"))
    await settled(service)
    (refused,) = of(written, "decision_refused")
    assert (refused["job_id"], refused["decision_id"], refused["epoch"]) == (hostile, decision.decision_id, 3)
    assert refused["code"] == "no_fit"
    text = written.getvalue()
    assert all(line.isascii() and line.isprintable() for line in text.splitlines())


async def test_nothing_is_written_per_message(service: Service, link: Link, written: io.StringIO) -> None:
    one = await link().open(changes.server(gpus=64))
    for index in range(50):
        await one.batch(changes.job(f"job-{index}"), changes.asks(f"job-{index}"))
    for decision in await one.decisions(50):
        await one.batch(changes.committed(decision))
    await settled(service)
    assert [entry["event"] for entry in entries(written)] == ["resource_manager_registered", "audit"]


def _fail() -> None:
    raise ValueError("a\nb\x1b[31m")


def test_an_exception_is_one_line() -> None:
    stream = io.StringIO()
    configure_logging("info", stream)
    try:
        _fail()
    except ValueError:
        structlog.get_logger().exception("call_failed")
    configure_logging("error")
    (entry,) = entries(stream)
    assert entry["exception"][0]["exc_value"] == "a\nb\x1b[31m"
    assert "\x1b" not in stream.getvalue()
