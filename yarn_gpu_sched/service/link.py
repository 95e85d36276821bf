"""The resource manager's link: one stream, from `Register` to its end.

Three things run while a stream is open: this call reads, a second task writes, and the pulse
watches for silence. Whatever ends the stream first gives its status; then the driver forgets the
session. What is read is checked here only as far as the stream itself goes (order, repetition);
the driver converts and applies it.
"""

import asyncio
from collections.abc import Callable

import grpc
import structlog
from grpc import aio

from yarn_gpu_sched import __version__
from yarn_gpu_sched.protocol.convert import PROTOCOL_VERSIONS, BadField, registration
from yarn_gpu_sched.protocol.v1 import link_pb2
from yarn_gpu_sched.service.caller import current_call
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.driver import Driver
from yarn_gpu_sched.service.handlers import Context, begin_answering, readable
from yarn_gpu_sched.service.pulse import DEAD_AFTER_S, Pulse
from yarn_gpu_sched.service.refusal import Refusal
from yarn_gpu_sched.service.session import Session, SessionLimits

_log = structlog.get_logger(__name__)


class Link:
    """Serves `ResourceManagerLinkService`."""

    def __init__(self, driver: Driver, clock: Clock, limits: SessionLimits) -> None:
        self._driver = driver
        self._clock = clock
        self._limits = limits

    async def connect(self, context: Context) -> None:
        """Serve one stream from its first message to its end."""
        try:
            session = await self._admit(context)
        except Refusal as refusal:
            _log.warning("resource_manager_refused", reason=refusal.reason, why=refusal.sentence)
            raise
        call = current_call()
        call.began("registered", **_named(session))
        try:
            await _Stream(self._driver, self._clock, session, context).serve()
        finally:
            call.ended(_why(session), **_named(session))

    async def _admit(self, context: Context) -> Session:
        first = await self._first(context)
        try:
            session = Session(registration(first), self._limits)
        except BadField as bad:
            raise Refusal.of(bad) from None
        await begin_answering(context)
        self._driver.admit(session)
        return session

    async def _first(self, context: Context) -> link_pb2.Register:
        silent = asyncio.get_running_loop().create_future()
        timer = self._clock.call_at(self._clock.now_s() + DEAD_AFTER_S, _setter(silent))
        reading = asyncio.ensure_future(context.read())
        try:
            await asyncio.wait({reading, silent}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                raise _silence()
        finally:
            timer.cancel()
            reading.cancel()
            silent.cancel()
        return _registering(reading.result())


def _named(session: Session) -> dict[str, object]:
    who = session.registration
    return {"cluster_id": who.cluster_id, "epoch": who.epoch, "session_id": session.session_id}


def _why(session: Session) -> str:
    refusal = session.ended.result() if session.ended.done() and not session.ended.cancelled() else None
    return refusal.sentence if refusal is not None else "the stream was closed"


def _setter(future: "asyncio.Future[None]") -> Callable[[], None]:
    def set_once() -> None:
        if not future.done():
            future.set_result(None)

    return set_once


def _registering(message: object) -> link_pb2.Register:
    if message is aio.EOF:
        raise _precondition("the stream ended before Register", "NOT_REGISTERED")
    request: link_pb2.ConnectRequest = readable(message)
    if request.sequence != 1:
        raise _out_of_order(request.sequence, 1)
    if request.WhichOneof("message") != "register":
        raise _precondition("the first message of a stream must be Register", "NOT_REGISTERED")
    version = request.register.protocol_version
    if version not in PROTOCOL_VERSIONS:
        known = ", ".join(map(str, PROTOCOL_VERSIONS))
        raise _precondition(f"protocol version {version} is not known here; known: {known}", "UNKNOWN_VERSION")
    return request.register


_KEPT: "set[asyncio.Task[None]]" = set()
"""Tasks of all streams until they are done. The event loop refers to tasks weakly, and tasks of streams whose connection had died
were seen to be collected while they waited. Bounded by the calls at once."""


class _Stream:
    """A stream whose resource manager has registered."""

    def __init__(self, driver: Driver, clock: Clock, session: Session, context: Context) -> None:
        self._driver = driver
        self._session = session
        self._context = context
        self._pulse = Pulse(clock, session.beat, lambda: session.end(_silence()))

    async def serve(self) -> None:
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        for task in tasks:
            _KEPT.add(task)
            task.add_done_callback(_KEPT.discard)
            task.add_done_callback(self._on_done)
        try:
            refusal = await self._session.ended
        finally:
            self._session.end()
            self._pulse.stop()
            self._driver.forget(self._session)
            for task in tasks:
                task.cancel()
        if refusal is not None:
            raise refusal

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            self._session.end()
            return
        error = task.exception()
        if error is None or isinstance(error, Refusal):
            self._session.end(error)
            return
        if not self._session.ended.done():
            _log.error("stream_failed", session_id=self._session.session_id, exc_info=error)
        self._session.end(Refusal(grpc.StatusCode.INTERNAL, "the service failed; its log says why", "INTERNAL"))

    async def _read(self) -> None:
        while True:
            await self._session.slots.acquire()
            self._pulse.listening()
            message = await self._context.read()
            self._pulse.heard()
            if message is aio.EOF:
                return
            self._take(readable(message))

    def _take(self, request: link_pb2.ConnectRequest) -> None:
        session = self._session
        if request.sequence != session.received + 1:
            raise _out_of_order(request.sequence, session.received + 1)
        session.received += 1
        kind = request.WhichOneof("message")
        if kind == "batch":
            self._take_batch(request.batch)
        elif kind == "heartbeat":
            self._session.slots.release()
        elif kind == "register":
            raise _precondition("a stream registers once", "REGISTERED_TWICE")
        else:
            sentence = f"message {session.received} says nothing: batch or heartbeat is missing"
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, sentence, "EMPTY_MESSAGE")

    def _take_batch(self, batch: link_pb2.Batch) -> None:
        if batch.snapshot_end:
            if self._session.snapshot_ended:
                raise _precondition("a stream has one snapshot_end", "SNAPSHOT_ENDED_TWICE")
            self._session.snapshot_ended = True
        self._driver.submit_batch(self._session, batch)

    async def _write(self) -> None:
        answer = link_pb2.ConnectResponse()
        answer.registered.session_id = self._session.session_id
        answer.registered.service_version = __version__
        await self._context.write(answer)
        while True:
            await self._session.wake.wait()
            self._session.wake.clear()
            while (message := self._session.next_message()) is not None:
                await self._context.write(message)
                self._pulse.sent()


def _precondition(sentence: str, reason: str) -> Refusal:
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, sentence, reason)


def _silence() -> Refusal:
    sentence = f"nothing was heard for {DEAD_AFTER_S:g} s"
    return Refusal(grpc.StatusCode.ABORTED, sentence, "SILENT")


def _out_of_order(sequence: int, expected: int) -> Refusal:
    kind = "came again" if sequence < expected else "came too early"
    sentence = f"message {sequence} {kind}: {expected} was expected"
    return Refusal(grpc.StatusCode.ABORTED, sentence, "OUT_OF_SEQUENCE")
