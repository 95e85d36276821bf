"""Every queue of the library has a bound, and does what docs/queues.md says when it is full."""

import pytest

from tests.client.scripted import WAIT_S, ScriptedLink, await_condition, place, serving
from yarn_gpu_sched.client import LinkLostError, ResourceManagerLink
from yarn_gpu_sched.client import session as session_module
from yarn_gpu_sched.client.session import Explanations, Outcomes
from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2


def test_decisions_that_nobody_takes_hold_the_service_back_and_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "DECISIONS_WAITING_MAX", 10)
    monkeypatch.setattr(session_module, "SILENCE_MAX_S", 1.0)
    service = ScriptedLink()
    with serving(service.add) as target, ResourceManagerLink(target, cluster_id="c", epoch=1) as link:
        link.register(timeout_s=WAIT_S)
        service.next("register")
        service.next("batch")
        service.decide(*(place(number) for number in range(1, 101)))
        session = link._session
        assert session is not None
        await_condition(session._decisions.full)
        heartbeats = 0
        while heartbeats < 3:  # longer than the silence that would end a session
            heartbeats += service.heard.get(timeout=WAIT_S).HasField("heartbeat")
        assert session._decisions.qsize() == 10
        assert link.connected
        taken = link.decisions()
        assert [next(taken).decision_id for _ in range(100)] == list(range(1, 101))


def test_outcomes_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "OUTCOMES_KEPT_MAX", 3)
    outcomes = Outcomes()
    for number in range(1, 5):
        assert outcomes.admit(number) == (True, None)
    assert outcomes.admit(4) == (False, None)
    assert outcomes.admit(1) == (True, None)  # forgotten, and so new
    outcomes.answer(decision_pb2.Outcome(decision_id=4))
    assert outcomes.admit(4) == (False, decision_pb2.Outcome(decision_id=4))


def said(job_id: str, sentence: str = "waits") -> link_pb2.Explanation:
    return link_pb2.Explanation(job_id=job_id, attempt=1, sentence=sentence)


def test_explanations_are_remembered_up_to_a_bound_and_an_empty_one_takes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "EXPLANATIONS_KEPT_MAX", 3)
    explanations = Explanations()
    explanations.take([said("job-1"), said("job-2"), said("job-3"), said("job-1", "still waits"), said("job-4")])
    assert [explanations.of(f"job-{number}") is not None for number in range(1, 5)] == [True, False, True, True]
    explanations.take([said("job-1", ""), said("job-5", "")])
    assert explanations.of("job-1") is explanations.of("job-5") is None


def test_an_ended_session_yields_no_more_of_what_waited() -> None:
    service = ScriptedLink()
    with serving(service.add) as target, ResourceManagerLink(target, cluster_id="c", epoch=1) as link:
        link.register(timeout_s=WAIT_S)
        service.decide(place(1), place(2))
        taken = link.decisions()
        assert next(taken).decision_id == 1
        link.drop()
        with pytest.raises(LinkLostError, match="dropped here"):
            next(taken)
