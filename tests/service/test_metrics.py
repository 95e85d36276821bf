"""What Prometheus reads: right numbers, bounded series."""

from collections.abc import Callable

import pytest
from prometheus_client import generate_latest

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.protocol.v1 import decision_pb2
from yarn_gpu_sched.service import FakeClock, Service, Settings

Link = Callable[[], RawLink]


@pytest.fixture
def settings() -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, metrics_listen="127.0.0.1:0")


def value(service: Service, series: str) -> float | None:
    name, _, label = series.partition("{")
    key, _, wanted = label.rstrip("}").partition("=")
    return service.metrics.registry.get_sample_value(name, {key: wanted} if key else {})


async def test_the_numbers_are_right(service: Service, clock: FakeClock, link: Link) -> None:
    one = await link().open(
        changes.server(gpus=4),
        changes.job("job-1"),
        changes.container(job_id="job-1", gpu_indices=(0, 1)),
        changes.job("job-2"),
        changes.asks("job-2", count=1, gpus=4),
        changes.job("job-3", active=True),
        changes.asks("job-3", count=1, gpus=2),
        epoch=9,
    )
    (decision,) = await one.decisions()
    clock.advance(1.0)
    assert value(service, "ygs_queue_depth{queue=unanswered}") == 1
    await one.batch(changes.outcome(decision.decision_id, code=decision_pb2.OUTCOME_CODE_NO_FIT))
    await until(lambda: value(service, "ygs_outcomes_total{code=no_fit}"))
    await settled(service)
    await one.heartbeat()
    clock.advance(1.0)
    assert value(service, "ygs_decisions_total{kind=place_gang}") == 1
    assert value(service, "ygs_outcome_seconds_count") == 1
    assert value(service, "ygs_jobs{state=running}") == 1
    assert value(service, "ygs_jobs{state=pending}") == 2
    assert value(service, "ygs_jobs_waiting{reason=refused_by_rm}") == 1
    assert value(service, "ygs_gpus{use=used}") == 2
    assert value(service, "ygs_gpus{use=free}") == 2
    assert value(service, "ygs_servers") == 1
    assert value(service, "ygs_link_up") == 1
    assert value(service, "ygs_link_epoch") == 9
    assert value(service, "ygs_queue_depth{queue=unanswered}") == 0
    assert (value(service, "ygs_pass_seconds_count") or 0) >= 2
    assert (value(service, "ygs_events_total") or 0) >= 9


async def test_the_end_of_a_link_is_counted_by_its_reason(service: Service, clock: FakeClock, link: Link) -> None:
    one = await link().open()
    await one.register()
    await one.end()
    two = await link().open()
    await two.call.done_writing()
    await two.end()
    await settled(service)
    assert value(service, "ygs_link_ends_total{reason=REGISTERED_TWICE}") == 1
    assert value(service, "ygs_link_ends_total{reason=CLOSED}") == 1
    clock.advance(1.0)
    assert value(service, "ygs_link_up") == 0


async def test_many_pending_jobs_are_counted_a_piece_at_a_time(service: Service, clock: FakeClock, link: Link) -> None:
    one = await link().open(changes.server(gpus=0))
    for start in (0, 250):
        await one.batch(*[changes.job(f"job-{index}") for index in range(start, start + 250)])
    await until(lambda: service.engine.jobs(limit=1)[1] == 500)
    await settled(service)
    for _ in range(6):
        clock.advance(1.0)
    counted = [value(service, f"ygs_jobs_waiting{{reason={code.value}}}") or 0 for code in ReasonCode]
    assert sum(counted) == 500


async def test_hostile_names_make_no_series(service: Service, clock: FakeClock, link: Link) -> None:
    hostile = ['evil"} 1\n', "\x1b[31m", "x" * 200]
    await link().open(
        *[changes.server(f"{name}:{index}") for index, name in enumerate(hostile)],
        *[changes.job(f"{name}-{index}", vc=f"root.{name}") for index, name in enumerate(hostile)],
    )
    await settled(service)
    clock.advance(2.0)
    text = generate_latest(service.metrics.registry).decode()
    assert "evil" not in text
    assert "\x1b" not in text
    limit = len(JobState) + len(ReasonCode) + len(OutcomeCode) + 80
    assert len(series(service)) <= limit


def series(service: Service) -> set[str]:
    lines = generate_latest(service.metrics.registry).decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}
