"""Jobs that are preempted on a real ResourceManager: what their masters are told, what is stopped, what goes on or comes back."""

from __future__ import annotations

import pytest

from tests.real.apps import Answer, App, AppError, gpus
from tests.real.joint import ScriptedJoint
from yarn_gpu_sched.protocol.v1 import ask_pb2, decision_pb2, resource_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]

Code = decision_pb2.OutcomeCode
Order = decision_pb2.RequeueJob | decision_pb2.WarnJob | decision_pb2.StopContainers
PREEMPTED, ABORTED = -102, -100
WHY = "for job 7 of root.b"
MANAGED = {"unmanaged": False, "attempts": 2}
# Does not end when it is asked to.
STUBBORN = "bash -c 'trap : TERM; while :; do sleep 300; done'"


def started(joint: ScriptedJoint, app: App, *gpu_indices: int) -> list[str]:
    """Let an application ask for a container with each of these GPUs; return their ids when their server runs them."""
    session = joint.session()
    app.allocate(gpus(len(gpu_indices)))

    def asked() -> list[int]:
        of_attempt = session.asks[app.app_id].attempt if app.app_id in session.asks else 0
        return [ask.count for ask in session.asked(app.app_id) if of_attempt == app.attempt]

    joint.until(asked, lambda counts: counts == [len(gpu_indices)], f"the shim tells what {app.app_id} asks")
    seats = [
        decision_pb2.Assignment(
            key=ask_pb2.RequestKey(priority=1),
            server_id=joint.real_server(session),
            resource=resource_pb2.Resource(memory_mb=256, vcores=1, gpus=1),
            gpu_indices=[index],
        )
        for index in gpu_indices
    ]
    # What an earlier test has left holds its GPUs until its server says that it has ended.
    outcome = joint.until(
        lambda: session.outcome(session.place(app.app_id, app.attempt, seats)),
        lambda now: now.code != Code.OUTCOME_CODE_NO_FIT,
        f"GPUs {gpu_indices} are free",
    )
    assert outcome.code == Code.OUTCOME_CODE_COMMITTED, outcome
    containers = list(outcome.container_ids)
    app.replies(len(containers))
    app.launch(STUBBORN, containers)
    running = [f"{name} Container Transitioned from ACQUIRED to RUNNING" for name in containers]
    log = lambda: joint.rm_log().read_text()  # noqa: E731 - one line, used once
    joint.until(log, lambda text: all(line in text for line in running), f"{containers} run")
    return containers


def managed(joint: ScriptedJoint, *gpu_indices: int, **more: object) -> tuple[App, list[str]]:
    """Start an application whose master YARN runs, and workers of it."""
    app = joint.apps.submit(**(MANAGED | more)).register()
    return app, started(joint, app, *gpu_indices)


def master_of(joint: ScriptedJoint, app: App) -> str:
    """Return the container of the latest attempt's master."""
    attempts = joint.cluster.rm_rest(f"/ws/v1/cluster/apps/{app.app_id}/appattempts")["appAttempts"]["appAttempt"]
    return str(max(attempts, key=lambda one: int(one["id"]))["containerId"])


def made(joint: ScriptedJoint, order: Order, **fields: object) -> decision_pb2.Decision:
    """Return the decision that is this order."""
    (action,) = [
        name
        for name, kind in decision_pb2.Decision.DESCRIPTOR.fields_by_name.items()
        if kind.message_type is order.DESCRIPTOR
    ]
    return joint.session().decision(**({action: order} | fields))


def ordered(joint: ScriptedJoint, order: Order, **fields: object) -> decision_pb2.Outcome:
    """Send an order; return what became of it."""
    decision = made(joint, order, **fields)
    joint.session().send_decisions(decision)
    return joint.session().outcome(decision)


def warn(app: App, *containers: str, attempt: int = 0) -> decision_pb2.WarnJob:
    attempt = attempt or app.attempt
    return decision_pb2.WarnJob(job_id=app.app_id, attempt=attempt, container_ids=containers, diagnostics=WHY)


def stop(app: App, *containers: str, attempt: int = 0) -> decision_pb2.StopContainers:
    attempt = attempt or app.attempt
    return decision_pb2.StopContainers(job_id=app.app_id, attempt=attempt, container_ids=containers, diagnostics=WHY)


def requeue(app: App, attempt: int = 0) -> decision_pb2.RequeueJob:
    return decision_pb2.RequeueJob(job_id=app.app_id, attempt=attempt or app.attempt, diagnostics=WHY)


def carried_out(joint: ScriptedJoint, *orders: Order) -> None:
    """Send orders which must be carried out."""
    for order in orders:
        outcome = ordered(joint, order)
        assert outcome.code == Code.OUTCOME_CODE_COMMITTED, outcome


def told(reply: Answer) -> list[str]:
    """Return what a reply's preemption message names. The contract is the negotiable one, as of stock preemption."""
    assert reply["preemption"]["strict"] == []
    return sorted(reply["preemption"]["negotiable"])


def exits(completed: list[Answer]) -> dict[str, int]:
    return {one["container"]: one["exit"] for one in completed}


def await_released(joint: ScriptedJoint, containers: list[str]) -> None:
    """Wait until their servers have said that they ended."""
    session = joint.session()
    joint.until(lambda: set(containers) - set(session.released), lambda left: not left, f"{containers} are released")


def test_a_warned_master_is_told_once_of_all_its_containers_and_goes_on(scripted: ScriptedJoint) -> None:
    app, workers = managed(scripted, 0, 1)
    held = scripted.held()
    carried_out(scripted, warn(app))
    assert told(app.allocate()) == sorted([master_of(scripted, app), *workers])
    assert "preemption" not in app.allocate()
    carried_out(scripted, warn(app, workers[1]))
    assert told(app.allocate()) == [workers[1]]
    reply = app.allocate()
    assert (reply["completed"], "preemption" in reply) == ([], False)
    assert (app.report()["state"], scripted.held()) == ("RUNNING", held)
    app.finish()
    scripted.until(app.report, lambda now: now["final"] == "SUCCEEDED", "it ends well")


def test_three_preemptions_of_one_job_do_not_end_it(scripted: ScriptedJoint) -> None:
    app = scripted.apps.submit(**MANAGED)
    for attempt in (1, 2, 3):
        assert app.register(attempt=attempt).attempt == attempt
        workers = started(scripted, app, 0, 1)
        ended = [master_of(scripted, app), *workers]
        carried_out(scripted, warn(app), requeue(app))
        await_released(scripted, ended)
    app.register(attempt=4)
    *failed, last = app.attempts()
    assert [one["state"] for one in failed] == ["FAILED"] * 3
    for one in failed:
        assert f"exitCode: {PREEMPTED}" in one["diagnostics"]
        assert WHY in one["diagnostics"]
    assert last["state"] == "RUNNING"
    started(scripted, app, 0, 1)
    app.finish()
    scripted.until(app.report, lambda now: now["final"] == "SUCCEEDED", "it ends well after all")


def test_a_master_that_ignores_the_message_is_stopped_and_never_sees_its_workers_end(scripted: ScriptedJoint) -> None:
    app, workers = managed(scripted, 0, 1)
    ended = [master_of(scripted, app), *workers]
    heartbeats = scripted.apps.begin("await", app=app.app_id, completed=1, timeout_s=60)
    carried_out(scripted, warn(app), requeue(app))
    with pytest.raises(AppError, match=r"Attempt\w*NotFound|InvalidToken|doesn't exist"):
        scripted.apps.answer(heartbeats, "heartbeats", 90)
    await_released(scripted, ended)
    assert app.register(attempt=2).attempt == 2
    assert app.allocate()["completed"] == []
    assert scripted.held().containers == 1


def test_an_application_that_keeps_containers_loses_its_workers_as_well(scripted: ScriptedJoint) -> None:
    app, workers = managed(scripted, 0, 1, keeps=True)
    carried_out(scripted, requeue(app))
    await_released(scripted, workers)
    assert app.register(attempt=2).attempt == 2
    assert exits(app.allocate()["completed"]) == dict.fromkeys(workers, ABORTED)
    assert scripted.held().containers == 1


def test_a_kept_worker_can_be_stopped_and_its_new_master_is_told(scripted: ScriptedJoint) -> None:
    """Its containers have the number of the attempt before; a new master that was never preempted keeps them."""
    app, workers = managed(scripted, 0, 1, keeps=True)
    first = master_of(scripted, app)
    (scripted.apps.exchange / f"{first}.fifo").write_text("3\n")
    assert app.register(attempt=2).attempt == 2
    carried_out(scripted, warn(app))
    assert told(app.allocate()) == sorted([master_of(scripted, app), *workers])
    carried_out(scripted, stop(app, workers[0]))
    assert exits(app.await_completed(1)) == {workers[0]: PREEMPTED}
    carried_out(scripted, requeue(app))
    await_released(scripted, workers)
    assert app.register(attempt=3).attempt == 3
    assert scripted.held().containers == 1


def test_single_containers_are_stopped_once_and_their_master_goes_on(scripted: ScriptedJoint) -> None:
    app, workers = managed(scripted, 0, 1, 2)
    session = scripted.session()
    carried_out(scripted, warn(app, *workers[1:]))
    assert told(app.allocate()) == sorted(workers[1:])
    order = made(scripted, stop(app, *workers[1:], workers[1]))
    session.send_decisions(order, order)
    answers = scripted.until(
        lambda: session.outcomes.get(order.decision_id, []), lambda got: len(got) == 2, "two answers"
    )
    assert [one.code for one in answers] == [Code.OUTCOME_CODE_COMMITTED] * 2
    ended = app.await_completed(2)
    assert exits(ended) == dict.fromkeys(workers[1:], PREEMPTED)
    assert all(WHY in one["diagnostics"] for one in ended)
    await_released(scripted, workers[1:])
    started(scripted, app, 2)
    assert scripted.held().containers == 3
    assert (app.attempt, app.report()["state"], app.allocate()["completed"]) == (1, "RUNNING", [])


def test_an_unmanaged_master_is_never_ended(scripted: ScriptedJoint) -> None:
    app = scripted.apps.submit().register()
    workers = started(scripted, app, 0, 1)
    carried_out(scripted, warn(app))
    assert told(app.allocate()) == sorted(workers)
    carried_out(scripted, requeue(app))
    assert exits(app.await_completed(2)) == dict.fromkeys(workers, PREEMPTED)
    started(scripted, app, 2, 3)
    assert (app.report()["state"], len(app.attempts())) == ("RUNNING", 1)


def test_orders_that_are_refused_change_nothing(scripted: ScriptedJoint) -> None:
    app, workers = managed(scripted, 0, 1)
    other = scripted.apps.submit(unmanaged=False, attempts=1).register()
    (others,) = started(scripted, other, 3)
    jobs = scripted.session().jobs
    assert [jobs[one.app_id].one_attempt for one in (app, other)] == [False, True]
    held, master, first = scripted.held(), master_of(scripted, app), workers[0]
    no_attempt, invalid = Code.OUTCOME_CODE_NO_ATTEMPT, Code.OUTCOME_CODE_INVALID
    unknown = decision_pb2.StopContainers(job_id="application_1_0001", attempt=1, container_ids=[first])
    cases: list[tuple[Order, Code.ValueType, str]] = [
        (warn(app, attempt=2), no_attempt, f"attempt 2 of {app.app_id} is ended or replaced"),
        (stop(app, first, attempt=2), no_attempt, f"attempt 2 of {app.app_id} is ended or replaced"),
        (requeue(app, attempt=2), no_attempt, f"attempt 2 of {app.app_id} is ended or replaced"),
        (unknown, no_attempt, "attempt 1 of application_1_0001"),
        (decision_pb2.WarnJob(job_id="job-7", attempt=1), invalid, '"job-7" is no application id'),
        (requeue(other), invalid, f"{other.app_id} has one attempt only"),
        (warn(other), invalid, f"{other.app_id} has one attempt only"),
        (warn(app, first, others), invalid, f"container {others} is not live"),
        (warn(app, first, "container_1"), invalid, '"container_1" is no container id'),
        (stop(app, first, others), invalid, f"container {others} is not live"),
        (stop(app, first, "nonsense"), invalid, '"nonsense" is no container id'),
        (stop(app, first, master), invalid, f"container {master} is the master"),
        (stop(app), invalid, "0 containers, 1 to 16384 would be right"),
        (stop(app, *[first] * 16_385), invalid, "16385 containers, at most 16384 would be right"),
    ]
    for order, code, words in cases:
        outcome = ordered(scripted, order)
        assert (Code.Name(outcome.code), words in outcome.detail) == (Code.Name(code), True), outcome
    stale = ordered(scripted, stop(app, first), epoch=77)
    assert stale.code == Code.OUTCOME_CODE_STALE_EPOCH
    for one in (app, other):
        reply = one.allocate()
        assert (reply["completed"], "preemption" in reply) == ([], False)
    assert scripted.held() == held


def test_an_attempt_whose_master_is_not_there_yet_cannot_be_warned(scripted: ScriptedJoint) -> None:
    scripted.service.rules.clear()
    app = scripted.apps.submit(**MANAGED)
    scripted.until(lambda: scripted.session().asked(app.app_id), bool, "its master is asked for")
    outcome = ordered(scripted, warn(app, attempt=1))
    assert (outcome.code, "has no master yet" in outcome.detail) == (Code.OUTCOME_CODE_NO_ATTEMPT, True), outcome
