"""What Prometheus reads: right numbers, bounded series."""

from collections.abc import Callable

import pytest
from prometheus_client import generate_latest

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.engine.views import DelayRow
from yarn_gpu_sched.model.delay import SIZES, Cause, Delays
from yarn_gpu_sched.model.health import Health, Telemetry
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.protocol.v1 import decision_pb2
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.vc_gauges import waited_us

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


def vc_gpus(service: Service, vc: str, kind: str) -> float | None:
    labels = {"vc": vc, "partition": "", "kind": kind}
    return service.metrics.registry.get_sample_value("ygs_vc_gpus", labels)


async def test_virtual_clusters_show_quota_use_and_what_is_borrowed(
    service: Service, clock: FakeClock, link: Link
) -> None:
    await link().open(
        changes.server(gpus=4),
        changes.virtual_cluster("root.a", quota_gpus=1),
        changes.virtual_cluster("root.b", quota_gpus=6),
        changes.job("job-1", vc="root.a"),
        changes.container(job_id="job-1", gpu_indices=(0, 1)),
        changes.job("job-2", vc="root.free"),
        changes.container("container-2", job_id="job-2", gpu_indices=(2,)),
    )
    await settled(service)
    clock.advance(10.0)
    assert [vc_gpus(service, "root.a", kind) for kind in ("quota", "maximum", "used", "borrowed")] == [1, None, 2, 2]
    assert [vc_gpus(service, "other", kind) for kind in ("quota", "used", "borrowed")] == [None, 1, 0]
    assert value(service, "ygs_vc_warnings") == 1, "7 GPUs of quota on 4"
    two = await link().open(  # the first was silent for too long
        changes.server(gpus=4),
        changes.virtual_cluster("root.a", quota_gpus=None),
        changes.virtual_cluster("root.b", quota_gpus=2),
        changes.job("job-1", vc="root.a"),
        changes.container(job_id="job-1", gpu_indices=(0, 1, 2)),
        epoch=2,
    )
    await settled(service)
    clock.advance(1.0)
    assert vc_gpus(service, "root.b", "quota") == 6, "it is looked at every 10 s"
    await two.heartbeat()
    clock.advance(9.0)
    assert vc_gpus(service, "root.b", "quota") == 2
    assert vc_gpus(service, "root.a", "quota") is None
    assert vc_gpus(service, "other", "used") == 3
    assert value(service, "ygs_vc_warnings") == 0


async def test_only_so_many_virtual_clusters_have_series_of_their_own(
    service: Service, clock: FakeClock, link: Link
) -> None:
    one = await link().open(
        changes.server(gpus=4),
        changes.job("job-1", vc="root.q1004"),
        changes.container(job_id="job-1", gpu_indices=(0, 1)),
    )
    for start in range(0, 1_005, 201):
        await one.batch(*(changes.virtual_cluster(f"root.q{start + index:04}") for index in range(201)))
    await settled(service)
    clock.advance(10.0)
    named = {line.split('vc="')[1].split('"')[0] for line in series(service) if line.startswith("ygs_vc_gpus{")}
    assert len(named) == 1_001
    assert named - {"other"} == {f"root.q{index:04}" for index in range(1_000)}
    assert vc_gpus(service, "other", "used") == 2
    assert vc_gpus(service, "other", "quota") == 5 * 8


def test_waits_are_added_up_by_cause_and_size() -> None:
    rows = [
        DelayRow("root.a", "2-4", delays=Delays(15, 0, 20, 0), waiting_delays=Delays(5, 0, 0, 0)),
        DelayRow("root.b", "2-4", delays=Delays(10, 1, 0, 70)),
        DelayRow("root.b", ">8", delays=Delays(0, 4, 0, 0)),
    ]
    waits = waited_us(rows)
    assert [waits[cause, "2-4"] for cause in Cause] == [30, 1, 20, 70]
    assert [waits[cause, ">8"] for cause in Cause] == [0, 4, 0, 0]


async def test_waits_are_shown_by_virtual_cluster_and_cause_while_they_last(
    service: Service, clock: FakeClock, link: Link
) -> None:
    told = [changes.virtual_cluster("root.a", quota_gpus=1), changes.server("s1", gpus=4)]
    told += [changes.job("j", vc="root.a"), changes.job("nowhere", vc="root.nobody")]
    await link().open(*told)
    await settled(service)
    clock.advance(30.0)
    await settled(service)
    shown = {
        (vc, cause): service.metrics.registry.get_sample_value("ygs_vc_waited_seconds", {"vc": vc, "cause": cause})
        or 0.0
        for vc in ("root.a", "other")
        for cause in ("other", "capacity")
    }
    assert shown["root.a", "other"] == shown["other", "other"] >= 20.0
    assert shown["root.a", "capacity"] == 0.0


async def test_servers_of_which_nobody_knows_the_rack_are_counted(
    service: Service, clock: FakeClock, link: Link
) -> None:
    await link().open(
        *[changes.server(f"s{number}:1", rack="/default-rack") for number in range(2)],
        changes.server("cpu:1", gpus=0, rack="/default-rack"),
        changes.server("known:1"),
    )
    await settled(service)
    clock.advance(10.0)
    assert value(service, "ygs_servers_without_domain") == 2


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
    limit = len(JobState) + len(ReasonCode) + len(OutcomeCode) + len(Cause) * len(SIZES) + 90
    limit += len(Health) + len(Telemetry) + 8  # of monitors
    limit += 8  # of callers and certificates: four counters, each with when it began
    assert len(series(service)) <= limit


def series(service: Service) -> set[str]:
    lines = generate_latest(service.metrics.registry).decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}
