"""Who can never run is refused, once capacity has settled (law 10)."""

from collections.abc import Iterator

from yarn_gpu_sched.engine.capacity_seen import Asked, Grounds
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.limits import never_allowed
from yarn_gpu_sched.engine.want import Demand, JobWant, gang_members, single, whole
from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.resource import Resource


def check_all(core: Core) -> None:
    """Hold the jobs that came or asked since the last time against the largest capacity seen."""
    to_check, core.to_check = core.to_check, {}  # a dictionary that is emptied key by key stays as long as it was
    for job_id in to_check:
        record = core.state.jobs.get(job_id)
        if record is not None and record.known and record.end is None:
            asked = _asked(record)
            sentence = _not_to_be_had(core, record, asked)
            if sentence:
                core.refuse(record, sentence)
                core.verdicts[job_id] = Grounds(asked, record.job, core.seen.growths, core.in_force.changes)


def wrong_verdicts(core: Core) -> Iterator[str]:
    """Say who is refused though capacity has not settled, or though it might run for all that was known (law 10).

    Whoever was refused stays so when there is more later on: the resource manager has been told.
    """
    for job_id, grounds in core.verdicts.items():
        record = core.state.jobs[job_id]
        if not record.refusal or record.end is not None:
            continue
        now = Grounds(grounds.asked, record.job, core.seen.growths, core.in_force.changes)
        if not core.session.settled:
            yield f"job {job_id} is refused, and capacity has not settled: {record.refusal}"
        elif grounds == now and not _not_to_be_had(core, record, grounds.asked):
            yield f"job {job_id} is refused, and it might run: {record.refusal}"


def _beside(want: JobWant, asks: tuple[Ask, ...]) -> tuple[Ask, ...]:
    """List the asks of which a gang is not all."""
    if len(asks) == 1 and want.members == [(asks[0], asks[0].count)]:
        return ()
    return tuple([ask for ask in asks if ask.application_master or (ask, ask.count) not in want.members])


def _asked(record: JobRecord) -> Asked:
    """List what a job has to have at once, each by itself."""
    want = record.want
    rest = record.asks
    asked: Asked = []
    if record.gang is not None and record.gang.implied:
        pass  # nobody said that it must be had at once: each container by itself has to fit
    elif isinstance(want, JobWant) and want.gang:  # it is all that its tag says, and more
        asked.append(want.demand.unconfined)
        rest = _beside(want, rest)
    elif record.gang is not None and not record.gang_placed:
        asked.append(record.gang)
        if members := gang_members(record):
            asked.append(whole(members, record).unconfined)
    if isinstance(want, JobWant) and want.application_master:
        asked.append(want.demand.unconfined)
    asked.extend([single(ask, record).unconfined for ask in rest])
    return asked


def never_fits(core: Core, record: JobRecord) -> str:
    """Say why a job can never run on all that was seen of the cluster; empty if it might."""
    return _not_to_be_had(core, record, _asked(record))


def _not_to_be_had(core: Core, record: JobRecord, asked: Asked) -> str:
    for one in asked:
        sentence = core.seen.never_fits(one) or _never_allowed(core, record, one)
        if sentence:
            return sentence
    return _runs_too_long(core, record)


def _never_allowed(core: Core, record: JobRecord, asked: Demand | GangTag) -> str:
    """Say which limit of its virtual cluster it exceeds even alone. A tag does not tell the partition: there may be only one."""
    if not core.by_vc:
        return ""
    if isinstance(asked, Demand):
        return never_allowed(core.in_force, record.job.vc, asked.partition, asked.total, asked.gpus)
    gpus = asked.gpu_containers * (asked.gpus_each or 0)
    total = Resource(0, 0, 0 if any(core.seen.most) else gpus)
    return never_allowed(core.in_force, record.job.vc, "", total, gpus)


def _runs_too_long(core: Core, record: JobRecord) -> str:
    """Say that a job declares to run longer than its virtual cluster lets it."""
    most_s = core.in_force.settings(record.job.vc).max_runtime_s if core.by_vc else None
    if most_s is None or record.runtime_s is None or record.runtime_s <= most_s:
        return ""
    said = f"says that it runs for {record.runtime_s} s"
    return f"{said}, and a job of queue {record.job.vc} may run for {most_s} s (ygs.max-runtime-s)"
