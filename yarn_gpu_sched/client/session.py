"""One stream of the link, from Register to its end."""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

import grpc

from yarn_gpu_sched.client.errors import LinkLostError, ServiceError, from_rpc
from yarn_gpu_sched.client.outbox import Outbox, numbered
from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2, link_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEARTBEAT_S = 1.0
SILENCE_MAX_S = 3.0
DECISIONS_WAITING_MAX = 4_096
OUTCOMES_KEPT_MAX = 16_384
EXPLANATIONS_KEPT_MAX = 65_536
_TICK_S = 0.25


class Outcomes:
    """What this session's decisions came to, so that each is yielded and answered once.

    Remembers the last ``OUTCOMES_KEPT_MAX`` decisions; a repetition of an older one counts as new.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, decision_pb2.Outcome | None] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, decision_id: int) -> tuple[bool, decision_pb2.Outcome | None]:
        """Return whether the decision is new, and the outcome it has if it is not."""
        with self._lock:
            if decision_id in self._known:
                return False, self._known[decision_id]
            self._known[decision_id] = None
            if len(self._known) > OUTCOMES_KEPT_MAX:
                self._known.popitem(last=False)
            return True, None

    def answer(self, outcome: decision_pb2.Outcome) -> None:
        """Remember the outcome; ValueError if the decision is unknown or has one already."""
        with self._lock:
            known = outcome.decision_id in self._known
            if not known or self._known[outcome.decision_id] is not None:
                state = "is answered already" if known else "was not made in this session"
                raise ValueError(f"decision_id {outcome.decision_id} {state}")
            self._known[outcome.decision_id] = outcome


class Explanations:
    """Why jobs wait, as the service said last. Of more than ``EXPLANATIONS_KEPT_MAX`` jobs the oldest words are forgotten."""

    def __init__(self) -> None:
        self._of_job: OrderedDict[str, link_pb2.Explanation] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, explanations: Iterable[link_pb2.Explanation]) -> None:
        """Remember what is said now; an empty sentence: the job waits no more."""
        with self._lock:
            for one in explanations:
                self._of_job.pop(one.job_id, None)
                if one.sentence:
                    self._of_job[one.job_id] = one
                if len(self._of_job) > EXPLANATIONS_KEPT_MAX:
                    self._of_job.popitem(last=False)

    def of(self, job_id: str) -> link_pb2.Explanation | None:
        """Return what was said of a job; None if it waits for nothing, or nobody knows."""
        with self._lock:
            return self._of_job.get(job_id)


class Session:
    """Sends what is in its outbox, queues the decisions that arrive, and watches for silence.

    Two threads of its own: one reads, one notices silence. When ``DECISIONS_WAITING_MAX``
    decisions wait to be taken, reading stops and gRPC's flow control holds the service back;
    heartbeats still go out.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        register: link_pb2.Register,
        snapshot: Iterable[link_pb2.Change],
        changes_max: int,
    ) -> None:
        self.outbox = Outbox(changes_max)
        self.registered: link_pb2.Registered | None = None
        self.error: ServiceError | None = None
        self.outcomes = Outcomes()
        self.explanations = Explanations()
        self._decisions: queue.Queue[decision_pb2.Decision] = queue.Queue(DECISIONS_WAITING_MAX)
        self._answered = threading.Event()
        self._ended = threading.Event()
        self._closing = False
        self._heard_at_s = time.monotonic()
        stub = link_pb2_grpc.ResourceManagerLinkServiceStub(channel)
        # No deadline: a link lives as long as both ends do; silence is what ends it.
        self._call = stub.Connect(numbered(register, snapshot, self.outbox, HEARTBEAT_S))
        for work in (self._read, self._watch_silence):
            threading.Thread(target=work, name=f"ygs-link-{work.__name__}", daemon=True).start()

    @property
    def ended(self) -> bool:
        """True once nothing more can be sent or will arrive."""
        return self._ended.is_set()

    def wait_registered(self, timeout_s: float) -> link_pb2.Registered:
        """Return the service's answer to Register; raises why there is none within the time."""
        self._answered.wait(timeout_s)
        if self.registered is not None:
            return self.registered
        if self._closing:
            raise LinkLostError(grpc.StatusCode.CANCELLED, "the link was closed")
        if self.error is None:
            message = f"the service did not answer Register within {timeout_s:g} s"
            self.end(ServiceError(grpc.StatusCode.DEADLINE_EXCEEDED, message))
        assert self.error is not None
        raise self.error

    def decisions(self, idle_s: float | None) -> Iterator[decision_pb2.Decision]:
        """Yield decisions in order; return after ``idle_s`` without one, or once closed.

        Raises the error that ended the session.
        """
        idle_since_s = time.monotonic()
        tick_s = _TICK_S if idle_s is None else min(_TICK_S, idle_s)
        while not self.ended:
            try:
                decision = self._decisions.get(timeout=tick_s)
            except queue.Empty:
                if idle_s is not None and time.monotonic() - idle_since_s >= idle_s:
                    return
            else:
                yield decision
                idle_since_s = time.monotonic()
        if self.error is not None:
            raise self.error

    def end(self, error: ServiceError | None = None) -> None:
        """End the stream; ``error`` is what `decisions` raises. Only the first call counts."""
        if not self._ended.is_set():
            self.error = None if self._closing else error
            self._ended.set()
        self.outbox.close()
        self._answered.set()
        self._call.cancel()

    def drain(self, timeout_s: float) -> None:
        """Send what is still in the outbox, say goodbye, and end without an error."""
        self._closing = True
        self.outbox.close()
        self._ended.wait(timeout_s)
        self.end()

    def _read(self) -> None:
        try:
            for response in self._call:
                self._heard_at_s = time.monotonic()
                self._take(response)
            lost: ServiceError = LinkLostError(grpc.StatusCode.UNAVAILABLE, "the service ended the link")
        except grpc.RpcError as error:
            cause = from_rpc(error)
            lost = cause if self.registered is None else _lost(cause)
        self.end(lost)

    def _take(self, response: link_pb2.ConnectResponse) -> None:
        if response.HasField("registered"):
            self.registered = response.registered
            self._answered.set()
        self.explanations.take(response.explanations.explanations)
        for decision in response.decisions.decisions:
            while not self._ended.is_set():
                try:
                    self._decisions.put(decision, timeout=_TICK_S)
                    break
                except queue.Full:
                    self._heard_at_s = time.monotonic()  # it is we who are slow, not the service

    def _watch_silence(self) -> None:
        while not self._ended.wait(_TICK_S):
            silent_s = time.monotonic() - self._heard_at_s
            if silent_s > SILENCE_MAX_S and self.registered is not None:
                message = f"the service said nothing for {silent_s:.1f} s"
                self.end(LinkLostError(grpc.StatusCode.UNAVAILABLE, message))


def _lost(cause: ServiceError) -> ServiceError:
    lost = LinkLostError(cause.code, f"the link ended: {cause}", cause.status)
    lost.__cause__ = cause
    return lost
