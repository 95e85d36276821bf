"""What the gate does beside the table: own servers, own jobs, identities that are none, certificates that expire meanwhile."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from tests.service import changes
from tests.service.certified import Certified, answer, calling, serving
from tests.service.conftest import settled
from tests.service.raw_link import BOUND_S, RawLink
from tests.service.raw_monitor import RawMonitor
from yarn_gpu_sched.identity import Role, TlsFiles, utc_now
from yarn_gpu_sched.protocol.v1 import gpu_pb2, link_pb2, monitor_pb2, preemption_pb2
from yarn_gpu_sched.service import Service
from yarn_gpu_sched.service.driver import Events
from yarn_gpu_sched.service.gate import Gate
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.refusal import Refusal, end_call
from yarn_gpu_sched.service.switch_file import SwitchFile

Code = grpc.StatusCode
CHECKPOINT = "/yarn_gpu_sched.v1.PreemptionService/ReportCheckpoint"
SWITCH = "/yarn_gpu_sched.v1.PreemptionService/SetPreemptionMode"
MARK = "/yarn_gpu_sched.v1.GpuService/Mark"
REPORT = "/yarn_gpu_sched.v1.MonitorService/Report"
GET = "/yarn_gpu_sched.v1.ClusterService/GetCluster"


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return Certified(tmp_path)


@pytest_asyncio.fixture
async def service(certified: Certified) -> AsyncIterator[Service]:
    async with serving(certified.settings(state_dir=str(certified.folder / "state"))) as one:
        yield one


async def spoken(certified: Certified, service: Service, name: str, host: str) -> tuple[Code, str]:
    """Say hello for a host with the certificate of a name; OK once an order came."""
    async with calling(certified, service.port, certified.issue(Role.MONITOR, name)) as channel:
        monitor = RawMonitor(channel)
        hello = monitor_pb2.Hello(protocol_version=1, host=host, push_every_s=5.0)
        await monitor.write(monitor_pb2.ReportRequest(hello=hello))
        try:
            await monitor.order()
        except (AssertionError, aio.AioRpcError):
            return await monitor.ended()
        monitor.cancel()
        return Code.OK, ""


async def cluster(certified: Certified, service: Service, *more: link_pb2.Change, hosts: tuple[str, ...]) -> RawLink:
    """Register a resource manager with servers."""
    channel = calling(certified, service.port, certified.issue(Role.RESOURCE_MANAGER))
    link = RawLink(channel)
    await link.open(*(changes.server(f"{host}:45454", host=host) for host in hosts), *more)
    await settled(service)
    return link


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("gpu-1.example.org", "gpu-1.example.org"),
        ("gpu-1.example.org", "gpu-1"),
        ("gpu-1", "gpu-1.example.org"),
        ("GPU-1.Example.org", "gpu-1.EXAMPLE.org"),
    ],
)
@pytest.mark.parametrize("known", ["known", ""])
async def test_c27_a_monitor_speaks_for_its_own_server_by_any_form_of_its_name(
    certified: Certified, service: Service, name: str, host: str, known: str
) -> None:
    if known:
        await cluster(certified, service, hosts=("gpu-1.example.org", "gpu-2.example.org"))
    assert await spoken(certified, service, name, host) == (Code.OK, "")
    line = await certified.until_audited(act="connected", who=f"monitor/{name}")
    assert line["host"].lower() in ("gpu-1", "gpu-1.example.org")
    await certified.until_audited(act="ended", who=f"monitor/{name}")


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("gpu-2.example.org", "gpu-1.example.org"),
        ("gpu-2", "gpu-1"),
        ("gpu-1.other.org", "gpu-1.example.org"),
        ("gpu-1", "gpu-10.example.org"),
        ("gpu-10", "gpu-1"),
        ("example.org", "gpu-1.example.org"),
        ("twin", "twin.a.org"),
    ],
)
async def test_nobody_speaks_for_another_server(certified: Certified, service: Service, name: str, host: str) -> None:
    await cluster(certified, service, hosts=("gpu-1.example.org", "gpu-2.example.org", "twin.a.org", "twin.b.org"))
    code, sentence = await spoken(certified, service, name, host)
    assert code is Code.PERMISSION_DENIED
    assert f"the certificate of {name} does not speak for" in sentence
    line = await certified.until_audited(outcome="refused", reason="OTHER_SERVER", who=f"monitor/{name}")
    assert line["why"] == sentence


@pytest.mark.parametrize("host", ["gpu-2", "gpu-1.example", "gpu-1.other.org", "gpu-10", "gpu"])
async def test_nor_for_one_that_nobody_has_named_yet(certified: Certified, service: Service, host: str) -> None:
    code, _ = await spoken(certified, service, "gpu-1.example.org", host)
    assert code is Code.PERMISSION_DENIED


async def test_a_monitor_that_came_first_is_asked_again_once_its_server_is_known(
    certified: Certified, service: Service
) -> None:
    async with calling(certified, service.port, certified.issue(Role.MONITOR, "twin")) as channel:
        monitor = await RawMonitor(channel).hello("twin.a.org")
        await cluster(certified, service, hosts=("twin.a.org", "twin.b.org"))
        await monitor.tell()
        code, sentence = await monitor.ended()
        assert (code, sentence) == (Code.PERMISSION_DENIED, "the certificate of twin does not speak for twin.a.org")


async def test_a_submitter_reports_for_jobs_of_its_own_user_only(certified: Certified, service: Service) -> None:
    jobs = [changes.job("mine", user="bob"), changes.job("another", user="eve")]
    await cluster(certified, service, *jobs, hosts=("gpu-1",))
    async with calling(certified, service.port, certified.issue(Role.SUBMITTER, "bob")) as channel:

        async def report(job_id: str) -> tuple[Code, str, str]:
            request = preemption_pb2.ReportCheckpointRequest(job_id=job_id)
            return await answer(channel, CHECKPOINT, request.SerializeToString())

        assert (await report("mine"))[:2] == (Code.FAILED_PRECONDITION, "NOT_RUNNING")
        denied = await report("another")
        assert denied == (Code.PERMISSION_DENIED, "OTHER_USER", "submitter/bob may not speak for jobs of user 'eve'")
    await certified.until_audited(reason="OTHER_USER", who="submitter/bob", rpc=CHECKPOINT)
    async with calling(certified, service.port, certified.issue(Role.OPERATOR)) as channel:
        request = preemption_pb2.ReportCheckpointRequest(job_id="another")
        assert (await answer(channel, CHECKPOINT, request.SerializeToString()))[1] == "NOT_RUNNING"


async def test_a_link_is_audited_from_its_registration_to_its_end(certified: Certified, service: Service) -> None:
    link = await cluster(certified, service, hosts=("gpu-1",))
    begun = await certified.until_audited(act="registered", who="resource-manager/rm-1")
    assert (begun["cluster_id"], begun["epoch"], begun["meaning"]) == ("c1", 1, "be the cluster's resource manager")
    link.call.cancel()
    ended = await certified.until_audited(act="ended", who="resource-manager/rm-1")
    assert ended["session_id"] == begun["session_id"]


async def test_what_operators_do_is_audited_with_before_and_after(certified: Certified, service: Service) -> None:
    await cluster(certified, service, hosts=("gpu-1",))
    async with calling(certified, service.port, certified.issue(Role.OPERATOR)) as channel:
        mark = gpu_pb2.MarkRequest(
            action=gpu_pb2.MARK_ACTION_DRAIN, server="gpu-1", reason="a fan", by="al", dry_run=True
        )
        assert (await answer(channel, MARK, mark.SerializeToString()))[0] is Code.OK
        mark.dry_run = False
        assert (await answer(channel, MARK, mark.SerializeToString()))[0] is Code.OK
        switch = preemption_pb2.SetPreemptionModeRequest(
            mode=preemption_pb2.PREEMPTION_MODE_ON, reason="night", by="al"
        )
        assert (await answer(channel, SWITCH, switch.SerializeToString()))[0] is Code.OK
        mark.server = "nowhere"
        assert (await answer(channel, MARK, mark.SerializeToString()))[0] is Code.NOT_FOUND
    drained = await certified.until_audited(act="drain", who="operator/ops")
    assert (drained["before"]["drained"], drained["after"]["drained"]) == (False, True)
    assert (drained["host"], drained["reason"], drained["by"]) == ("gpu-1", "a fan", "al")
    switched = await certified.until_audited(act="switched")
    assert (switched["before"], switched["after"], switched["reason"]) == ("observe", "on", "night")
    refused = await certified.until_audited(outcome="refused", reason="UNKNOWN_SERVER")
    assert (refused["rpc"], refused["code"]) == (MARK, "NOT_FOUND")
    assert len([line for line in certified.lines() if line["rpc"] == MARK]) == 2, "a dry run changes nothing"


async def asked(channel: aio.Channel, path: str, request: bytes) -> aio.StreamStreamCall[bytes, bytes]:
    """Begin a call, without waiting for its answer."""
    call: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(path)()
    await call.write(request)
    await call.done_writing()
    return call


async def test_an_operator_that_does_not_wait_for_the_answer_is_audited(
    certified: Certified, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, disk = threading.Event(), threading.Event()
    really = service.preemption_switch._write

    def write(file: SwitchFile) -> None:
        begun.set()
        disk.wait(BOUND_S)
        really(file)

    monkeypatch.setattr(service.preemption_switch, "_write", write)
    switch = preemption_pb2.SetPreemptionModeRequest(mode=preemption_pb2.PREEMPTION_MODE_ON, reason="night")
    try:
        async with calling(certified, service.port, certified.issue(Role.OPERATOR)) as channel:
            call = await asked(channel, SWITCH, switch.SerializeToString())
            assert await asyncio.to_thread(begun.wait, BOUND_S)
            call.cancel()
        line = await certified.until_audited(act="switched")
        assert (line["who"], line["before"], line["after"]) == ("operator/ops", "observe", "on")
    finally:
        disk.set()


async def test_a_report_whose_sender_is_gone_is_audited(
    certified: Certified, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [changes.job("mine", user="bob"), changes.asks("mine"), changes.container("c-1", "mine")]
    await cluster(certified, service, *jobs, hosts=("gpu-1",))
    tell, told, goes_on = service.driver.tell, asyncio.Event(), asyncio.Event()

    async def slowly(make: Events) -> None:
        await tell(make)
        told.set()
        await goes_on.wait()

    monkeypatch.setattr(service.driver, "tell", slowly)
    request = preemption_pb2.ReportCheckpointRequest(job_id="mine").SerializeToString()
    async with calling(certified, service.port, certified.issue(Role.SUBMITTER, "bob")) as channel:
        call = await asked(channel, CHECKPOINT, request)
        await asyncio.wait_for(told.wait(), BOUND_S)
        call.cancel()
    await asyncio.sleep(0.2)  # until the service has heard of it
    goes_on.set()
    assert (await certified.until_audited(act="reported"))["job_id"] == "mine"


async def test_where_everybody_may_connect_loopback_has_tls_too(tmp_path: Path) -> None:
    certified = Certified(tmp_path)
    async with serving(certified.settings(listen="0.0.0.0:0", tls_on_loopback=False)) as service:
        async with calling(certified, service.port, certified.issue(Role.READER)) as channel:
            assert (await answer(channel, GET))[0] is Code.OK
        async with aio.insecure_channel(f"127.0.0.1:{service.port}") as channel:
            assert (await answer(channel, GET))[0] is Code.UNAVAILABLE


async def test_where_monitors_connect_nothing_else_is_served_and_the_same_table_holds(tmp_path: Path) -> None:
    certified = Certified(tmp_path)
    settings = certified.settings(listen="127.0.0.1:0", monitor_listen="0.0.0.0:0", tls_on_loopback=False)
    async with serving(settings) as service:
        async with calling(certified, service.monitor_port, certified.issue(Role.MONITOR, "gpu-1")) as channel:
            await RawMonitor(channel).hello("gpu-1")
            assert (await answer(channel, GET))[0] is Code.UNIMPLEMENTED
        async with calling(certified, service.monitor_port, certified.issue(Role.OPERATOR)) as channel:
            assert (await answer(channel, REPORT))[:2] == (Code.PERMISSION_DENIED, "ROLE_NOT_PERMITTED")
        async with calling(certified, service.monitor_port, None) as channel:
            assert (await answer(channel, REPORT))[0] is Code.UNAVAILABLE
        async with aio.insecure_channel(f"127.0.0.1:{service.monitor_port}") as channel:
            assert (await answer(channel, REPORT))[0] is Code.UNAVAILABLE


async def test_over_loopback_without_tls_whoever_calls_may_do_everything(tmp_path: Path) -> None:
    certified = Certified(tmp_path)
    async with (
        serving(certified.settings(tls_on_loopback=False)) as service,
        aio.insecure_channel(f"127.0.0.2:{service.port}") as channel,
    ):
        switch = preemption_pb2.SetPreemptionModeRequest(mode=preemption_pb2.PREEMPTION_MODE_ON, reason="night")
        assert (await answer(channel, SWITCH, switch.SerializeToString()))[0] is Code.OK
        line = await certified.until_audited(act="switched")
        assert line["who"] == "loopback"


async def test_a_unix_socket_is_listened_on_by_its_owner_and_group_and_by_one_service(tmp_path: Path) -> None:
    certified = Certified(tmp_path)
    path = tmp_path / "ygs.sock"
    settings = certified.settings(listen=f"unix:{path}", tls_on_loopback=False)
    async with serving(settings), aio.insecure_channel(f"unix:{path}") as channel:
        assert (await answer(channel, GET))[0] is Code.OK
        assert oct(path.stat().st_mode & 0o777) == "0o660"
        with pytest.raises(RuntimeError, match="is in use or cannot be listened on"):
            async with serving(settings):
                pass
        assert (await answer(channel, GET))[0] is Code.OK, "the first goes on"
    async with serving(settings), aio.insecure_channel(f"unix:{path}") as channel:
        assert (await answer(channel, GET))[0] is Code.OK, "what a service left behind is replaced"


class Context:
    """A call with a certificate, whose refusals are kept."""

    def __init__(self, pem: bytes, *, gone: bool = False) -> None:
        self.pem = pem
        self.gone = gone
        self.code: Code | None = None
        self.metadata: Any = None

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"transport_security_type": [b"ssl"], "x509_pem_cert": [self.pem]}

    def peer(self) -> str:
        return "ipv4:10.0.0.7:5000"

    async def abort(self, code: Code, _sentence: str, metadata: Any) -> None:  # noqa: ANN401 - gRPC's own
        self.code, self.metadata = code, metadata
        raise aio.InternalError("gone") if self.gone else aio.AbortError("refused")


async def admitted(context: Context, now: dt.datetime) -> list[Any]:
    """Let a context through the gate to a handler that notes that it was called."""
    served: list[Any] = []

    async def handler(request: object, _context: object) -> None:
        served.append(request)

    async def continuation(_details: object) -> Any:  # noqa: ANN401 - gRPC's own
        return grpc.unary_unary_rpc_method_handler(handler)

    gate = Gate(lambda _: None, Metrics(), lambda _: None, lambda: now)
    made: Any = await gate.intercept_service(continuation, SimpleNamespace(method=GET, invocation_metadata=()))
    try:
        await made.unary_unary("request", context)
    except aio.AbortError:
        assert served == []
    return served


async def test_what_a_handler_refused_is_audited_though_the_caller_is_gone(certified: Certified) -> None:
    lines: list[Any] = []
    refusal = Refusal(Code.NOT_FOUND, "no such server", "UNKNOWN_SERVER")

    async def handler(_request: object, context: Context) -> None:
        await end_call(context, refusal)  # type: ignore[arg-type] # as much of a context as it needs

    async def continuation(_details: object) -> Any:  # noqa: ANN401 - gRPC's own
        return grpc.unary_unary_rpc_method_handler(handler)

    gate = Gate(lines.append, Metrics(), lambda _: None)
    made: Any = await gate.intercept_service(continuation, SimpleNamespace(method=MARK))
    await made.unary_unary("request", Context(pem(certified.issue(Role.OPERATOR)), gone=True))
    assert [(line["outcome"], line["reason"], line["who"]) for line in lines] == [
        ("refused", "UNKNOWN_SERVER", "operator/ops")
    ]


def pem(files: TlsFiles) -> bytes:
    return files.certificate.read_bytes()


async def test_a_certificate_that_expires_while_its_connection_is_open_is_unauthenticated(certified: Certified) -> None:
    files = certified.issue(Role.READER, days=1.0)
    assert await admitted(Context(pem(files)), utc_now()) == ["request"]
    late = Context(pem(files))
    assert await admitted(late, utc_now() + dt.timedelta(days=1)) == []
    assert late.code is Code.UNAUTHENTICATED
    assert b"CERTIFICATE_EXPIRED" in dict(late.metadata)["grpc-status-details-bin"]


async def test_a_certificate_that_names_nobody_is_unauthenticated(certified: Certified) -> None:
    for content in (b"", b"nonsense", certified.authority.joinpath("authority.pem").read_bytes()):
        context = Context(content)
        assert await admitted(context, utc_now()) == []
        assert context.code is Code.UNAUTHENTICATED
        assert b"NO_IDENTITY" in dict(context.metadata)["grpc-status-details-bin"]


async def test_who_cannot_be_told_of_a_refusal_is_refused_all_the_same(certified: Certified) -> None:
    gone = Context(pem(certified.issue(Role.MONITOR)), gone=True)
    assert await admitted(gone, utc_now()) == []
    assert gone.code is Code.PERMISSION_DENIED
