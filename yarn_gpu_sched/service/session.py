"""One registered resource manager on one stream: what is still to be sent to it.

Decisions wait here as the engine made them and are encoded when the stream takes them; explanations of why jobs wait after them.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable

import grpc
import msgspec

from yarn_gpu_sched.engine.commands import AnyDecision
from yarn_gpu_sched.protocol.bounds import DECISIONS_MAX, MESSAGE_BYTES_MAX
from yarn_gpu_sched.protocol.convert import (
    Registration,
    add_decision,
    decision_bytes_max,
)
from yarn_gpu_sched.protocol.v1 import link_pb2
from yarn_gpu_sched.service.refusal import Refusal

BATCHES_MAX = 4
# What the other side has to keep of decisions that it has not come to; the shim ends a stream beyond 16 MiB.
IN_FLIGHT_BYTES_MAX = 8 << 20
# What a message has for decisions: all but what names and numbers them.
ROOM_BYTES = MESSAGE_BYTES_MAX - 64
EXPLANATIONS_MAX = 1_024
_SESSION_ID_BYTES = 8
_FIELD_BYTES_MAX = 8


class SessionLimits(msgspec.Struct, frozen=True):
    """How much a resource manager may leave unread and unanswered before its stream is ended."""

    outbound_bytes_max: int = 64 << 20
    unanswered_max: int = 1 << 18


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A decision whose outcome is awaited."""

    job_id: str
    decided_s: float


class Session:
    """What the service keeps of one stream. Lives on the event loop's thread alone."""

    def __init__(self, registration: Registration, limits: SessionLimits) -> None:
        self.session_id = secrets.token_hex(_SESSION_ID_BYTES)
        self.registration = registration
        self.ended: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        self.wake = asyncio.Event()
        self.slots = asyncio.Semaphore(BATCHES_MAX)
        self.received = 1  # the sequence of the last message taken: Register's
        self.snapshot_ended = False
        self.heartbeat_due = False
        self.outbound_bytes = 0
        self.unanswered: dict[int, Asked] = {}
        self._limits = limits
        self._in_flight: dict[int, int] = {}
        self._in_flight_bytes = 0
        self._outbound: deque[tuple[int, AnyDecision]] = deque()
        self._explanations: dict[str, link_pb2.Explanation] = {}

    @property
    def outbound(self) -> int:
        """Decisions that the stream has not taken yet."""
        return len(self._outbound)

    def end(self, refusal: Refusal | None = None) -> None:
        """End the stream, with a status if something is wrong. The first reason counts."""
        if not self.ended.done():
            self.ended.set_result(refusal)

    def beat(self) -> None:
        """Send a heartbeat as soon as the stream takes it; one is enough however long it waits."""
        self.heartbeat_due = True
        self.wake.set()

    def send(self, decision: AnyDecision, now_s: float) -> bool:
        """Queue a decision; False if it is larger than a message may be, and is not queued.

        When the queue is full the stream ends: a new one begins afresh.
        """
        bytes_max = decision_bytes_max(decision)
        if bytes_max > ROOM_BYTES and not _fits(decision):
            return False
        if self.ended.done():
            return True
        self._outbound.append((bytes_max, decision))
        self.outbound_bytes += bytes_max
        self.unanswered[decision.decision_id] = Asked(decision.job_id, now_s)
        if self.outbound_bytes > self._limits.outbound_bytes_max:
            self.end(_full("unread", f"{self.outbound_bytes} bytes of decisions"))
        elif len(self.unanswered) > self._limits.unanswered_max:
            self.end(_full("unanswered", f"{len(self.unanswered)} decisions"))
        self.wake.set()
        return True

    def takes_explanations(self, count: int) -> bool:
        """Tell whether so many more may be queued: a stream that is behind takes none."""
        return not self.ended.done() and len(self._explanations) + count <= EXPLANATIONS_MAX

    def explain(self, explanations: Iterable[link_pb2.Explanation]) -> None:
        """Queue explanations, of each job the newest only; they are sent after decisions."""
        self._explanations |= {one.job_id: one for one in explanations}
        if self._explanations:
            self.wake.set()

    def answered(self, decision_id: int) -> Asked | None:
        """Take note of an outcome; None if the decision is not one of those that await theirs."""
        self._in_flight_bytes -= self._in_flight.pop(decision_id, 0)
        if self._outbound:
            self.wake.set()
        return self.unanswered.pop(decision_id, None)

    def next_message(self) -> link_pb2.ConnectResponse | None:
        """Take what fits in one message: decisions, then explanations, then heartbeats; nothing if none waits.

        While too much is in flight, decisions wait for outcomes.
        """
        message = link_pb2.ConnectResponse()
        if self._outbound and self._in_flight_bytes < IN_FLIGHT_BYTES_MAX:
            self._fill(message.decisions)
        elif self._explanations:
            self._fill_explanations(message.explanations)
        elif self.heartbeat_due:
            message.heartbeat.SetInParent()
        else:
            return None
        self.heartbeat_due = False
        return message

    def _fill(self, decisions: link_pb2.Decisions) -> None:
        left_bytes = ROOM_BYTES
        for count in range(min(len(self._outbound), DECISIONS_MAX)):
            bytes_max, decision = self._outbound[0]
            # The first may look too large: it was measured exactly before it was queued.
            if bytes_max > left_bytes and count:
                return
            left_bytes -= bytes_max
            self.outbound_bytes -= bytes_max
            self._in_flight_bytes += bytes_max
            self._in_flight[decision.decision_id] = bytes_max
            self._outbound.popleft()
            add_decision(decisions, decision, self.session_id, self.registration.epoch)

    def _fill_explanations(self, explanations: link_pb2.Explanations) -> None:
        left_bytes = ROOM_BYTES
        for job_id in list(self._explanations):
            left_bytes -= self._explanations[job_id].ByteSize() + _FIELD_BYTES_MAX
            if left_bytes < 0:
                return
            explanations.explanations.append(self._explanations.pop(job_id))


def _full(what: str, how_much: str) -> Refusal:
    return Refusal(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"{how_much} are {what}: register again to begin afresh",
        f"TOO_MUCH_{what.upper()}",
    )


def _fits(decision: AnyDecision) -> bool:
    alone = link_pb2.Decisions()
    add_decision(alone, decision, "0" * 2 * _SESSION_ID_BYTES, (1 << 63) - 1)
    return alone.ByteSize() <= ROOM_BYTES
