"""The stream to the service: tells what waits in the ring, takes orders, and begins anew when it breaks.

A stream begins with Hello and a whole account; its first orders list all bindings. It is opened again after a pause that grows,
with jitter, so that two thousand monitors do not come back at once to a service that was just started.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import msgspec
import structlog

from yarn_gpu_sched.identity import BadCertificate, TlsFiles, is_unix
from yarn_gpu_sched.monitor.clock import Clock
from yarn_gpu_sched.monitor.ring import Ring
from yarn_gpu_sched.protocol.bad_field import shown
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb
from yarn_gpu_sched.protocol.v1 import monitor_pb2_grpc

if TYPE_CHECKING:
    from grpc.aio import StreamStreamCall

    Call = StreamStreamCall[pb.ReportRequest, pb.ReportResponse]

PROTOCOL_VERSION = 1
BACKOFF_MIN_S = 0.2
BACKOFF_MAX_S = 10.0
STEADY_S = 30.0
"""Seconds after which a stream was a good one: the next pause is the shortest again."""
CONNECT_S = 5.0
ORDER_BYTES_MAX = 4 * 1024 * 1024

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.enable_http_proxy", 0),  # nothing between a cluster's own servers is a proxy's
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # how long one attempt may take: a busy machine is slow to shake hands
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", ORDER_BYTES_MAX),
    ("grpc.use_local_subchannel_pool", 1),
)

_log = structlog.get_logger(__name__)


class Broken(Exception):  # noqa: N818 - a name that says what happened
    """A stream ended, and why."""


class CarriedOut(msgspec.Struct, frozen=True):
    """The last order that was carried out: its number, on the stream of this number."""

    stream: int
    order: int = 0


class Stream:
    """Keeps one stream open as long as `run` runs.

    ``hello`` makes its first message, ``renew`` puts a whole account into the ring, ``carry_out`` does what the service orders.
    """

    def __init__(  # noqa: PLR0913 - what it is told, what it tells, and what tests and TLS need
        self,
        target: str,
        ring: Ring,
        clock: Clock,
        hello: Callable[[], pb.Hello],
        renew: Callable[[], None],
        carry_out: Callable[[pb.ReportResponse], Awaitable[None]],
        jitter: Callable[[], float] = random.random,
        *,
        tls: TlsFiles | None = None,
    ) -> None:
        self.connected = False
        self.pushes_total = 0
        self.streams_total = 0
        self.carried_out = CarriedOut(0)
        self.seen = CarriedOut(0)
        """What had been carried out before the newest reading began: told as `orders_seen`."""
        self._target = target
        self._ring = ring
        self._clock = clock
        self._hello = hello
        self._renew = renew
        self._carry_out = carry_out
        self._jitter = jitter
        self._tls = tls
        self._why = ""

    async def run(self) -> None:
        """Keep a stream open until cancelled."""
        pause_s = BACKOFF_MIN_S
        while True:
            began_s = self._clock.now_s()
            try:
                async with self._channel() as channel:
                    await self._report(channel)
            except (Broken, grpc.aio.AioRpcError, BadCertificate) as error:
                self._lost(error)
            if self._clock.now_s() - began_s >= STEADY_S:
                pause_s = BACKOFF_MIN_S
            await self._clock.wait(pause_s * (0.5 + self._jitter() / 2))
            pause_s = min(pause_s * 2, BACKOFF_MAX_S)

    def _channel(self) -> grpc.aio.Channel:
        """Make the way to the service, with the certificate that the files hold now. Raises `BadCertificate`."""
        if self._tls is None or is_unix(self._target):
            return grpc.aio.insecure_channel(self._target, options=_OPTIONS)
        material = self._tls.read()
        credentials = grpc.ssl_channel_credentials(material.authority, material.key, material.certificate)
        return grpc.aio.secure_channel(self._target, credentials, options=_OPTIONS)

    def _lost(self, error: Broken | grpc.aio.AioRpcError | BadCertificate) -> None:
        """Say once why the service does not hear us; again only when it is another cause."""
        why = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.aio.AioRpcError) else str(error)
        if why != self._why:
            _log.warning("service_lost", service=self._target, error=shown(why))
        self._why = why

    async def _report(self, channel: grpc.aio.Channel) -> None:
        await _connect(channel)
        call: Call = monitor_pb2_grpc.MonitorServiceStub(channel).Report()
        self.streams_total += 1
        self.carried_out = CarriedOut(self.streams_total)
        try:
            await _write(call, pb.ReportRequest(hello=self._hello()))
            self._renew()
            self._ring.send()
            await _first_of(self._tell(call), self._listen(call))
        finally:
            self.connected = False
            self._ring.lost(self._clock.now_s())
            call.cancel()

    async def _tell(self, call: Call) -> None:
        sequence = orders_seen = 0
        while True:
            await self._ring.wanted.wait()
            sequence += 1
            telemetry = self._ring.take(self._clock.now_s())
            telemetry.sequence = sequence
            # What a reading that failed had seen counts with the next one that succeeds.
            if self.seen.stream == self.streams_total and not telemetry.HasField("failure"):
                orders_seen = self.seen.order
            telemetry.orders_seen = orders_seen
            await _write(call, pb.ReportRequest(telemetry=telemetry))
            self.pushes_total += 1

    async def _listen(self, call: Call) -> None:
        """Carry out orders in turn: while one is being carried out the next is not read."""
        while True:
            order = await call.read()
            if not isinstance(order, pb.ReportResponse):
                raise Broken(f"the service ended the stream: {(await call.code()).name} {await call.details()}")
            wanted = self.carried_out.order + 1
            if order.sequence != wanted:
                raise Broken(f"order {order.sequence}, should be {wanted}")
            if not self.connected:
                self.connected = True
                self._why = ""
                _log.info("service_connected", service=self._target)
            await self._carry_out(order)
            self.carried_out = CarriedOut(self.streams_total, order.sequence)


async def _connect(channel: grpc.aio.Channel) -> None:
    try:
        async with asyncio.timeout(CONNECT_S):
            await channel.channel_ready()
    except TimeoutError:
        raise Broken(f"nobody answers within {CONNECT_S:g} s") from None


async def _write(call: Call, request: pb.ReportRequest) -> None:
    try:
        await call.write(request)
    except asyncio.InvalidStateError:
        raise Broken(f"the service ended the stream: {(await call.code()).name} {await call.details()}") from None


async def _first_of(*parts: Awaitable[None]) -> None:
    """Run both until one ends, which it only does by an error; end the other and raise it."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
