"""`GpuService`: health and use of GPUs in pages, and what operators say, with a real service and monitors that a test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode, aio

from tests.service.changes import asks, container, job, server
from tests.service.conftest import heard, settled, until
from tests.service.played_monitor import PlayedMonitor, card, sample
from tests.service.raw_link import BOUND_S, Ended, RawLink, ended_by
from yarn_gpu_sched.model.health import Health
from yarn_gpu_sched.protocol.v1 import gpu_pb2, gpu_pb2_grpc, monitor_pb2
from yarn_gpu_sched.service import FakeClock, Service, Settings

DRAIN, UNDRAIN = gpu_pb2.MARK_ACTION_DRAIN, gpu_pb2.MARK_ACTION_UNDRAIN
QUARANTINE, ACK = gpu_pb2.MARK_ACTION_QUARANTINE, gpu_pb2.MARK_ACTION_ACK
A1, LONG = "gpu-a1", "gpu-b1.example.org"
Link = Callable[[], RawLink]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=1, local_monitors=True, state_dir=str(tmp_path))


@pytest.fixture
def gpus(channel: aio.Channel) -> gpu_pb2_grpc.GpuServiceAsyncStub:
    return gpu_pb2_grpc.GpuServiceStub(channel)


@asynccontextmanager
async def started(settings: Settings) -> AsyncIterator[tuple[Service, gpu_pb2_grpc.GpuServiceAsyncStub, aio.Channel]]:
    """Run another service, as after a restart."""
    service = Service(settings, FakeClock(1_000.0))
    await service.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{service.port}") as channel:
            yield service, gpu_pb2_grpc.GpuServiceStub(channel), channel
    finally:
        await service.stop()


async def listed(stub: gpu_pb2_grpc.GpuServiceAsyncStub, host: str = "") -> list[gpu_pb2.ServerHealth]:
    return list((await stub.ListGpus(gpu_pb2.ListGpusRequest(host=host))).servers)


async def until_listed(
    stub: gpu_pb2_grpc.GpuServiceAsyncStub, holds: Callable[[list[gpu_pb2.ServerHealth]], bool]
) -> None:
    async with asyncio.timeout(BOUND_S):
        while not holds(await listed(stub)):
            await asyncio.sleep(0.001)


def said(action: gpu_pb2.MarkAction.ValueType, name: str, gpu: str = "", **fields: Any) -> gpu_pb2.MarkRequest:  # noqa: ANN401 - fields of the request
    return gpu_pb2.MarkRequest(**{"action": action, "server": name, "gpu": gpu, "reason": "why", "by": "ada", **fields})


async def refused(call: Any) -> Ended:  # noqa: ANN401 - a call of any method
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return ended_by(caught.value)


async def test_servers_come_in_pages_in_order_of_their_hosts(
    service: Service, gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link
) -> None:
    names = [f"gpu-{number:02}" for number in range(7)]
    await link().open(*(server(f"{name}:45454") for name in reversed(names)))
    await settled(service)
    seen, token, pages = [], "", 0
    while pages == 0 or token:
        answer = await gpus.ListGpus(gpu_pb2.ListGpusRequest(page_size=3, page_token=token))
        seen += [one.host for one in answer.servers]
        token, pages = answer.next_page_token, pages + 1
        assert answer.total_size == 7
    assert (seen, pages) == (names, 3)
    for wrong in ({"page_size": 1_001}, {"page_token": "nonsense"}):
        ended = await refused(gpus.ListGpus(gpu_pb2.ListGpusRequest(**wrong)))
        assert (ended.code, ended.fields) == (StatusCode.INVALID_ARGUMENT, [*wrong])


async def test_a_server_is_shown_with_cards_samples_holders_and_how_long_they_are_idle(
    service: Service, gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link, channel: aio.Channel, clock: FakeClock
) -> None:
    monitor = await PlayedMonitor(channel, A1).start(simulated=True)
    await link().open(
        server(f"{A1}:45454"), job(), container(server_id=f"{A1}:45454", gpu_indices=(0, 1)), asks(count=0)
    )
    await settled(service)
    host = monitor_pb2.HostSample(cpu_percent=12)
    await monitor.tell(sample(0, sm_percent=97), sample(1, sm_percent=1), sample(2, power_w=None), age_s=0.5, host=host)
    await until(lambda: service.engine.hosts(only=A1)[0][0].gpus[2].gpu.uuid)
    await until_listed(gpus, lambda servers: servers[0].gpus[0].HasField("sample"))
    clock.advance(20.0)
    (one,) = await listed(gpus, A1)
    assert (one.telemetry, one.simulated, one.host_sample.cpu_percent) == (gpu_pb2.TELEMETRY_STATE_LIVE, True, 12)
    assert one.monitor_agent == "a test"
    assert (one.gpus_counted, one.gpus_healthy, one.age_s) == (4, 4, 20.0)
    assert [gpu.job_id for gpu in one.gpus] == ["job-1", "job-1", "", ""]
    assert [gpu.card.uuid for gpu in one.gpus] == [f"GPU-{A1}-{slot}" for slot in range(4)]
    assert [round(gpu.sample_age_s, 1) for gpu in one.gpus[:3]] == [20.5] * 3
    assert [gpu.idle_s if gpu.HasField("idle_s") else None for gpu in one.gpus] == [None, 20.0, None, None], (
        "since its holder has had it"
    )
    assert not one.gpus[2].sample.HasField("power_w"), "not available is absent"
    assert not one.gpus[3].HasField("sample")


async def test_an_unknown_server_and_a_wrong_gpu_are_refused_with_what_would_be_right(
    service: Service, gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link
) -> None:
    await link().open(server(f"{A1}:45454"))
    await settled(service)
    for call in (gpus.ListGpus(gpu_pb2.ListGpusRequest(host="nobody")), gpus.Mark(said(DRAIN, "nobody"))):
        ended = await refused(call)
        assert (ended.code, ended.reason) == (StatusCode.NOT_FOUND, "UNKNOWN_SERVER")
        assert "nobody" in ended.sentence
    wrong = {
        "gpu": [said(QUARANTINE, A1), said(QUARANTINE, A1, "4"), said(ACK, A1, "GPU-x"), said(DRAIN, A1, "0")],
        "reason": [said(DRAIN, A1, reason=" "), said(DRAIN, A1, reason="x" * 501)],
        "by": [said(DRAIN, A1, by=""), said(DRAIN, A1, by="x" * 129)],
        "action": [said(gpu_pb2.MARK_ACTION_UNSPECIFIED, A1)],
    }
    for field, requests in wrong.items():
        for request in requests:
            ended = await refused(gpus.Mark(request))
            assert (ended.code, ended.fields) == (StatusCode.INVALID_ARGUMENT, [field]), request
    assert "slots: 0, 1, 2, 3" in (await refused(gpus.Mark(said(QUARANTINE, A1, "4")))).sentence
    assert service.engine.kept_health() == ()


@pytest.mark.parametrize("name", [LONG, f"{LONG}:45454", "gpu-b1", "GPU-B1", LONG.upper()])
async def test_c27_a_server_is_meant_by_its_name_short_or_full_in_any_case_or_by_its_id(
    service: Service, gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link, name: str
) -> None:
    await link().open(server(f"{A1}:45454"), server(f"{LONG}:45454"))
    await settled(service)
    assert [one.host for one in await listed(gpus, name)] == [LONG]
    await gpus.Mark(said(DRAIN, name))
    assert [one.host for one in await listed(gpus) if one.HasField("drained")] == [LONG]


async def test_c27_a_short_name_that_two_servers_have_is_not_guessed(
    service: Service, gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link
) -> None:
    await link().open(server("gpu-a1.one.org:45454"), server("gpu-a1.two.org:45454"))
    await settled(service)
    assert (await refused(gpus.Mark(said(DRAIN, A1)))).code is StatusCode.NOT_FOUND


@pytest.mark.parametrize("request_", [said(DRAIN, A1), said(QUARANTINE, A1, "2"), said(ACK, A1, "3"), said(ACK, A1)])
async def test_a_dry_run_says_what_would_change_and_changes_nothing(
    service: Service,
    gpus: gpu_pb2_grpc.GpuServiceAsyncStub,
    link: Link,
    channel: aio.Channel,
    request_: gpu_pb2.MarkRequest,
) -> None:
    monitor = await PlayedMonitor(channel, A1).start()
    await link().open(
        server(f"{A1}:45454"), job(), container(server_id=f"{A1}:45454", gpu_indices=(2, 3)), asks(count=0)
    )
    await settled(service)
    await monitor.tell(xids=[monitor_pb2.XidEvent(slot=3, xid=79)])
    await until(lambda: service.engine.hosts(only=A1)[0][0].gpus[3].needs_ack)
    before = service.engine.kept_health()
    request_.dry_run, request_.reason, request_.by = True, "", ""
    foretold = await gpus.Mark(request_)
    assert service.engine.kept_health() == before
    assert (len(foretold.changes), list(foretold.job_ids), foretold.kept) == (1, ["job-1"], False)
    assert foretold.not_kept_because == ""
    request_.dry_run, request_.reason, request_.by = False, "why", "ada"
    done = await gpus.Mark(request_)
    assert (done.changes, done.job_ids, done.kept) == (foretold.changes, foretold.job_ids, True)
    assert service.engine.kept_health() != before
    assert (await gpus.Mark(request_)).changes == [], "it is so already"


async def test_marks_and_faults_survive_a_restart_and_a_watched_server_is_unknown_until_its_monitor_speaks(
    tmp_path: Path, settings: Settings
) -> None:
    async with started(settings) as (service, gpus, channel):
        monitor = await PlayedMonitor(channel, A1).start()
        await RawLink(channel).open(server(f"{A1}:45454"), server(f"{LONG}:45454"))
        await settled(service)
        await monitor.tell(xids=[monitor_pb2.XidEvent(slot=1, xid=79)])
        await until(lambda: service.engine.hosts(only=A1)[0][0].gpus[1].needs_ack)
        assert (await gpus.Mark(said(DRAIN, "gpu-b1", reason="new\nfan"))).kept
        assert (await gpus.Mark(said(QUARANTINE, A1, f"GPU-{A1}-2"))).kept
    assert "xid_79" in (tmp_path / "health.json").read_text()
    async with started(settings) as (service, gpus, channel):
        await RawLink(channel).open(server(f"{A1}:45454"), server(f"{LONG}:45454"))
        await settled(service)
        one, drained = await listed(gpus)
        assert (drained.drained.reason, drained.drained.by, drained.drained.HasField("time")) == (
            "new fan",
            "ada",
            True,
        )
        assert drained.telemetry == gpu_pb2.TELEMETRY_STATE_NONE
        assert (one.telemetry, one.failure) == (gpu_pb2.TELEMETRY_STATE_SILENT, "not heard since the service started")
        assert [list(gpu.faults) for gpu in one.gpus] == [[], ["xid_79"], ["operator"], []]
        assert (one.gpus[2].quarantined.reason, one.gpus_healthy) == ("why", 2)
        await PlayedMonitor(channel, A1).start()
        await until(lambda: not service.engine.hosts(only=A1)[0][0].unknown)
        assert [gpu.needs_ack for gpu in (await listed(gpus))[0].gpus] == [False, True, True, False]
        assert (await gpus.Mark(said(UNDRAIN, "gpu-b1"))).changes == [f"{LONG} is placed on again"]
    async with started(settings) as (service, gpus, _):
        assert [one.host for one in await listed(gpus) if one.HasField("drained")] == []


async def test_a_damaged_file_is_kept_aside_and_the_service_starts(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "health.json").write_text('[{"host": "gpu-a1", "drained":')
    async with started(settings) as (_, gpus, channel):
        await RawLink(channel).open(server(f"{A1}:45454"))
        await until_listed(gpus, bool)
        assert not (await listed(gpus))[0].HasField("drained")
        assert (await gpus.Mark(said(DRAIN, A1))).kept
    assert (tmp_path / "health.json.damaged").read_text() == '[{"host": "gpu-a1", "drained":'
    assert json.loads((tmp_path / "health.json").read_text())


async def test_what_could_not_be_written_is_written_once_it_can_be(tmp_path: Path, settings: Settings) -> None:
    async with started(settings) as (service, gpus, channel):
        await RawLink(channel).open(server(f"{A1}:45454"))
        await settled(service)
        (tmp_path / "health.json").mkdir()
        answer = await gpus.Mark(said(DRAIN, A1))
        assert (answer.kept, "state_dir" in answer.not_kept_because) == (False, True)
        keeper = service._health_keeper
        assert isinstance(service.clock, FakeClock)
        service.clock.advance(2.0)
        await until(lambda: keeper._writing is not None and keeper._writing.done())
        (tmp_path / "health.json").rmdir()
        service.clock.advance(10.0)
        await until((tmp_path / "health.json").exists)
        assert A1 in (tmp_path / "health.json").read_text()


async def test_without_state_dir_it_holds_and_says_that_it_is_not_kept(settings: Settings) -> None:
    async with started(settings.model_copy(update={"state_dir": ""})) as (service, gpus, channel):
        await RawLink(channel).open(server(f"{A1}:45454"))
        await settled(service)
        answer = await gpus.Mark(said(DRAIN, A1))
        assert (answer.kept, "state_dir" in answer.not_kept_because) == (False, True)
        assert (await listed(gpus))[0].HasField("drained")


async def test_who_holds_gpus_without_using_them_the_longest_first(
    service: Service, gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link, channel: aio.Channel, clock: FakeClock
) -> None:
    monitor = await PlayedMonitor(channel, A1).start()
    await link().open(
        server(f"{A1}:45454"),
        job("lazy", user="ada"),
        job("busy"),
        container("c1", "lazy", f"{A1}:45454", (0, 1, 2)),
        container("c2", "busy", f"{A1}:45454", (3,)),
        asks("lazy", count=0),
        asks("busy", count=0),
    )
    await settled(service)

    async def tell() -> None:
        await monitor.tell(*(sample(slot, sm_percent=use) for slot, use in enumerate((4, 0, None, 5))))

    answer = gpu_pb2.ListIdleResponse()
    for number in range(400):
        await tell()
        await heard(service, number + 2)
        clock.advance(10.0)
        answer = await gpus.ListIdle(gpu_pb2.ListIdleRequest())
        if answer.jobs:
            break
    assert (answer.idle_after_s, answer.idle_below_percent, answer.left_out) == (1_800.0, 5, 0)
    (one,) = answer.jobs
    assert (one.job_id, one.user, one.gpus, one.idle_gpus, one.unknown_gpus) == ("lazy", "ada", 3, 2, 1)
    assert (1_800 <= one.idle_s <= 1_900, list(one.hosts)) == (True, [A1])


async def test_c18_slices_are_no_gpus_and_the_difference_to_what_yarn_counts_is_shown(
    service: Service, gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link, channel: aio.Channel
) -> None:
    await PlayedMonitor(channel, A1).start(cards=[card(0, mig=True), card(1)])
    await link().open(server(f"{A1}:45454", gpus=4))
    await settled(service)
    await until(lambda: service.engine.hosts(only=A1)[0][0].gpus[0].gpu.health is Health.QUARANTINED)
    (one,) = await listed(gpus)
    assert (one.gpus_counted, one.gpus_healthy, list(one.gpus[0].faults), one.gpus[0].needs_ack) == (
        4,
        1,
        ["mig"],
        False,
    )


async def test_memory_of_which_the_driver_lists_no_process_is_its_holders_and_a_strangers_where_there_is_none(
    service: Service, gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link, channel: aio.Channel, clock: FakeClock
) -> None:
    monitor = await PlayedMonitor(channel, A1).start()
    await link().open(server(f"{A1}:45454"), job(), container(server_id=f"{A1}:45454", gpu_indices=(0,)), asks(count=0))
    await settled(service)
    await monitor.tell(sample(0, memory_used_mb=9_000), sample(1, memory_used_mb=9_000), sample(2, memory_used_mb=512))
    await until_listed(gpus, lambda servers: servers[0].gpus[1].clearing)
    clock.advance(61.0)
    await until_listed(gpus, lambda servers: servers[0].gpus[1].health == gpu_pb2.GPU_HEALTH_SUSPECT)
    (one,) = await listed(gpus)
    assert [gpu.clearing for gpu in one.gpus] == [False, True, False, False]
    assert [list(gpu.faults) for gpu in one.gpus] == [[], ["not_free"], [], []]


async def test_c19_while_samples_are_dropped_the_one_before_them_ages(
    gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link, channel: aio.Channel, clock: FakeClock
) -> None:
    monitor = await PlayedMonitor(channel, A1).start()
    await link().open(server(f"{A1}:45454"))
    await monitor.tell(sample(0, sm_percent=7), sample(1))
    await until_listed(gpus, lambda servers: bool(servers) and servers[0].gpus[0].HasField("sample"))
    clock.advance(20.0)
    await monitor.tell(sample(0, sm_percent=4_294_967_295), sample(1))
    await until_listed(gpus, lambda servers: servers[0].gpus[1].sample_age_s == 0.0)
    first, second = (await listed(gpus))[0].gpus[:2]
    assert (first.sample.sm_percent, first.sample_age_s, second.sample_age_s) == (7, 20.0, 0.0)
    await monitor.tell(sample(0, sm_percent=8))
    await until_listed(gpus, lambda servers: servers[0].gpus[0].sample.sm_percent == 8)
    assert (await listed(gpus))[0].gpus[0].sample_age_s == 0.0


@pytest.mark.parametrize("readings", [1, 3, 5])
async def test_so_many_bad_readings_count_as_the_setting_says(settings: Settings, readings: int) -> None:
    async with started(settings.model_copy(update={"gpu_suspect_after_readings": readings})) as (
        service,
        gpus,
        channel,
    ):
        await RawLink(channel).open(server(f"{A1}:45454"), server(f"{LONG}:45454"))
        await settled(service)
        slow, dark = await PlayedMonitor(channel, A1).start(), await PlayedMonitor(channel, LONG).start()
        failure = monitor_pb2.ReadFailure(kind=monitor_pb2.READ_FAILURE_KIND_TIMED_OUT)
        for number in range(readings):
            assert not service.engine.hosts(only=LONG)[0][0].unknown
            assert (await listed(gpus, A1))[0].gpus[0].health == gpu_pb2.GPU_HEALTH_OK
            await slow.tell(sample(0, throttle_reasons=["hw_slowdown"]) if not number else sample(1))
            await dark.tell(failure=failure)
            await until(partial(has_counted, service, number + 1))
        assert service.engine.hosts(only=LONG)[0][0].unknown
        assert (await listed(gpus, A1))[0].gpus[0].health == gpu_pb2.GPU_HEALTH_SUSPECT


def has_counted(service: Service, bad_readings: int) -> bool:
    """Tell whether so many in a row are counted of the first GPU of the one server, and of the other server."""
    one, other = (service.engine.hosts(only=host)[0][0] for host in (A1, LONG))
    return one.gpus[0].gpu.bad == other.record.bad == bad_readings


async def test_a_server_that_can_be_read_again_is_shown_as_unreadable_until_it_is_placed_on(
    service: Service, gpus: gpu_pb2_grpc.GpuServiceAsyncStub, link: Link, channel: aio.Channel, clock: FakeClock
) -> None:
    monitor = await PlayedMonitor(channel, A1).start()
    await link().open(server(f"{A1}:45454"))
    await settled(service)
    for _ in range(3):
        await monitor.tell(failure=monitor_pb2.ReadFailure(kind=monitor_pb2.READ_FAILURE_KIND_TIMED_OUT, detail="hung"))
    await until_listed(gpus, lambda servers: servers[0].failure == "timed_out: hung")
    await until(lambda: service.engine.hosts(only=A1)[0][0].unknown)
    await monitor.tell(sample(0))
    await until_listed(gpus, lambda servers: "can be read again" in servers[0].failure)
    assert (await listed(gpus))[0].telemetry == gpu_pb2.TELEMETRY_STATE_UNREADABLE
    for number in range(3):
        clock.advance(20.0)
        await monitor.tell(sample(0))
        await heard(service, number + 6)
    await until_listed(gpus, lambda servers: servers[0].telemetry == gpu_pb2.TELEMETRY_STATE_LIVE)
    assert (await listed(gpus))[0].failure == ""
