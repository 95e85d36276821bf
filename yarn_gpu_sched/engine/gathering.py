"""Jobs without a gang tag where the virtual cluster debounces: what they ask with GPUs is a gang once it has not changed for long.

A master may spread its asks over several heartbeats. Only asks with GPUs are gathered; such a gang is never refused for its count.
"""

from collections.abc import Iterator

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.gang_tag import CONTAINERS_MAX, GangTag
from yarn_gpu_sched.model.job_record import JobRecord


def asks_changed(core: Core, record: JobRecord, before: tuple[Ask, ...]) -> None:
    """Begin to watch the asks of a job, or watch them anew because they changed."""
    if not _gathers(core, record) or (record.asks == before and (record.gang or record.gather_until_s is not None)):
        return
    record.gang = None
    record.gather_until_s = None
    core.gathering.pop(record.job.job_id, None)
    if _gpu_containers(record):
        record.gather_until_s = core.now_s + core.settings.gather_s
        core.gathering[record.job.job_id] = None


def _gathers(core: Core, record: JobRecord) -> bool:
    if record.gang_placed or record.gang_under_way or (record.gang is not None and not record.gang.implied):
        return False
    return core.in_force.settings(record.job.vc).debounce


def _gpu_containers(record: JobRecord) -> int:
    return sum(record.pending(ask) for ask in record.asks if ask.resource.gpus and not ask.application_master)


def forget(core: Core, record: JobRecord) -> None:
    """Watch the asks of a job no more: it ended, or starts anew."""
    record.gather_until_s = None
    core.gathering.pop(record.job.job_id, None)
    if record.gang is not None and record.gang.implied:
        record.gang = None


def form(core: Core) -> None:
    """Take as gangs what has not changed for long enough."""
    for job_id in sorted(core.gathering):
        record = core.state.jobs[job_id]
        if record.gather_until_s is None or record.gather_until_s > core.now_s:
            continue
        del core.gathering[job_id]
        record.gather_until_s = None
        containers = min(_gpu_containers(record), CONTAINERS_MAX)
        if containers > 1:
            record.gang = GangTag(containers, implied=True)
        core.changed(record)


def wakes_s(core: Core) -> Iterator[float]:
    """Give the times at which gangs are complete if nothing changes."""
    records = (core.state.jobs[job_id] for job_id in core.gathering)
    return (record.gather_until_s for record in records if record.gather_until_s is not None)
