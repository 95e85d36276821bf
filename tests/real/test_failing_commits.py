"""A gang whose k-th commit fails is taken back whole, and can be placed again: all accounts are as they were."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.apps import App, gpus
from tests.real.joint import NOTHING_HELD, ScriptedJoint
from yarn_gpu_sched.protocol.v1 import ask_pb2, decision_pb2, resource_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

GANG = 8
Code = decision_pb2.OutcomeCode


def _gang(servers: list[str]) -> list[decision_pb2.Assignment]:
    return [
        decision_pb2.Assignment(
            key=ask_pb2.RequestKey(priority=1),
            server_id=server,
            resource=resource_pb2.Resource(memory_mb=256, vcores=1, gpus=1),
            gpu_indices=[index],
        )
        for server in servers
        for index in range(4)
    ]


def _accounts(joint: ScriptedJoint, app_id: str) -> dict[str, object]:
    """Return what application, queue, user and servers hold, each by its own account."""
    app = joint.app(app_id)
    queues = joint.cluster.rm_rest("/ws/v1/cluster/scheduler")["scheduler"]["schedulerInfo"]
    queue = next(queue for queue in queues["queues"]["queue"] if queue["queueName"] == "default")
    users = queue["users"].get("user", []) if queue["users"] else []
    nodes = joint.cluster.rm_rest("/ws/v1/cluster/nodes")["nodes"]["node"]
    return {
        "application": {key: app[key] for key in ("runningContainers", "allocatedMB", "allocatedVCores")},
        "root": queues["usedCapacity"],
        "queue": (queue["numContainers"], queue["resourcesUsed"]["memory"], queue["resourcesUsed"]["vCores"]),
        "users": [(user["username"], user["resourcesUsed"]["memory"]) for user in users],
        "servers": [(node["numContainers"], node["usedMemoryMB"], node["usedVirtualCores"]) for node in nodes],
        "tags": [joint.gpu_tags(node["nodeHostName"]) for node in nodes],
    }


@pytest.fixture
def asking(scripted: ScriptedJoint) -> Iterator[tuple[App, list[str]]]:
    """Let an application ask for the gang; yield it and two servers of four GPUs."""
    with scripted.ghosts(2) as servers:
        app = scripted.apps.submit().register()
        app.allocate(gpus(GANG))
        scripted.until(lambda: scripted.session().asked(app.app_id), bool, "the shim tells of the ask")
        yield app, servers


def _check_nothing_left(joint: ScriptedJoint, app: App, outcome: decision_pb2.Outcome, before: object) -> None:
    assert outcome.code == Code.OUTCOME_CODE_COMMIT_FAILED, outcome
    assert outcome.detail
    assert not outcome.container_ids
    assert joint.held() == NOTHING_HELD
    assert _accounts(joint, app.app_id) == before
    beat = app.allocate()
    assert (beat["allocated"], beat["completed"]) == ([], [])
    assert [ask.count for ask in joint.session().asked(app.app_id)] == [GANG]


def _check_can_be_placed(joint: ScriptedJoint, app: App, servers: list[str]) -> None:
    session = joint.session()
    again = session.outcome(session.place(app.app_id, 1, _gang(servers)))
    assert again.code == Code.OUTCOME_CODE_COMMITTED, again
    assert len(app.allocate()["allocated"]) == GANG, "all of the gang in one reply"
    assert [len(outcomes) for outcomes in session.outcomes.values()][-2:] == [1, 1], "the last two decisions' outcomes"
    assert joint.held().gpus == GANG


@pytest.mark.parametrize(("how", "itself_too"), [("refuse", 0), ("throw", 0), ("half", 1), ("done", 1)])
def test_the_kth_commit_fails_for_each_k(
    scripted: ScriptedJoint, asking: tuple[App, list[str]], how: str, itself_too: int
) -> None:
    app, servers = asking
    session = scripted.session()
    before = _accounts(scripted, app.app_id)
    rolled_back = scripted.counters()["ContainersRolledBack"]
    for number in range(1, GANG + 1):
        scripted.fail_commit(how, number)
        outcome = session.outcome(session.place(app.app_id, 1, _gang(servers)))
        _check_nothing_left(scripted, app, outcome, before)
    scripted.until(
        lambda: scripted.counters()["ContainersRolledBack"],
        lambda now: now == rolled_back + sum(range(GANG)) + itself_too * GANG,
        "each container that was made is counted as taken back",
    )
    _check_can_be_placed(scripted, app, servers)


def test_a_container_whose_taking_back_throws_once_is_taken_back_again(
    scripted: ScriptedJoint, asking: tuple[App, list[str]]
) -> None:
    app, servers = asking
    session = scripted.session()
    before = _accounts(scripted, app.app_id)
    scripted.fail_commit("refuse", GANG, "late")
    outcome = session.outcome(session.place(app.app_id, 1, _gang(servers)))
    _check_nothing_left(scripted, app, outcome, before)
    _check_can_be_placed(scripted, app, servers)


def test_a_container_that_cannot_be_taken_back_stays_as_an_ordinary_one(
    scripted: ScriptedJoint, asking: tuple[App, list[str]]
) -> None:
    app, servers = asking
    session = scripted.session()
    before = _accounts(scripted, app.app_id)
    scripted.fail_commit("throw", GANG, "twice")
    outcome = session.outcome(session.place(app.app_id, 1, _gang(servers)))
    assert outcome.code == Code.OUTCOME_CODE_COMMIT_FAILED, outcome
    kept = app.hold(1)
    assert scripted.held().gpus == 1
    scripted.until(
        lambda: [*session.containers], lambda told: told == [kept[0]["container"]], "the service hears of it"
    )
    scripted.until(
        lambda: [ask.count for ask in session.asked(app.app_id)],
        lambda asked: asked == [GANG - 1],
        "its ask is answered",
    )
    app.allocate(release=[kept[0]["container"]])
    scripted.await_held(NOTHING_HELD)
    assert _accounts(scripted, app.app_id) == before
