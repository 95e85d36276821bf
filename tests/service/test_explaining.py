"""The resource manager hears why its jobs wait: changes only, seldom, and all of it anew on a new stream."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service import changes
from tests.service.conftest import settled
from tests.service.raw_link import RawLink
from yarn_gpu_sched.engine.commands import RefuseJob
from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX
from yarn_gpu_sched.protocol.convert import registration
from yarn_gpu_sched.protocol.v1 import link_pb2, virtual_cluster_pb2
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.explaining import TOLD_EVERY_S
from yarn_gpu_sched.service.session import EXPLANATIONS_MAX, Session, SessionLimits
from yarn_gpu_sched.service.walk import WALK_JOBS, WALK_S, Walk

Link = Callable[[], RawLink]
GATHER_S = 60


@pytest.fixture
def settings() -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, gather_s=GATHER_S)


class Listener:
    """The resource manager's end: what it heard, message by message."""

    def __init__(self, service: Service, clock: FakeClock, link: RawLink) -> None:
        self.service = service
        self.clock = clock
        self.link = link

    async def told(self, seconds: float = WALK_S) -> dict[str, str]:
        """Let time pass; return what the service tells of jobs meanwhile."""
        heard: dict[str, str] = {}
        for _ in range(round(seconds / WALK_S)):
            await self.link.heartbeat()
            await settled(self.service)
            self.clock.advance(WALK_S)
            await self._hear(heard)
        return heard

    async def _hear(self, heard: dict[str, str]) -> None:
        session = self.service.driver.session
        assert session is not None
        session.beat()  # sent after all else that waits
        while (message := await self.link.hear()).WhichOneof("message") != "heartbeat":
            heard |= {one.job_id: one.sentence for one in message.explanations.explanations}
            session.beat()


async def full(service: Service, clock: FakeClock, link: RawLink, *more: link_pb2.Change, **fields: object) -> Listener:
    """Open a stream: one server of 4 GPUs is in use, and job-2 waits for them."""
    await link.open(
        changes.server(gpus=4),
        changes.job("job-1"),
        changes.container(job_id="job-1", gpu_indices=(0, 1, 2, 3)),
        changes.job("job-2", attempt=3),
        changes.asks("job-2", count=1, gpus=2, attempt=3),
        *more,
        **fields,
    )
    return Listener(service, clock, link)


@pytest.fixture
async def listener(service: Service, clock: FakeClock, link: Link) -> Listener:
    return await full(service, clock, link())


async def test_a_job_that_waits_is_told_with_its_attempt_and_its_numbers(
    service: Service, clock: FakeClock, link: Link
) -> None:
    one = await full(service, clock, link())
    await settled(service)
    clock.advance(WALK_S)
    message = await one.link.hear()
    (told,) = message.explanations.explanations
    assert (told.job_id, told.attempt) == ("job-2", 3)
    assert told.sentence == "waits as cluster_full: asks 2 GPUs; 0 GPUs are free on 0 servers"


async def test_what_has_not_changed_is_not_told_again(listener: Listener) -> None:
    assert set(await listener.told()) == {"job-2"}
    assert await listener.told(3 * TOLD_EVERY_S) == {}


async def test_a_change_is_told_when_ten_seconds_have_passed_and_only_the_last_one(listener: Listener) -> None:
    await listener.told()
    await listener.link.batch(changes.asks("job-2", count=1, gpus=3, attempt=3))
    assert await listener.told(TOLD_EVERY_S - 2 * WALK_S) == {}
    await listener.link.batch(changes.asks("job-2", count=1, gpus=4, attempt=3))
    told = await listener.told(2 * WALK_S)
    assert list(told) == ["job-2"]
    assert "asks 4 GPUs" in told["job-2"]


async def test_a_time_that_runs_down_is_no_change(service: Service, clock: FakeClock, link: Link) -> None:
    one = await full(service, clock, link())
    gathers = changes.virtual_cluster("root.b")
    gathers.virtual_cluster.untagged_jobs = virtual_cluster_pb2.UNTAGGED_JOBS_DEBOUNCE
    await one.link.batch(gathers, changes.job("job-4", vc="root.b"), changes.asks("job-4"))
    told = await one.told()
    assert f"is formed in {GATHER_S} s" in told["job-4"]
    await one.told(TOLD_EVERY_S)
    await one.link.batch()  # time passes for the engine, too
    assert await one.told(2 * WALK_S) == {}
    reason = service.engine.waiting("job-4")
    assert reason is not None
    assert f"is formed in {GATHER_S - TOLD_EVERY_S - WALK_S:.0f} s" in reason.sentence


async def test_that_it_waits_no_more_is_told_once(listener: Listener) -> None:
    await listener.told()
    await listener.link.batch(
        changes.asks("job-2", count=0, attempt=3), changes.container("c2", "job-2", gpu_indices=())
    )
    assert await listener.told(TOLD_EVERY_S) == {"job-2": ""}
    assert await listener.told(2 * TOLD_EVERY_S) == {}


async def test_a_job_that_waits_for_nothing_and_one_that_may_not_ask_yet_are_not_told(
    service: Service, clock: FakeClock, link: Link
) -> None:
    one = await full(service, clock, link())
    idle = changes.job("job-3")
    idle.job.active = False
    await one.link.batch(idle)
    assert set(await one.told(2 * TOLD_EVERY_S)) == {"job-2"}


async def test_a_job_that_runs_and_waits_for_more_is_told(service: Service, clock: FakeClock, link: Link) -> None:
    one = await full(service, clock, link(), changes.asks("job-1", count=1, gpus=1))
    assert set(await one.told()) == {"job-1", "job-2"}


async def test_a_new_attempt_is_told_at_once(listener: Listener) -> None:
    await listener.told()
    await listener.link.batch(changes.job("job-2", attempt=4), changes.asks("job-2", count=1, gpus=2, attempt=4))
    assert set(await listener.told()) == {"job-2"}


async def test_after_a_new_registration_all_is_told_anew(service: Service, clock: FakeClock, link: Link) -> None:
    assert set(await (await full(service, clock, link())).told()) == {"job-2"}
    again = await full(service, clock, link(), epoch=2)
    assert set(await again.told()) == {"job-2"}


async def test_ended_jobs_are_forgotten(listener: Listener) -> None:
    await listener.told()
    assert listener.service.explaining.remembered == 1
    await listener.link.batch(changes.ended("job-2"))
    assert await listener.told(2 * WALK_S) == {}
    assert listener.service.explaining.remembered == 0


async def test_nothing_is_told_before_the_snapshots_end(service: Service, clock: FakeClock, link: Link) -> None:
    one = link()
    await one.registered()
    await one.batch(changes.server(gpus=0), changes.job("job-1"), changes.asks("job-1"))
    assert await Listener(service, clock, one).told(3 * WALK_S) == {}


async def test_who_has_just_registered_is_told_nothing_that_the_one_before_had_said(
    service: Service, clock: FakeClock, link: Link
) -> None:
    await full(service, clock, link())
    await settled(service)
    register = link_pb2.Register(protocol_version=1, cluster_id="c1", epoch=2, start_time_ms=1)
    newer = Session(registration(register), SessionLimits())
    service.driver.admit(newer)  # it waits to be applied: the engine still speaks of the other one
    Walk(service.engine, FakeClock(), service.explaining).start()
    assert newer.next_message() is None


async def test_so_many_jobs_a_second(service: Service, clock: FakeClock, link: Link) -> None:
    jobs = [f"job-{n:04}" for n in range(2 * WALK_JOBS - 1)]
    waiting = [one for name in jobs for one in (changes.job(name), changes.asks(name, gpus=2))]
    one = await full(service, clock, link(), *waiting)
    assert len(await one.told()) == WALK_JOBS
    assert len(await one.told()) == WALK_JOBS


async def test_a_resource_manager_that_does_not_read_is_told_what_is_so_when_it_reads(
    service: Service, clock: FakeClock, link: Link
) -> None:
    """What is queued is bounded; of each job the newest waits, and what does not fit is told later."""
    jobs = [f"job-{n:04}" for n in range(EXPLANATIONS_MAX + 2 * WALK_JOBS)]
    waiting = [one for name in jobs for one in (changes.job(name), changes.asks(name, gpus=2))]
    await full(service, clock, link(), *waiting)
    await settled(service)
    session = service.driver.session
    assert session is not None
    time = FakeClock()
    Walk(service.engine, time, service.explaining).start()
    for _ in range(20):  # the event loop does not run meanwhile: nothing is sent
        time.advance(WALK_S)
        assert not session.takes_explanations(EXPLANATIONS_MAX + 1)
    assert not session.takes_explanations(WALK_JOBS)
    assert service.explaining.remembered <= EXPLANATIONS_MAX
    sent = 0
    while (message := session.next_message()) is not None:
        assert message.ByteSize() <= MESSAGE_BYTES_MAX
        sent += len(message.explanations.explanations)
    assert EXPLANATIONS_MAX - WALK_JOBS < sent <= EXPLANATIONS_MAX
    for _ in range(20):
        time.advance(WALK_S)
        while session.next_message() is not None:
            pass
    assert service.explaining.remembered == len(jobs) + 1


async def test_a_message_of_explanations_never_exceeds_its_bytes(service: Service, link: Link) -> None:
    await link().open()
    await settled(service)
    session = service.driver.session
    assert session is not None
    session.explain(link_pb2.Explanation(job_id=f"job-{n}", attempt=1, sentence="\u20ac" * 4_096) for n in range(200))
    sizes = []
    while (message := session.next_message()) is not None:
        sizes.append((message.ByteSize(), len(message.explanations.explanations)))
    assert sum(count for _, count in sizes) == 200
    assert all(size <= MESSAGE_BYTES_MAX for size, _ in sizes)
    assert len(sizes) == 3


async def test_decisions_go_first(service: Service, link: Link) -> None:
    await link().open()
    await settled(service)
    session = service.driver.session
    assert session is not None
    session.beat()
    session.explain([link_pb2.Explanation(job_id="job-1", attempt=1, sentence="waits")])
    session.send(RefuseJob(decision_id=9, job_id="job-2", diagnostics="too large"), now_s=0.0)
    heard = [message.WhichOneof("message") for message in iter(session.next_message, None)]
    assert heard == ["decisions", "explanations"]
