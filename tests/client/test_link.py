import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2  # type: ignore[import-untyped] # ships no py.typed

from tests.client.scripted import WAIT_S, ScriptedLink, place, serving
from yarn_gpu_sched.client import (
    LinkFullError,
    LinkLostError,
    RejectedError,
    ResourceManagerLink,
    ServiceError,
    UnavailableError,
)
from yarn_gpu_sched.client import session as session_module
from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2


def removed(name: str) -> link_pb2.Change:
    return link_pb2.Change(server_removed=name)


def committed(decision_id: int) -> decision_pb2.Outcome:
    return decision_pb2.Outcome(decision_id=decision_id, code=decision_pb2.OUTCOME_CODE_COMMITTED)


@pytest.fixture
def service() -> ScriptedLink:
    return ScriptedLink()


@pytest.fixture
def target(service: ScriptedLink) -> Iterator[str]:
    with serving(service.add) as address:
        yield address


@pytest.fixture
def link(target: str) -> Iterator[ResourceManagerLink]:
    with ResourceManagerLink(target, cluster_id="c", epoch=1, settle_s=5.0, agent="test") as made:
        yield made


def test_it_registers_with_its_snapshot_and_then_sends_changes_numbered(
    service: ScriptedLink, link: ResourceManagerLink
) -> None:
    assert link.register([removed("a"), removed("b")], timeout_s=WAIT_S).session_id == "session-1"
    link.send(removed("c"))
    link.send(removed("d"), removed("e"))
    first, snapshot = service.next("register"), service.next("batch")
    assert (first.sequence, snapshot.sequence) == (1, 2)
    assert first.register.protocol_version == 1
    assert (first.register.cluster_id, first.register.epoch, first.register.settle_s) == ("c", 1, 5.0)
    assert first.register.start_time_ms > 1_700_000_000_000
    assert [change.server_removed for change in snapshot.batch.changes] == ["a", "b"]
    assert snapshot.batch.snapshot_end
    later: list[str] = []
    while len(later) < 3:
        later += [change.server_removed for change in service.next("batch").batch.changes]
    assert later == ["c", "d", "e"]


def test_it_says_that_it_lives(service: ScriptedLink, link: ResourceManagerLink) -> None:
    link.register(timeout_s=WAIT_S)
    service.next("register")
    service.next("batch")
    assert service.heard.get(timeout=WAIT_S).HasField("heartbeat")


def test_a_decision_is_yielded_and_its_outcome_goes_before_the_asks_after_it(
    service: ScriptedLink, link: ResourceManagerLink
) -> None:
    link.register(timeout_s=WAIT_S)
    service.decide(place(7))
    decision = next(link.decisions())
    assert decision.decision_id == 7
    link.report(committed(7), removed("after"))
    service.next("register")
    service.next("batch")
    told = service.next("batch").batch.changes
    assert [change.WhichOneof("change") for change in told] == ["outcome", "server_removed"]


def test_a_doubled_decision_is_yielded_once_and_answered_again_with_its_outcome(
    service: ScriptedLink, link: ResourceManagerLink
) -> None:
    link.register(timeout_s=WAIT_S)
    service.decide(place(7), place(7))
    decisions = link.decisions(idle_s=1.0)
    assert next(decisions).decision_id == 7
    link.report(committed(7))
    service.decide(place(7), place(8))
    assert next(decisions).decision_id == 8
    service.next("register")
    service.next("batch")
    outcomes: list[decision_pb2.Outcome] = []
    while len(outcomes) < 2:
        outcomes += [change.outcome for change in service.next("batch").batch.changes]
    assert outcomes == [committed(7), committed(7)]


@pytest.mark.parametrize("wrong", [{"session_id": "another"}, {"epoch": 0}])
def test_a_decision_of_another_session_or_epoch_is_answered_here(
    service: ScriptedLink, link: ResourceManagerLink, wrong: dict[str, Any]
) -> None:
    link.register(timeout_s=WAIT_S)
    service.decide(place(7, **wrong), place(8))
    assert next(link.decisions()).decision_id == 8
    service.next("register")
    service.next("batch")
    outcome = service.next("batch").batch.changes[0].outcome
    assert (outcome.decision_id, outcome.code) == (7, decision_pb2.OUTCOME_CODE_STALE_EPOCH)


def test_each_decision_is_answered_exactly_once(service: ScriptedLink, link: ResourceManagerLink) -> None:
    link.register(timeout_s=WAIT_S)
    with pytest.raises(ValueError, match="decision_id 7 was not made in this session"):
        link.report(committed(7))
    service.decide(place(7))
    next(link.decisions())
    link.report(committed(7))
    with pytest.raises(ValueError, match="decision_id 7 is answered already"):
        link.report(committed(7))


def test_silence_of_the_service_ends_the_session(
    service: ScriptedLink, link: ResourceManagerLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "SILENCE_MAX_S", 0.5)
    service.silent.set()
    link.register(timeout_s=WAIT_S)
    with pytest.raises(LinkLostError, match="said nothing for"):
        list(link.decisions())
    assert not link.connected
    with pytest.raises(LinkLostError):
        link.send(removed("x"))


def test_after_a_loss_it_registers_again_with_a_new_snapshot(service: ScriptedLink, link: ResourceManagerLink) -> None:
    link.register([removed("old")], timeout_s=WAIT_S)
    service.to_say.put(RuntimeError("going down"))
    with pytest.raises(LinkLostError, match="going down") as caught:
        list(link.decisions())
    assert isinstance(caught.value.__cause__, UnavailableError)
    assert link.register([removed("new")], timeout_s=WAIT_S).session_id == "session-2"
    service.decide(place(7, session_id="session-2"))
    assert next(link.decisions()).decision_id == 7


def test_decision_ids_of_an_ended_session_mean_nothing_in_the_next(
    service: ScriptedLink, link: ResourceManagerLink
) -> None:
    link.register(timeout_s=WAIT_S)
    service.decide(place(7))
    next(link.decisions())
    link.drop()
    link.register(timeout_s=WAIT_S)
    with pytest.raises(ValueError, match="not made in this session"):
        link.report(committed(7))


def test_an_older_epoch_is_rejected(service: ScriptedLink, link: ResourceManagerLink) -> None:
    service.refusal = (code_pb2.FAILED_PRECONDITION, "epoch 1 is older than 2")
    with pytest.raises(RejectedError, match="older than 2"):
        link.register(timeout_s=WAIT_S)
    assert not link.connected


def test_nobody_there_is_unavailable() -> None:
    with (
        ResourceManagerLink("127.0.0.1:1", cluster_id="c", epoch=1) as link,
        pytest.raises(UnavailableError),
    ):
        link.register(timeout_s=WAIT_S)


def test_a_service_that_does_not_answer_register_is_given_up(service: ScriptedLink, link: ResourceManagerLink) -> None:
    service.mute = True
    with pytest.raises(ServiceError, match=r"did not answer Register within 0\.3 s") as caught:
        link.register(timeout_s=0.3)
    assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_full_queue_ends_the_session_and_registering_repairs_it(target: str) -> None:
    with ResourceManagerLink(target, cluster_id="c", epoch=1, changes_max=2) as link:
        link.register(timeout_s=WAIT_S)
        with pytest.raises(LinkFullError, match="most are 2"):
            link.send(removed("a"), removed("b"), removed("c"))
        with pytest.raises(LinkLostError, match="most are 2"):
            link.send(removed("d"))
        link.register([removed("all")], timeout_s=WAIT_S)
        assert link.connected


def test_before_registering_it_says_so() -> None:
    link = ResourceManagerLink("127.0.0.1:1", cluster_id="c", epoch=1)
    with pytest.raises(LinkLostError, match="register first"):
        link.send(removed("x"))
    link.close()


def test_closing_sends_what_waits_and_ends_the_decisions_quietly(service: ScriptedLink, target: str) -> None:
    link = ResourceManagerLink(target, cluster_id="c", epoch=1)
    link.register(timeout_s=WAIT_S)
    ended = threading.Event()

    def take_all() -> None:
        assert list(link.decisions()) == []
        ended.set()

    threading.Thread(target=take_all, daemon=True).start()
    link.send(removed("last word"))
    link.close(drain_s=WAIT_S)
    assert ended.wait(WAIT_S)
    service.next("register")
    service.next("batch")
    assert service.next("batch").batch.changes[0].server_removed == "last word"


def test_decisions_end_after_the_idle_time(link: ResourceManagerLink) -> None:
    link.register(timeout_s=WAIT_S)
    assert list(link.decisions(idle_s=0.2)) == []
