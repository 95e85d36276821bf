"""What node monitors say that cannot be true: it changes nothing and is counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from grpc import StatusCode, aio

from tests.service import changes
from tests.service.conftest import heard, settled, until
from tests.service.raw_link import RawLink
from tests.service.raw_monitor import HOST, RawMonitor, cards, sample
from yarn_gpu_sched.engine.views import HostView
from yarn_gpu_sched.model.health import Health, Telemetry
from yarn_gpu_sched.protocol.v1 import monitor_pb2
from yarn_gpu_sched.service import Service, Settings

Link = Callable[[], RawLink]
Monitor = Callable[[], RawMonitor]


@pytest.fixture
def settings() -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, local_monitors=True)


@pytest.fixture
def monitor(channel: aio.Channel) -> Monitor:
    return lambda: RawMonitor(channel)


def host(service: Service, name: str = HOST) -> HostView:
    views, _ = service.engine.hosts(only=name)
    assert service.engine.audit() == []
    return views[0]


def health(service: Service, slot: int) -> Health:
    return host(service).gpus[slot].gpu.health


async def test_c19_an_impossible_sample_is_dropped_and_counted_and_the_rest_goes_on(
    service: Service, link: Link, monitor: Monitor
) -> None:
    await link().open(changes.server())
    await settled(service)
    one = await monitor().hello()
    impossible = [
        sample(0, sm_percent=4_294_967_295),
        sample(1, memory_used_mb=20_000),
        sample(2, temperature_c=-1),
    ]
    await one.tell(*impossible, sample(3, sm_percent=77))
    await until(lambda: 3 in service.fleet.hosts[HOST].samples)
    telemetry = service.fleet.hosts[HOST]
    assert list(telemetry.samples) == [3]
    assert telemetry.lies == {"sm_percent": 1, "memory_used_mb": 1, "temperature_c": 1}
    assert service.metrics.monitor_lies.labels("IMPOSSIBLE_SAMPLE")._value.get() == 3
    assert [health(service, slot) for slot in range(4)] == [Health.OK] * 4


@pytest.mark.parametrize(
    ("fields", "lie"),
    [
        ({"cpu_percent": 4_294_967_295}, "host.cpu_percent"),
        ({"memory_used_mb": 9, "memory_total_mb": 8}, "host.memory_used_mb"),
    ],
)
async def test_c19_an_impossible_sample_of_the_server_is_dropped_and_counted(
    service: Service, link: Link, monitor: Monitor, fields: dict[str, int], lie: str
) -> None:
    await link().open(changes.server())
    await settled(service)
    one = await monitor().hello()
    good = monitor_pb2.HostSample(cpu_percent=7, memory_used_mb=8, memory_total_mb=9)
    await one.tell(host=good)
    await one.tell(host=monitor_pb2.HostSample(**fields))  # type: ignore[arg-type] # fields of a message
    await heard(service, 2)
    telemetry = service.fleet.hosts[HOST]
    assert (telemetry.lies, telemetry.host_sample) == ({lie: 1}, good)


LIES: dict[str, dict[str, object]] = {
    "a time in the future": {"age_s": -1.0},
    "no time at all": {"age_s": float("nan")},
    "a slot that no card has": {"gpus": [sample(9)]},
    "a slot twice": {"gpus": [sample(0), sample(0)]},
    "a million GPUs": {"gpus": [sample(1_000_000)]},
    "an order that was never sent": {"orders_seen": 99},
    "a message that is missing": {"sequence": 5},
    "an Xid that does not exist": {"xids": [monitor_pb2.XidEvent(slot=0, xid=4_000_000)]},
    "an Xid of tomorrow": {"xids": [monitor_pb2.XidEvent(slot=0, xid=79, age_s=-5.0)]},
    "an Xid of no card": {"xids": [monitor_pb2.XidEvent(slot=7, xid=79)]},
    "two cards in one slot": {"cards": [*cards(1), *cards(1)]},
    "one card in two slots": {
        "cards": [monitor_pb2.Card(slot=0, uuid="GPU-a"), monitor_pb2.Card(slot=1, uuid="GPU-a")]
    },
    "65 cards": {"cards": [monitor_pb2.Card(slot=n, uuid=f"GPU-{n}") for n in range(65)]},
    "devices that are not there": {"assigned": [monitor_pb2.AssignedDevices(container_id="c", slots=[12])]},
    "a name of a megabyte": {"gpus": [sample(0, bad_fields=["x" * 1_000])]},
    "a process of a long name": {"gpus": [sample(0, processes=[monitor_pb2.GpuProcess(pid=7, command="x" * 300)])]},
    "too many counters": {
        "host": monitor_pb2.HostSample(ports=[monitor_pb2.PortSample(counters={str(n): n for n in range(129)})])
    },
    "a checkpoint of nothing": {"checkpointed_container_ids": [""]},
}


@pytest.mark.parametrize("lie", LIES)
async def test_lies_end_the_stream_change_nothing_and_are_counted(
    service: Service, link: Link, monitor: Monitor, lie: str
) -> None:
    await link().open(changes.server())
    await settled(service)
    one = await monitor().hello()
    await settled(service)
    before = host(service)
    await one.tell(**LIES[lie])
    code, sentence = await one.ended()
    assert (code, sentence.startswith("telemetry.")) == (StatusCode.INVALID_ARGUMENT, True)
    assert host(service) == before
    assert service.metrics.monitor_lies.labels("BAD_FIELD")._value.get() == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"protocol_version": 2}, "hello.protocol_version"),
        ({"host": ""}, "hello.host"),
        ({"host": "gpu-1\x1b[31m"}, "hello.host"),
        ({"host": "x" * 300}, "hello.host"),
        ({"push_every_s": 0.0}, "hello.push_every_s"),
        ({"push_every_s": float("inf")}, "hello.push_every_s"),
        ({"cards": [monitor_pb2.Card(slot=n, uuid=f"GPU-{n}") for n in range(1_000)]}, "hello.cards"),
    ],
)
async def test_a_hello_that_cannot_be_true_is_refused(
    service: Service, monitor: Monitor, fields: dict[str, object], field: str
) -> None:
    one = monitor()
    values: dict[str, object] = {"protocol_version": 1, "host": HOST, "push_every_s": 5.0, **fields}
    await one.write(monitor_pb2.ReportRequest(hello=monitor_pb2.Hello(**values)))  # type: ignore[arg-type] # wrong on purpose
    code, sentence = await one.ended()
    assert (code, sentence.startswith(field)) == (StatusCode.INVALID_ARGUMENT, True)
    assert service.engine.hosts()[1] == 0


async def test_telemetry_before_a_hello_is_refused_and_so_is_a_second_hello(service: Service, monitor: Monitor) -> None:
    first = monitor()
    await first.tell()
    assert await first.ended() == (StatusCode.FAILED_PRECONDITION, "the first message of a stream must be hello")
    second = await monitor().hello()
    await second.tell()
    await second.write(monitor_pb2.ReportRequest(hello=monitor_pb2.Hello(protocol_version=1, host=HOST)))
    assert (await second.ended())[0] is StatusCode.FAILED_PRECONDITION
    assert host(service).record.telemetry is Telemetry.LIVE
