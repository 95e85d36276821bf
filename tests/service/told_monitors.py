"""A service's side of monitors' streams over an engine that runs jobs, without the streams: messages are taken at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import grpc
from google.protobuf.message import Message

from tests.engine.world import World, ask, server, worker
from tests.service.raw_monitor import cards
from yarn_gpu_sched.engine import EngineSettings, events
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.health import host_message
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb
from yarn_gpu_sched.service import FakeClock
from yarn_gpu_sched.service.log import configure_logging
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.believable import (
    CARD_BYTES_MAX,
    HOST_BYTES_MAX,
    SAMPLE_BYTES_MAX,
    TEXT_MAX,
    checked_hello,
    checked_telemetry,
    impossible,
)
from yarn_gpu_sched.service.monitors.fleet import Fleet
from yarn_gpu_sched.service.monitors.idling import idle_jobs
from yarn_gpu_sched.service.monitors.link import MonitorLink
from yarn_gpu_sched.service.monitors.samples import add_samples
from yarn_gpu_sched.service.monitors.speakers import Speakers
from yarn_gpu_sched.service.monitors.telemetry import LIES_MAX
from yarn_gpu_sched.service.refusal import Refusal

HOSTS = ("s1", "s2")
KEPT_BYTES_MAX = 64 * SAMPLE_BYTES_MAX + HOST_BYTES_MAX + 64 * CARD_BYTES_MAX + LIES_MAX * 8 * TEXT_MAX


class Monitors:
    """A service's side of some monitors' streams over an engine that runs jobs; every event is audited."""

    def __init__(self) -> None:
        configure_logging("critical")
        self.world = World(EngineSettings(policy="philly", ended_jobs_max=2)).up(*(server(host, 4) for host in HOSTS))
        for number, (count, gpus) in enumerate([(2, 1), (1, 2), (1, 4)]):
            self.world.submit(f"j{number}", f"gang:{count}x{gpus}")
            self.world.ask(f"j{number}", ask(count, worker(gpus)))
        self.world.run()
        self.clock = FakeClock(self.world.now_s)
        metrics = Metrics()
        self.fleet = Fleet(self.world.engine, self.clock, metrics)
        self.fleet.start(self._tell)
        self.link = MonitorLink(self.world.engine, self.clock, metrics, self.fleet, Speakers(self.clock))
        self.sequences: dict[str, int] = {}
        self.believed = self.refused = 0
        self.overloaded = False

    async def _tell(self, make: Callable[[float], Sequence[events.AnyEvent]]) -> None:
        self.world.now_s = self.clock.now_s()
        if self.overloaded:
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much waits", "OVERLOADED")
        for event in make(self.world.now_s):
            self.world.apply(event)

    def hello(self, host: str, hello: pb.Hello) -> None:
        """Let a monitor begin a stream, if it is believed."""
        before = self.all_of_it()
        try:
            checked_hello(hello)
        except BadField:
            self.refused += 1
            assert self.all_of_it() == before
            return
        known, _ = self.fleet.join(host)
        known.begin(hello)
        self.sequences[host] = 0

    async def tell(self, host: str, telemetry: pb.Telemetry) -> None:
        """Let it tell something, if it is believed; else its stream has ended."""
        known, orders = self.fleet.hosts[host], self.fleet._orders[host]
        before = self.all_of_it()
        try:
            checked_telemetry(telemetry, self.sequences[host] + 1, orders.sent, known.cards)
        except BadField:
            self.refused += 1
            assert self.all_of_it() == before
            self.hello(host, pb.Hello(protocol_version=1, host=host, push_every_s=5.0))
            return
        self.believed += 1
        self.sequences[host] += 1
        lies = [one.slot for one in telemetry.gpus if impossible(one)]
        last = {slot: known.samples.get(slot) for slot in lies}
        await self.link.hear(known, orders, telemetry)
        if not telemetry.cards and not telemetry.no_cards:
            assert {slot: known.samples.get(slot) for slot in lies} == last
        while orders.next_message() is not None:
            pass
        self.all_is_shown()
        assert self.kept_bytes(host) <= KEPT_BYTES_MAX
        assert len(known.lies) <= LIES_MAX

    def all_of_it(self) -> tuple[object, ...]:
        """Give all that messages may change."""
        told = []
        for host, one in sorted(self.fleet.hosts.items()):
            samples = {slot: (kept.message.SerializeToString(), kept.read_s) for slot, kept in one.samples.items()}
            fields = {name: value for name, value in vars(one).items() if name not in ("samples", "cards")}
            told.append((host, samples, {slot: str(card) for slot, card in one.cards.items()}, repr(fields)))
        return self.world.engine.digest(), told

    def all_is_shown(self) -> None:
        """Make all views of it."""
        now_s = self.clock.now_s()
        for view in self.world.engine.hosts()[0]:
            message = host_message(view, now_s)
            if view.host in self.fleet.hosts:
                add_samples(message, self.fleet.hosts[view.host], self.fleet.bound_s, now_s)
            message.SerializeToString()
        idle_jobs(self.world.engine, self.fleet, now_s)

    def kept_bytes(self, host: str) -> int:
        """Count what is kept of what a monitor said."""
        one = self.fleet.hosts[host]
        messages: list[Message] = [*(kept.message for kept in one.samples.values()), *one.cards.values()]
        messages += [] if one.host_sample is None else [one.host_sample]
        return sum(message.ByteSize() for message in messages) + sum(len(name) * 4 for name in one.lies)


def played(turns: Callable[[Monitors], Coroutine[Any, Any, None]]) -> Monitors:
    """Play some turns, and clear up."""
    monitors = None

    async def play() -> None:
        nonlocal monitors
        monitors = Monitors()
        for host in HOSTS:
            monitors.hello(host, pb.Hello(protocol_version=1, host=host, push_every_s=5.0, cards=cards()))
        await turns(monitors)
        monitors.fleet.stop()

    asyncio.run(play())
    assert monitors is not None
    return monitors
