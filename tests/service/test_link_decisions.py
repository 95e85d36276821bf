"""Decisions on the stream: complete, in order, in messages of bounded size, and bounded while unread."""

from collections.abc import Callable

import grpc
import pytest
from grpc import aio

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.engine.commands import PlaceGang, RefuseJob
from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.assignment import Assignment, Level
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.protocol.bounds import DECISIONS_MAX, MESSAGE_BYTES_MAX
from yarn_gpu_sched.protocol.convert import Registration
from yarn_gpu_sched.protocol.v1 import decision_pb2
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.session import IN_FLIGHT_BYTES_MAX, Session, SessionLimits

Link = Callable[[], RawLink]


async def test_a_gang_is_decided_committed_and_runs(service: Service, link: Link) -> None:
    one = await link().open(changes.server(gpus=4), changes.job(tags=["gang:2x2"]), epoch=7)
    await one.batch(changes.asks(count=2, gpus=2))
    (decision,) = await one.decisions()
    assert (decision.session_id, decision.epoch) == (one.session_id, 7)
    assert decision.place_gang.job_id == "job-1"
    assert [list(one.gpu_indices) for one in decision.place_gang.assignments] == [[0, 1], [2, 3]]
    await one.batch(changes.committed(decision), changes.asks(count=0))
    await until(lambda: (view := service.engine.job("job-1")) and view.state is JobState.RUNNING)
    engine = await settled(service)
    view = engine.job("job-1")
    assert view is not None
    assert [container.gpu_indices for container in view.containers] == [(0, 1), (2, 3)]
    assert service.metrics.outcomes.labels("committed")._value.get() == 1


async def test_nothing_is_decided_before_the_end_of_the_snapshot(service: Service, link: Link) -> None:
    one = link()
    await one.registered()
    await one.batch(changes.server(), changes.job(), changes.asks())
    await until(lambda: service.engine.job("job-1") is not None)
    await settled(service)
    assert service.driver.session is not None
    assert service.driver.session.unanswered == {}
    await one.batch(snapshot_end=True)
    assert len(await one.decisions()) == 1


async def test_a_refused_decision_is_tried_again_when_its_pause_is_over(
    service: Service, clock: FakeClock, link: Link
) -> None:
    one = await link().open(changes.server(), changes.job(), changes.asks())
    (first,) = await one.decisions()
    await one.batch(changes.outcome(first.decision_id, code=decision_pb2.OUTCOME_CODE_NO_FIT, detail="no\x1broom"))
    await until(lambda: service.driver.session and not service.driver.session.unanswered)
    engine = await settled(service)
    waiting = engine.waiting("job-1")
    assert waiting is not None
    assert "\x1b" not in waiting.sentence
    clock.advance(0.5)
    (second,) = await one.decisions()
    assert second.decision_id != first.decision_id


async def test_decisions_of_a_lost_session_are_made_anew(link: Link) -> None:
    state = (changes.server(), changes.job(), changes.asks())
    one = await link().open(*state)
    (first,) = await one.decisions()
    one.call.cancel()
    two = await link().open(*state, epoch=2)
    (second,) = await two.decisions()
    assert (second.session_id, second.epoch) == (two.session_id, 2)
    assert second.session_id != first.session_id


async def test_more_decisions_than_fit_one_message_come_in_several(link: Link) -> None:
    servers = [changes.server(f"gpu-{index}:1", gpus=8) for index in range(320)]
    jobs = [changes.job(f"job-{index}") for index in range(2_000)]
    one = await link().open(*servers, *jobs)
    await one.batch(*[changes.asks(f"job-{index}") for index in range(2_000)])
    heard: list[int] = []
    while len(heard) < 2_000:
        message = await one.hear()
        assert len(message.decisions.decisions) <= DECISIONS_MAX
        assert message.ByteSize() <= MESSAGE_BYTES_MAX
        heard.extend(decision.decision_id for decision in message.decisions.decisions)
    assert heard == sorted(heard)
    assert len(set(heard)) == 2_000


def place(decision_id: int, containers: int = 1, server_id: str = "s" * 256, gpus: int = 1) -> PlaceGang:
    key = RequestKey(-1, 1 << 62)
    assignment = Assignment(key, server_id, Resource(1 << 40, 1 << 20, gpus), tuple(range(1024 - gpus, 1024)))
    return PlaceGang(
        decision_id=decision_id,
        job_id="j" * 256,
        attempt=(1 << 32) - 1,
        assignments=(assignment,) * containers,
        level=Level.ANYWHERE,
    )


def session(**limits: int) -> Session:
    return Session(Registration("c1", 1, 1, 0.0, ""), SessionLimits(**limits))


async def test_a_message_never_exceeds_its_bytes() -> None:
    one = session()
    for decision_id in range(40):
        one.send(place(decision_id, containers=300, gpus=8), 0.0)
    sent = 0
    while (message := one.next_message()) is not None:
        assert message.ByteSize() <= MESSAGE_BYTES_MAX
        sent += len(message.decisions.decisions)
    assert sent == 40
    assert (one.outbound, one.outbound_bytes) == (0, 0)


async def test_a_heartbeat_is_sent_only_when_nothing_else_is() -> None:
    one = session()
    one.beat()
    one.beat()
    one.send(place(1), 0.0)
    message = one.next_message()
    assert message is not None
    assert message.WhichOneof("message") == "decisions"
    assert one.next_message() is None


async def test_decisions_in_flight_are_bounded_and_the_rest_follows_outcomes() -> None:
    one = session()
    for decision_id in range(2_000):
        one.send(place(decision_id, containers=20, gpus=8), 0.0)
    sent: list[int] = []

    def take() -> int:
        taken = 0
        while (message := one.next_message()) is not None:
            sent.extend(decision.decision_id for decision in message.decisions.decisions)
            taken += message.ByteSize()
        return taken

    assert IN_FLIGHT_BYTES_MAX // 2 < take() <= IN_FLIGHT_BYTES_MAX + MESSAGE_BYTES_MAX
    assert 0 < len(sent) < 2_000
    one.wake.clear()
    assert take() == 0
    for decision_id in sent:
        assert one.answered(decision_id) is not None
    assert one.wake.is_set()
    while take():
        for decision_id in sent:
            one.answered(decision_id)
    assert sent == list(range(2_000))


async def test_unread_decisions_are_bounded() -> None:
    one = session(outbound_bytes_max=10_000)
    for decision_id in range(1_000):
        one.send(place(decision_id), 0.0)
    assert one.outbound < 100
    refusal = one.ended.result()
    assert refusal is not None
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MUCH_UNREAD")


async def test_unanswered_decisions_are_bounded() -> None:
    one = session(unanswered_max=10)
    for decision_id in range(1_000):
        one.send(place(decision_id), 0.0)
        one.next_message()
    assert len(one.unanswered) == 11
    refusal = one.ended.result()
    assert refusal is not None
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MUCH_UNANSWERED")


async def test_the_largest_gang_of_short_names_fits_and_of_the_longest_does_not() -> None:
    one = session()
    assert not one.send(place(1, 16_384, "s" * 256), 0.0)
    assert (one.outbound, one.unanswered) == (0, {})
    assert one.send(place(2, 16_384, "gpu-1234:45454"), 0.0)
    assert one.send(RefuseJob(decision_id=3, job_id="j", diagnostics="d" * 1_000_000), 0.0)
    for decision_id in (2, 3):
        message = one.next_message()
        assert message is not None
        assert message.ByteSize() <= MESSAGE_BYTES_MAX
        assert [decision.decision_id for decision in message.decisions.decisions] == [decision_id]


async def test_a_decision_too_large_for_a_message_is_refused_here(service: Service, link: Link) -> None:
    long_names = [changes.server(f"gpu-{index:04}-{'x' * 240}:1", gpus=1) for index in range(4_000)]
    one = await link().open(*long_names)
    await one.batch(changes.job(tags=["gang:4000x1"]), changes.asks(count=4_000, gpus=1))
    await until(lambda: (waiting := service.engine.waiting("job-1")) and "INVALID" in waiting.sentence.upper())
    await settled(service)
    await one.batch(changes.job("job-2"), changes.asks("job-2"))
    (decision,) = await one.decisions()
    assert decision.place_gang.job_id == "job-2"


# A receiver that takes no more than it is asked for.
NARROW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16))


class TestSlowReader:
    """A resource manager that does not read."""

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(listen="127.0.0.1:0", audit_every_events=0, outbound_mb_max=1)

    async def test_its_stream_is_ended_and_it_may_register_again(self, service: Service, link: Link) -> None:
        async with aio.insecure_channel(f"127.0.0.1:{service.port}", options=NARROW) as narrow:
            slow = await RawLink(narrow).open(*[changes.server(f"gpu-{n}-{'x' * 200}:1") for n in range(2_500)])
            await until(lambda: service.engine.cluster().connected)
            for start in range(0, 10_000, 1_000):
                await slow.batch(*[changes.job(f"job-{index}") for index in range(start, start + 1_000)])
                await slow.batch(*[changes.asks(f"job-{index}") for index in range(start, start + 1_000)])
            await until(lambda: service.driver.session is None)
            ended = await slow.end()
        assert (ended.code, ended.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MUCH_UNREAD")
        assert not (await settled(service)).cluster().connected
        again = await link().open(changes.server(), changes.job(), changes.asks())
        assert len(await again.decisions()) == 1
