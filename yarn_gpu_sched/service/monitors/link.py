"""A node monitor's stream, from its Hello to its end.

What it tells is believed only of its own server, and only where it can be true (`believable`). One stream a server: a new one
ends the one before. A stream that ends says nothing of the server; that its monitor is silent is found by the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
import structlog
from grpc import aio

from yarn_gpu_sched.engine import Engine, events
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.protocol.v1 import monitor_pb2
from yarn_gpu_sched.service.caller import current_call
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.handlers import Context, begin_answering, readable
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.believable import checked_hello, checked_telemetry
from yarn_gpu_sched.service.monitors.fleet import Fleet
from yarn_gpu_sched.service.monitors.news import news_of
from yarn_gpu_sched.service.monitors.orders import Orders
from yarn_gpu_sched.service.monitors.speakers import Speakers, check_name
from yarn_gpu_sched.service.monitors.telemetry import HostTelemetry
from yarn_gpu_sched.service.refusal import Refusal

HELLO_WAIT_S = 15.0
MONITORS_MAX = 4_096
UNADMITTED_MAX = 2_048
"""Streams at once that have not said who they are, or of whom it is being looked up."""

_log = structlog.get_logger(__name__)

_KEPT: set[asyncio.Task[None]] = set()
"""Tasks of all streams until they are done: the event loop refers to tasks weakly. Bounded by the streams at once."""


class MonitorLink:
    """Serves `MonitorService`."""

    def __init__(self, engine: Engine, clock: Clock, metrics: Metrics, fleet: Fleet, speakers: Speakers) -> None:
        self._engine = engine
        self._clock = clock
        self._metrics = metrics
        self._fleet = fleet
        self._speakers = speakers
        self._streams: dict[str, _Stream] = {}
        self._unadmitted = 0

    async def report(self, context: Context) -> None:
        """Serve one stream."""
        self._unadmitted += 1
        try:
            hello, host = await self._admit(context)
        except (Refusal, BadField) as refused:
            reason = refused.reason if isinstance(refused, Refusal) else "BAD_FIELD"
            self._metrics.monitor_lies.labels(reason).inc()
            _log.warning("monitor_refused", peer=context.peer(), reason=reason, why=str(refused))
            raise
        finally:
            self._unadmitted -= 1
        before = self._streams.get(host)
        if before is not None:
            before.end(Refusal(grpc.StatusCode.ABORTED, f"another monitor speaks for {host} now", "REPLACED"))
        known, orders = self._fleet.join(host)
        stream = self._streams[host] = _Stream(self, context, known, orders)
        _log.info("monitor_connected", host=host, agent=one_line(hello.agent), gpus=len(hello.cards))
        self._fleet.connected = len(self._streams)
        call = current_call()
        call.began("connected", host=host)
        try:
            await stream.serve(hello)
        finally:
            call.ended(stream.why, host=host)
            if self._streams.get(host) is stream:
                del self._streams[host]
            self._fleet.connected = len(self._streams)

    async def _admit(self, context: Context) -> tuple[monitor_pb2.Hello, str]:
        # Together never more than that, so that whoever opens streams and says nothing keeps no resource manager out.
        if len(self._streams) + self._unadmitted > MONITORS_MAX or self._unadmitted > UNADMITTED_MAX:
            sentence = (
                f"{len(self._streams)} monitors are connected, {self._unadmitted} are about to be: no more are taken"
            )
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, sentence, "TOO_MANY_MONITORS")
        try:
            first = await asyncio.wait_for(context.read(), HELLO_WAIT_S)
        except TimeoutError:
            sentence = f"no hello within {HELLO_WAIT_S:g} s"
            raise Refusal(grpc.StatusCode.ABORTED, sentence, "SILENT") from None
        if first is aio.EOF:
            raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "the stream ended before its hello", "NO_HELLO")
        request: monitor_pb2.ReportRequest = readable(first)
        if request.WhichOneof("message") != "hello":
            sentence = "the first message of a stream must be hello"
            raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, sentence, "NO_HELLO")
        checked_hello(request.hello)
        host = self._engine.host_named(request.hello.host) or request.hello.host.lower()
        identity = current_call().identity
        if identity is None:
            await self._speakers.check(context.peer(), host)
        else:
            check_name(self._engine, identity.name, host)
        await begin_answering(context)
        return request.hello, host

    async def take(self, made: Sequence[events.AnyEvent]) -> None:
        """Have the engine take what a monitor told."""
        if made:
            await self._fleet.tell(made)

    async def hear(self, known: HostTelemetry, orders: Orders, telemetry: monitor_pb2.Telemetry) -> None:
        """Take one message."""
        now_s = self._clock.now_s()
        lies = sum(known.lies.values())
        ended = () if telemetry.failure.kind else orders.ended(telemetry.orders_seen)  # what failed shows nothing free
        made = known.take(telemetry, now_s, ended)
        if sum(known.lies.values()) != lies:
            self._metrics.monitor_lies.labels("IMPOSSIBLE_SAMPLE").inc(sum(known.lies.values()) - lies)
        made += news_of(self._engine, known.host, telemetry, now_s)
        for refusal in telemetry.refusals:
            self._metrics.bindings_refused.inc()
            _log.warning(
                "container_not_let_start",
                host=known.host,
                container_id=refusal.container_id,
                gpus=list(refusal.slots),
                why=one_line(refusal.detail),
            )
        await self.take(made)
        orders.told(ended)

    async def check_name(self, spoken: str, host: str) -> None:
        """Require that a server goes by this name still: a monitor may have come before the resource manager named its server.

        Raises `Refusal`; the next stream is that of the server which is meant.
        """
        identity = current_call().identity
        if identity is not None:
            check_name(self._engine, identity.name, host)
        if self._engine.has_host(host):
            return
        meant = self._engine.host_named(spoken)
        if meant and meant != host:
            await self._fleet.leave(host)
            raise Refusal(grpc.StatusCode.ABORTED, f"the server {host} is {meant}: speak for that", "OTHER_NAME")

    def heard(self) -> None:
        """Count a message that was taken: whoever sees the count sees what it told, too."""
        self._metrics.monitor_messages.inc()

    def lied(self, bad: BadField, host: str) -> None:
        """Count a message that cannot be true."""
        self._metrics.monitor_lies.labels("BAD_FIELD").inc()
        _log.warning("monitor_not_believed", host=host, why=str(bad))


class _Stream:
    """A stream whose monitor has said who it is."""

    def __init__(self, link: MonitorLink, context: Context, known: HostTelemetry, orders: Orders) -> None:
        self._link = link
        self._context = context
        self._known = known
        self._orders = orders
        self._turn = orders.turn
        self._ended: asyncio.Future[Refusal | BadField | None] = asyncio.get_running_loop().create_future()

    def end(self, refusal: Refusal | BadField | None = None) -> None:
        """End it, once."""
        if not self._ended.done():
            self._ended.set_result(refusal)

    @property
    def why(self) -> str:
        """Why it ended."""
        refusal = self._ended.result() if self._ended.done() and not self._ended.cancelled() else None
        return str(refusal) if refusal is not None else "the stream was closed"

    async def serve(self, hello: monitor_pb2.Hello) -> None:
        """Read and write until one of the two ends."""
        tasks = [asyncio.create_task(self._read(hello)), asyncio.create_task(self._write())]
        for task in tasks:
            _KEPT.add(task)
            task.add_done_callback(_KEPT.discard)
            task.add_done_callback(self._on_done)
        try:
            refusal = await self._ended
        finally:
            self.end()
            for task in tasks:
                task.cancel()
        if refusal is not None:
            raise refusal

    def _on_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or isinstance(error, (Refusal, BadField)):
            self.end(error)
            return
        if not self._ended.done():
            _log.error("monitor_stream_failed", host=self._known.host, exc_info=error)
        self.end(Refusal(grpc.StatusCode.INTERNAL, "the service failed; its log says why", "INTERNAL"))

    async def _read(self, hello: monitor_pb2.Hello) -> None:
        known, link = self._known, self._link
        known.begin(hello)
        sequence = 0
        while (message := await self._context.read()) is not aio.EOF:
            request: monitor_pb2.ReportRequest = readable(message)
            if request.WhichOneof("message") != "telemetry":
                raise Refusal(
                    grpc.StatusCode.FAILED_PRECONDITION, "hello comes once, telemetry after it", "HELLO_TWICE"
                )
            if self._ended.done():
                return
            await link.check_name(hello.host, known.host)
            sequence += 1
            try:
                checked_telemetry(request.telemetry, sequence, self._orders.sent, known.cards)
            except BadField as bad:
                link.lied(bad, known.host)
                raise
            await link.hear(known, self._orders, request.telemetry)
            link.heard()

    async def _write(self) -> None:
        orders = self._orders
        while orders.turn == self._turn:
            message = orders.next_message()
            if message is not None:
                await self._context.write(message)
                continue
            orders.wake.clear()
            await orders.wake.wait()
