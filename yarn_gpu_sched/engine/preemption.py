"""What an engine keeps of preemption: whether it is armed, the plans under way, when to look again, and what is borrowed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.agenda import Agenda
from yarn_gpu_sched.engine.reservations import watch_reserving
from yarn_gpu_sched.model.preemption import Mode, Plan

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.loans import Borrowed, Loans
    from yarn_gpu_sched.engine.want import JobWant
    from yarn_gpu_sched.model.job_record import JobRecord
    from yarn_gpu_sched.model.resource import Resource
    from yarn_gpu_sched.model.server_use import Part

WINDOW_S = 60.0
"""The minute in which only so many jobs may be stopped."""

OBSERVED_AGAIN_S = 1.0
"""A gang for which it was observed whom to stop is not looked at before again, however short gangs must wait."""


class Preemption:
    """See the module.

    ``mode`` is what the settings say until an operator says otherwise, and ``why`` what that one said. ``quiet_until_s``: nothing
    is stopped before. ``plans`` by the job for which others are stopped. ``stopped_s``: when victims were stopped in the last
    minute. ``observed``: when it was last shown for a job what would be stopped for it. ``agenda``: when to look for which job, or
    to go on with it; ``look_s``: when the next gang will have waited long enough, as the last pass saw it.

    ``changes`` counts by partition what may let a search succeed that found nothing, ``limits_changes`` such changes in all.
    ``loans``: by virtual cluster and partition, worked out when asked for, until its use or one of its running jobs changes; of
    what: the ``units`` of each running job, by partition. ``parts``: what it holds there, server by server and in all.
    ``any_idle``: whether a job was ever told to be idle. ``held_back``: partitions in which somebody may not have what is promised
    to a gang.
    """

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.why = ""
        self.quiet_until_s = 0.0
        self.plans: dict[str, Plan] = {}
        self.stopped_s: deque[float] = deque()
        self.observed: dict[str, float] = {}
        self.held_back: dict[str, None] = {}
        self.agenda = Agenda()
        self.look_s: float | None = None
        self.changes: dict[str, int] = {}
        self.limits_changes = 0
        self.any_idle = False
        self.loans: dict[str, dict[str, Loans]] = {}
        self.units: dict[str, dict[str, list[Borrowed]]] = {}
        self.parts: dict[str, dict[str, tuple[tuple[Part, ...], Resource]]] = {}

    @property
    def off(self) -> bool:
        """Whether nobody is looked for."""
        return self.mode is Mode.OFF

    def look_no_more(self, job_id: str) -> None:
        """Do not look for a job that wants no gang now, unless others are being stopped for it."""
        if job_id not in self.plans:
            self.agenda.strike(job_id)

    def pass_by(self, now_s: float) -> None:
        """Let the times go by that have come."""
        self.agenda.pass_by(now_s)
        while self.stopped_s and self.stopped_s[0] + WINDOW_S <= now_s:
            self.stopped_s.popleft()

    def stopped_since(self, now_s: float) -> int:
        """Count the victims of the last minute."""
        return sum(at_s + WINDOW_S > now_s for at_s in self.stopped_s)

    def stamp(self, partition: str) -> tuple[int, int]:
        """Count what may have let a search succeed until now."""
        return self.changes.get(partition, 0), self.limits_changes

    def changed(self, partition: str) -> None:
        """Note that a search in a partition may find something now."""
        self.changes[partition] = self.changes.get(partition, 0) + 1

    def changed_everywhere(self) -> None:
        """Note that a search in any partition may find something now."""
        self.limits_changes += 1

    def limits_changed(self) -> None:
        """Note that quotas changed: who borrows may be others."""
        self.limits_changes += 1
        self.loans.clear()

    def use_changed(self, vc: str) -> None:
        """Note that what a virtual cluster uses changed."""
        self.loans.pop(vc, None)

    def job_changed(self, job_id: str, vc: str) -> None:
        """Note that something of a job changed that runs in a virtual cluster."""
        self.units.pop(job_id, None)
        self.parts.pop(job_id, None)
        self.loans.pop(vc, None)

    def servers_changed(self) -> None:
        """Note that servers may be in other partitions."""
        self.units.clear()
        self.parts.clear()
        self.loans.clear()

    def forget(self, job_id: str) -> None:
        """Forget a job."""
        self.plans.pop(job_id, None)
        self.observed.pop(job_id, None)
        self.units.pop(job_id, None)
        self.parts.pop(job_id, None)
        self.agenda.strike(job_id)

    def clear(self) -> None:
        """Forget what is under way, because a resource manager begins anew: who was warned is spared."""
        self.plans.clear()
        self.agenda.clear()
        self.look_s = None
        self.observed.clear()
        self.servers_changed()


def watch_waiting(core: Core, record: JobRecord, want: JobWant | None) -> None:
    """Follow what a job wants now: since when its gang waits."""
    job_id, tenure = record.job.job_id, record.tenure
    if want is None or not want.gang:
        core.preemption.look_no_more(job_id)
    elif tenure.ready_s is None:
        tenure.ready_s = core.now_s
    if want is None or not want.with_gang:
        core.reservations.look_no_more(job_id)
        return
    if tenure.waits_s is None:
        tenure.waits_s = core.now_s
    watch_reserving(core, record, want)
