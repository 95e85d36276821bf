"""Who holds which GPUs since when, and what became of jobs: rows of the kinds `jobs` and `use`. Lives on the event loop alone.

It hears every event before it is applied and every command after. What needs a view of a job waits for `look`, which comes when the
events of that moment have been applied: a view that is taken in between could tell of what never was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from yarn_gpu_sched.archive import Kind, hour_of
from yarn_gpu_sched.archive.names import HOUR_S
from yarn_gpu_sched.engine import Engine, commands, events
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.service.archive.accounts import Account, Kept, Seconds
from yarn_gpu_sched.service.archive.rows import Row, Waited, job_row, use_row, waited

ENDED_MAX = 16_384
"""Ended jobs that are remembered, so that one that is told of again is not written again."""
UNSEEN_AFTER_S = 600.0
"""So long after all servers had their time to come back, a job that nobody tells of any more is written as unseen."""


class _Closing(msgspec.Struct):
    """An attempt whose row waits for a look at the job; ``outcome`` is empty where another attempt follows."""

    account: Account
    ended_s: float
    outcome: str


class Book:
    """See the module. ``wall_s`` tells the time in seconds since 1970, ``now_s`` that of events."""

    def __init__(self, engine: Engine, now_s: Callable[[], float], wall_s: Callable[[], float]) -> None:
        self.accounts: dict[str, Account] = {}
        self._engine = engine
        self._now_s = now_s
        self._wall_s = wall_s
        self._job_of: dict[str, str] = {}
        self._closing: list[_Closing] = []
        self._begun: dict[str, None] = {}
        self._stopped: dict[str, None] = {}
        self._waited: dict[tuple[str, int], Waited] = {}
        self._ended: dict[str, None] = {}
        self._settle_left_s = 0.0
        self._sweep_s: float | None = None

    @property
    def remembered(self) -> int:
        """Ended jobs that are remembered."""
        return len(self._ended)

    @property
    def has_news(self) -> bool:
        """Whether `look` has something to do."""
        return bool(self._closing or self._begun)

    def restore(self, kept: Kept, ended: list[str]) -> None:
        """Go on from what was known before a restart: all of it is yet to be told of again."""
        self._ended = dict.fromkeys(ended[-ENDED_MAX:])
        for account in kept.accounts:
            account.seen = False
            account.preempted = 0  # an engine that begins anew tells of none
            for container_id, held in account.held.items():
                held.seen = False
                self._job_of[container_id] = account.job_id
            self.accounts[account.job_id] = account

    def kept(self, number: int) -> tuple[Kept, list[str]]:
        """Give what is to survive a restart, after the batch of this number."""
        now_s = self._wall_s()
        for account in self.accounts.values():
            self._count(account, now_s)
            account.told_s = now_s if account.seen else account.told_s
        return Kept(now_s, number, list(self.accounts.values())), list(self._ended)

    # What is heard

    def before(self, event: events.AnyEvent) -> None:
        """Take note of an event that is about to be applied."""
        if isinstance(event, events.JobChanged):
            self._job_changed(event.job, self._at(event.now_s))
        elif isinstance(event, events.JobEnded):
            self._job_ended(event.job_id, event.end.value, self._at(event.now_s))
        elif isinstance(event, events.ResourceManagerRegistered):
            self._begin(event)
        elif isinstance(event, events.SnapshotEnded):
            self._sweep_s = self._now_s() + self._settle_left_s + UNSEEN_AFTER_S

    def bind(self, command: commands.Bind) -> None:
        """Take note of a live container."""
        account = self.accounts.get(command.job_id)
        if not command.gpu_indices or (account is None and command.job_id in self._ended):
            return
        account = account or self.accounts.setdefault(command.job_id, Account(job_id=command.job_id))
        server = self._engine.host_of(command.server_id) or command.server_id
        if account.started_s is None:
            self._begun[command.job_id] = None
        account.hold(command.container_id, server, command.gpu_indices, self._wall_s())
        self._job_of[command.container_id] = command.job_id

    def unbind(self, command: commands.Unbind) -> None:
        """Take note that a container is gone."""
        account = self.accounts.get(self._job_of.pop(command.container_id, ""))
        held = None if account is None else account.held.pop(command.container_id, None)
        if account is not None and held is not None and held.seen:
            account.count_one(held, self._wall_s())

    def stopping(self, command: commands.RequeueJob | commands.StopContainers) -> None:
        """Take note that a job is stopped for another, so that it is looked at what it lost."""
        self._stopped[command.job_id] = None

    def _at(self, now_s: float) -> float:
        return self._wall_s() - max(0.0, self._now_s() - now_s)

    def _job_changed(self, job: Job, at_s: float) -> None:
        account = self.accounts.get(job.job_id)
        if account is None:
            if job.job_id in self._ended:
                return
            account = self.accounts[job.job_id] = Account(job_id=job.job_id, attempt=job.attempt)
        if job.attempt > account.attempt and not account.ended:
            if account.started_s is not None:
                self._count(account, at_s)
                self._closing.append(_Closing(msgspec.structs.replace(account), at_s, ""))
            account.begin_anew(job.attempt, at_s)
            if account.held:
                self._begun[job.job_id] = None
        account.user, account.vc, account.name = job.user, job.vc, job.name
        account.submitted_s, account.seen = job.submit_time_s, True
        account.told_s = at_s

    def _job_ended(self, job_id: str, outcome: str, at_s: float) -> None:
        account = self.accounts.get(job_id)
        if account is None or account.ended:
            return
        self._count(account, at_s)
        self._closing.append(_Closing(msgspec.structs.replace(account, sums=_copied(account.sums)), at_s, outcome))
        account.ended = True
        self._ended[job_id] = None
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def _begin(self, event: events.ResourceManagerRegistered) -> None:
        self._sweep_s, self._settle_left_s = None, event.settle_left_s
        now_s = self._at(event.now_s)
        for account in self.accounts.values():
            self._count(account, now_s)
            account.told_s = now_s if account.seen else account.told_s
            account.seen = False
            for held in account.held.values():
                held.seen = False

    def _count(self, account: Account, until_s: float) -> None:
        for held in account.held.values():
            if held.seen:
                account.count_one(held, until_s)

    # What becomes of it

    def look(self) -> list[tuple[Kind, Row]]:
        """Make the rows of attempts that have ended."""
        begun, self._begun = self._begun, {}
        for job_id in begun:
            self._look_at_begin(job_id)
        closing, self._closing = self._closing, []
        rows: list[tuple[Kind, Row]] = []
        for one in closing:
            view = self._engine.job(one.account.job_id)
            self._count_preempted(view, one.account)
            rows.append((Kind.JOBS, self._row(one, view)))
        return rows

    def _look_at_begin(self, job_id: str) -> None:
        view, account = self._engine.job(job_id), self.accounts.get(job_id)
        if view is not None and account is not None:
            account.gang = view.gang_containers > 0
            self._waited[job_id, account.attempt] = waited(view)

    def _row(self, one: _Closing, view: JobView | None) -> Row:
        account = one.account
        known = self._waited.pop((account.job_id, account.attempt), None)
        if known is None and view is not None and account.started_s is None:
            known = waited(view)
        outcome = one.outcome or ("preempted" if account.preempted_by else "restarted")
        return job_row(account, one.ended_s, outcome, known, final=bool(one.outcome))

    def _count_preempted(self, view: JobView | None, account: Account) -> None:
        """Count what the job lost when it was stopped for others, as far as that was not counted yet."""
        live = self.accounts.get(account.job_id)
        if view is None or live is None:
            return
        for one in view.preempted[live.preempted :]:
            account.add(hour_of(self._at(one.at_s)), Seconds(lost_gpu_s=one.lost_gpu_s))
            account.preempted_by.append(one.by_job_id)
        live.preempted = len(view.preempted)

    def minute_ended(self) -> list[tuple[Kind, Row]]:
        """Look after what nobody tells of: jobs that were stopped in part, and those that went while nobody looked."""
        stopped, self._stopped = self._stopped, {}
        for job_id in stopped:
            account = self.accounts.get(job_id)
            if account is not None and not account.ended:
                self._count_preempted(self._engine.job(job_id), account)
        if self._sweep_s is not None and self._now_s() >= self._sweep_s:
            self._sweep_s = None
            self._sweep()
        return self.look()

    def _sweep(self) -> None:
        for account in self.accounts.values():
            for container_id in [name for name, held in account.held.items() if not held.seen]:
                del account.held[container_id]
                self._job_of.pop(container_id, None)
            if not account.seen and not account.ended:
                self._job_ended(account.job_id, "unseen", account.told_s)

    def use_rows(self, until_s: float) -> list[tuple[Kind, Row]]:
        """Make the rows of the hours that have ended by then, and forget jobs of which nothing more is to be told."""
        rows: list[tuple[Kind, Row]] = []
        for account in list(self.accounts.values()):
            self._count(account, until_s)
            ended = sorted(hour_s for hour_s in account.hours if hour_s + HOUR_S <= until_s)
            rows += [(Kind.USE, use_row(account, hour_s, account.hours.pop(hour_s))) for hour_s in ended]
            if account.ended and not account.held and not account.hours:
                del self.accounts[account.job_id]
                self._waited.pop((account.job_id, account.attempt), None)
        return rows


def _copied(seconds: Seconds) -> Seconds:
    return msgspec.structs.replace(seconds)


def told_already(kept: Kept, rows: list[tuple[Kind, dict[str, Any]]]) -> None:
    """Take off the accounts what rows tell that were written after these had been kept (`number`)."""
    accounts = {account.job_id: account for account in kept.accounts}
    for kind, row in rows:
        account = accounts.get(row["job_id"])
        if account is None:
            continue
        if kind is Kind.USE:
            hour_s = int(row["hour"].timestamp())
            account.hours.pop(hour_s, None)
            for held in account.held.values():
                held.counted_s = max(held.counted_s, hour_s + HOUR_S)
        elif row["final"]:
            account.ended = True
        elif row["attempt"] >= account.attempt:
            account.begin_anew(row["attempt"] + 1, row["ended"].timestamp())
