"""Each law that is checked can fail: the state is corrupted, and the law names it."""

from collections.abc import Callable

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine.audit import ENGINE_LAWS
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.refusing import check_all
from yarn_gpu_sched.engine.settings import EngineSettings
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.health import Fault, GpuRecord, HostRecord, Telemetry
from yarn_gpu_sched.model.laws import EVIDENCE_MAX, STATE_LAWS, Laws
from yarn_gpu_sched.model.preemption import Preempted
from yarn_gpu_sched.model.reservation import Reservation
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.tenants import Use


def busy() -> Core:
    """Let a gang run with its master, a decision is under way, one gang waits, another may not go, a job has ended."""
    racks = {"s1": "/r1", "s2": "/r1", "s3": "/r1", "s4": "/r2"}
    world = World(EngineSettings(policy="philly", relax_after_s=150.0)).up(
        *(server(name, rack=rack) for name, rack in racks.items())
    )
    world.submit("runs", "gang:2x2")
    world.ask("runs", ask(1, AM, 0, am=True), ask(2, worker(2)))
    world.run()
    world.submit("ended")
    world.end("ended")
    world.submit("decided", "gang:1x2")
    world.ask("decided", ask(1, worker(2)))
    world.decide()
    world.submit("waits", "gang:3x4")  # there is room for it in two domains
    world.ask("waits", ask(3, worker(4)))
    world.configure("root.b", maximum_gpus=1)
    world.submit("limited", "gang:2x1", vc="root.b", recovered=True)  # else it would be refused
    world.ask("limited", ask(2, worker(1)))
    world.decide()
    return world.engine._core


def double_hold(core: Core) -> None:
    """Law 1: a second container gets a GPU that is held."""
    held = next(one for one in core.state.containers.values() if one.gpu_indices)
    container = Container("other", "runs", 1, held.server_id, Resource(0, 0, 1), held.gpu_indices[:1])
    core.state.add_container(container)


def free_what_is_held(core: Core) -> None:
    core.state.servers["s1"].free_mask |= 1


def miscount_server(core: Core) -> None:
    core.state.servers["s1"].memory_free_mb += 1


def miscount_free_gpus(core: Core) -> None:
    core.state.servers["s1"].gpus_free += 1


def miscount_capacity(core: Core) -> None:
    core.state.capacity = core.state.capacity.plus(Resource(0, 0, 1))


def miscount_masters(core: Core) -> None:
    core.state.masters.memory_mb -= 1


def miscount_gpu_servers(core: Core) -> None:
    core.state.gpu_servers_mb += 1


def place_on_the_unknown(core: Core) -> None:
    """Give a server out whose monitor is silent, and a GPU that has fallen off the bus."""
    core.health.hosts["s1"] = HostRecord("s1", Telemetry.SILENT, gpus=[GpuRecord(0, sticky=(Fault.XID_79,))])


def lag_index(core: Core) -> None:
    partition = core.index.partition("")
    partition.totals[0] ^= partition.domains[0].bit


def miscount_job(core: Core) -> None:
    core.state.jobs["runs"].used_gpus += 1


def miscount_vc(core: Core) -> None:
    core.state.virtual_clusters["root.a"].uses[""].gpus += 1


def miscount_partition(core: Core) -> None:
    """Law 3: the sums over all partitions are right, each of them is not."""
    uses = core.state.virtual_clusters["root.a"].uses
    uses["elsewhere"] = Use(gpus=1)
    uses[""].gpus -= 1


def miscount_user(core: Core) -> None:
    core.state.virtual_clusters["root.a"].user_gpus["nobody", ""] = 1


def forget_above(core: Core) -> None:
    """Law 3: what a queue uses is missing in the one above it."""
    core.state.virtual_clusters["root"].uses[""].gpus -= 1


def split_gang(core: Core) -> None:
    """Law 4: one container of a gang is missing from the decision."""
    decision = next(iter(core.state.decisions.values()))
    decision.assignments = decision.assignments[1:]


def half_gang(core: Core) -> None:
    """Law 4: members live though the gang was not placed."""
    core.state.jobs["runs"].gang_placed = False


def forget_to_gather(core: Core) -> None:
    core.state.jobs["waits"].gather_until_s = 1.0


def forget_degraded(core: Core) -> None:
    core.state.jobs["runs"].missing = 1


def end_twice(core: Core) -> None:
    core.state.jobs["ended"].ended_s = None


def ask_after_end(core: Core) -> None:
    core.state.jobs["ended"].asks = (ask(1, worker(1)),)


def forget_hold(core: Core) -> None:
    """Law 4: GPUs are held for a gang that nobody looks after."""
    world = World(audited=False).up(server("s1"))
    world.submit("ahead", "gang:1x2")
    world.ask("ahead", ask(1, worker(1), 0, am=True))
    world.run()
    core.__dict__.update(world.engine._core.__dict__)
    core.ahead.clear()


def list_hold(core: Core) -> None:
    core.ahead["decided"] = None


def miscount_states(core: Core) -> None:
    core.jobs_pending += 1


def lose_order(core: Core) -> None:
    core.order.pop()


def forget_start(core: Core) -> None:
    core.state.jobs["runs"].started_s = None


def relax_early(core: Core) -> None:
    want = core.state.jobs["waits"].want
    assert isinstance(want, JobWant)
    want.demand = want.demand._replace(ceiling=Level.ANYWHERE)


def forget_limit(core: Core) -> None:
    core.state.jobs["limited"].want.line.forbidden = None  # type: ignore[attr-defined] # it stands in a line


def forget_to_forget_timer(core: Core) -> None:
    core.ladder.climbing["ended"] = None


def forget_timer(core: Core) -> None:
    core.state.jobs["waits"].ladder_begun_us = None


def forget_to_relax(core: Core) -> None:
    core.ladder._due_s.clear()


def count_twice(core: Core) -> None:
    """Law 6: a container is listed at a second server."""
    container = next(iter(core.state.containers.values()))
    other = "s3" if container.server_id != "s3" else "s2"
    core.state.servers[other].containers[container.container_id] = container


def lose_decision(core: Core) -> None:
    core.state.jobs["decided"].decisions.clear()


def reserve_for_nobody(core: Core) -> None:
    core.reservations.by_job["nobody"] = Reservation("nobody", 1, "none", 1, 0, (), 0.0, 0.0, None)


def stop_too_often(core: Core) -> None:
    core.state.jobs["runs"].tenure.preempted = (Preempted(0.0, "waits", "root.a", 1.0),) * 4


def refuse_recovered(core: Core) -> None:
    record = core.state.jobs["waits"]
    job = record.job
    record.job = type(job)(job.job_id, job.vc, tags=job.tags, submit_time_s=job.submit_time_s, recovered=True)
    record.refusal = "asks too much"


def refuse_without_reason(core: Core) -> None:
    core.to_refuse["waits"] = None


def refuse_what_might_run(core: Core) -> None:
    """Law 10: it is larger than what is free, and not than the cluster."""
    most = core.seen.most
    judge_without_servers(core)
    core.seen.most = most
    core.seen._answers.clear()


def judge_without_servers(core: Core) -> None:
    core.seen.most = {}
    core.seen._answers.clear()
    core.to_check["waits"] = None
    check_all(core)
    assert core.state.jobs["waits"].refusal


def refuse_before_capacity_has_settled(core: Core) -> None:
    judge_without_servers(core)
    core.session.settled = False


def leave_line(core: Core) -> None:
    core.queue.clear()


def lose_wake(core: Core) -> None:
    """Law 12: a line is neither ready nor waiting for anything."""
    core.queue._for_slots.clear()


def forget_reason(core: Core) -> None:
    """Law 13: a job is pending, asks nothing, and holds its master only."""
    record = core.state.jobs["runs"]
    record.gang_placed = False
    record.gang = None
    record.asks = (ask(1, worker(1)),)
    record.in_flight = {(record.asks[0].key, record.asks[0].resource, False): 1}


CORRUPTIONS: list[tuple[int, Callable[[Core], None]]] = [
    (1, double_hold),
    (1, free_what_is_held),
    (2, miscount_server),
    (2, miscount_free_gpus),
    (2, miscount_capacity),
    (2, miscount_masters),
    (2, miscount_gpu_servers),
    (2, lag_index),
    (2, place_on_the_unknown),
    (3, miscount_job),
    (3, miscount_vc),
    (3, miscount_partition),
    (3, miscount_user),
    (3, forget_above),
    (4, split_gang),
    (4, half_gang),
    (4, forget_degraded),
    (4, forget_hold),
    (4, list_hold),
    (13, forget_to_gather),
    (5, end_twice),
    (5, ask_after_end),
    (5, miscount_states),
    (5, lose_order),
    (6, count_twice),
    (6, lose_decision),
    (5, forget_start),
    (8, relax_early),
    (8, forget_timer),
    (8, forget_to_forget_timer),
    (8, forget_limit),
    (8, forget_to_relax),
    (7, stop_too_often),
    (9, reserve_for_nobody),
    (10, refuse_recovered),
    (10, refuse_without_reason),
    (10, refuse_what_might_run),
    (10, refuse_before_capacity_has_settled),
    (12, leave_line),
    (12, lose_wake),
]


def broken(core: Core) -> set[int]:
    return {found.law for found in [*STATE_LAWS.broken(core.state), *ENGINE_LAWS.broken(core)]}


def test_nothing_is_broken_before() -> None:
    assert broken(busy()) == set()


@pytest.mark.parametrize(("law", "corrupt"), CORRUPTIONS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_law_can_fail(law: int, corrupt: Callable[[Core], None]) -> None:
    core = busy()
    corrupt(core)
    assert law in broken(core)


def test_law_13_can_fail() -> None:
    world = World(audited=False).up(server("s1"))
    world.submit("j")
    world.seen("am", "j", "s1", AM, application_master=True)
    core = world.engine._core
    record = core.state.jobs["j"]
    record.asks = (ask(1, worker(1)),)
    record.in_flight = {(record.asks[0].key, record.asks[0].resource, False): 1}
    assert 13 in broken(core)


def test_every_law_is_corrupted_by_a_test() -> None:
    """Every declared check, not only every number, is seen to fail by some corruption."""
    failed: set[str] = set()
    for _, corrupt in [*CORRUPTIONS, (13, forget_reason)]:
        core = busy()
        corrupt(core)
        failed |= {found.title for found in [*STATE_LAWS.broken(core.state), *ENGINE_LAWS.broken(core)]}
    failed.add("every pending job has a waiting reason")  # test_law_13_can_fail
    declared = {title for _, title, _ in [*STATE_LAWS._laws, *ENGINE_LAWS._laws]}
    assert declared - failed == set()


def test_evidence_is_bounded() -> None:
    laws: Laws[int] = Laws()

    @laws.law(99, "many things are wrong")
    def check(subject: int) -> list[str]:
        return [f"thing {number}" for number in range(subject)]

    assert check(1) == ["thing 0"]
    assert len(laws.broken(1_000)) == EVIDENCE_MAX
