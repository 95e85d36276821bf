"""The in-memory resource manager: says what it has, commits what it is told, reports what became of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Self, TypeVar

from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.timestamp_pb2 import Timestamp

from yarn_gpu_sched.client.channel import DEFAULT_TARGET
from yarn_gpu_sched.client.errors import (
    InvalidRequestError,
    LinkFullError,
    LinkLostError,
    RejectedError,
    ServiceError,
)
from yarn_gpu_sched.client.fake.commit import RefusedError, commit, refuse, requeue, stop, warn
from yarn_gpu_sched.client.fake.world import KnownJob, World
from yarn_gpu_sched.client.link import ResourceManagerLink
from yarn_gpu_sched.identity import TlsFiles
from yarn_gpu_sched.protocol.v1 import (
    ask_pb2,
    container_pb2,
    decision_pb2,
    job_pb2,
    link_pb2,
    resource_pb2,
    server_pb2,
    virtual_cluster_pb2,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Message = TypeVar("Message", bound=ProtobufMessage)

RECONNECT_PAUSE_S = 0.2
DECISIONS_KEPT_MAX = 10_000


class FakeResourceManager:
    """A resource manager without servers behind it, linked to a real service at ``target``.

    A thread of its own keeps the link: it registers with a snapshot, commits each decision all or
    none, reports the outcome, and registers again when the link is lost, until `close`. Every
    other method may be called from any thread and before `start` too. Containers live until
    `release`, `end` or `remove_server`. ``decisions`` holds what arrived and its outcome, the
    latest last, bounded. ``tls``: as with `ResourceManagerLink`.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        cluster_id: str = "fake",
        epoch: int = 1,
        settle_s: float = 0.0,
        tls: TlsFiles | None = None,
    ) -> None:
        self._target, self._cluster_id, self._settle_s, self._tls = target, cluster_id, settle_s, tls
        self.epoch = epoch
        self.decisions: deque[tuple[decision_pb2.Decision, decision_pb2.Outcome]] = deque(maxlen=DECISIONS_KEPT_MAX)
        self._world = World()
        self._refusals: deque[tuple[decision_pb2.OutcomeCode.ValueType, str]] = deque()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._error: ServiceError | None = None
        self._link = self._new_link()
        self._thread = threading.Thread(target=self._keep_link, name="ygs-fake-rm", daemon=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the link -------------------------------------------------------------------------------

    def start(self, *, timeout_s: float = 10.0) -> Self:
        """Connect and wait until the service has answered; raises why it has not."""
        self._thread.start()
        try:
            self.wait(lambda: self._link.connected or self._is_refused(), timeout_s=timeout_s)
        except TimeoutError:
            self._raise_closed()
            raise
        if not self._link.connected:
            self._raise_closed()
        return self

    def _is_refused(self) -> bool:
        return isinstance(self._error, (RejectedError, InvalidRequestError))

    def _raise_closed(self) -> None:
        self.close()
        if self._error is not None:
            raise self._error from None

    def close(self) -> None:
        """Say what is still unsaid, end the link and the thread."""
        with self._changed:
            self._closing.set()
            link = self._link
        link.close()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)

    def drop_link(self) -> None:
        """Break the stream; the thread registers again by itself."""
        self._link.drop()

    def restart(self) -> None:
        """Come back as the next activation: one epoch higher, jobs recovered, containers kept."""
        with self._changed:
            self.epoch += 1
            for known in self._world.jobs.values():
                known.job.recovered = True
            old, self._link = self._link, self._new_link()
        old.close(drain_s=0)

    # ---- what it has ----------------------------------------------------------------------------

    def add_server(
        self,
        host: str,
        *,
        gpus: int = 4,
        memory_mb: int = 65_536,
        vcores: int = 32,
        rack: str = "/rack-a",
    ) -> str:
        """Add a server, or change the one with this name; returns its id."""
        server = server_pb2.Server(
            server_id=f"{host}:45454",
            host=host,
            rack=rack,
            capacity=_resource(gpus, memory_mb, vcores),
            state=server_pb2.SERVER_STATE_RUNNING,
        )
        with self._changed:
            self._world.servers[server.server_id] = server
            self._say([link_pb2.Change(server=server)])
        return server.server_id

    def set_server_state(self, server_id: str, state: server_pb2.ServerState.ValueType) -> None:
        """Let a server drain, fall ill or run again."""
        with self._changed:
            self._world.servers[server_id].state = state
            self._say([link_pb2.Change(server=self._world.servers[server_id])])

    def remove_server(self, server_id: str) -> None:
        """Take a server away; its containers are lost."""
        with self._changed:
            self._say(self._world.remove_server(server_id))

    def add_virtual_cluster(
        self, path: str, *, quota_gpus: int | None = None, maximum_gpus: int | None = None, parent: bool = False
    ) -> None:
        """Add or change a virtual cluster (queue path), or a ``parent`` above others; a job may name one that was never added."""
        vc = virtual_cluster_pb2.VirtualCluster(
            path=path, quota_gpus=quota_gpus, maximum_gpus=maximum_gpus, parent=parent, running=True
        )
        with self._changed:
            self._world.virtual_clusters[path] = vc
            self._say([link_pb2.Change(virtual_cluster=vc)])

    # ---- jobs -----------------------------------------------------------------------------------

    def submit(
        self,
        job_id: str,
        *,
        vc: str = "root.default",
        tags: Sequence[str] = (),
        user: str = "someone",
        name: str = "",
        unmanaged: bool = True,
        one_attempt: bool = False,
    ) -> str:
        """Submit a job whose master runs elsewhere; a gang has the tag gang:N or gang:NxG.

        When the service has it start anew, an ``unmanaged`` master goes on and asks again; any other's attempt ends, and
        the next one asks. With ``one_attempt`` there is no next one: it refuses to start anew.
        """
        now = Timestamp()
        now.GetCurrentTime()
        job = job_pb2.Job(
            job_id=job_id,
            virtual_cluster=vc,
            user=user,
            name=name,
            tags=tags,
            submit_time=now,
            attempt=1,
            active=True,
            unmanaged=unmanaged,
            one_attempt=one_attempt,
        )
        with self._changed:
            self._world.jobs[job_id] = KnownJob(job)
            self._say([link_pb2.Change(job=job)])
        return job_id

    def ask(
        self,
        job_id: str,
        count: int,
        *,
        gpus: int = 0,
        memory_mb: int = 256,
        vcores: int = 1,
        priority: int = 0,
    ) -> None:
        """Ask for ``count`` containers in all at this priority (absolute; 0 withdraws)."""
        ask = ask_pb2.Ask(
            key=ask_pb2.RequestKey(priority=priority),
            count=count,
            resource=_resource(gpus, memory_mb, vcores),
        )
        with self._changed:
            self._say(self._world.set_ask(job_id, ask))

    def new_attempt(self, job_id: str) -> int:
        """Replace the job's attempt: its asks are void. Returns the new attempt's number."""
        with self._changed:
            self._say(self._world.new_attempt(job_id))
            return self._world.jobs[job_id].job.attempt

    def release(self, container_id: str, *, lost: bool = False) -> None:
        """One container is gone from its server; ``lost``: it failed, or was killed."""
        with self._changed:
            self._say(self._world.release(container_id, lost=lost))

    def end(self, job_id: str, end: job_pb2.JobEnd.ValueType = job_pb2.JOB_END_SUCCEEDED) -> None:
        """End a job; its containers are released."""
        with self._changed:
            self._say(self._world.end(job_id, end))

    # ---- reading and scripting ------------------------------------------------------------------

    def containers(self, job_id: str) -> list[container_pb2.Container]:
        """Return copies of the job's live containers in order of their commits."""
        with self._changed:
            return [_copy(container) for container in self._world.of_job(job_id)]

    def attempt(self, job_id: str) -> int:
        """Return the number of a job's current attempt."""
        with self._changed:
            return self._world.jobs[job_id].job.attempt

    def ended(self, job_id: str) -> job_pb2.JobEnded | None:
        """Return how a job ended, with its diagnostics; None while it has not."""
        with self._changed:
            return self._world.ended.get(job_id)

    def warnings(self, job_id: str) -> list[decision_pb2.WarnJob]:
        """Return what the job's masters were told, the latest last and bounded: with it, the containers to be stopped."""
        with self._changed:
            return [_copy(told) for told in self._world.warnings.get(job_id, ())]

    def explanation(self, job_id: str) -> str:
        """Return why a job's current attempt waits, as the service said last; empty: it waits for nothing, or nothing was said."""
        with self._changed:
            said, known = self._link.explanation(job_id), self._world.jobs.get(job_id)
        current = said is not None and known is not None and said.attempt == known.job.attempt
        return said.sentence if said is not None and current else ""

    def refuse_next(
        self,
        code: decision_pb2.OutcomeCode.ValueType,
        *,
        detail: str = "refused by script",
        times: int = 1,
    ) -> None:
        """Answer the next ``times`` decisions with this code instead of carrying them out."""
        with self._changed:
            self._refusals.extend([(code, detail)] * times)

    def wait(self, until: Callable[[], bool], *, timeout_s: float = 10.0) -> None:
        """Wait until ``until()`` holds; it is looked at after every change. Raises TimeoutError."""
        with self._changed:
            deadline_s = time.monotonic() + timeout_s
            while not until():
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError(f"not so within {timeout_s:g} s")
                self._changed.wait(min(left_s, 0.1))

    # ---- inside ---------------------------------------------------------------------------------

    def _new_link(self) -> ResourceManagerLink:
        return ResourceManagerLink(
            self._target,
            cluster_id=self._cluster_id,
            epoch=self.epoch,
            settle_s=self._settle_s,
            agent="FakeResourceManager",
            tls=self._tls,
        )

    def _say(self, changes: Sequence[link_pb2.Change]) -> None:
        """Send changes of the world just made; without a link the next snapshot carries them."""
        self._changed.notify_all()
        with contextlib.suppress(LinkLostError, LinkFullError):
            self._link.send(*(_copy(change) for change in changes))

    def _keep_link(self) -> None:
        while not self._closing.is_set():
            try:
                self._serve_session()
            except (ServiceError, LinkFullError) as error:
                self._error = error if isinstance(error, ServiceError) else None
                self._closing.wait(RECONNECT_PAUSE_S)

    def _serve_session(self) -> None:
        with self._changed:
            if self._closing.is_set():
                return
            link = self._link
            link.open([_copy(change) for change in self._world.snapshot()])
        link.wait_registered()
        with self._changed:
            self._error = None
            self._changed.notify_all()
        for decision in link.decisions():
            with self._changed:
                self._answer(link, decision)

    def _answer(self, link: ResourceManagerLink, decision: decision_pb2.Decision) -> None:
        outcome = decision_pb2.Outcome(decision_id=decision.decision_id)
        after: list[link_pb2.Change] = []
        try:
            self._follow_script()
            after = self._carry_out(decision, outcome)
            outcome.code = decision_pb2.OUTCOME_CODE_COMMITTED
        except RefusedError as refused:
            outcome.code, outcome.detail = refused.code, refused.detail
        self.decisions.append((decision, outcome))
        self._changed.notify_all()
        link.report(_copy(outcome), *(_copy(change) for change in after))

    def _follow_script(self) -> None:
        if self._refusals:
            raise RefusedError(*self._refusals.popleft())

    def _carry_out(self, decision: decision_pb2.Decision, outcome: decision_pb2.Outcome) -> list[link_pb2.Change]:
        match decision.WhichOneof("action"):
            case "place_gang":
                gang = decision.place_gang
                outcome.container_ids.extend(commit(self._world, gang, f"container_{self._cluster_id}_{self.epoch}"))
                return [self._world.jobs[gang.job_id].asks_change()]
            case "refuse_job":
                return refuse(self._world, decision.refuse_job)
            case "requeue_job":
                return requeue(self._world, decision.requeue_job)
            case "warn_job":
                warn(self._world, decision.warn_job)
                return []
            case "stop_containers":
                return stop(self._world, decision.stop_containers)
            case action:
                raise RefusedError(decision_pb2.OUTCOME_CODE_INVALID, f"action {action}: there is no such one here")


def _resource(gpus: int, memory_mb: int, vcores: int) -> resource_pb2.Resource:
    return resource_pb2.Resource(memory_mb=memory_mb, vcores=vcores, gpus=gpus)


def _copy(message: Message) -> Message:
    """Return a copy: what is queued must not change when the world does."""
    copied = type(message)()
    copied.CopyFrom(message)
    return copied
