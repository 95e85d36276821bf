"""What a service gone mad says to the shim: the stream is dropped, a new one opened, the ResourceManager unharmed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.real.apps import gpus
from tests.real.joint import ScriptedJoint
from tests.real.scripted import Message, Session
from yarn_gpu_sched.protocol.v1 import ask_pb2, decision_pb2, link_pb2, resource_pb2

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

SILENCE_S_MAX = 3.0
Connect = link_pb2.ConnectResponse


def _decisions(session: Session, count: int, text: int = 0) -> Connect:
    refuse = decision_pb2.RefuseJob(job_id="application_1_0001", diagnostics="x" * text)
    decisions = [session.decision(refuse_job=refuse) for _ in range(count)]
    return Connect(decisions=link_pb2.Decisions(decisions=decisions))


def _greeting(_: Session) -> Message:
    return Connect(registered=link_pb2.Registered(session_id="another", service_version="x"))


GARBAGE: dict[str, Callable[[Session], Message]] = {
    "bytes that are no message": lambda _: b"\xff\xff\xff\xff\x00garbage",
    "half a message": lambda session: _decisions(session, 3, 100).SerializeToString()[:-50],
    "an empty message": lambda _: Connect(),
    "a message of a kind that is not known": lambda _: b"\xfa\x3f\x02\x08\x01",
    "a message of more than 1 MiB": lambda session: _decisions(session, 300, 4096),
    "more than 1,024 decisions": lambda session: _decisions(session, 1025),
    "a second greeting": _greeting,
}


def _works(scripted: ScriptedJoint, session: Session) -> None:
    """Check that the ResourceManager still places what it is told."""
    with scripted.ghosts(1) as servers:
        app = scripted.apps.submit().register()
        app.allocate(gpus(1))
        scripted.until(lambda: session.asked(app.app_id), bool, "the shim tells of the ask")
        seat = decision_pb2.Assignment(
            key=ask_pb2.RequestKey(priority=1),
            server_id=servers[0],
            resource=resource_pb2.Resource(memory_mb=256, vcores=1, gpus=1),
            gpu_indices=[3],
        )
        outcome = session.outcome(session.place(app.app_id, 1, [seat]))
        assert outcome.code == decision_pb2.OUTCOME_CODE_COMMITTED, outcome
        assert app.hold(1)[0]["tags"] == ["gpu_3"]
        app.finish()


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_ends_the_stream_and_the_shim_registers_again(
    scripted: ScriptedJoint, garbage: Callable[[Session], Message]
) -> None:
    before = scripted.session()
    sessions = len(scripted.service.sessions)
    before.send(garbage(before))
    scripted.until(before.ended.is_set, bool, "the shim has ended the stream", 20)
    after = scripted.service.session(after=sessions)
    assert after.servers.keys() == before.servers.keys()
    _works(scripted, after)


def test_decisions_before_the_greeting_end_the_stream(scripted: ScriptedJoint) -> None:
    service = scripted.service
    sessions = len(service.sessions)
    service.greets = False
    service.session().send(b"\xff")
    early = service.registered(after=sessions)
    early.send(_decisions(early, 1))
    scripted.until(early.ended.is_set, bool, "the shim has ended the stream", 20)
    service.greets = True
    assert early.outcomes == {}
    _works(scripted, service.session(after=sessions + 1))


def test_a_service_that_sends_nothing_is_given_up_after_three_seconds(scripted: ScriptedJoint) -> None:
    service = scripted.service
    session = scripted.session()
    sessions = len(service.sessions)
    service.beats = False
    silent_since_s = time.monotonic()
    scripted.until(session.ended.is_set, bool, "the shim has given up", 20)
    assert time.monotonic() - silent_since_s >= SILENCE_S_MAX - 1
    service.beats = True
    service.session(after=sessions)


def test_a_service_that_goes_away_gets_all_unanswered_asks_again(scripted: ScriptedJoint) -> None:
    service = scripted.service
    app = scripted.apps.submit().register()
    app.allocate(gpus(2))
    first = service.session()
    scripted.until(lambda: first.asked(app.app_id), bool, "the shim tells of the ask")
    sessions = len(service.sessions)
    service.stop()
    app.allocate(gpus(3))
    service.start()
    second = service.session(after=sessions)
    assert [ask.count for ask in second.asked(app.app_id)] == [3]
    assert second.register is not None
    assert first.register is not None
    assert second.register.epoch == first.register.epoch
    assert second.sequences == list(range(1, len(second.sequences) + 1))


def test_the_shim_beats_once_a_second_when_it_has_nothing_to_say(scripted: ScriptedJoint) -> None:
    session = scripted.session()
    beats, since_s = session.beats, time.monotonic()
    scripted.until(lambda: session.beats, lambda now: now >= beats + 3, "three more heartbeats", 20)
    assert time.monotonic() - since_s < 3 * SILENCE_S_MAX
    assert not session.ended.is_set()
