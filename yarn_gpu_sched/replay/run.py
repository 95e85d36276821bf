"""A replay from a trace and a scenario to its figures."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version

import msgspec

from yarn_gpu_sched.model.gang_tag import CONTAINERS_MAX
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.policy import Policy, policy_named
from yarn_gpu_sched.policy.philly import Philly
from yarn_gpu_sched.replay.layout import domain_size, servers_of
from yarn_gpu_sched.replay.scenario import Scenario
from yarn_gpu_sched.replay.schedule import Attempt, Hold
from yarn_gpu_sched.replay.simulation import Simulation
from yarn_gpu_sched.replay.summary import Summary, TraceSummary, counted, delays, figures
from yarn_gpu_sched.replay.trace import Trace, check_jobs

REFUSED = "refused"
Progress = Callable[[int, float], None]
"""Is told after each instant how many jobs have ended, and the simulated time in seconds."""


class Replay(msgspec.Struct):
    """A replay that is done. ``attempts`` and ``holds`` in order of their ends."""

    trace: Trace
    scenario: Scenario
    attempts: list[Attempt]
    summary: Summary
    holds: list[Hold] = []


def replay(
    trace: Trace,
    scenario: Scenario,
    policy: str | Policy = "fifo",
    *,
    audit: bool = False,
    progress: Progress | None = None,
) -> Replay:
    """Replay a trace with a policy, by its name or an object of one's own, which is used once.

    ``audit``: check the laws after every event, which takes many times as long. Raises ValueError for an unknown policy or jobs
    out of order, StalledError where a replay would never end, and BrokenLawsError if the audit finds anything: a bug.
    """
    check_jobs(trace)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    chosen = policy_named(policy) if isinstance(policy, str) else policy
    quotas = scenario.quotas
    simulation = Simulation(
        trace.jobs,
        servers_of(scenario.gpus, scenario.domains),
        scenario.engine_settings,
        scenario.overheads,
        policy=chosen,
        virtual_clusters=[] if quotas is None else [VirtualCluster(vc, gpus) for vc, gpus in quotas.by_vc.items()],
        audit=audit,
    )
    simulation.run(progress)
    summary = _summary(trace, scenario, chosen, simulation)
    summary.wall_s = round(time.perf_counter() - began_s, 3)
    summary.cpu_s = round(time.process_time() - began_cpu_s, 3)
    return Replay(trace, scenario, simulation.attempts, summary, simulation.holds)


def _refusals(trace: Trace, attempts: list[Attempt], gpus: int) -> Iterator[str]:
    refused = {attempt.job_id for attempt in attempts if attempt.outcome == REFUSED}
    too_large = sum(job.gpus > gpus for job in trace.jobs if job.job_id in refused)
    if too_large:
        yield f"larger than the cluster, so refused and in no mean: {counted(too_large, 'job')}"
    too_many = sum(CONTAINERS_MAX < job.gpus <= gpus for job in trace.jobs if job.job_id in refused)
    if too_many:
        most = f"more than {CONTAINERS_MAX:,} members, the most of a gang"
        yield f"{most}, so refused and in no mean: {counted(too_many, 'job')}"
    if others := len(refused) - too_large - too_many:
        yield f"refused by the policy and in no mean: {counted(others, 'job')}"


def _about_quotas(scenario: Scenario, policy: str) -> list[str]:
    quotas, philly = scenario.quotas, policy == Philly.name
    noted = [] if quotas is None else quotas.noted
    if quotas is not None and not philly:
        noted = [f"quotas are NOT kept: policy {policy} knows none", *noted]
    if scenario.preemption and (quotas is None or not philly):
        what = "there are none" if quotas is None else f"policy {policy} knows none"
        noted = [*noted, f"nobody is stopped for a gang within its quota: {what}"]
    return noted


def _summary(trace: Trace, scenario: Scenario, policy: Policy, simulation: Simulation) -> Summary:
    gpus = scenario.gpus
    quotas = scenario.quotas
    sizes = sorted(Counter(gpus).items())
    return Summary(
        **figures(trace.jobs, simulation.attempts, sum(gpus)),
        refused=sum(attempt.outcome == REFUSED for attempt in simulation.attempts),
        policy=policy.name,
        version=version("yarn-gpu-sched"),
        trace=msgspec.convert(msgspec.structs.asdict(trace), TraceSummary, from_attributes=True),
        servers=len(gpus),
        gpus_by_server={str(each): count for each, count in sizes},
        domains=-(-len(gpus) // domain_size(len(gpus), scenario.domains)),
        relax_after_s=scenario.relax_after_s,
        restart_cost_s=scenario.restart_cost_s,
        checkpoint_every_s=scenario.checkpoint_every_s,
        preemption=scenario.preemption,
        grace_s=scenario.grace_s,
        reserve_after_s=scenario.reserve_after_s,
        quotas=None if quotas is None else quotas.by_vc,
        assumptions=[*scenario.assumed(), *getattr(policy, "assumed", ()), *trace.assumed],
        warnings=[*_refusals(trace, simulation.attempts, sum(gpus)), *_about_quotas(scenario, policy.name)],
        delays=delays(trace.jobs, simulation.attempts),
        events=simulation.events,
        wall_s=0.0,
        cpu_s=0.0,
    )
