"""A gang whose k-th commit fails is taken back whole, and can be placed again."""

from __future__ import annotations

import pytest

from tests.real.apps import gpus
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


@pytest.mark.parametrize("how", ["refuse", "throw"])
def test_the_kth_commit_fails_for_each_k(scripted: ScriptedJoint, how: str) -> None:
    with scripted.ghosts(2) as servers:
        session = scripted.session()
        app = scripted.apps.submit().register()
        app.allocate(gpus(GANG))
        scripted.until(lambda: session.asked(app.app_id), bool, "the shim tells of the ask")
        rolled_back = scripted.counters()["ContainersRolledBack"]
        for number in range(1, GANG + 1):
            scripted.fail_commit(how, number)
            outcome = session.outcome(session.place(app.app_id, 1, _gang(servers)))
            assert outcome.code == Code.OUTCOME_CODE_COMMIT_FAILED, f"commit {number}: {outcome}"
            assert outcome.detail
            assert not outcome.container_ids
            assert scripted.held() == NOTHING_HELD, f"commit {number}"
            beat = app.allocate()
            assert (beat["allocated"], beat["completed"]) == ([], []), f"commit {number}"
        scripted.until(
            lambda: scripted.counters()["ContainersRolledBack"],
            lambda now: now == rolled_back + sum(range(GANG)),
            "each container that was made is counted as taken back",
        )
        assert [ask.count for ask in session.asked(app.app_id)] == [GANG]

        again = session.outcome(session.place(app.app_id, 1, _gang(servers)))
        assert again.code == Code.OUTCOME_CODE_COMMITTED, again
        assert len(app.allocate()["allocated"]) == GANG, "all of the gang in one reply"
        assert all(len(outcomes) == 1 for outcomes in session.outcomes.values())
        assert scripted.held().gpus == GANG
