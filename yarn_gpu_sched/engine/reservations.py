"""What an engine keeps of reservations: which there are, when to look at them, and where somebody may have waited too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.agenda import Agenda
from yarn_gpu_sched.engine.declaring import Declaring

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.want import JobWant
    from yarn_gpu_sched.model.job_record import JobRecord
    from yarn_gpu_sched.model.reservation import Reservation


class Reservations:
    """All reservations by job.

    ``agenda``: when to look at them, and who will have waited long enough for one. ``overdue``: virtual clusters in which somebody
    may have, and ``again``: when to look at one of them again. ``declaring``: who waits and says how long it runs, so that it may
    pass. ``idle_max``: by partition, how many GPUs all but the first could keep idle when that was last looked at. ``stamps``: what
    had changed (`Preemption.stamp`) when a place was last looked for.
    """

    def __init__(self) -> None:
        self.by_job: dict[str, Reservation] = {}
        self.agenda = Agenda()
        self.again = Agenda()
        self.overdue: dict[str, None] = {}
        self.declaring = Declaring()
        self.idle_max: dict[str, int] = {}
        self.stamps: dict[str, tuple[int, int]] = {}

    def partition_of(self, job_id: str, default: str) -> str:
        """Say in which partition places are kept for a job, if any are."""
        return self.by_job[job_id].partition if job_id in self.by_job else default

    def forget(self, job_id: str) -> None:
        """Forget a job."""
        self.by_job.pop(job_id, None)
        self.stamps.pop(job_id, None)
        self.look_no_more(job_id)

    def look_no_more(self, job_id: str) -> None:
        """Do not look at a job that wants no gang now, unless it has a reservation."""
        self.declaring.drop(job_id)
        if job_id not in self.by_job:
            self.agenda.strike(job_id)

    def clear(self) -> None:
        """Forget all."""
        self.by_job.clear()
        self.agenda.clear()
        self.again.clear()
        self.overdue.clear()
        self.declaring.clear()
        self.stamps.clear()


def watch_reserving(core: Core, record: JobRecord, want: JobWant) -> None:
    """Look at a waiting gang when it has waited as long as it should at most without a reservation."""
    after_s, job_id, reservations = core.settings.reserve_after_s, record.job.job_id, core.reservations
    waits_s = record.tenure.waits_s
    if not after_s or waits_s is None:
        return
    if want.gpus:
        reservations.declaring.put(record, core.in_force.declared_s(record))
    if job_id in reservations.by_job:
        return
    if waits_s + after_s > core.now_s:
        reservations.agenda.note(waits_s + after_s, job_id)
    else:
        reservations.overdue[record.job.vc] = None
