"""The one driver of the engine.

Everything that changes scheduling state waits in one queue and is applied by one task, in order:
registrations, batches (each followed by one `Pass`), losses of the link, and passes whose time has
come. Between slices of a long batch the event loop breathes, so heartbeats never starve; a `Pass`
is never interrupted.

Who may speak for the cluster is decided here too (fencing): the newest resource manager by
(epoch, start time), of the cluster that registered first.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import grpc
import msgspec
import structlog

from yarn_gpu_sched.engine import Engine, events
from yarn_gpu_sched.engine.commands import AnyCommand
from yarn_gpu_sched.protocol.convert import BadField, batch_events
from yarn_gpu_sched.protocol.v1 import link_pb2
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.garbage import Garbage
from yarn_gpu_sched.service.outlets import Outlets
from yarn_gpu_sched.service.refusal import Refusal
from yarn_gpu_sched.service.session import Session

WORK_MAX = 1_024
_SLICE_EVENTS = 256

_log = structlog.get_logger(__name__)

Events = Callable[[float], Sequence[events.AnyEvent]]


class _Work(msgspec.Struct, frozen=True):
    """Events to be made and applied; of a session that is no longer the current one: dropped. ``done``: who waits for it."""

    make: Events
    session: Session | None = None
    batch: bool = False
    done: asyncio.Future[None] | None = None


class Driver:
    """Owns the engine: applies events, lets it decide, hands its commands to the outlets."""

    def __init__(self, engine: Engine, clock: Clock, outlets: Outlets, audit_every_events: int = 0) -> None:
        self.engine = engine
        self.session: Session | None = None
        self._introduced: Session | None = None  # of whom the engine was told last
        self.garbage: Garbage | None = None
        self._clock = clock
        self._outlets = outlets
        self._audit_every_events = audit_every_events
        self._events_until_audit = audit_every_events
        self._cluster_id = ""
        self._fence = (-1, -1)
        self._now_s = clock.now_s()
        self._queue: deque[_Work] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: Timer | None = None
        self._closed = False

    @property
    def queued(self) -> int:
        """Pieces of work that wait."""
        return len(self._queue)

    def admit(self, session: Session) -> None:
        """Let a resource manager speak for the cluster; ends the stream of the one before."""
        if self._closed:
            raise _stopping()
        who = session.registration
        if self._cluster_id not in ("", who.cluster_id):
            raise _refused(
                f'this service schedules cluster "{self._cluster_id}", not "{who.cluster_id}"',
                "OTHER_CLUSTER",
            )
        if who.fence < self._fence:
            raise _refused(
                f"epoch {who.epoch} (started at {who.start_time_ms}) is older than epoch"
                f" {self._fence[0]} (started at {self._fence[1]}), which has registered",
                "OLDER_EPOCH",
            )
        if len(self._queue) >= WORK_MAX:
            sentence = f"{WORK_MAX} pieces of work wait: register again later"
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, sentence, "OVERLOADED")
        self._replace(session)

    def _replace(self, session: Session) -> None:
        who = session.registration
        if self.session is not None:
            sentence = f"a resource manager registered with epoch {who.epoch} on a new stream"
            self.session.end(Refusal(grpc.StatusCode.ABORTED, sentence, "REPLACED"))
            self._outlets.metrics.link_ends.labels("REPLACED").inc()
        self.session, self._cluster_id, self._fence = session, who.cluster_id, who.fence
        self._put(_Work(lambda now_s: [who.event(now_s)], session))
        _log.info(
            "resource_manager_registered",
            cluster_id=who.cluster_id,
            epoch=who.epoch,
            session_id=session.session_id,
            agent=who.agent,
        )

    def forget(self, session: Session) -> None:
        """Take note that a stream has ended. Only the current one matters to the engine."""
        if self.session is not session:
            return
        self.session = None
        self._put(_Work(lambda now_s: [events.ResourceManagerLost(now_s=now_s)]))
        refusal = session.ended.result() if session.ended.done() else None
        self._outlets.metrics.link_ends.labels(refusal.reason if refusal else "CLOSED").inc()
        _log.info(
            "resource_manager_lost",
            epoch=session.registration.epoch,
            session_id=session.session_id,
            why=refusal.sentence if refusal else "the stream was closed",
        )

    def close(self) -> None:
        """Let nobody register any more, and end the stream that is open."""
        self._closed = True
        if self.session is not None:
            self.session.end(_stopping())

    def submit_batch(self, session: Session, batch: link_pb2.Batch) -> None:
        """Queue a batch. The session's slot is given back when it has been applied or dropped."""
        self._put(_Work(lambda now_s: _converted(now_s, batch), session, batch=True))

    async def tell(self, make: Events) -> None:
        """Apply events of somebody else than a resource manager in their turn, with a pass; return when it is done.

        ``make`` is called when it is their turn, and may raise `Refusal`; so does this when the service stops or too much waits.
        """
        if self._closed:
            raise _stopping()
        if len(self._queue) >= WORK_MAX:
            sentence = f"{WORK_MAX} pieces of work wait: try again later"
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, sentence, "OVERLOADED")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(_Work(make, batch=True, done=done))
        await done

    def _put(self, work: _Work) -> None:
        self._queue.append(work)
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Apply what comes, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._do(self._queue.popleft())
                if self._queue and self.garbage is not None:
                    self.garbage.between_work()
            self._plan_pass()
            if not self._queue:
                self._idle.set()
            # What was decided is sent first; a pass that is due at once comes after what the event loop has waiting.
            await asyncio.sleep(0)
            if not self._queue and self.garbage is not None:
                self.garbage.when_idle()

    async def settle(self) -> None:
        """Wait until nothing waits to be applied."""
        while self._queue or not self._idle.is_set():
            await self._idle.wait()

    async def _do(self, work: _Work) -> None:
        try:
            if work.session is None or work.session is self.session:
                await self._apply_all(work)
        except Refusal as refusal:
            _answer(work, refusal)
        except BadField as bad:
            assert work.session is not None
            work.session.end(Refusal.of(bad))
        except Exception:  # noqa: BLE001 - a failing engine ends the session, not the driver
            _log.exception("engine_failed")
            self._outlets.metrics.engine_failures.inc()
            if self.session is not None:
                sentence = "the engine failed; the service's log says why"
                self.session.end(Refusal(grpc.StatusCode.INTERNAL, sentence, "INTERNAL"))
            _answer(
                work, Refusal(grpc.StatusCode.INTERNAL, "the engine failed; the service's log says why", "INTERNAL")
            )
        finally:
            _answer(work, None)
            if work.batch and work.session is not None:
                work.session.slots.release()

    async def _apply_all(self, work: _Work) -> None:
        made = work.make(self._tick())
        self._outlets.metrics.events.inc(len(made))
        for count, event in enumerate(made, 1):
            self._apply(event)
            if count % _SLICE_EVENTS == 0:
                await asyncio.sleep(0)
                if work.session not in (None, self.session):
                    return
        if self.garbage is not None:
            self.garbage.applied(len(made))
            if made and isinstance(made[-1], events.SnapshotEnded):
                self.garbage.freeze()
        self._audit_after(len(made))
        if work.batch and (work.session is None or work.session.snapshot_ended):
            self._decide()

    def _decide(self) -> None:
        if self.session is not self._introduced and (self.session is not None or self.engine.deciding):
            # Another resource manager, or the loss of one, is about to be told: what would be decided now is not for it.
            return
        with self._outlets.metrics.pass_s.time():
            self._apply(events.Pass(now_s=self._tick()))

    def _apply(self, event: events.AnyEvent) -> None:
        self._outlets.before(event, self.session)
        if isinstance(event, events.ResourceManagerRegistered):
            self._introduced = self.session
        commands: list[AnyCommand] = self.engine.apply(event)
        if commands:
            undeliverable = self._outlets.carry_out(commands, self.session, event.now_s)
            if undeliverable:
                self._put(_Work(lambda now_s: [made(now_s) for made in undeliverable], batch=True))

    def _audit_after(self, applied: int) -> None:
        self._events_until_audit -= applied
        if self._events_until_audit > 0 or not self._audit_every_events:
            return
        self._events_until_audit = self._audit_every_events
        for broken in self.engine.audit():
            self._outlets.broken(broken.law, broken.evidence)

    def _tick(self) -> float:
        self._now_s = max(self._now_s, self._clock.now_s())
        return self._now_s

    def _plan_pass(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        when_s = self.engine.next_wake_s()
        if when_s is None:
            return
        if when_s <= self._tick():
            self._wake_up()
        else:
            self._timer = self._clock.call_at(when_s, self._wake_up)

    def _wake_up(self) -> None:
        self._timer = None
        self._put(_Work(lambda _now_s: [], batch=True))


def _answer(work: _Work, refusal: Refusal | None) -> None:
    """Tell who waits for a piece of work what became of it; told once."""
    if work.done is None or work.done.done():
        return
    if refusal is None:
        work.done.set_result(None)
    else:
        work.done.set_exception(refusal)


def _converted(now_s: float, batch: link_pb2.Batch) -> list[events.AnyEvent]:
    converted = batch_events(now_s, batch)
    if batch.snapshot_end:
        converted.append(events.SnapshotEnded(now_s=now_s))
    return converted


def _stopping() -> Refusal:
    return Refusal(grpc.StatusCode.UNAVAILABLE, "the service stops", "STOPPING")


def _refused(sentence: str, reason: str) -> Refusal:
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, sentence, reason)
