"""The engine on a simulated clock: a driver that feeds it a trace and answers its commands as a resource manager would.

It decides nothing. At each instant all ends come first, then all submissions, then passes until nothing more is decided.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import AnyCommand, PlaceGang, RefuseJob, RequeueJob, WarnJob
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    ContainerReleased,
    Event,
    JobChanged,
    JobEnded,
    OutcomeReported,
    Pass,
    ResourceManagerRegistered,
    ServerChanged,
    SnapshotEnded,
    VirtualClusterChanged,
)
from yarn_gpu_sched.model.ask import Ask, RequestKey
from yarn_gpu_sched.model.delay import NO_DELAYS, Delays
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.job_tags import SECONDS_MAX
from yarn_gpu_sched.model.outcome import COMMITTED
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.policy import Policy
from yarn_gpu_sched.replay.holding import Holding
from yarn_gpu_sched.replay.schedule import Attempt, Hold
from yarn_gpu_sched.replay.stalling import Stalling
from yarn_gpu_sched.replay.trace import TraceJob

NEVER_S = float("inf")
PASSES_PER_INSTANT_MAX = 10_000
ROUNDING_S = 1e-6
"""A checkpoint is made when so little is missing: the time at which it is due is rounded."""

_KEY = RequestKey(1)
_MEMBER = Resource(0, 0, 1)
_SUCCEEDED = JobEnd.SUCCEEDED


class Overheads(NamedTuple):
    """What stopping a job costs: ``restart_cost_s`` at each new start; with ``checkpoint_every_s`` all work since the last one.

    Without checkpoints nothing is lost, or with ``loses_all`` everything.
    """

    restart_cost_s: float = 0.0
    checkpoint_every_s: float = 0.0
    loses_all: bool = False

    def kept_s(self, ran_s: float, attempt: int) -> float:
        """Say how much work of an attempt counts that was stopped after so long."""
        worked_s = max(0.0, ran_s - (self.restart_cost_s if attempt else 0.0))
        if not self.checkpoint_every_s:
            return 0.0 if self.loses_all else worked_s
        checkpoints = (worked_s + ROUNDING_S) // self.checkpoint_every_s
        return min(worked_s, checkpoints * self.checkpoint_every_s)


class BrokenLawsError(AssertionError):
    """The engine broke a law: a bug."""


class _Run(msgspec.Struct, eq=False):
    """A job of the trace on its way."""

    job: TraceJob
    name: str
    left_s: float
    attempt: int = 0
    containers: tuple[str, ...] = ()
    placement: str = ""
    level: int = 0
    start_s: float = 0.0
    waits_since_s: float = 0.0
    delays: Delays = NO_DELAYS
    start_seq: int = 0


class Simulation:
    """A replay. ``attempts`` are in order of their ends."""

    def __init__(
        self,
        jobs: list[TraceJob],
        servers: list[Server],
        settings: EngineSettings,
        overheads: Overheads = Overheads(),  # noqa: B008 - a constant
        *,
        policy: Policy | None = None,
        virtual_clusters: Iterable[VirtualCluster] = (),
        audit: bool = False,
    ) -> None:
        self.engine = Engine(settings, policy=policy)
        self.attempts: list[Attempt] = []
        self.now_s = 0.0
        self._tell = self._tell_audited if audit else self.engine.apply
        self._overheads = overheads
        self._gpus = sum(server.capacity.gpus for server in servers)
        self._runs: dict[str, _Run] = {}
        self._ended = 0
        width = len(str(len(jobs)))
        self._coming = ((job, f"{number:0{width}d}") for number, job in enumerate(jobs))
        self._next = next(self._coming, None)
        self._ends: list[tuple[float, str, int]] = []
        self._sequence = 0
        self._holding = Holding()
        self._to_stop: deque[RequeueJob] = deque()
        self._one_by_one = settings.preemption is Mode.ON
        self._keeps = self._one_by_one or settings.reserve_after_s > 0
        self._stalling = Stalling(len(jobs), policy.name if policy else settings.policy)
        self._containers = 0
        self._register(servers, virtual_clusters)

    def _register(self, servers: list[Server], virtual_clusters: Iterable[VirtualCluster]) -> None:
        self._tell(ResourceManagerRegistered(now_s=0.0, cluster_id="replay", epoch=1))
        for server in servers:
            self._tell(ServerChanged(now_s=0.0, server=server))
        for virtual_cluster in virtual_clusters:
            self._tell(VirtualClusterChanged(now_s=0.0, virtual_cluster=virtual_cluster))
        self._tell(SnapshotEnded(now_s=0.0))

    def run(self, progress: Callable[[int, float], None] | None = None) -> None:
        """Replay all of it. ``progress`` is told after each instant how many jobs have ended, and the time."""
        ends = self._ends
        while (instant_s := self._next_instant_s()) < NEVER_S:
            now_s = self.now_s = max(self.now_s, instant_s)
            while ends and ends[0][0] <= now_s:
                self._end(*heappop(ends)[1:])
            while self._next is not None and self._next[0].submit_s <= now_s:
                self._submit(_Run(*self._next, float(self._next[0].duration_s)))
                self._next = next(self._coming, None)
            self._decide()
            if self._keeps and ((held := self.engine.held()) or self._holding):
                self._holding.follow(held, {job_id: self._runs[job_id].job.job_id for job_id in held}, now_s)
            self._stalling.instant(self._sequence, now_s)
            if progress is not None:
                progress(self._ended, now_s)
        self._stalling.over(len(self._runs), self.now_s)

    def _next_instant_s(self) -> float:
        now_s = NEVER_S if self._next is None else self._next[0].submit_s
        if self._ends and self._ends[0][0] < now_s:
            now_s = self._ends[0][0]
        wake_s = self.engine.next_wake_s()
        if (
            wake_s is None or wake_s >= now_s or not (self._runs or self._next)
        ):  # for nobody there is nothing to wake for
            return now_s
        return wake_s

    def _tell_audited(self, event: Event) -> list[AnyCommand]:
        commands = self.engine.apply(event)
        if broken := self.engine.audit():
            raise BrokenLawsError(f"after {event}: {broken}")
        return commands

    @property
    def holds(self) -> list[Hold]:
        """What was held, in order of the ends."""
        return self._holding.rows

    @property
    def events(self) -> int:
        """Count what the engine was told."""
        return self.engine.counters.events

    # What happens

    def _submit(self, run: _Run) -> None:
        job = run.job
        self._runs[run.name] = run
        run.waits_since_s = self.now_s
        runtime_s = round(run.left_s + (self._overheads.restart_cost_s if run.attempt else 0.0))
        tags = [f"gang:{job.gpus}x1", f"runtime:{min(SECONDS_MAX, runtime_s) or 1}"]
        if every_s := round(self._overheads.checkpoint_every_s):
            tags.append(f"checkpoint:{min(SECONDS_MAX, every_s)}")
        attempt, submitted_s = run.attempt + 1, float(job.submit_s)
        told = Job(run.name, job.vc, tags=tuple(tags), submit_time_s=submitted_s, attempt=attempt)
        self._tell(JobChanged(now_s=self.now_s, job=told))
        self._tell(AsksChanged(now_s=self.now_s, job_id=run.name, attempt=attempt, asks=_asks(job.gpus)))

    def _end(self, name: str, attempt: int) -> None:
        run = self._runs.get(name)
        if run is None or run.attempt != attempt:
            return
        self._tell(JobEnded(now_s=self.now_s, job_id=name, end=_SUCCEEDED))
        self._stop(run, "finished", run.left_s, "")
        self._stalling.ended()
        del self._runs[name]
        self._ended += 1

    def _stop(self, run: _Run, outcome: str, work_s: float, preempted_by: str) -> None:
        for container_id in run.containers:
            self._tell(ContainerReleased(now_s=self.now_s, container_id=container_id))
        self._sequence += 1
        self._write(run, outcome, work_s, preempted_by)

    def _write(self, run: _Run, outcome: str, work_s: float, preempted_by: str) -> None:
        self.attempts.append(
            Attempt(
                run.job.job_id,
                run.attempt,
                run.start_s,
                self.now_s,
                run.start_seq,
                self._sequence,
                outcome,
                work_s,
                run.level,
                run.placement,
                preempted_by,
                run.start_s - run.waits_since_s,
                run.delays,
            )
        )

    # What is decided

    def _decide(self) -> None:
        for _ in range(PASSES_PER_INSTANT_MAX):
            commands = self._tell(Pass(now_s=self.now_s))
            again = bool(commands) and self._carry_out(commands)
            if not again and not self._stop_some():
                return

    def _carry_out(self, commands: list[AnyCommand]) -> bool:
        """Answer commands; tell whether another pass may decide more in this instant."""
        again = False
        for command in commands:
            if isinstance(command, PlaceGang):
                self._start(command)
            elif isinstance(command, RequeueJob):
                self._to_stop.append(command)
            elif isinstance(command, RefuseJob):
                self._refuse(command)
            elif isinstance(command, WarnJob):
                self._committed(command.decision_id, ())
        return again

    def _start(self, command: PlaceGang) -> None:
        run = self._runs[command.job_id]
        count = len(command.assignments)
        run.containers = tuple([f"c{self._containers + number}" for number in range(count)])
        self._containers += count
        self._committed(command.decision_id, run.containers)
        self._sequence += 1
        run.start_s, run.start_seq, run.level = self.now_s, self._sequence, int(command.level)
        run.delays = self.engine.waited(command.job_id)
        run.placement = _placement(command)
        restart_s = self._overheads.restart_cost_s if run.attempt else 0.0
        heappush(self._ends, (self.now_s + run.left_s + restart_s, run.name, run.attempt))

    def _stop_some(self) -> bool:
        """Stop jobs: all that are to be stopped, or where the engine holds what they leave, those for one job after the other."""
        orders = self._to_stop
        if not orders:
            return False
        first = orders[0].preempted_by
        while orders and (not self._one_by_one or orders[0].preempted_by == first):
            self._preempt(orders.popleft())
        return True

    def _preempt(self, command: RequeueJob) -> None:
        run = self._runs[command.job_id]
        kept_s = self._overheads.kept_s(self.now_s - run.start_s, run.attempt)
        self._stalling.stopped(len(self._runs), kept_s, self.now_s)
        self._committed(command.decision_id, ())
        by = self._runs.get(command.preempted_by)
        self._stop(run, "preempted", kept_s, "" if by is None else by.job.job_id)
        run.left_s -= kept_s
        run.attempt += 1
        self._submit(run)

    def _refuse(self, command: RefuseJob) -> None:
        run = self._runs.pop(command.job_id)
        self._ended += 1
        self._committed(command.decision_id, ())
        self._tell(JobEnded(now_s=self.now_s, job_id=run.name, end=JobEnd.KILLED, diagnostics=command.diagnostics))
        self._sequence += 2
        run.start_s, run.start_seq, run.delays = self.now_s, self._sequence - 1, NO_DELAYS
        self._write(run, "refused", 0.0, "")

    def _committed(self, decision_id: int, containers: tuple[str, ...]) -> None:
        self._tell(OutcomeReported(now_s=self.now_s, decision_id=decision_id, code=COMMITTED, container_ids=containers))


@lru_cache(maxsize=1_024)
def _asks(gpus: int) -> tuple[Ask, ...]:
    return (Ask(_KEY, gpus, _MEMBER),)


def _placement(command: PlaceGang) -> str:
    parts: dict[str, str] = {}
    for one in command.assignments:
        indices = ".".join(map(str, one.gpu_indices))
        known = parts.get(one.server_id)
        parts[one.server_id] = indices if known is None else f"{known}.{indices}"
    return " ".join([f"{server_id}:{indices}" for server_id, indices in parts.items()])
