"""What is told of preemption in log and metrics: who is warned, stopped, spared, and who does not end when it should."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import pytest
from grpc import aio
from structlog.testing import capture_logs

from tests.service import changes
from tests.service.conftest import settled
from tests.service.raw_link import RawLink
from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2, preemption_pb2, preemption_pb2_grpc
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.log import configure_logging

Link = Callable[[], RawLink]
Logged = list[MutableMapping[str, Any]]
GRACE_S, HOLD_S = 30.0, 120.0
OFF = preemption_pb2.PREEMPTION_MODE_OFF


@pytest.fixture
def settings() -> Settings:
    return Settings(
        listen="127.0.0.1:0",
        audit_every_events=0,
        preemption="on",
        preempt_after_s=10,
        preempt_grace_s=GRACE_S,
        preempt_hold_s=HOLD_S,
        preempt_min_run_s=0,
        preempt_pause_s=0,
    )


@pytest.fixture
def logged(service: Service) -> Iterator[Logged]:
    configure_logging("info")
    with capture_logs() as logs:
        yield logs
    assert service.engine.audit() == []


@pytest.fixture
def preemption(channel: aio.Channel) -> preemption_pb2_grpc.PreemptionServiceAsyncStub:
    return preemption_pb2_grpc.PreemptionServiceStub(channel)


def events(logged: Logged) -> list[str]:
    """List what was told of preemption, once each, in order."""
    told = [str(line["event"]).removeprefix("preemption_") for line in logged if "preemption" in str(line["event"])]
    return list(dict.fromkeys(told))


def metric(service: Service, name: str, **labels: str) -> float:
    value = service.metrics.registry.get_sample_value(name, labels)
    assert value is not None
    return value


async def pass_by(service: Service, clock: FakeClock, seconds: float, link: RawLink | None = None) -> None:
    """Let time go by, with all that comes due; the link is never silent."""
    left_s = seconds
    while left_s > 0:
        if link is not None:
            await link.heartbeat()
            await settled(service)
        clock.advance(min(left_s, 1.0))
        left_s -= 1.0
        await settled(service)


def lent() -> list[link_pb2.Change]:
    """Let two jobs of queue a hold four GPUs each, of which it owns four, and a gang of queue b want its four."""
    held = [
        change
        for number, first in ((1, 0), (2, 4))
        for change in (
            changes.job(f"borrower-{number}", tags=["gang:1x4"], vc="root.a"),
            changes.container(f"c{number}", f"borrower-{number}", gpu_indices=range(first, first + 4)),
        )
    ]
    queues = [changes.virtual_cluster(f"root.{name}", quota_gpus=4) for name in "ab"]
    wanted = (changes.job("owner", tags=["gang:1x4"], vc="root.b"), changes.asks("owner", gpus=4))
    return [changes.server(gpus=8), *queues, *held, *wanted]


async def warned(service: Service, clock: FakeClock, link: RawLink) -> decision_pb2.Decision:
    """Let queue b want its four GPUs while queue a has all of them; return the warning."""
    await link.open(*lent())
    await settled(service)
    await pass_by(service, clock, 10.5, link)
    (warning,) = await link.decisions()
    assert (warning.WhichOneof("action"), warning.warn_job.job_id) == ("warn_job", "borrower-2")
    await link.batch(changes.outcome(warning.decision_id))
    await settled(service)
    return warning


async def ordered(service: Service, clock: FakeClock, link: RawLink) -> decision_pb2.Decision:
    """Let the grace go by; return the order to stop."""
    await pass_by(service, clock, GRACE_S, link)
    (order,) = await link.decisions()
    assert (order.WhichOneof("action"), order.requeue_job.job_id) == ("requeue_job", "borrower-2")
    return order


async def test_a_victim_that_lives_on_is_told_of_once_and_counted_until_it_ends(
    service: Service, clock: FakeClock, link: Link, logged: Logged
) -> None:
    one = link()
    await warned(service, clock, one)
    order = await ordered(service, clock, one)
    await one.batch(changes.outcome(order.decision_id))
    assert events(logged) == ["decided", "stopping"]
    await pass_by(service, clock, 10.0, one)
    assert metric(service, "ygs_preemption_victims_late") == 0
    for _ in range(3):
        await pass_by(service, clock, 1.0, one)
    assert metric(service, "ygs_preemption_victims_late") == 1
    (late,) = [line for line in logged if line["event"] == "preemption_victim_late"]
    assert (late["job_id"], late["by_job_id"], late["containers"]) == ("borrower-2", "owner", 1)
    assert (metric(service, "ygs_preemptions_total"), metric(service, "ygs_preemption_mode", mode="on")) == (1, 1)
    await one.batch(changes.released("c2"))
    await settled(service)
    await pass_by(service, clock, 1.0, one)
    assert metric(service, "ygs_preemption_victims_late") == 0
    assert events(logged) == ["decided", "stopping", "victim_late"]


@pytest.mark.parametrize("how", ["refused", "registered anew"])
async def test_who_is_not_to_end_any_more_is_not_late(
    service: Service, clock: FakeClock, link: Link, logged: Logged, how: str
) -> None:
    one = link()
    await warned(service, clock, one)
    order = await ordered(service, clock, one)
    if how == "refused":
        await one.batch(changes.outcome(order.decision_id, code=decision_pb2.OUTCOME_CODE_NO_ATTEMPT))
        await settled(service)
    else:
        one = await link().open(*lent(), epoch=2)
        await settled(service)
    for _ in range(12):
        await pass_by(service, clock, 1.0, one)
    assert metric(service, "ygs_preemption_victims_late") == 0
    assert "victim_late" not in events(logged)


async def test_who_is_warned_is_spared_when_the_gang_finds_room_before(
    service: Service, clock: FakeClock, link: Link, logged: Logged
) -> None:
    one = link()
    await warned(service, clock, one)
    await one.batch(changes.released("c1"), changes.ended("borrower-1"))
    (placed,) = await one.decisions()
    await one.batch(changes.committed(placed))
    await settled(service)
    await pass_by(service, clock, 1.0, one)
    (spared,) = [line for line in logged if line["event"] == "preemption_spared"]
    assert (spared["job_id"], spared["victims"], spared["victims_count"]) == ("owner", ["borrower-2"], 1)
    assert metric(service, "ygs_preemptions_total") == 0


async def test_switched_off_it_is_told_at_once_who_is_spared(
    service: Service,
    clock: FakeClock,
    link: Link,
    logged: Logged,
    preemption: preemption_pb2_grpc.PreemptionServiceAsyncStub,
) -> None:
    one = link()
    await warned(service, clock, one)
    answer = await preemption.SetPreemptionMode(preemption_pb2.SetPreemptionModeRequest(mode=OFF, reason="enough"))
    assert [victim.job_id for victim in answer.spared] == ["borrower-2"]
    (switched,) = [line for line in logged if line["event"] == "preemption_switched"]
    assert (switched["before"], switched["mode"], switched["spared"]) == ("on", "off", ["borrower-2"])
    await pass_by(service, clock, 1.0, one)
    assert metric(service, "ygs_preemption_mode", mode="on") == 0
    assert metric(service, "ygs_preemption_mode", mode="off") == 1
