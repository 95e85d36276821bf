"""The service's side of the link, as a test wants it: honest, silent or talking nonsense.

It speaks through raw stubs, so that nothing of the product's own service is between a test and the shim.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Self

import grpc

from tests.real.waiting import wait_until
from yarn_gpu_sched.protocol.v1 import ask_pb2, container_pb2, decision_pb2, job_pb2, link_pb2, server_pb2

_METHOD = "/yarn_gpu_sched.v1.ResourceManagerLinkService/Connect"
_BEAT_S = 0.5
Message = link_pb2.ConnectResponse | bytes


class Session:
    """One stream of a resource manager, and what it has said on it."""

    def __init__(self, number: int) -> None:
        self.session_id = f"session-{number}"
        self.register: link_pb2.Register | None = None
        self.complete = False
        self.ended = threading.Event()
        self.servers: dict[str, server_pb2.Server] = {}
        self.jobs: dict[str, job_pb2.Job] = {}
        self.asks: dict[str, ask_pb2.JobAsks] = {}
        self.containers: dict[str, container_pb2.Container] = {}
        self.released: list[str] = []
        self.job_ends: dict[str, job_pb2.JobEnded] = {}
        self.outcomes: dict[int, list[decision_pb2.Outcome]] = {}
        self.sequences: list[int] = []
        self.beats = 0
        self.to_send: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._decision_ids = itertools.count(1)

    # What was said

    def hear(self, request: link_pb2.ConnectRequest) -> Iterator[link_pb2.Change]:
        """Keep what a message says; yield its changes."""
        self.sequences.append(request.sequence)
        match request.WhichOneof("message"):
            case "register":
                self.register = request.register
            case "heartbeat":
                self.beats += 1
            case "batch":
                for change in request.batch.changes:
                    self._apply(change)
                    yield change
                self.complete = self.complete or request.batch.snapshot_end

    def _apply(self, change: link_pb2.Change) -> None:
        match change.WhichOneof("change"):
            case "server":
                self.servers[change.server.server_id] = change.server
            case "server_removed":
                self.servers.pop(change.server_removed, None)
            case "job":
                self.jobs[change.job.job_id] = change.job
            case "asks":
                self.asks[change.asks.job_id] = change.asks
            case "container":
                self.containers[change.container.container_id] = change.container
            case "container_released":
                self.containers.pop(change.container_released.container_id, None)
                self.released.append(change.container_released.container_id)
            case "job_ended":
                self.job_ends[change.job_ended.job_id] = change.job_ended
            case "outcome":
                self.outcomes.setdefault(change.outcome.decision_id, []).append(change.outcome)

    def asked(self, job_id: str) -> list[ask_pb2.Ask]:
        """Return the pending asks of a job."""
        return list(self.asks[job_id].asks) if job_id in self.asks else []

    # What is answered

    def send(self, message: Message) -> None:
        """Send anything, a well-formed message or bytes."""
        self.to_send.put(message)

    def decision(self, **fields: object) -> decision_pb2.Decision:
        """Make a decision of this session and epoch, or with other fields where they are given."""
        assert self.register is not None
        ours: dict[str, object] = {
            "decision_id": next(self._decision_ids),
            "session_id": self.session_id,
            "epoch": self.register.epoch,
        }
        return decision_pb2.Decision(**(ours | fields))  # type: ignore[arg-type] # fields by name

    def place(
        self, job_id: str, attempt: int, assignments: list[decision_pb2.Assignment], **fields: object
    ) -> decision_pb2.Decision:
        """Send a decision to place a gang; return it."""
        gang = decision_pb2.PlaceGang(job_id=job_id, attempt=attempt, assignments=assignments, level=2)
        decision = self.decision(**({"place_gang": gang} | fields))
        self.send_decisions(decision)
        return decision

    def send_decisions(self, *decisions: decision_pb2.Decision) -> None:
        """Send decisions in one message."""
        self.send(link_pb2.ConnectResponse(decisions=link_pb2.Decisions(decisions=decisions)))

    def outcome(self, decision: decision_pb2.Decision, wait_s: float = 20.0) -> decision_pb2.Outcome:
        """Wait for what became of a decision."""
        number = decision.decision_id
        return wait_until(lambda: self.outcomes.get(number, []), bool, f"an outcome of {decision}", wait_s=wait_s)[0]


Rule = Callable[[Session, link_pb2.Change], None]


class ScriptedService:
    """A server of the link on a port of its own. What it does is set before a resource manager connects.

    greets: whether Register is answered; beats: whether heartbeats are sent; rules: called with each change.
    """

    def __init__(self) -> None:
        self.greets = True
        self.beats = True
        self.rules: list[Rule] = []
        self.sessions: list[Session] = []
        self.problems: list[str] = []
        self._server: grpc.Server | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", 4 << 20),
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            ("grpc.so_reuseport", 0),
        ]
        self._server = grpc.server(futures.ThreadPoolExecutor(16), options=options)
        handler = grpc.stream_stream_rpc_method_handler(
            self._connect,
            request_deserializer=link_pb2.ConnectRequest.FromString,
            response_serializer=_serialized,
        )
        self._server.add_generic_rpc_handlers((_Only(handler),))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def stop(self) -> None:
        """End all streams and listen no more."""
        if self._server is not None:
            self._server.stop(grace=None).wait(timeout=10)
            self._server = None

    def session(self, *, after: int = 0, wait_s: float = 30.0) -> Session:
        """Wait for a session beyond the first `after` whose snapshot is complete and which still goes on."""

        def look() -> list[Session]:
            return [s for s in self.sessions[after:] if s.complete and not s.ended.is_set()]

        return wait_until(look, bool, f"a complete session after {after}", wait_s=wait_s)[-1]

    def registered(self, *, after: int, wait_s: float = 30.0) -> Session:
        """Wait for a session beyond the first `after` that has sent Register."""
        return wait_until(
            lambda: [s for s in self.sessions[after:] if s.register is not None],
            bool,
            f"a Register after {after} sessions",
            wait_s=wait_s,
        )[-1]

    # gRPC

    def _connect(self, requests: Iterator[link_pb2.ConnectRequest], context: grpc.ServicerContext) -> Iterator[Message]:
        session = Session(len(self.sessions) + 1)
        self.sessions.append(session)
        context.add_callback(lambda: self._end(session))
        threading.Thread(target=self._read, args=(session, requests), daemon=True).start()
        quiet_since_s = time.monotonic()
        while not session.ended.is_set():
            try:
                message = session.to_send.get(timeout=_BEAT_S / 2)
            except queue.Empty:
                if not self.beats or time.monotonic() - quiet_since_s < _BEAT_S:
                    continue
                message = link_pb2.ConnectResponse(heartbeat=link_pb2.Heartbeat())
            if message is not None:
                quiet_since_s = time.monotonic()
                yield message

    def _read(self, session: Session, requests: Iterator[link_pb2.ConnectRequest]) -> None:
        try:
            for request in requests:
                for change in session.hear(request):
                    for rule in self.rules:
                        rule(session, change)
                if session.register is not None and request.HasField("register") and self.greets:
                    greeting = link_pb2.Registered(session_id=session.session_id, service_version="scripted")
                    session.send(link_pb2.ConnectResponse(registered=greeting))
        except grpc.RpcError:
            pass  # the resource manager has ended the stream
        except Exception as error:
            self.problems.append(repr(error))
            raise
        finally:
            self._end(session)

    def _end(self, session: Session) -> None:
        session.ended.set()
        session.to_send.put(None)


class _Only(grpc.GenericRpcHandler):
    """Serves the link alone."""

    def __init__(self, handler: grpc.RpcMethodHandler[link_pb2.ConnectRequest, Message]) -> None:
        self._handler = handler

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[link_pb2.ConnectRequest, Message] | None:
        return self._handler if handler_call_details.method == _METHOD else None


def _serialized(message: Message) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


def masters_on(server: Callable[[Session], str]) -> Rule:
    """Return a rule that places each application's master on the server that is named for it."""

    def place(session: Session, change: link_pb2.Change) -> None:
        asks = change.asks if change.WhichOneof("change") == "asks" else None
        for ask in asks.asks if asks is not None else ():
            if asks is not None and ask.application_master and ask.count > 0:
                where = decision_pb2.Assignment(key=ask.key, server_id=server(session), resource=ask.resource)
                session.place(asks.job_id, asks.attempt, [where])

    return place
