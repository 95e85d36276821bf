"""The resource manager's side of the link, for whoever runs servers without YARN.

A contract in five sentences. `register` hands over the whole state; changes follow in the order in
which they happened; `decisions` yields what the service wants done. Every decision is answered by
one `report`, and a report goes before the asks as they are after it. When a method raises
`LinkLostError` or `LinkFullError`, all that was sent is void for the service: `register` again.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

import grpc

from yarn_gpu_sched.client.channel import DEFAULT_TARGET, open_channel
from yarn_gpu_sched.client.errors import LinkFullError, LinkLostError
from yarn_gpu_sched.client.session import Session
from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from yarn_gpu_sched.identity import TlsFiles

PROTOCOL_VERSION = 1
CHANGES_WAITING_MAX = 65_536


class ResourceManagerLink:
    """One resource manager's link to the service at ``target``.

    ``epoch`` is one higher at each activation of the resource manager, ``start_time_ms`` (since
    1970; default now) orders equal epochs. ``settle_s`` (0 to 3600) is how long after activation
    the servers seen do not yet count as all there are. One thread may send while another reads
    decisions. At most ``changes_max`` changes wait to be sent. ``tls``: as with `Client`; the role is resource-manager.
    """

    def __init__(  # noqa: PLR0913 - all but the first go by their names
        self,
        target: str = DEFAULT_TARGET,
        *,
        cluster_id: str,
        epoch: int,
        start_time_ms: int | None = None,
        settle_s: float = 0.0,
        agent: str = "yarn_gpu_sched.client",
        tls: TlsFiles | None = None,
        changes_max: int = CHANGES_WAITING_MAX,
    ) -> None:
        self._since_s = time.monotonic()
        self._register = link_pb2.Register(
            protocol_version=PROTOCOL_VERSION,
            cluster_id=cluster_id,
            epoch=epoch,
            start_time_ms=int(time.time() * 1000) if start_time_ms is None else start_time_ms,
            settle_s=settle_s,
            agent=agent,
        )
        self._changes_max = changes_max
        self._channel = open_channel(target, tls)
        self._session: Session | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        """True from the service's answer to Register until the stream ends."""
        session = self._session
        return session is not None and session.registered is not None and not session.ended

    def register(self, snapshot: Sequence[link_pb2.Change] = (), *, timeout_s: float = 10.0) -> link_pb2.Registered:
        """Open a stream with the whole state and wait for the service's answer.

        Ends the stream before, if there was one. Raises `UnavailableError`, `RejectedError` (an
        older epoch), `InvalidRequestError` or a `ServiceError` after ``timeout_s`` seconds.
        """
        self.open(snapshot)
        return self.wait_registered(timeout_s=timeout_s)

    def open(self, snapshot: Sequence[link_pb2.Change] = ()) -> None:
        """Open a stream without waiting: what is sent from here on follows the snapshot."""
        register = link_pb2.Register()
        register.CopyFrom(self._register)
        register.active_s = time.monotonic() - self._since_s
        with self._lock:
            if self._session is not None:
                self._session.end()
            self._session = Session(self._channel, register, snapshot, self._changes_max)

    def wait_registered(self, *, timeout_s: float = 10.0) -> link_pb2.Registered:
        """Wait for the answer to the Register that `open` sent; raises as `register` does."""
        return self._current().wait_registered(timeout_s)

    def send(self, *changes: link_pb2.Change) -> None:
        """Queue changes in their order; they go out at once, as many in a message as fit.

        Raises ValueError for a change that is too large, `LinkLostError` if the stream has ended,
        `LinkFullError` if the queue is full (the stream is ended then).
        """
        session = self._current()
        if session.ended:
            raise LinkLostError(grpc.StatusCode.UNAVAILABLE, f"the link has ended: {session.error}")
        self._put(session, changes)

    def decisions(self, *, idle_s: float | None = None) -> Iterator[decision_pb2.Decision]:
        """Yield each decision of this session once, in the service's order.

        Returns after ``idle_s`` seconds without one (None: never) and after `close`. Decisions for
        another session or epoch are answered here as STALE_EPOCH, and repeated ones with the
        outcome that they already have. Raises what ended the stream.
        """
        session = self._current()
        for decision in session.decisions(idle_s):
            if self._is_new(session, decision):
                yield decision

    def report(self, outcome: decision_pb2.Outcome, *after: link_pb2.Change) -> None:
        """Answer a decision, followed by the changes that it led to (what is left of the asks).

        Raises ValueError for a decision that this session did not yield or that is answered
        already; else as `send`.
        """
        self._current().outcomes.answer(outcome)
        self.send(link_pb2.Change(outcome=outcome), *after)

    def explanation(self, job_id: str) -> link_pb2.Explanation | None:
        """Return why a job waits, as the service said last in this session, with the attempt that it spoke of.

        None: it waits for nothing, or nothing was said yet. What changes is said of a job every ten seconds at most; nothing
        has to answer it.
        """
        session = self._session
        return None if session is None else session.explanations.of(job_id)

    def close(self, *, drain_s: float = 1.0) -> None:
        """Send what waits (for at most ``drain_s`` seconds), end the stream, free the connection."""
        if self._session is not None:
            self._session.drain(drain_s)
        self._channel.close()

    def drop(self) -> None:
        """End the stream at once, as a broken connection would; `register` opens another."""
        self._current().end(LinkLostError(grpc.StatusCode.CANCELLED, "the link was dropped here"))

    def _current(self) -> Session:
        if self._session is None:
            raise LinkLostError(grpc.StatusCode.FAILED_PRECONDITION, "register first")
        return self._session

    def _is_new(self, session: Session, decision: decision_pb2.Decision) -> bool:
        registered = session.registered
        assert registered is not None, "the service decides only after it answered Register"
        wanted = (registered.session_id, self._register.epoch)
        if (decision.session_id, decision.epoch) != wanted:
            self._put(session, [_stale(decision, wanted)])
            return False
        new, outcome = session.outcomes.admit(decision.decision_id)
        if outcome is not None:
            self._put(session, [link_pb2.Change(outcome=outcome)])
        return new

    def _put(self, session: Session, changes: Iterable[link_pb2.Change]) -> None:
        try:
            session.outbox.put(changes)
        except LinkFullError as full:
            session.end(LinkLostError(grpc.StatusCode.RESOURCE_EXHAUSTED, str(full)))
            raise


def _stale(decision: decision_pb2.Decision, wanted: tuple[str, int]) -> link_pb2.Change:
    return link_pb2.Change(
        outcome=decision_pb2.Outcome(
            decision_id=decision.decision_id,
            code=decision_pb2.OUTCOME_CODE_STALE_EPOCH,
            detail=f"session {decision.session_id!r}, epoch {decision.epoch}; here {wanted}",
        )
    )
