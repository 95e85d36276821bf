"""What the in-memory resource manager does when it is told to warn a job or to stop containers of it."""

from collections.abc import Iterator

import pytest

from tests.client.scripted import SESSION_ID, WAIT_S, ScriptedLink, place, serving
from yarn_gpu_sched.client import FakeResourceManager
from yarn_gpu_sched.protocol.v1 import ask_pb2, decision_pb2, link_pb2, resource_pb2


@pytest.fixture
def service() -> ScriptedLink:
    return ScriptedLink()


@pytest.fixture
def rm(service: ScriptedLink) -> Iterator[FakeResourceManager]:
    with serving(service.add) as address, FakeResourceManager(address) as made:
        made.add_server("gpu-a1")
        made.submit("job-1")
        made.ask("job-1", 2, gpus=2)
        yield made


def heard(service: ScriptedLink, decision_id: int, changes: int) -> list[link_pb2.Change]:
    """Wait for a decision's outcome; return it, and so many changes after it."""
    told: list[link_pb2.Change] = []
    while True:
        told += service.next("batch").batch.changes
        ids = [change.outcome.decision_id for change in told]
        if decision_id in ids and len(told) > ids.index(decision_id) + changes:
            return told[ids.index(decision_id) :]


def placed(service: ScriptedLink, rm: FakeResourceManager) -> list[str]:
    resource = resource_pb2.Resource(memory_mb=256, vcores=1, gpus=2)
    service.next("register")
    where = [
        decision_pb2.Assignment(
            key=ask_pb2.RequestKey(), server_id="gpu-a1:45454", resource=resource, gpu_indices=indices
        )
        for indices in ([0, 1], [2, 3])
    ]
    service.decide(place(1, *where))
    heard(service, 1, changes=1)
    return [container.container_id for container in rm.containers("job-1")]


def order(decision_id: int, **action: decision_pb2.WarnJob | decision_pb2.StopContainers) -> decision_pb2.Decision:
    return decision_pb2.Decision(decision_id=decision_id, session_id=SESSION_ID, epoch=1, **action)  # type: ignore[arg-type] # the action by its name


def test_a_warning_is_answered_and_can_be_read_and_changes_nothing(
    service: ScriptedLink, rm: FakeResourceManager
) -> None:
    ids = placed(service, rm)
    assert rm.warnings("job-1") == []
    service.decide(order(2, warn_job=decision_pb2.WarnJob(job_id="job-1", attempt=1, diagnostics="for root.b")))
    (outcome,) = heard(service, 2, changes=0)
    assert outcome.outcome.code == decision_pb2.OUTCOME_CODE_COMMITTED
    (told,) = rm.warnings("job-1")
    assert (told.attempt, list(told.container_ids), told.diagnostics) == (1, ids, "for root.b")
    assert [container.container_id for container in rm.containers("job-1")] == ids
    assert rm.warnings("no such job") == []


def test_what_is_stopped_is_released_as_lost_after_the_outcome(service: ScriptedLink, rm: FakeResourceManager) -> None:
    first, second = placed(service, rm)
    service.decide(
        order(2, stop_containers=decision_pb2.StopContainers(job_id="job-1", attempt=1, container_ids=[second]))
    )
    outcome, released = heard(service, 2, changes=1)
    assert outcome.outcome.code == decision_pb2.OUTCOME_CODE_COMMITTED
    assert (released.container_released.container_id, released.container_released.lost) == (second, True)
    rm.wait(lambda: [one.container_id for one in rm.containers("job-1")] == [first], timeout_s=WAIT_S)


def test_what_is_not_there_any_more_is_refused(service: ScriptedLink, rm: FakeResourceManager) -> None:
    first, second = placed(service, rm)
    rm.release(second)
    for number, action in enumerate(("warn_job", "stop_containers"), start=2):
        kind = decision_pb2.WarnJob if action == "warn_job" else decision_pb2.StopContainers
        service.decide(order(number, **{action: kind(job_id="job-1", attempt=1, container_ids=[first, second])}))
        (outcome,) = heard(service, number, changes=0)
        assert outcome.outcome.code == decision_pb2.OUTCOME_CODE_INVALID
        assert second in outcome.outcome.detail
    assert [container.container_id for container in rm.containers("job-1")] == [first]
    assert rm.warnings("job-1") == []
