"""A job with what the engine knows of it."""

from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.assignment import ANYWHERE
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.decision import AskKey
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.job import ENDED, PENDING, RUNNING, Job, JobEnd, JobState
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.preemption import Tenure
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.resync import REPEATED_WITHIN_S, Counts, Resync, counts
from yarn_gpu_sched.model.wait import Wait


def ask_key(ask: Ask) -> AskKey:
    """Name an ask within its job."""
    return (ask.key, ask.resource, ask.application_master)


class Backoff:
    """A pause after a refusal of the resource manager: nothing is decided for the job before ``until_s``, unless it asks otherwise.

    Refusals of decisions below ``first_decision_id`` were under way when the pause began and do not lengthen it.
    """

    __slots__ = ("code", "delay_s", "detail", "first_decision_id", "until_s")

    def __init__(self, code: OutcomeCode, delay_s: float, until_s: float, first_decision_id: int) -> None:
        self.code = code
        self.delay_s = delay_s
        self.until_s = until_s
        self.first_decision_id = first_decision_id
        self.detail = ""

    def lift(self, now_s: float) -> None:
        """End the pause, because the job asks otherwise; the next one is twice as long unless something is committed before."""
        self.until_s = min(self.until_s, now_s)


class JobRecord:
    """A job, its asks, its live containers, and what is under way for it.

    ``asks`` are in key order. ``known`` is false while only a container spoke of the job. ``gang_placed``: the gang of this
    attempt was committed whole, so later asks are single containers. ``gang_under_way``: it is decided, its outcome awaited.
    ``served`` members of the gang were placed by the resource manager itself, on servers without GPUs, before that.
    ``presumed_ended``: a snapshot did not speak of it; nobody said that it ended, and it goes on if it is told of again.
    ``ceiling``: its gang is never placed looser; ``relax_after_s``: how long it says that it waits at a level. ``blacklist``: hosts
    and racks on which it wants nothing. ``refusal``: the job is to be ended with this text; ``overdue``:
    because it has run as long as it may. ``want`` and ``rank`` belong to the
    engine's queue.

    ``gather_until_s``: when its asks with GPUs are taken as a gang, unless they change before. ``missing`` members of a gang
    that was placed were lost since ``degraded_since_s`` and not replaced. ``requeued``: the resource manager was told to start this
    attempt anew. ``members_since``: of a job that keeps its containers, those of this attempt and later ones belong to the gang.
    ``resync``: what it had before its resource manager began anew. ``had`` and ``was_placed``: what it held and asked with GPUs,
    and whether its gang was placed, when the link was last lost; None: nobody knows.

    ``runtime_s``: how long it says that it runs. ``started_s``: when the gang of this attempt was placed; ``attained_gpu_s``: what
    its gangs had in the attempts before, GPU-seconds. ``ladder_us``: how long its gang has waited on the ladder of locality while
    nothing but free GPUs was lacking, where that time pauses; where it runs on, it would have begun at ``ladder_begun_us`` if it
    had never paused. ``wait``: what is known of its wait. ``tenure``: how it stands with preemption.
    """

    __slots__ = (
        "asks",
        "attained_gpu_s",
        "backoff",
        "blacklist",
        "ceiling",
        "containers",
        "counted",
        "decisions",
        "degraded_since_s",
        "diagnostics",
        "end",
        "ended_s",
        "first_seen_s",
        "gang",
        "gang_placed",
        "gang_under_way",
        "gather_until_s",
        "had",
        "in_flight",
        "job",
        "known",
        "ladder_begun_us",
        "ladder_us",
        "level",
        "members_since",
        "missing",
        "order",
        "overdue",
        "presumed_ended",
        "rank",
        "refusal",
        "relax_after_s",
        "requeued",
        "resync",
        "runtime_s",
        "served",
        "started_s",
        "tenure",
        "used_gpus",
        "used_mb",
        "used_vcores",
        "wait",
        "want",
        "was_placed",
    )

    def __init__(self, job: Job, now_s: float) -> None:
        self.job = job
        self.order = (job.submit_time_s, job.job_id)
        self.first_seen_s = now_s
        self.known = True
        self.gang: GangTag | None = None
        self.ceiling = ANYWHERE
        self.relax_after_s: int | None = None
        self.asks: tuple[Ask, ...] = ()
        self.blacklist: tuple[str, ...] = ()
        self.in_flight: dict[AskKey, int] = {}
        self.containers: dict[str, Container] = {}
        self.decisions: set[int] = set()
        self.used_mb = self.used_vcores = self.used_gpus = 0
        self.gang_placed = self.gang_under_way = False
        self.gather_until_s: float | None = None
        self.served = 0
        self.level: int | None = None
        self.members_since = 0
        self.runtime_s: int | None = None
        self.started_s: float | None = None
        self.attained_gpu_s = 0.0
        self.tenure = Tenure()
        self.ladder_us = 0
        self.ladder_begun_us: int | None = None
        self.wait = Wait()
        self.missing = 0
        self.degraded_since_s: float | None = None
        self.requeued = self.overdue = False
        self.resync: Resync | None = None
        self.had: Counts = {}
        self.was_placed: bool | None = None
        self.backoff: Backoff | None = None
        self.refusal = self.diagnostics = ""
        self.end: JobEnd | None = None
        self.presumed_ended = False
        self.ended_s: float | None = None
        self.counted: JobState | None = None
        self.want: object = None
        self.rank: tuple[bool, int, float, float, str] = (True, -job.priority, 0.0, *self.order)

    @property
    def job_id(self) -> str:
        """Its name."""
        return self.job.job_id

    @property
    def submit_time_s(self) -> float:
        """When it was submitted, by its resource manager's clock."""
        return self.job.submit_time_s

    @property
    def priority(self) -> int:
        """Of higher priority goes first."""
        return self.job.priority

    @property
    def gpus(self) -> int:
        """GPUs of its gang; 0 where nothing says how many they are."""
        gang = self.gang
        if gang is not None and gang.gpus_each is not None:
            return (gang.containers - gang.plain) * gang.gpus_each
        return self.used_gpus or sum(ask.count * ask.resource.gpus for ask in self.asks)

    @property
    def used(self) -> Resource:
        """What its live containers and its decisions under way hold."""
        return Resource(self.used_mb, self.used_vcores, self.used_gpus)

    @property
    def state(self) -> JobState:
        """Where the job stands: a gang runs once it was committed, another job once a container besides its master lives."""
        if self.end is not None:
            return ENDED
        if self.gang is not None:
            return RUNNING if self.gang_placed else PENDING
        if self.has_workers:
            return RUNNING
        return RUNNING if self.containers and not self.asks else PENDING

    @property
    def backoff_until_s(self) -> float:
        """When its pause ends; the beginning of time if it has none."""
        return float("-inf") if self.backoff is None else self.backoff.until_s

    def requeue_at_s(self, requeue_after_s: float) -> float:
        """Say when a degraded gang has waited too long; never, if it is whole or starts anew already."""
        if self.degraded_since_s is None or self.requeued:
            return float("inf")
        return self.degraded_since_s + requeue_after_s

    @property
    def has_workers(self) -> bool:
        """Whether a container besides its master lives."""
        return any(not container.application_master for container in self.containers.values())

    @property
    def has_gpu_workers(self) -> bool:
        """Whether a container with GPUs besides its master lives."""
        return any(one.resource.gpus and not one.application_master for one in self.containers.values())

    def is_member(self, container: Container) -> bool:
        """Whether a container of this job may be one of its gang: one of this attempt, or of those before if the job keeps them."""
        if container.application_master:
            return False
        return container.attempt == self.job.attempt or (
            self.job.keeps_containers and container.attempt >= self.members_since
        )

    @property
    def members(self) -> int:
        """Count its live containers besides masters that belong to its gang, or came after it."""
        return sum(self.is_member(container) and not container.ending for container in self.containers.values())

    def pending(self, ask: Ask) -> int:
        """Count the containers of an ask that are wanted, and that no decision under way answers."""
        surplus = 0 if self.resync is None else self.resync.surplus.get(ask_key(ask), 0)
        if not self.in_flight and not surplus:
            return ask.count
        return max(0, ask.count - surplus - self.in_flight.get(ask_key(ask), 0))

    def take_over(self, before: "JobRecord") -> None:
        """Go on from what was known of the job before its resource manager registered again; what was held ahead is void."""
        self.first_seen_s = before.first_seen_s
        self.members_since = before.members_since
        self.had = before.had
        self.attained_gpu_s = before.attained_gpu_s
        self.tenure.preempted = before.tenure.preempted
        self.was_placed = before.was_placed and before.job.attempt == self.job.attempt
        if before.job.attempt == self.job.attempt:
            self.gang_placed, self.level = before.gang_placed, before.level
            self.missing, self.degraded_since_s = before.missing, before.degraded_since_s
            self.requeued, self.resync = before.requeued, before.resync
            self.ladder_us = before.ladder_us
            self.tenure.checkpoint_s, self.tenure.unstoppable = before.tenure.checkpoint_s, before.tenure.unstoppable
            self.wait = before.wait
        else:
            self.wait.in_all = before.wait.in_all

    def note(self) -> None:
        """Note what is held, and what is pending besides, now that no more will be heard: its resource manager may begin anew."""
        had = self.held
        for ask in self.asks:
            key = ask_key(ask)
            if ask.resource.gpus:
                had[key] = had.get(key, 0) + self.pending(ask) + self.in_flight.get(key, 0)
        if self.resync is not None:  # its master has asked nothing there since the time before
            had |= {key: max(count, had.get(key, 0)) for key, count in self.resync.before.items()}
        self.had = had
        self.was_placed = self.gang_placed

    def begin_anew(self, now_s: float) -> None:
        """Follow a resource manager that begins anew: what lives is yet to be told, and its master will ask again."""
        self.gang_placed = self.requeued = False
        self.level = None
        self.resync = Resync(dict(self.had), now_s + REPEATED_WITHIN_S) if self.had else None

    def hear_again(self, known: tuple[Ask, ...], now_s: float) -> None:
        """Set what is asked now, and was ``known`` to be asked, against what its resource manager knew before it began anew."""
        if self.resync is not None:
            self.resync.hear(counts(self.asks), counts(known), self.held, now_s)

    @property
    def held(self) -> Counts:
        """Count its live members with GPUs by the ask that each answers."""
        held: Counts = {}
        for one in self.containers.values():
            if one.resource.gpus and self.is_member(one) and not one.ending:
                key = (one.key, one.resource, False)
                held[key] = held.get(key, 0) + 1
        return held
