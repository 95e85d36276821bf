"""Every RPC by every role, and callers that nobody knows: refused with the right status, and in the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.service.certified import NAMES, Certified, answer, calling, serving
from yarn_gpu_sched.identity import Role
from yarn_gpu_sched.service import FakeClock, Service
from yarn_gpu_sched.service.arrivals import LOOK_S
from yarn_gpu_sched.service.permissions import PERMISSIONS
from yarn_gpu_sched.service.server import _SERVICES

Code = grpc.StatusCode
READING = {
    "JobsService": ("ListJobs", "GetJob", "GetWaitingReason", "ListDelays", "WatchJobs"),
    "ClusterService": ("GetCluster", "ListServers", "ListVirtualClusters"),
    "PreemptionService": ("GetPreemption", "PreviewPreemption"),
    "GpuService": ("ListGpus", "ListIdle"),
}
READS = {f"/yarn_gpu_sched.v1.{service}/{rpc}" for service, rpcs in READING.items() for rpc in rpcs}
READS |= {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}
HEALTH = {f"/grpc.health.v1.Health/{rpc}" for rpc in ("Check", "Watch", "List")}
CHECKPOINT = "/yarn_gpu_sched.v1.PreemptionService/ReportCheckpoint"
OPERATES = {
    CHECKPOINT,
    "/yarn_gpu_sched.v1.PreemptionService/SetPreemptionMode",
    "/yarn_gpu_sched.v1.GpuService/Mark",
}
LINK = "/yarn_gpu_sched.v1.ResourceManagerLinkService/Connect"
REPORT = "/yarn_gpu_sched.v1.MonitorService/Report"
MAY = {
    Role.RESOURCE_MANAGER: HEALTH | {LINK},
    Role.MONITOR: HEALTH | {REPORT},
    Role.OPERATOR: HEALTH | READS | OPERATES,
    Role.READER: HEALTH | READS,
    Role.SUBMITTER: HEALTH | READS | {CHECKPOINT},
    Role.SERVICE: HEALTH,
}
"""Written out here, and not read from the table: a slip there is seen."""
REQUESTS = {"/yarn_gpu_sched.v1.JobsService/WatchJobs": b"no message"}
"""Everything else answers or refuses an empty message; a watch would wait."""


def served() -> set[str]:
    """List every RPC of every service that is served."""
    services = {one.full_name: [method.name for method in one.methods] for one in _SERVICES}
    health = health_pb2.DESCRIPTOR.services_by_name["Health"]
    services["grpc.health.v1.Health"] = [method.name for method in health.methods]
    reflection = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
    services["grpc.reflection.v1alpha.ServerReflection"] = [method.name for method in reflection.methods]
    return {f"/{name}/{rpc}" for name, rpcs in services.items() for rpc in rpcs}


@pytest_asyncio.fixture
async def certified(tmp_path: Path) -> Certified:
    return Certified(tmp_path)


@pytest_asyncio.fixture
async def service(certified: Certified, clock: FakeClock) -> AsyncIterator[Service]:
    async with serving(certified.settings(), clock) as one:
        yield one


def test_every_rpc_that_is_served_has_its_row() -> None:
    assert set(PERMISSIONS) == served()
    assert set.union(*MAY.values()) == served()


@pytest.mark.parametrize("role", Role)
async def test_every_rpc_by_every_role(certified: Certified, service: Service, role: Role) -> None:
    refused = {}
    async with calling(certified, service.port, certified.issue(role)) as channel:
        for path in sorted(PERMISSIONS):
            code, reason, sentence = await answer(channel, path, REQUESTS.get(path, b""))
            assert code is not Code.UNAUTHENTICATED
            if code is Code.PERMISSION_DENIED:
                assert reason == "ROLE_NOT_PERMITTED"
                assert sentence.startswith(f"{role.value}/{NAMES[role]} may not {PERMISSIONS[path].meaning}; who may: ")
                refused[path] = sentence
    assert set(PERMISSIONS) - set(refused) == MAY[role]
    for path, sentence in refused.items():
        line = await certified.until_audited(rpc=path, outcome="refused", reason="ROLE_NOT_PERMITTED")
        assert (line["who"], line["why"]) == (f"{role.value}/{NAMES[role]}", sentence)
        assert line["peer"].startswith("ipv4:127.0.0.")


async def test_an_rpc_that_no_row_names_is_refused_to_everybody(
    certified: Certified, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {path: rule for path, rule in PERMISSIONS.items() if not path.endswith("/ListJobs")}
    monkeypatch.setattr("yarn_gpu_sched.service.gate.PERMISSIONS", left)
    async with calling(certified, service.port, certified.issue(Role.OPERATOR)) as channel:
        code, _, sentence = await answer(channel, "/yarn_gpu_sched.v1.JobsService/ListJobs")
        assert code is Code.PERMISSION_DENIED
        assert "is in no table" in sentence
        assert (await answer(channel, "/yarn_gpu_sched.v1.ClusterService/GetCluster"))[0] is Code.OK


async def test_what_nobody_serves_is_unimplemented(certified: Certified, service: Service) -> None:
    async with calling(certified, service.port, certified.issue(Role.READER)) as channel:
        assert (await answer(channel, "/yarn_gpu_sched.v1.JobsService/Destroy"))[0] is Code.UNIMPLEMENTED


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("kind", ["none", "stranger", "expired"])
async def test_who_has_no_usable_certificate_is_not_let_in(
    certified: Certified, clock: FakeClock, service: Service, role: Role, kind: str
) -> None:
    made = {"none": lambda _: None, "stranger": certified.of_a_stranger, "expired": certified.expired}
    async with calling(certified, service.port, made[kind](role)) as channel:
        for path in sorted(PERMISSIONS):
            code, _, _ = await answer(channel, path)
            assert code is Code.UNAVAILABLE, path
    for _ in range(2):  # who is gone is seen by the second look after it came
        clock.advance(LOOK_S)
    line = await certified.until_audited(outcome="refused", reason="NO_CALL", who="unknown")
    assert line["peer"].startswith("ipv4:127.0.0.")
    assert service.metrics.registry.get_sample_value("ygs_refused_calls_total", {"reason": "NO_CALL"})
    async with calling(certified, service.port, certified.issue(Role.READER)) as channel:
        assert (await answer(channel, "/grpc.health.v1.Health/Check"))[0] is Code.OK, "others are served as before"


@pytest.mark.usefixtures("certified")
async def test_plain_text_is_not_answered_where_there_is_tls(service: Service) -> None:
    async with aio.insecure_channel(f"127.0.0.2:{service.port}") as channel:
        code, _, _ = await answer(channel, "/grpc.health.v1.Health/Check")
        assert code is Code.UNAVAILABLE
