"""What an engine keeps of reservations: which there are, and when to look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.agenda import Agenda

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.model.job_record import JobRecord
    from yarn_gpu_sched.model.reservation import Reservation


class Reservations:
    """All reservations by job; ``agenda``: when to look at them, and who will have waited long enough for one."""

    def __init__(self) -> None:
        self.by_job: dict[str, Reservation] = {}
        self.agenda = Agenda()

    def forget(self, job_id: str) -> None:
        """Forget a job."""
        self.by_job.pop(job_id, None)
        self.agenda.strike(job_id)

    def clear(self) -> None:
        """Forget all."""
        self.by_job.clear()
        self.agenda.clear()


def watch_reserving(core: Core, record: JobRecord) -> None:
    """Look at a waiting gang when it has waited as long as it should at most without a reservation."""
    after_s, ready_s = core.settings.reserve_after_s, record.tenure.ready_s
    job_id = record.job.job_id
    if after_s and ready_s is not None and ready_s + after_s > core.now_s and job_id not in core.reservations.by_job:
        core.reservations.agenda.note(ready_s + after_s, job_id)
