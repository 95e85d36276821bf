"""What is told of reservations in calls, log and metrics: which are made, moved and ended, and what they keep idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from itertools import pairwise
from typing import Any

import pytest
from grpc import aio
from structlog.testing import capture_logs

from tests.service import changes
from tests.service.conftest import settled
from tests.service.raw_link import RawLink
from tests.service.test_preemption_watch import metric, pass_by
from yarn_gpu_sched.protocol.v1 import cluster_pb2, cluster_pb2_grpc, link_pb2, server_pb2
from yarn_gpu_sched.service import FakeClock, Service, Settings, reservation_watch
from yarn_gpu_sched.service.log import configure_logging

Link = Callable[[], RawLink]
Logged = list[MutableMapping[str, Any]]
AFTER_S = 10.0
RUNS_S = 1_000


@pytest.fixture
def settings() -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, preemption="off", reserve_after_s=AFTER_S)


@pytest.fixture
def logged(service: Service) -> Iterator[Logged]:
    configure_logging("info")
    with capture_logs() as logs:
        yield logs
    assert service.engine.audit() == []


@pytest.fixture
def cluster(channel: aio.Channel) -> cluster_pb2_grpc.ClusterServiceAsyncStub:
    return cluster_pb2_grpc.ClusterServiceStub(channel)


def told(logged: Logged) -> list[str]:
    """List what was told of reservations, in order."""
    return [str(line["event"]).removeprefix("reservation_") for line in logged if "reservation" in str(line["event"])]


def runner(server: int, gpus: int) -> list[link_pb2.Change]:
    """Let a job hold the first GPUs of a server; it says how long it runs."""
    held = changes.container(f"c{server}", f"runner-{server}", server_id=f"gpu-{server}:45454", gpu_indices=range(gpus))
    return [changes.job(f"runner-{server}", tags=[f"runtime:{RUNS_S}"]), held]


def gang(job_id: str, vc: str = changes.VC, gpus: int = 4) -> list[link_pb2.Change]:
    return [changes.job(job_id, tags=[f"gang:1x{gpus}"], vc=vc), changes.asks(job_id, gpus=gpus)]


def crowded() -> list[link_pb2.Change]:
    """Let jobs hold two GPUs of one server and three of another, and a gang wait for all four of one."""
    servers = [changes.server(f"gpu-{number}:45454") for number in (1, 2)]
    return [*servers, changes.virtual_cluster(), *runner(1, 2), *runner(2, 3), *gang("large")]


async def test_one_that_is_made_is_told_of_with_what_it_keeps(
    service: Service, clock: FakeClock, link: Link, logged: Logged, cluster: cluster_pb2_grpc.ClusterServiceAsyncStub
) -> None:
    one = await link().open(*crowded())
    await settled(service)
    await pass_by(service, clock, AFTER_S - 0.5, one)
    assert (told(logged), metric(service, "ygs_reservations"), metric(service, "ygs_reserved_gpus")) == ([], 0, 0)
    await pass_by(service, clock, 2.0, one)
    (made,) = [line for line in logged if line["event"] == "reservation_made"]
    assert (made["job_id"], made["virtual_cluster"], made["gpus"], made["kept_gpus"]) == ("large", changes.VC, 4, 2)
    assert (made["servers"], made["servers_count"]) == (["gpu-1:45454"], 1)
    assert made["ready_in_s"] == pytest.approx(RUNS_S - AFTER_S, abs=2)
    assert (metric(service, "ygs_reservations"), metric(service, "ygs_reserved_gpus")) == (1, 2)
    assert metric(service, "ygs_reservations_made_total") == 1
    await pass_by(service, clock, 5.0, one)
    (kept,) = (await cluster.GetCluster(cluster_pb2.GetClusterRequest())).reservations
    assert (kept.job_id, kept.gpus, kept.kept_gpus, list(kept.awaited_job_ids)) == ("large", 4, 2, ["runner-1"])
    assert kept.age_s == pytest.approx(6.5, abs=1)
    assert kept.ready_in_s == pytest.approx(RUNS_S - 16.5, abs=2)
    assert told(logged) == ["made"], "what stays as it is is told once"


async def test_who_goes_there_all_the_same_is_counted(
    service: Service, clock: FakeClock, link: Link, logged: Logged
) -> None:
    one = await link().open(*crowded())
    await settled(service)
    await pass_by(service, clock, AFTER_S + 1.0, one)
    short = [
        changes.job("short", tags=["runtime:60", "gang:1x2"]),
        changes.asks("short", gpus=2),
    ]
    await one.batch(*short)
    (placed,) = await one.decisions()
    assert placed.place_gang.job_id == "short"
    await one.batch(changes.committed(placed))
    await settled(service)
    await pass_by(service, clock, 1.0, one)
    assert (metric(service, "ygs_reservations_passed_total"), metric(service, "ygs_reserved_gpus")) == (1, 0)
    assert (metric(service, "ygs_reservations"), told(logged)) == (1, ["made"])


async def test_it_ends_when_the_gang_starts(service: Service, clock: FakeClock, link: Link, logged: Logged) -> None:
    one = await link().open(*crowded())
    await settled(service)
    await pass_by(service, clock, AFTER_S + 1.0, one)
    await one.batch(changes.released("c1"), changes.ended("runner-1"))
    (placed,) = await one.decisions()
    assert {part.server_id for part in placed.place_gang.assignments} == {"gpu-1:45454"}
    await one.batch(changes.committed(placed))
    await settled(service)
    await pass_by(service, clock, 2.0, one)
    assert told(logged) == ["made", "ended"]
    (ended,) = [line for line in logged if line["event"] == "reservation_ended"]
    assert (ended["job_id"], ended["virtual_cluster"], ended["gpus"], ended["why"]) == (
        "large",
        changes.VC,
        4,
        "started",
    )
    assert ended["after_s"] == pytest.approx(2.0, abs=1.5)
    assert (metric(service, "ygs_reservations"), metric(service, "ygs_reserved_gpus")) == (0, 0)


async def test_it_ends_with_the_job(service: Service, clock: FakeClock, link: Link, logged: Logged) -> None:
    one = await link().open(*crowded())
    await settled(service)
    await pass_by(service, clock, AFTER_S + 1.0, one)
    await one.batch(changes.ended("large"))
    await settled(service)
    await pass_by(service, clock, 1.0, one)
    assert [line["why"] for line in logged if line["event"] == "reservation_ended"] == ["ended"]


async def test_one_that_moves_is_told_of_with_where_it_is_then(
    service: Service, clock: FakeClock, link: Link, logged: Logged
) -> None:
    one = await link().open(*crowded())
    await settled(service)
    await pass_by(service, clock, AFTER_S + 1.0, one)
    await one.batch(changes.server("gpu-1:45454", state=server_pb2.SERVER_STATE_DRAINING))
    await settled(service)
    await pass_by(service, clock, 1.0, one)
    assert told(logged) == ["made", "moved"]
    (moved,) = [line for line in logged if line["event"] == "reservation_moved"]
    assert (moved["job_id"], moved["servers"], moved["kept_gpus"]) == ("large", ["gpu-2:45454"], 1)
    assert metric(service, "ygs_reservations_made_total") == 1


async def test_a_resource_manager_that_registers_anew_ends_all_and_they_are_made_anew(
    service: Service, clock: FakeClock, link: Link, logged: Logged
) -> None:
    one = await link().open(*crowded())
    await settled(service)
    await pass_by(service, clock, AFTER_S + 1.0, one)
    again = await link().open(*crowded(), epoch=2)
    await settled(service)
    await pass_by(service, clock, 1.0, again)
    assert told(logged) == ["made", "ended"]
    assert [line["why"] for line in logged if line["event"] == "reservation_ended"] == ["given up"]
    await pass_by(service, clock, AFTER_S, again)
    assert told(logged) == ["made", "ended", "made"]
    assert metric(service, "ygs_reservations_made_total") == 2


async def test_of_many_at_once_so_many_are_told_and_the_rest_the_next_time(
    service: Service, clock: FakeClock, link: Link, logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservation_watch, "TOLD_MAX", 2)
    queues = [changes.virtual_cluster(f"root.{name}", quota_gpus=4) for name in "abc"]
    gangs = [change for name in "abc" for change in gang(f"large-{name}", f"root.{name}")]
    one = await link().open(*crowded(), *queues, *gangs)
    await settled(service)
    counts = []
    for _ in range(14):
        await pass_by(service, clock, 1.0, one)
        counts.append(len(told(logged)))
    assert [after - before for before, after in pairwise(counts) if after > before] == [2, 2]
    assert {line["job_id"] for line in logged if line["event"] == "reservation_made"} == {
        "large",
        "large-a",
        "large-b",
        "large-c",
    }
