"""Decisions that came too late, or make no sense: refused with their reason, and nothing stays allocated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.apps import App, gpus, plain
from tests.real.joint import NOTHING_HELD, ScriptedJoint
from tests.real.scripted import Session
from yarn_gpu_sched.protocol.v1 import ask_pb2, decision_pb2, resource_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

GANG = 4
KEY = ask_pb2.RequestKey(priority=1, allocation_request_id=0)
Code = decision_pb2.OutcomeCode
Assignment = decision_pb2.Assignment


class Stage:
    """An application that asks for a gang of 4, two servers for it, and the honest decision."""

    def __init__(self, joint: ScriptedJoint, servers: list[str]) -> None:
        self.joint = joint
        self.servers = servers
        self.session: Session = joint.session()
        self.app: App = self.asking()

    def asking(self, **request: object) -> App:
        """Submit an application and let it ask; return when the shim has told of the ask."""
        app = self.joint.apps.submit(**request).register()
        app.allocate(gpus(GANG))
        self.await_asked(app, GANG)
        return app

    def await_asked(self, app: App, count: int) -> None:
        """Wait until the shim says that so many containers are asked for."""
        self.joint.until(
            lambda: sum(ask.count for ask in self.session.asked(app.app_id)),
            lambda asked: asked == count,
            f"the shim tells that {app.app_id} asks for {count}",
        )

    def seat(self, index: int, server: int = 0, **fields: object) -> Assignment:
        """Return one container of the gang on the GPU with this index, or with other fields where they are given."""
        ours: dict[str, object] = {
            "key": KEY,
            "server_id": self.servers[server],
            "resource": resource_pb2.Resource(memory_mb=256, vcores=1, gpus=1),
            "gpu_indices": [index],
        }
        return Assignment(**(ours | fields))  # type: ignore[arg-type] # fields by name

    def gang(self) -> list[Assignment]:
        """Return the honest assignments: two containers on each server."""
        return [self.seat(index, server) for server in (0, 1) for index in (0, 1)]

    def refused(self, code: Code.ValueType, assignments: list[Assignment], **fields: object) -> decision_pb2.Outcome:
        """Send a decision; it must be refused once, with this code and a sentence, and leave nothing behind."""
        attempt = int(str(fields.pop("attempt", 1)))
        job_id = str(fields.pop("job_id", self.app.app_id))
        decision = self.session.place(job_id, attempt, assignments, **fields)
        return self.check_refused(code, decision)

    def check_refused(self, code: Code.ValueType, decision: decision_pb2.Decision) -> decision_pb2.Outcome:
        """Check what became of a decision that was sent."""
        outcome = self.session.outcome(decision)
        assert Code.Name(outcome.code) == Code.Name(code), outcome
        assert outcome.detail, "a refusal says what was wrong"
        assert not outcome.container_ids
        assert self.joint.held() == NOTHING_HELD
        self.last_outcome()
        assert len(self.session.outcomes[decision.decision_id]) == 1
        return outcome

    def last_outcome(self) -> None:
        """Wait for the outcome of a decision that is sent now: all earlier ones have come by then."""
        self.session.outcome(self.session.place("application_1_0001", 1, [self.seat(0)]))


@pytest.fixture
def stage(scripted: ScriptedJoint) -> Iterator[Stage]:
    with scripted.ghosts(2) as servers:
        yield Stage(scripted, servers)


def test_the_honest_decision_is_committed_so_that_refusals_mean_something(stage: Stage) -> None:
    outcome = stage.session.outcome(stage.session.place(stage.app.app_id, 1, stage.gang()))
    assert outcome.code == Code.OUTCOME_CODE_COMMITTED, outcome
    got = stage.app.hold(GANG)
    where = {c["container"]: (c["server"], c["tags"]) for c in got}
    assert [where[container_id] for container_id in outcome.container_ids] == [
        (seat.server_id, [f"gpu_{seat.gpu_indices[0]}"]) for seat in stage.gang()
    ]


def test_a_slot_beyond_the_gpus_that_yarn_counts(stage: Stage) -> None:
    """A card was lost, so YARN counts one GPU less, and the others keep their slots."""
    gang = [stage.seat(0), stage.seat(63), stage.seat(1, 1), stage.seat(4, 1)]
    outcome = stage.session.outcome(stage.session.place(stage.app.app_id, 1, gang))
    assert outcome.code == Code.OUTCOME_CODE_COMMITTED, outcome
    tags = {tag for container in stage.app.hold(GANG) for tag in container["tags"]}
    assert tags == {"gpu_0", "gpu_1", "gpu_4", "gpu_63"}


def test_an_ask_that_was_withdrawn(stage: Stage) -> None:
    stage.app.allocate(gpus(0))
    stage.await_asked(stage.app, 0)
    stage.refused(Code.OUTCOME_CODE_NO_ASK, stage.gang())


def test_an_ask_that_was_withdrawn_in_part(stage: Stage) -> None:
    stage.app.allocate(gpus(GANG - 1))
    stage.refused(Code.OUTCOME_CODE_NO_ASK, stage.gang())


def test_more_containers_than_were_asked_for(stage: Stage) -> None:
    stage.refused(Code.OUTCOME_CODE_NO_ASK, [*stage.gang(), stage.seat(2)])


def test_another_resource_than_was_asked_for(stage: Stage) -> None:
    other = resource_pb2.Resource(memory_mb=512, vcores=1, gpus=1)
    stage.refused(Code.OUTCOME_CODE_NO_ASK, [*stage.gang()[:3], stage.seat(1, 1, resource=other)])


def test_a_request_key_that_is_not_known(stage: Stage) -> None:
    unknown = ask_pb2.RequestKey(priority=1, allocation_request_id=77)
    stage.refused(Code.OUTCOME_CODE_NO_ASK, [*stage.gang()[:3], stage.seat(1, 1, key=unknown)])


def test_a_server_that_was_lost(stage: Stage) -> None:
    stage.joint.apps.ask("ghost_gone", server=stage.servers[1])
    stage.joint.until(
        lambda: stage.servers[1] in stage.session.servers, lambda known: not known, "the shim tells of the loss"
    )
    stage.refused(Code.OUTCOME_CODE_SERVER_GONE, stage.gang())


def test_a_server_that_is_not_known(stage: Stage) -> None:
    lost = stage.seat(1, 1, server_id="127.9.9.9:45454")
    stage.refused(Code.OUTCOME_CODE_SERVER_GONE, [*stage.gang()[:3], lost])


def test_an_attempt_that_was_replaced(stage: Stage) -> None:
    app = stage.asking(unmanaged=False, attempts=2)
    stage.joint.apps.ask("fail_attempt", attempt=app.report()["attempt"])
    assert app.register(attempt=2).attempt == 2
    app.allocate(gpus(GANG))
    stage.joint.until(
        lambda: (stage.session.asks[app.app_id].attempt, len(stage.session.asked(app.app_id))),
        lambda seen: seen == (2, 1),
        "the second attempt asks",
    )
    old = stage.session.place(app.app_id, 1, stage.gang())
    outcome = stage.session.outcome(old)
    assert outcome.code == Code.OUTCOME_CODE_NO_ATTEMPT, outcome
    assert stage.joint.held().gpus == 0
    new = stage.session.outcome(stage.session.place(app.app_id, 2, stage.gang()))
    assert new.code == Code.OUTCOME_CODE_COMMITTED, new
    app.hold(GANG)
    app.finish()


def test_a_job_that_is_not_known(stage: Stage) -> None:
    stage.refused(Code.OUTCOME_CODE_NO_ATTEMPT, stage.gang(), job_id="application_1700000000000_0001")


def test_a_job_that_has_ended(stage: Stage) -> None:
    stage.app.kill()
    stage.joint.until(lambda: stage.session.job_ends, lambda ends: stage.app.app_id in ends, "the shim tells the end")
    stage.refused(Code.OUTCOME_CODE_NO_ATTEMPT, stage.gang())


def test_a_decision_for_an_older_epoch(stage: Stage) -> None:
    assert stage.session.register is not None
    stage.refused(Code.OUTCOME_CODE_STALE_EPOCH, stage.gang(), epoch=stage.session.register.epoch - 1)


def test_a_decision_of_another_session(stage: Stage) -> None:
    stage.refused(Code.OUTCOME_CODE_STALE_EPOCH, stage.gang(), session_id="somebody else")


def test_a_doubled_decision_is_carried_out_once_and_answered_twice_alike(stage: Stage) -> None:
    decision = stage.session.place(stage.app.app_id, 1, stage.gang())
    first = stage.session.outcome(decision)
    stage.session.send_decisions(decision, decision)
    stage.last_outcome()
    assert stage.session.outcomes[decision.decision_id] == [first] * 3
    assert stage.joint.held().gpus == GANG


def test_a_gpu_that_is_held(stage: Stage) -> None:
    other = stage.asking()
    first = stage.session.outcome(stage.session.place(other.app_id, 1, stage.gang()))
    assert first.code == Code.OUTCOME_CODE_COMMITTED, first
    held = stage.joint.held()
    decision = stage.session.place(stage.app.app_id, 1, [stage.seat(2), stage.seat(1)])
    outcome = stage.session.outcome(decision)
    assert outcome.code == Code.OUTCOME_CODE_NO_FIT, outcome
    assert outcome.detail
    assert stage.joint.held() == held


def test_a_gpu_that_is_named_twice_in_one_gang(stage: Stage) -> None:
    stage.refused(Code.OUTCOME_CODE_NO_FIT, [*stage.gang()[:3], stage.seat(0, 1)])


def test_more_than_a_server_has_left(stage: Stage) -> None:
    app = stage.asking()
    app.allocate(gpus(GANG, memory_mb=4096, key=5))
    stage.await_asked(app, 2 * GANG)
    large = resource_pb2.Resource(memory_mb=4096, vcores=1, gpus=1)
    key = ask_pb2.RequestKey(priority=1, allocation_request_id=5)
    seats = [stage.seat(index, key=key, resource=large) for index in range(3)]
    stage.refused(Code.OUTCOME_CODE_NO_FIT, seats, job_id=app.app_id)


@pytest.mark.parametrize("indices", [[64], [], [0, 1], [1, 0]], ids=["no slot", "none", "too many", "descending"])
def test_gpu_indices_that_make_no_sense(stage: Stage, indices: list[int]) -> None:
    seat = stage.seat(0, gpu_indices=indices)
    stage.refused(Code.OUTCOME_CODE_INVALID, [*stage.gang()[2:], seat])


def test_no_assignments_no_action_and_no_application_id(stage: Stage) -> None:
    stage.refused(Code.OUTCOME_CODE_INVALID, [])
    stage.refused(Code.OUTCOME_CODE_INVALID, stage.gang(), job_id="no application at all")
    stage.refused(Code.OUTCOME_CODE_INVALID, [*stage.gang()[:3], stage.seat(1, 1, server_id="no server at all")])
    idle = stage.session.decision()
    stage.session.send_decisions(idle)
    stage.check_refused(Code.OUTCOME_CODE_INVALID, idle)


def test_a_server_that_the_application_blacklisted(stage: Stage) -> None:
    stage.app.allocate(blacklist=[stage.servers[1].split(":")[0]])
    stage.refused(Code.OUTCOME_CODE_BLACKLISTED, stage.gang())


def test_a_server_that_got_another_label_than_was_asked_for(stage: Stage) -> None:
    moved = stage.servers[1]
    for command in (["-addToClusterNodeLabels", "fast"], ["-replaceLabelsOnNode", f"{moved}=fast"]):
        done = stage.joint.yarn("rmadmin", *command)
        assert done.returncode == 0, done.stdout
    stage.joint.until(
        lambda: stage.session.servers[moved].partition, lambda label: label == "fast", "the shim tells the new label"
    )
    assert "fast" in stage.refused(Code.OUTCOME_CODE_LABEL, stage.gang()).detail


def test_a_queue_that_is_full(stage: Stage) -> None:
    app = stage.asking(queue="small")
    stage.refused(Code.OUTCOME_CODE_QUEUE_LIMIT, stage.gang(), job_id=app.app_id)


def test_plain_containers_are_refused_alike(stage: Stage) -> None:
    app = stage.joint.apps.submit().register()
    app.allocate(plain(1, key=9))
    stage.await_asked(app, 1)
    key = ask_pb2.RequestKey(priority=1, allocation_request_id=9)
    thin = resource_pb2.Resource(memory_mb=256, vcores=1)
    seats = [stage.seat(0, key=key, resource=thin, gpu_indices=[]) for _ in range(2)]
    stage.refused(Code.OUTCOME_CODE_NO_ASK, seats, job_id=app.app_id)
    one = stage.session.outcome(stage.session.place(app.app_id, 1, seats[:1]))
    assert one.code == Code.OUTCOME_CODE_COMMITTED, one
