"""Jobs that run longer than their virtual cluster lets them: they are ended, with the reason."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from yarn_gpu_sched.model.job import RUNNING

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.model.job_record import JobRecord


def ends_at_s(core: Core, record: JobRecord) -> float | None:
    """Say when a running job has run as long as it may; None if nothing limits it. It runs since its gang was placed."""
    most_s = core.in_force.settings(record.job.vc).max_runtime_s if core.by_vc else None
    return None if most_s is None or record.started_s is None else record.started_s + most_s


def watch(core: Core, record: JobRecord) -> None:
    """Look at a job again when it has run as long as it may."""
    at_s = ends_at_s(core, record)
    if at_s is not None:
        heappush(core.expiring, (at_s, record.job.job_id))


def watch_all(core: Core) -> None:
    """Follow a change of how long jobs may run."""
    times = [(ends_at_s(core, record), job_id) for job_id, record in core.running.items()]
    core.expiring = [(at_s, job_id) for at_s, job_id in times if at_s is not None]
    heapify(core.expiring)


def end_overdue(core: Core) -> None:
    """Let the jobs be ended that have run as long as they may."""
    while core.expiring and core.expiring[0][0] <= core.now_s:
        record = core.running.get(heappop(core.expiring)[1])
        if record is None or record.counted is not RUNNING or record.refusal:
            continue
        at_s = ends_at_s(core, record)
        if at_s is not None and at_s <= core.now_s:
            most_s = core.in_force.settings(record.job.vc).max_runtime_s
            record.overdue = True
            record.refusal = (
                f"has run for {most_s} s, and a job of queue {record.job.vc} may run no longer (ygs.max-runtime-s)"
            )
            core.to_refuse[record.job.job_id] = None
            core.changed(record)
