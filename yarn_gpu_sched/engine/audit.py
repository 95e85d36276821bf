"""The laws that speak of an engine: those of its state, and of what it derives from the state."""

from collections.abc import Iterator

import msgspec

from yarn_gpu_sched.engine.causes import code_of
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.gpu_states import gpu_faults, is_unknown
from yarn_gpu_sched.engine.health import servers_of
from yarn_gpu_sched.engine.limits import forbidden
from yarn_gpu_sched.engine.plan_checks import plan_faults
from yarn_gpu_sched.engine.refusing import wrong_verdicts
from yarn_gpu_sched.engine.repair import holds_of
from yarn_gpu_sched.engine.reservation_checks import reservation_faults
from yarn_gpu_sched.engine.waiting import waiting_reason
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.delay import CAUSES
from yarn_gpu_sched.model.job import JobState
from yarn_gpu_sched.model.laws import STATE_LAWS, Broken, Laws
from yarn_gpu_sched.model.reason import ReasonCode
from yarn_gpu_sched.placement.audit import index_faults

ENGINE_LAWS: Laws[Core] = Laws()
"""The laws that need more than the cluster's state."""

law = ENGINE_LAWS.law


def audit(core: Core) -> list[Broken]:
    """Check all laws; an empty list if all hold."""
    return STATE_LAWS.broken(core.state) + ENGINE_LAWS.broken(core)


@law(2, "per domain: the placement index knows what is free on the servers")
def index_follows(core: Core) -> Iterator[str]:
    """Compare the index with one made anew."""
    yield from index_faults(core.index, core.state.servers.values())


@law(2, "what is not given out is what telemetry and operators say")
def fitness_follows(core: Core) -> Iterator[str]:
    """Work out anew what each server can do, who is on its GPUs, and when time alone changes something."""
    for server_id, use in core.state.servers.items():
        fitness = core.health.fitness(use.server.host)
        if use.fitness != fitness:
            yield f"server {server_id} is taken to be {use.fitness}, and is {fitness}"
    for host, record in core.health.hosts.items():
        for gpu in record.gpus:
            yield from (f"GPU {gpu.slot} of {host}: {fault}" for fault in gpu_faults(gpu, core.settings))
        if record.drained is None and not is_unknown(record):
            continue
        if free := [use.server_id for use in servers_of(core, host) if use.usable]:
            yield f"{host} is unknown or drained, and {free} are placed on"


@law(13, "whose asks are watched is taken as a gang in time")
def gathering_ends(core: Core) -> Iterator[str]:
    """Compare the list of those who are watched with the jobs."""
    watched = sorted(job_id for job_id, record in core.state.jobs.items() if record.gather_until_s is not None)
    if watched != sorted(core.gathering):
        yield f"the asks of {watched} are watched, {sorted(core.gathering)} are listed"


@law(4, "a gang that lost members is looked after until it is whole")
def degraded_are_tended(core: Core) -> Iterator[str]:
    """Compare the list of degraded gangs with the jobs, and with what is held for them."""
    for job_id, record in core.state.jobs.items():
        degraded = record.degraded_since_s is not None
        tended = degraded and not record.presumed_ended
        if tended != (job_id in core.degraded) or degraded != (record.missing > 0):
            yield f"job {job_id} misses {record.missing} members since {record.degraded_since_s}"
        if holds_of(core, record) and degraded + (job_id in core.ahead) + core.keeps_for(job_id) != 1:
            yield f"job {job_id} misses {record.missing} members, and something is held for it without its being listed"
    for job_id in core.ahead:
        if job_id not in core.state.jobs or not holds_of(core, core.state.jobs[job_id]):
            yield f"for job {job_id} nothing is held, and it is listed"
    if gone := [job_id for job_id in core.degraded if job_id not in core.state.jobs]:
        yield f"jobs {gone} are tended and not known"


@law(5, "the counts of jobs by state are right")
def counts_by_state(core: Core) -> Iterator[str]:
    """Count the jobs anew."""
    states = [record.state for record in core.state.jobs.values() if record.known]
    pending, running = states.count(JobState.PENDING), states.count(JobState.RUNNING)
    if (core.jobs_pending, core.jobs_running) != (pending, running):
        yield f"{core.jobs_pending} pending and {core.jobs_running} running are counted, {pending} and {running} are"
    by_vc = [virtual_cluster.jobs_pending for virtual_cluster in core.state.virtual_clusters.values()]
    if sum(by_vc) != pending:
        yield f"the VCs count {sum(by_vc)} pending jobs, {pending} are"
    known = sorted(record.order for record in core.state.jobs.values() if record.known)
    if known != core.order:
        yield "the order of submission does not list every job once"
    held = sorted(job_id for job_id, record in core.state.jobs.items() if record.started_s is not None)
    if held != sorted(core.running) or any(record.counted is not JobState.RUNNING for record in core.running.values()):
        yield f"jobs {sorted(core.running)} are listed as running, {held} have a start"
    ended = sorted(job_id for job_id, record in core.state.jobs.items() if record.end is not None)
    if ended != sorted(core.ended):
        yield f"jobs {ended} have ended, {sorted(core.ended)} are listed"


@law(
    8,
    "locality relaxes only when its timer ran out, and that timer runs while the gang waits for nothing but free GPUs",
)
def locality_relaxes_by_timer(core: Core) -> Iterator[str]:
    """Hold the level of every gang that waits against what its timer has run; the next pass looks at servers that changed."""
    if strays := core.ladder.strays(core.state.jobs):
        yield f"timers of {strays} run and are not listed, or are listed and do not run"
    for job_id, record in core.state.jobs.items():
        for fault in core.ladder.faults(record, core.now_s, settled=not core.changed_partitions):
            yield f"job {job_id}: {fault}"


@law(8, "a limit holds back whom it forbids, and nobody else")
def limits_hold_back(core: Core) -> Iterator[str]:
    """Hold every line against the limits of its queues and of its user."""
    for line in core.queue.lines():
        watched = core.state.tenants.watched
        found = forbidden(core.state.tenants, core.in_force, line.any_want()) if watched else None
        if found != line.forbidden:
            yield f"{sorted(line.jobs)} of {line.group.vc} are held back by {line.forbidden}, and would be by {found}"


@law(7, "others are stopped for a gang only within the rules, and held is only what it takes")
def lawful_plans(core: Core) -> Iterator[str]:
    """Look at all that is under way."""
    yield from plan_faults(core)


@law(9, "who has waited too long has places kept for it, of each virtual cluster one at most, and little else is idle")
def lawful_reservations(core: Core) -> Iterator[str]:
    """Look at all that is kept, and at all who wait."""
    yield from reservation_faults(core)


@law(10, "refused with the reason is only what can never run on the largest capacity seen, once capacity has settled")
def refused_with_reason(core: Core) -> Iterator[str]:
    """Look at every job that is to be refused, each is told why; and at every verdict that was given on capacity and limits."""
    yield from wrong_verdicts(core)
    for job_id in core.to_refuse:
        record = core.state.jobs.get(job_id)
        if record is None or not record.refusal:
            yield f"job {job_id} is to be refused without a reason"


@law(12, "who waits stands in exactly one line, where what it wants says")
def lines_hold_wants(core: Core) -> Iterator[str]:
    """Compare the queue with the jobs."""
    waiting = {job_id: record.want for job_id, record in core.state.jobs.items() if isinstance(record.want, JobWant)}
    listed = core.queue.listed()
    if sorted(listed) != sorted((want.demand, job_id) for job_id, want in waiting.items()):
        yield f"{len(listed)} wants stand in lines, {len(waiting)} jobs want something"
    yield from core.queue.faults()


@law(13, "every pending job has a waiting reason")
def always_a_reason(core: Core) -> Iterator[str]:
    """Ask for the reason of every pending job."""
    for job_id, record in core.state.jobs.items():
        if record.known and record.state is JobState.PENDING and waiting_reason(core, record) is None:
            yield f"job {job_id} is pending and nothing says why"


@law(13, "the reason of every line is current, and of the cause that its jobs are told")
def current_reasons(core: Core) -> Iterator[str]:
    """Look at every line anew, and ask one of its jobs."""
    for line in core.queue.lines():
        code, noted = code_of(core, line), line.clock.code
        if code is not noted:
            yield f"the line of {line.demand} waits for {code.value}, and {noted} is noted"
        waiting = next((record for record in line.jobs.values() if record.wait.since_us is not None), None)
        if waiting is None:
            continue
        told = waiting_reason(core, waiting)
        if told is None or (told.code is not ReasonCode.DECIDED and CAUSES[told.code] is not CAUSES[code]):
            yield f"the line of {line.demand} waits for {code.value}, and {told} is told"


@law(13, "the last reason in a job's history is why it waits now")
def noted_reasons(core: Core) -> Iterator[str]:
    """Ask every job that stands in no line."""
    for job_id, record in core.state.jobs.items():
        if record.wait.since_us is None or record.wait.joined is not None:
            continue
        told, history = waiting_reason(core, record), core.waits.history_of(record)
        if told is not None and (not history or history[-1].code is not told.code):
            yield f"job {job_id} waits for {told.code.value}, and {history[-1:]} is noted"


@law(13, "the delays of a wait are all of it")
def whole_delays(core: Core) -> Iterator[str]:
    """Add up what every job has waited."""
    for job_id, record in core.state.jobs.items():
        waits = record.known and record.state is JobState.PENDING and core.session.snapshot_ended
        if record.wait.since_us is None:
            if waits:
                yield f"job {job_id} is pending, and its wait is not counted"
            continue
        delays = core.waits.delays_of(record, core.waits.now_us)
        if min(msgspec.structs.astuple(delays)) < 0:
            yield f"job {job_id} has waited since {record.wait.since_us} us until {core.waits.now_us} us, and {delays}"
