"""Policies that stop running gangs for others: the shortest remaining time, the least attained service, and Tiresias's queues.

They preempt by their own rules, not by law 7: baselines to compare with, for replay. They count the GPUs of the whole cluster, so
they are meant for clusters of one partition.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from typing import NamedTuple

from yarn_gpu_sched.placement.placement import Placement
from yarn_gpu_sched.policy.facts import Facts
from yarn_gpu_sched.policy.fifo import NEVER_S
from yarn_gpu_sched.policy.intent import Intent, Place, Preempt, Wait, WakeAt
from yarn_gpu_sched.policy.view import View, Want

LOOKAHEAD = 400
"""Jobs that are looked at after the first that does not fit."""

STEP_GPU_S_MAX = 1e12

ROUNDING_S = 1e-6
"""A step counts as reached so long before: the time at which it is reached is rounded."""


class _Entry(NamedTuple):
    """A job in its turn: by its key, then in order of submission. ``want`` is None of one that runs."""

    key: float
    submit_time_s: float
    job_id: str
    gpus: int
    want: Want | None


_Turn = tuple[float, Facts]
"""A job that runs, and its key."""


class Preemptive(ABC):
    """Gives the GPUs to the first jobs of an order, running or not, as far as they fit.

    Running gangs that are not among them are stopped where one that is needs what they hold, those last in order first. Where the
    servers' gaps keep one of the first from its place, others may have what is free meanwhile. It keeps nothing between passes.
    """

    name = ""
    key_max = NEVER_S
    """No key grows beyond it."""

    @property
    def assumed(self) -> list[str]:
        """Say what it takes for right, a sentence each."""
        return [f"after the first job that does not fit, the next {LOOKAHEAD} in order are looked at"]

    @abstractmethod
    def key(self, job: Facts) -> float:
        """Say when a waiting job's turn is."""

    @abstractmethod
    def running_key(self, job: Facts, now_s: float) -> float:
        """Say the same of a running job, now."""

    def reaches_s(self, job: Facts, key: float, now_s: float) -> float:
        """Say when the key of a job that runs, or starts now, will have grown to so much."""
        del job, key, now_s
        return NEVER_S

    def decide(self, view: View) -> Iterator[Intent]:
        """Stop whom others replace; where nobody is to be stopped, place who is to run."""
        waiting = sorted(self._entry(want) for want in view.waiting() if want.gpus)
        running = self._running(view) if waiting else []
        wanted, surplus = _choose(view.gpus_free, waiting, running)
        placed, stopped = _plan(view, wanted, surplus)
        if stopped:
            yield from (Preempt(job_id, want) for job_id, want in stopped)
            return
        yield from (Place(want, placement) for want, placement in placed)
        yield from _fill(view, backfill=len(placed) < len(wanted))
        started = {want.job_id for want, _ in placed}
        left = [entry for entry in waiting if entry.job_id not in started]
        running += [(entry.key, entry.want.job) for entry in waiting if entry.want and entry.job_id in started]
        wake_s = self._next_change_s(left, running, view.now_s)
        if wake_s < NEVER_S:
            yield WakeAt(wake_s)

    def _entry(self, want: Want) -> _Entry:
        job = want.job
        return _Entry(self.key(job), job.submit_time_s, want.job_id, want.gpus, want)

    def _running(self, view: View) -> list[_Turn]:
        key, now_s = self.running_key, view.now_s
        return [(key(job, now_s), job) for job in view.running()]

    def _next_change_s(self, waiting: list[_Entry], running: list[_Turn], now_s: float) -> float:
        """Say when the first running job will come after one that waits, and came before it until then."""
        next_s = NEVER_S
        for key, job in running if waiting else ():
            if key >= self.key_max or key > waiting[-1].key:
                continue
            submitted = (job.submit_time_s, job.job_id)
            place = bisect_left(waiting, (key, *submitted))
            if place < len(waiting):
                passed = waiting[place]
                step = 0 if submitted > passed[1:3] else 1
                next_s = min(next_s, self.reaches_s(job, passed.key + step, now_s))
        return next_s


def _choose(free: int, waiting: list[_Entry], running: list[_Turn]) -> tuple[list[Want], list[str]]:
    """Say who of those that wait is to run, and who of those that run need not: the last in order first."""
    if sum(entry.gpus for entry in waiting) <= free:
        return _wants(waiting), []
    later = _after(waiting[0], running)
    left = free + sum(entry.gpus for entry in later)
    chosen: list[_Entry] = []
    looks = -1
    for entry in merge(waiting, later):
        if entry.gpus <= left:
            left -= entry.gpus
            chosen.append(entry)
        elif looks < 0:
            looks = LOOKAHEAD + 1
        looks -= looks > 0
        if not looks or not left:
            break
    kept = {entry.job_id for entry in chosen}
    return _wants(chosen), [entry.job_id for entry in reversed(later) if entry.job_id not in kept]


def _after(first: _Entry, running: list[_Turn]) -> list[_Entry]:
    """List the running jobs whose turn is after that of the first that waits: those before it run on in any case."""
    later = [_Entry(key, job.submit_time_s, job.job_id, job.gpus, None) for key, job in running if key >= first.key]
    return sorted(entry for entry in later if entry > first)


def _wants(entries: list[_Entry]) -> list[Want]:
    return [entry.want for entry in entries if entry.want is not None]


def _plan(
    view: View, wanted: list[Want], surplus: list[str]
) -> tuple[list[tuple[Want, Placement]], list[tuple[str, Want]]]:
    """Find places for all that are to run, each beside those before it, and whom that stops."""
    placed: list[tuple[Want, Placement]] = []
    stopped: list[tuple[str, Want]] = []
    with view.plan() as plan:
        for want in wanted:
            placement = plan.find(want)
            if placement is None and surplus:
                placement, victims = plan.find_without(want, surplus)
                stopped += [(job_id, want) for job_id in victims]
                surplus = [job_id for job_id in surplus if job_id not in victims]
            if placement is not None and plan.take(want, placement):
                placed.append((want, placement))
    return placed, stopped


def _fill(view: View, *, backfill: bool) -> Iterator[Intent]:
    """Let the others wait; or, where one of the first finds no place, let them have what is free.

    Only gangs with GPUs take turns.
    """
    while (want := view.next_ready()) is not None:
        placement = view.find(want) if backfill or not want.gang or not want.gpus else None
        yield Wait(want) if placement is None else Place(want, placement)


class Srtf(Preemptive):
    """The shortest remaining time first, by declared run times; those that declare none come last."""

    name = "srtf"
    key_max = 0.0  # what is left of a running job only falls

    def key(self, job: Facts) -> float:
        """Say how long a job still has to run."""
        return NEVER_S if job.runtime_s is None else float(job.runtime_s)

    def running_key(self, job: Facts, now_s: float) -> float:
        """Say what is left of a running job."""
        return NEVER_S if job.runtime_s is None or job.started_s is None else job.started_s + job.runtime_s - now_s


class Las(Preemptive):
    """The least attained service first: GPU-seconds since submission, in steps of ``step_gpu_s``, so that equals take no turns.

    Raises ValueError for a step out of range.
    """

    name = "las"
    step_gpu_s = 3_600.0
    _meaning = "attained service counts in steps of"

    def __init__(self, step_gpu_s: float | None = None) -> None:
        if step_gpu_s is not None:
            if not 1 <= step_gpu_s <= STEP_GPU_S_MAX:
                raise ValueError(f"step_gpu_s {step_gpu_s}: 1 to {STEP_GPU_S_MAX:,.0f} GPU-seconds would be right")
            self.step_gpu_s = step_gpu_s

    @property
    def assumed(self) -> list[str]:
        """Say what it takes for right, a sentence each."""
        return [f"{self._meaning} {self.step_gpu_s:,.0f} GPU-seconds (--step)", *super().assumed]

    def key(self, job: Facts) -> float:
        """Say in which step a job's attained service is."""
        return self._step(job.attained_gpu_s + job.gpus * ROUNDING_S)

    def running_key(self, job: Facts, now_s: float) -> float:
        """Say the same of a running job."""
        since_s = now_s if job.started_s is None else job.started_s
        return self._step(job.attained_gpu_s + job.gpus * (now_s - since_s + ROUNDING_S))

    def reaches_s(self, job: Facts, key: float, now_s: float) -> float:
        """Say when it reaches a step; no sooner than a step after now."""
        if not job.gpus:
            return NEVER_S
        since_s = now_s if job.started_s is None else job.started_s
        return since_s + (self._reached_gpu_s(key) - job.attained_gpu_s) / job.gpus

    def _step(self, attained_gpu_s: float) -> float:
        return attained_gpu_s // self.step_gpu_s

    def _reached_gpu_s(self, step: float) -> float:
        return step * self.step_gpu_s


class Tiresias(Las):
    """Tiresias's discretised two queues: below ``step_gpu_s`` of attained service first, each queue in order of submission.

    Gu et al., "Tiresias", NSDI 2019: two queues, with a threshold of 3,200 GPU-seconds. Nobody is promoted back.
    """

    name = "tiresias"
    key_max = 1.0
    step_gpu_s = 3_200.0
    _meaning = "a job leaves the first of two queues when it has attained"

    def _step(self, attained_gpu_s: float) -> float:
        return float(attained_gpu_s >= self.step_gpu_s)

    def _reached_gpu_s(self, step: float) -> float:
        return self.step_gpu_s if step <= self.key_max else NEVER_S
