"""Streams of seeded nonsense: whatever is said, the status is clear, the laws hold, and a good one is served next."""

import random
from collections.abc import Callable

import grpc
import pytest

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.protocol.v1 import decision_pb2, job_pb2, link_pb2
from yarn_gpu_sched.service import Service

Link = Callable[[], RawLink]
Code = grpc.StatusCode

CLEAR = {Code.OK, Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.ABORTED, Code.RESOURCE_EXHAUSTED}
RARE = 0.02
SERVERS = [f"gpu-{index}:1" for index in range(4)]
JOBS = [f"job-{index}" for index in range(6)]
CONTAINERS = [f"container-{index}" for index in range(20)]
TAGS = ["gang:2x1", "gang:4x2", "gang:0", "gang:-1", "gang:4x", "gang:99999999999", "GANG:3", "other"]


def change(chance: random.Random) -> link_pb2.Change:
    """Make a change that may be about anything, known or not, right or not quite."""
    server, job, container = chance.choice(SERVERS), chance.choice(JOBS), chance.choice(CONTAINERS)
    number = CONTAINERS.index(container)
    count = 1_000_001 if chance.random() < RARE else chance.choice([0, 1, 2, 4, 1_000_000])
    makers: list[Callable[[], link_pb2.Change]] = [
        lambda: changes.server(
            server, gpus=chance.randrange(5, 9), state=4 if chance.random() < RARE else chance.choice([1, 1, 2, 3])
        ),
        lambda: link_pb2.Change(server_removed=server),
        changes.virtual_cluster,
        lambda: changes.job(job, tags=chance.sample(TAGS, chance.randrange(3)), attempt=chance.randrange(1, 4)),
        lambda: changes.asks(
            job, count=count, gpus=chance.randrange(6), attempt=0 if chance.random() < RARE else chance.randrange(1, 4)
        ),
        lambda: changes.container(container, job, SERVERS[number % 4], (number // 4,), ending=chance.random() < 0.2),
        lambda: changes.released(container),
        lambda: changes.ended(job, chance.choice([job_pb2.JOB_END_FAILED, job_pb2.JOB_END_KILLED])),
        lambda: changes.outcome(chance.randrange(20), code=decision_pb2.OUTCOME_CODE_NO_FIT),
        lambda: changes.outcome(chance.randrange(20), [f"new-{chance.random()}" for _ in range(chance.randrange(3))]),
    ]
    return chance.choice(makers)()


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Cut a message, or change one of its bytes."""
    place = chance.randrange(len(data) or 1)
    if chance.random() < 0.5:
        return data[:place]
    return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]


async def taken(service: Service, link: RawLink) -> bool:
    """Wait until what was said has been applied; tell whether the stream is still open."""
    session = service.driver.session
    if session is None or session.session_id != link.session_id:
        return False
    await until(lambda: session.received >= link.sequence or session.ended.done())
    await service.driver.settle()
    return not session.ended.done()


async def talk(chance: random.Random, service: Service, link: RawLink, epoch: int) -> None:
    """Say a few batches, now and then a wrong one, until the stream ends or nothing is left to say."""
    await link.registered(epoch=epoch)
    for number in range(12):
        batch = link_pb2.Batch(changes=[change(chance) for _ in range(chance.randrange(20))])
        batch.snapshot_end = number == 2 or chance.random() < 0.02
        message = link_pb2.ConnectRequest(batch=batch, sequence=link.sequence + 1)
        if chance.random() < 0.03:
            await link.raw(damaged(chance, message.SerializeToString()))
            break
        await link.say(message, link.sequence + 1 + (chance.random() < 0.03))
        if not await taken(service, link):
            return
    await link.call.done_writing()


@pytest.mark.parametrize("seed", range(8))
async def test_nonsense_is_refused_clearly_and_harms_nothing(service: Service, link: Link, seed: int) -> None:
    chance = random.Random(seed)
    codes = set()
    for epoch in range(1, 16):
        one = link()
        await talk(chance, service, one, epoch)
        codes.add((await one.end()).code)
        await until(lambda: service.driver.session is None)
        await settled(service)
    assert codes <= CLEAR
    assert len(codes) > 1
    assert service.metrics.engine_failures._value.get() == 0
    good = await link().open(changes.server(gpus=8), changes.job("good"), changes.asks("good"), epoch=99)
    assert len(await good.decisions()) == 1
    await settled(service)
