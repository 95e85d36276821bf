"""Decisions and views as messages."""

import pytest

from yarn_gpu_sched.engine import views
from yarn_gpu_sched.engine.commands import AnyDecision, PlaceGang, RefuseJob, RequeueJob, StopContainers, WarnJob
from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.assignment import Assignment, Level
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job, JobEnd, JobState
from yarn_gpu_sched.model.reason import ReasonCode, WaitingReason
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX
from yarn_gpu_sched.protocol.convert import (
    add_decision,
    cluster_message,
    decision_bytes_max,
    job_view_message,
    server_view_message,
    timestamp_message,
    virtual_cluster_use_message,
    waiting_message,
)
from yarn_gpu_sched.protocol.v1 import decision_pb2, job_pb2, link_pb2, reason_pb2, server_pb2

GANG = PlaceGang(
    decision_id=7,
    job_id="job-1",
    attempt=2,
    assignments=(
        Assignment(RequestKey(1, 5), "gpu-1:1", Resource(1_024, 2, 2), (0, 3)),
        Assignment(RequestKey(-1, -5), "gpu-2:1", Resource(512, 1, 0)),
    ),
    level=Level.ONE_DOMAIN,
)


def decided(*commands: AnyDecision) -> list[decision_pb2.Decision]:
    message = link_pb2.Decisions()
    for command in commands:
        add_decision(message, command, "session", 9)
    return list(link_pb2.Decisions.FromString(message.SerializeToString()).decisions)


def test_a_gang_is_one_message_with_everything_in_it() -> None:
    (decision,) = decided(GANG)
    assert (decision.decision_id, decision.session_id, decision.epoch) == (7, "session", 9)
    place = decision.place_gang
    assert (place.job_id, place.attempt, place.level) == ("job-1", 2, 1)
    first, second = place.assignments
    assert (first.key.priority, first.key.allocation_request_id) == (1, 5)
    assert (first.server_id, list(first.gpu_indices)) == ("gpu-1:1", [0, 3])
    assert (first.resource.memory_mb, first.resource.vcores, first.resource.gpus) == (1_024, 2, 2)
    assert (second.key.priority, second.key.allocation_request_id, list(second.gpu_indices)) == (-1, -5, [])


def test_a_refusal_carries_its_diagnostics_cut() -> None:
    refuse = RefuseJob(decision_id=8, job_id="job-2", diagnostics="larger than the cluster" + "." * 10_000)
    _, decision = decided(GANG, refuse)
    assert decision.WhichOneof("action") == "refuse_job"
    assert decision.refuse_job.diagnostics.startswith("larger than the cluster")
    assert len(decision.refuse_job.diagnostics) == 4_096


def test_orders_against_an_attempt_carry_its_number_their_containers_and_diagnostics_cut() -> None:
    text = "for root.b" + "." * 10_000
    requeue = RequeueJob(decision_id=8, job_id="job-2", attempt=3, diagnostics=text)
    everything = WarnJob(decision_id=9, job_id="job-2", attempt=3, diagnostics=text)
    warn = WarnJob(decision_id=10, job_id="job-2", attempt=3, container_ids=("c2", "c1"), diagnostics=text)
    stop = StopContainers(decision_id=11, job_id="job-2", attempt=3, container_ids=("c3",), diagnostics=text)
    sent = decided(requeue, everything, warn, stop)
    assert [one.decision_id for one in sent] == [8, 9, 10, 11]
    kinds = ["requeue_job", "warn_job", "warn_job", "stop_containers"]
    assert [one.WhichOneof("action") for one in sent] == kinds
    for order in (sent[0].requeue_job, sent[1].warn_job, sent[2].warn_job, sent[3].stop_containers):
        assert (order.job_id, order.attempt, order.diagnostics) == ("job-2", 3, text[:4_096])
    assert [list(one.warn_job.container_ids) for one in sent[1:3]] == [[], ["c2", "c1"]]
    assert list(sent[3].stop_containers.container_ids) == ["c3"]


@pytest.mark.parametrize("containers", [1, 8, 1_000])
@pytest.mark.parametrize("name", ["s", "s" * 256, "ü" * 256])
@pytest.mark.parametrize("gpus", [0, 1, 16, 1_024])
def test_the_estimate_of_a_decision_is_never_too_small(containers: int, name: str, gpus: int) -> None:
    key = RequestKey(-(1 << 31), -(1 << 63))
    indices = tuple(range(1_024 - gpus, 1_024))
    assignment = Assignment(key, name, Resource(1 << 40, 1 << 20, gpus), indices)
    gang = PlaceGang(
        decision_id=(1 << 64) - 1,
        job_id=name,
        attempt=(1 << 32) - 1,
        assignments=(assignment,) * containers,
        level=Level.ANYWHERE,
    )
    message = link_pb2.ConnectResponse()
    add_decision(message.decisions, gang, "0" * 16, (1 << 63) - 1)
    assert message.ByteSize() <= decision_bytes_max(gang) + 64


def test_the_estimate_of_a_refusal_is_never_too_small() -> None:
    refuse = RefuseJob(decision_id=(1 << 64) - 1, job_id="ü" * 256, diagnostics="ü" * 5_000)
    message = link_pb2.Decisions()
    add_decision(message, refuse, "0" * 16, (1 << 63) - 1)
    assert message.ByteSize() <= decision_bytes_max(refuse)


@pytest.mark.parametrize("kind", [WarnJob, StopContainers])
@pytest.mark.parametrize("name", ["s", "s" * 256, "ü" * 256])
@pytest.mark.parametrize("containers", [0, 1, 16_384])
def test_the_estimate_of_an_order_is_never_too_small(
    kind: type[WarnJob | StopContainers], name: str, containers: int
) -> None:
    order = kind(
        decision_id=(1 << 64) - 1,
        job_id=name,
        attempt=(1 << 32) - 1,
        container_ids=(name,) * containers,
        diagnostics="ü" * 5_000,
    )
    message = link_pb2.Decisions()
    add_decision(message, order, "0" * 16, (1 << 63) - 1)
    assert message.ByteSize() <= decision_bytes_max(order)


CONTAINER = Container("c1", "job-1", 1, "gpu-1:1", Resource(1, 1, 1), (2,))
VIEW = views.JobView(
    job=Job("job-1", "root.a", submit_time_s=1_790_000_000.123),
    state=JobState.PENDING,
    gang_containers=4,
    gpus_pending=3,
    used=Resource(1, 1, 1),
    first_seen_s=100.0,
    containers=(CONTAINER,),
    waiting=WaitingReason(ReasonCode.FRAGMENTED, "4 GPUs\x1b[31m", 4, 4, 5, 3),
)


def test_a_waiting_job() -> None:
    message = job_view_message(VIEW, 160.0)
    assert message.state == job_pb2.JOB_STATE_PENDING
    assert (message.gang_containers, message.gpus_pending, message.age_s) == (4, 3, 60.0)
    assert message.job.submit_time.ToMilliseconds() == 1_790_000_000_123
    assert message.waiting.code == reason_pb2.WAITING_REASON_CODE_FRAGMENTED
    assert message.waiting.sentence == "4 GPUs [31m"
    assert [list(container.gpu_indices) for container in message.containers] == [[2]]
    assert message.end == job_pb2.JOB_END_UNSPECIFIED
    assert not message.HasField("level")


def test_an_ended_job_ages_no_more() -> None:
    ended = views.JobView(
        job=VIEW.job,
        state=JobState.ENDED,
        gang_containers=0,
        gpus_pending=0,
        used=Resource(),
        first_seen_s=100.0,
        end=JobEnd.KILLED,
        diagnostics="by ada",
        ended_s=130.0,
        level=0,
    )
    message = job_view_message(ended, 1_000.0)
    assert (message.age_s, message.end, message.diagnostics) == (30.0, job_pb2.JOB_END_KILLED, "by ada")
    assert message.HasField("level")
    assert message.level == 0
    assert not message.HasField("waiting")


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_has_its_number(code: ReasonCode) -> None:
    message = waiting_message(WaitingReason(code, "because"))
    assert reason_pb2.WaitingReasonCode.Name(message.code) == f"WAITING_REASON_CODE_{code.name}"


def test_a_server_with_its_use() -> None:
    server = Server("gpu-1:1", "gpu-1", "/rack-a", Resource(4, 4, 2), "", ServerState.DRAINING)
    uses = (views.GpuUse(0, "job-1", "c1"), views.GpuUse(1))
    message = server_view_message(views.ServerView(server, Resource(1, 1, 1), uses, 3))
    assert message.server.state == server_pb2.SERVER_STATE_DRAINING
    assert [(gpu.index, gpu.job_id, gpu.container_id) for gpu in message.gpus] == [(0, "job-1", "c1"), (1, "", "")]
    assert (message.used.gpus, message.containers) == (1, 3)


def test_a_virtual_cluster_without_limits_says_nothing_of_them() -> None:
    message = virtual_cluster_use_message(views.VirtualClusterUse(VirtualCluster("root.a"), Resource(1, 1, 1), 2, 3))
    assert not message.virtual_cluster.HasField("quota_gpus")
    assert not message.virtual_cluster.HasField("maximum_gpus")
    assert (message.jobs_running, message.jobs_pending) == (2, 3)


TOTALS = views.ClusterView("c1", True, 5, Resource(3, 2, 1), Resource(1, 1, 1), 7, True, 8, 9)  # noqa: FBT003 - all fields in order


def test_the_totals() -> None:
    message = cluster_message(TOTALS, (), 0.0)
    assert (list(message.reservations), message.reservations_left_out) == ([], 0)
    assert (message.cluster_id, message.connected, message.epoch, message.servers) == ("c1", True, 5, 7)
    assert (message.settled, message.jobs_pending, message.jobs_running) == (True, 8, 9)
    assert (message.capacity.gpus, message.used.memory_mb) == (1, 1)


def reservation(job_id: str = "job-1", **fields: object) -> views.ReservationView:
    given: dict[str, object] = {
        "job_id": job_id,
        "vc": "root.a",
        "partition": "fast",
        "gpus": 8,
        "kept_gpus": 3,
        "level": 1,
        "servers": (("gpu-1:1", 4, 3), ("gpu-2:1", 4, 0)),
        "since_s": 900.0,
        "ready_s": 1_250.0,
        "awaited": ("job-2", "job-3"),
        "over_quota": True,
    }
    return views.ReservationView(**(given | fields))  # type: ignore[arg-type] # fields come from the caller, by name


def test_a_reservation_has_every_field_in_seconds_from_now() -> None:
    (message,) = cluster_message(TOTALS, [reservation()], 1_000.0).reservations
    assert (message.job_id, message.virtual_cluster, message.partition) == ("job-1", "root.a", "fast")
    assert (message.gpus, message.kept_gpus, message.level, message.over_quota) == (8, 3, 1, True)
    found = [(one.server_id, one.gpus, one.kept_gpus) for one in message.servers]
    assert found == [("gpu-1:1", 4, 3), ("gpu-2:1", 4, 0)]
    assert (message.age_s, message.ready_in_s, list(message.awaited_job_ids)) == (100, 250, ["job-2", "job-3"])
    late, unknown = (
        cluster_message(TOTALS, [reservation(ready_s=at_s)], 1_000.0).reservations[0] for at_s in (990.0, None)
    )
    assert (late.HasField("ready_in_s"), late.ready_in_s, unknown.HasField("ready_in_s")) == (True, 0, False)


def test_reservations_that_do_not_fit_are_left_out_and_counted() -> None:
    servers = tuple((f"{number:0256}", 1, 0) for number in range(500))
    many = [reservation(f"job-{number}", servers=servers) for number in range(20)]
    enormous = reservation("enormous", servers=servers * 10)
    message = cluster_message(TOTALS, [enormous, *many], 1_000.0)
    assert message.ByteSize() <= MESSAGE_BYTES_MAX
    listed = [one.job_id for one in message.reservations]
    assert listed == [one.job_id for one in many[: len(listed)]]
    assert len(listed) > 0
    assert message.reservations_left_out == 21 - len(listed) > 1


@pytest.mark.parametrize(("time_s", "seconds", "nanos"), [(0.0, 0, 0), (-0.5, -1, 500_000_000), (1.9999999, 2, 0)])
def test_times_are_whole_microseconds(time_s: float, seconds: int, nanos: int) -> None:
    message = timestamp_message(time_s)
    assert (message.seconds, message.nanos) == (seconds, nanos)
