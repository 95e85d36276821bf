"""Who may speak for the cluster: the newest resource manager of the cluster that registered first."""

from collections.abc import Callable

import grpc
import pytest

from tests.service import changes
from tests.service.conftest import settled
from tests.service.raw_link import RawLink
from yarn_gpu_sched.protocol.v1 import link_pb2
from yarn_gpu_sched.service import Service

Link = Callable[[], RawLink]


@pytest.mark.parametrize(("epoch", "start_time_ms"), [(5, 99), (4, 100), (4, 1_000)])
async def test_an_older_one_is_refused_and_harms_nothing(
    service: Service, link: Link, epoch: int, start_time_ms: int
) -> None:
    current = await link().open(changes.server(), epoch=5, start_time_ms=100)
    older = link()
    await older.register(epoch=epoch, start_time_ms=start_time_ms)
    ended = await older.end()
    assert (ended.code, ended.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "OLDER_EPOCH")
    assert f"epoch {epoch} (started at {start_time_ms}) is older than epoch 5 (started at 100)" in ended.sentence
    await current.batch(changes.job(), changes.asks())
    assert len(await current.decisions()) == 1
    assert (await settled(service)).cluster().epoch == 5


async def test_an_older_one_is_refused_also_after_the_newer_is_gone(service: Service, link: Link) -> None:
    current = await link().open(epoch=5)
    await current.call.done_writing()
    await current.end()
    older = link()
    await older.register(epoch=4)
    assert (await older.end()).reason == "OLDER_EPOCH"
    assert not (await settled(service)).cluster().connected


@pytest.mark.parametrize(("epoch", "start_time_ms"), [(5, 100), (5, 101), (6, 1)])
async def test_an_equal_or_newer_one_replaces_the_stream(
    service: Service, link: Link, epoch: int, start_time_ms: int
) -> None:
    one = await link().open(changes.server("gpu-1:1"), epoch=5, start_time_ms=100)
    two = await link().open(changes.server("gpu-2:1"), epoch=epoch, start_time_ms=start_time_ms)
    ended = await one.end()
    assert (ended.code, ended.reason) == (grpc.StatusCode.ABORTED, "REPLACED")
    engine = await settled(service)
    assert [view.server.server_id for view in engine.servers()[0]] == ["gpu-2:1"]
    assert engine.cluster().connected
    assert one.session_id != two.session_id


async def test_another_cluster_is_refused(service: Service, link: Link) -> None:
    await link().open(cluster_id="c1", epoch=1)
    other = link()
    await other.register(cluster_id="c2", epoch=9)
    ended = await other.end()
    assert (ended.code, ended.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "OTHER_CLUSTER")
    assert ended.sentence == 'this service schedules cluster "c1", not "c2"'
    assert (await settled(service)).cluster().cluster_id == "c1"


async def test_what_an_ended_stream_still_has_under_way_is_dropped(service: Service, link: Link) -> None:
    one = await link().open(changes.server("gpu-1:1"))
    assert service.driver.session is not None
    session = service.driver.session
    service.driver.submit_batch(session, _batch(changes.server("gpu-2:1")))
    session.end()
    two = await link().open(changes.server("gpu-3:1"))
    service.driver.submit_batch(session, _batch(changes.server("gpu-4:1")))
    await two.batch(changes.server("gpu-5:1"))
    await two.heartbeat()
    await one.end()
    engine = await settled(service)
    known = {view.server.server_id for view in engine.servers()[0]}
    assert "gpu-4:1" not in known
    assert known >= {"gpu-3:1"}


async def test_too_much_waiting_work_refuses_to_register(
    service: Service, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarn_gpu_sched.service.driver.WORK_MAX", 0)
    full = link()
    await full.register()
    ended = await full.end()
    assert (ended.code, ended.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    monkeypatch.undo()
    await link().open()
    assert (await settled(service)).cluster().connected


def _batch(*some: link_pb2.Change) -> link_pb2.Batch:
    return link_pb2.Batch(changes=some)
