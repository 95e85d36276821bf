"""A GPU that was given back is given out only after a good reading from after that end, and then it is, whatever came between."""

from __future__ import annotations

import pytest

from tests.service.raw_monitor import sample
from tests.service.told_monitors import Monitors, played
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb
from yarn_gpu_sched.service.refusal import Refusal

FAILURE = pb.ReadFailure(kind=pb.READ_FAILURE_KIND_TIMED_OUT)


async def given_back(monitors: Monitors) -> list[str]:
    """Let a monitor read its GPUs, a container end there, and the monitor hear of that."""
    await monitors.tell("s1", pb.Telemetry(sequence=1, gpus=[sample(slot) for slot in range(4)]))
    world = monitors.world
    gone = [one.container_id for one in world.engine.containers_on("s1")]
    for container_id in gone:
        world.release(container_id)
        monitors.fleet._orders["s1"].unbind(container_id)
    while monitors.fleet._orders["s1"].next_message() is not None:
        pass
    return gone


def awaited(monitors: Monitors) -> set[str]:
    (view,) = monitors.world.engine.hosts(only="s1")[0]
    return {one.gpu.released for one in view.gpus if one.gpu.released}


def seen(monitors: Monitors, sequence: int, failure: pb.ReadFailure | None = None) -> pb.Telemetry:
    return pb.Telemetry(sequence=sequence, orders_seen=monitors.fleet._orders["s1"].sent, failure=failure)


def test_an_end_that_only_a_failed_reading_had_heard_of_is_not_lost() -> None:
    async def play(monitors: Monitors) -> None:
        gone = await given_back(monitors)
        assert gone
        await monitors.tell("s1", seen(monitors, 2, FAILURE))
        assert awaited(monitors) == {*gone}
        await monitors.tell("s1", seen(monitors, 3))
        assert awaited(monitors) == set()
        assert monitors.fleet._orders["s1"].ended(1 << 30) == ()

    played(play)


def test_an_end_that_the_engine_could_not_be_told_of_is_told_again() -> None:
    """Too much waits: the stream ends, and another one begins."""

    async def play(monitors: Monitors) -> None:
        gone = await given_back(monitors)
        monitors.overloaded = True
        with pytest.raises(Refusal):
            await monitors.tell("s1", seen(monitors, 2))
        assert awaited(monitors) == {*gone}
        monitors.overloaded = False
        monitors.hello("s1", pb.Hello(protocol_version=1, host="s1", push_every_s=5.0))
        while monitors.fleet._orders["s1"].next_message() is not None:
            pass
        await monitors.tell("s1", seen(monitors, 1))
        assert awaited(monitors) == set()

    played(play)
