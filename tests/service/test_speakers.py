"""Who may speak for a server: whoever calls from one of its addresses."""

from __future__ import annotations

import pytest
from grpc import StatusCode, aio

from tests.service.raw_monitor import RawMonitor
from yarn_gpu_sched.protocol.v1 import gpu_pb2, gpu_pb2_grpc, monitor_pb2
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.monitors import speakers
from yarn_gpu_sched.service.monitors.speakers import Speakers, address_of
from yarn_gpu_sched.service.refusal import Refusal


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> dict[str, frozenset[str]]:
    """Give names addresses, as a name server would."""
    known = {"gpu-1": frozenset({"10.0.0.1", "fd00::1"}), "here": frozenset({"10.0.0.9"})}
    asked: list[str] = []

    async def resolved(host: str) -> frozenset[str]:
        asked.append(host)
        return known.get(host, frozenset())

    monkeypatch.setattr(speakers, "_resolved", resolved)
    monkeypatch.setattr(speakers, "_own_addresses", lambda: frozenset({"10.0.0.9", "127.0.0.1"}))
    return known


@pytest.mark.parametrize("peer", ["ipv4:10.0.0.1:5000", "ipv6:%5Bfd00::1%5D:5000", "ipv6:[::ffff:10.0.0.1]:5000"])
async def test_a_server_speaks_for_itself(named: dict[str, frozenset[str]], peer: str) -> None:
    assert named
    await Speakers(FakeClock(0.0)).check(peer, "gpu-1")


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.2:5000", "gpu-1"),
        ("ipv4:127.0.0.1:5000", "gpu-1"),
        ("ipv4:10.0.0.1:5000", "gpu-2"),
        ("unix:/tmp/socket", "gpu-1"),
        ("ipv4:nonsense", "gpu-1"),
    ],
)
async def test_nobody_speaks_for_another(named: dict[str, frozenset[str]], peer: str, host: str) -> None:
    assert named
    with pytest.raises(Refusal) as refused:
        await Speakers(FakeClock(0.0)).check(peer, host)
    assert refused.value.reason == "OTHER_SERVER"


async def test_a_caller_on_this_machine_may_go_by_any_of_its_names(named: dict[str, frozenset[str]]) -> None:
    assert named
    await Speakers(FakeClock(0.0)).check("ipv4:127.0.0.1:5000", "here")


async def test_where_servers_are_processes_of_one_machine_it_has_to_be_said(named: dict[str, frozenset[str]]) -> None:
    assert named
    await Speakers(FakeClock(0.0), any_local=True).check("ipv4:127.0.0.1:5000", "gpu-1")
    with pytest.raises(Refusal):
        await Speakers(FakeClock(0.0), any_local=True).check("ipv4:10.0.0.2:5000", "gpu-1")


async def test_a_name_is_looked_up_again_after_a_minute(named: dict[str, frozenset[str]]) -> None:
    clock = FakeClock(0.0)
    one = Speakers(clock)
    await one.check("ipv4:10.0.0.1:5000", "gpu-1")
    named["gpu-1"] = frozenset({"10.0.0.7"})
    await one.check("ipv4:10.0.0.1:5000", "gpu-1")
    clock.advance(61.0)
    with pytest.raises(Refusal):
        await one.check("ipv4:10.0.0.1:5000", "gpu-1")


def test_addresses_of_callers() -> None:
    assert str(address_of("ipv4:127.0.0.1:55")) == "127.0.0.1"
    assert str(address_of("ipv6:%5B::1%5D:55")) == "::1"
    assert address_of("unix:") is None


async def test_another_servers_name_is_refused_over_a_real_stream_and_counted() -> None:
    one = Service(Settings(listen="127.0.0.1:0"), FakeClock(0.0))
    await one.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{one.port}") as channel:
            liar = RawMonitor(channel)
            hello = monitor_pb2.Hello(protocol_version=1, host="gpu-of-somebody.invalid", push_every_s=5.0)
            await liar.write(monitor_pb2.ReportRequest(hello=hello))
            code, sentence = await liar.ended()
            assert code is StatusCode.PERMISSION_DENIED
            assert "does not speak for gpu-of-somebody.invalid" in sentence
            assert one.metrics.monitor_lies.labels("OTHER_SERVER")._value.get() == 1
            assert one.engine.hosts()[1] == 0
            await RawMonitor(channel).hello("localhost")
    finally:
        await one.stop()


async def test_monitors_of_other_machines_reach_nothing_but_what_is_theirs() -> None:
    settings = Settings(listen="127.0.0.1:0", monitor_listen="127.0.0.1:0", local_monitors=True)
    one = Service(settings, FakeClock(0.0))
    await one.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{one.monitor_port}") as channel:
            await RawMonitor(channel).hello()
            with pytest.raises(aio.AioRpcError) as error:
                await gpu_pb2_grpc.GpuServiceStub(channel).ListGpus(gpu_pb2.ListGpusRequest())
            assert error.value.code() is StatusCode.UNIMPLEMENTED
    finally:
        await one.stop()
