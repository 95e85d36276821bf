"""Heartbeats both ways, and silence, by a clock that tests move."""

import asyncio
from collections.abc import Callable

import grpc

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.service import FakeClock, Service
from yarn_gpu_sched.service.pulse import Pulse

Link = Callable[[], RawLink]


class Heard:
    """What a pulse called for."""

    def __init__(self, clock: FakeClock) -> None:
        self.beats = 0
        self.deaths = 0
        self.pulse = Pulse(clock, self._beat, self._dead)

    def _beat(self) -> None:
        self.beats += 1

    def _dead(self) -> None:
        self.deaths += 1


def test_a_beat_a_second_of_our_own_silence() -> None:
    clock = FakeClock()
    heard = Heard(clock)
    for _ in range(5):
        clock.advance(1.0)
    assert heard.beats == 5


def test_no_beat_while_we_speak() -> None:
    clock = FakeClock()
    heard = Heard(clock)
    for _ in range(10):
        clock.advance(0.5)
        heard.pulse.sent()
    assert heard.beats == 0
    clock.advance(1.0)
    assert heard.beats == 1


def test_three_silent_seconds_are_death_once() -> None:
    clock = FakeClock()
    heard = Heard(clock)
    heard.pulse.listening()
    clock.advance(2.99)
    assert heard.deaths == 0
    clock.advance(0.01)
    assert heard.deaths == 1
    clock.advance(60)
    assert heard.deaths == 1


def test_each_message_gives_three_more_seconds() -> None:
    clock = FakeClock()
    heard = Heard(clock)
    for _ in range(20):
        heard.pulse.listening()
        clock.advance(2.5)
        heard.pulse.heard()
    assert heard.deaths == 0


def test_silence_does_not_count_while_we_do_not_listen() -> None:
    clock = FakeClock()
    heard = Heard(clock)
    heard.pulse.heard()
    clock.advance(60)
    assert heard.deaths == 0
    heard.pulse.listening()
    clock.advance(2.9)
    assert heard.deaths == 0
    clock.advance(3.1)
    assert heard.deaths == 1


class StallingClock(FakeClock):
    """A clock whose callbacks come late: the process stood still."""

    def stall(self, seconds: float) -> None:
        self._now_s += seconds
        self.advance(0)


def test_a_stall_of_our_own_is_no_silence_of_theirs() -> None:
    clock = StallingClock()
    heard = Heard(clock)
    heard.pulse.listening()
    clock.stall(30.0)
    assert heard.deaths == 0
    clock.advance(3.0)
    assert heard.deaths == 1


def test_a_stopped_pulse_calls_nothing() -> None:
    clock = FakeClock()
    heard = Heard(clock)
    heard.pulse.listening()
    heard.pulse.stop()
    clock.advance(60)
    assert (heard.beats, heard.deaths) == (0, 0)


async def test_the_service_sends_heartbeats(clock: FakeClock, link: Link) -> None:
    one = await link().open()
    for _ in range(3):
        clock.advance(1.0)
        assert (await one.hear()).WhichOneof("message") == "heartbeat"
        await one.heartbeat()


async def test_a_silent_resource_manager_is_lost(service: Service, clock: FakeClock, link: Link) -> None:
    one = await link().open(changes.server())
    await settled(service)
    clock.advance(3.0)
    ended = await one.end()
    assert (ended.code, ended.reason) == (grpc.StatusCode.ABORTED, "SILENT")
    assert ended.sentence == "nothing was heard for 3 s"
    assert not (await settled(service)).cluster().connected


async def test_heartbeats_alone_keep_a_stream(service: Service, clock: FakeClock, link: Link) -> None:
    one = await link().open(changes.server())
    for _ in range(10):
        clock.advance(2.0)
        before = service.driver.session
        await one.heartbeat()
        await one.hear()
        await asyncio.sleep(0.01)
        assert service.driver.session is before is not None


async def test_a_stream_that_never_registers_is_ended(clock: FakeClock, link: Link, service: Service) -> None:
    before = len(clock._timers)
    one = link()
    await one.call.wait_for_connection()
    await until(lambda: len(clock._timers) > before)
    clock.advance(3.0)
    assert (await one.end()).reason == "SILENT"
    assert service.driver.session is None
