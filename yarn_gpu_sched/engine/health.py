"""What telemetry and operators say of servers and GPUs takes effect: what is not given out, what is held elsewhere then.

Told by host name, whether or not the resource manager knows the server: a server that comes back is what it was before. A GPU that
a container gave back is not given out until a reading taken after that shows it free, on servers that have a monitor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine import ahead, cards, preempting
from yarn_gpu_sched.engine.gpu_states import due_s, hear, occupy, pass_time, take
from yarn_gpu_sched.engine.health_book import fitness_of, gpu_of
from yarn_gpu_sched.engine.keeping import let_go
from yarn_gpu_sched.engine.repair import free_hold, hold_again
from yarn_gpu_sched.engine.server_news import server_differs
from yarn_gpu_sched.model.health import SLOTS_MAX, UNLISTED, HostRecord, Telemetry
from yarn_gpu_sched.model.server_use import Fitness, ServerUse, indices_of, mask_of

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.events import GpusReported, TelemetryChanged
    from yarn_gpu_sched.model.container import Container
    from yarn_gpu_sched.model.preemption import Need, Plan


def servers_of(core: Core, host: str) -> list[ServerUse]:
    """List the servers on a host."""
    return [use for use in core.index.named(host) if use.server.host == host]


# What is told


def on_telemetry_changed(core: Core, event: TelemetryChanged) -> None:
    """Take the state of a server's telemetry; of no telemetry at all, forget all that only telemetry said."""
    record = core.health.record(event.host)
    if record is None:
        return
    hear(record, event.telemetry, event.detail, core.now_s, core.settings)
    if event.telemetry is Telemetry.NONE:
        record.forget_telemetry()
    if event.slots is not None:
        record.slots = min(event.slots, SLOTS_MAX)
    if event.links is not None:
        record.links = event.links
    follow(core, record)


def on_gpus_reported(core: Core, event: GpusReported) -> None:
    """Take what a reading says of GPUs; of a server without telemetry, ignored.

    A slot that telemetry has not told of though the server counts it has no card.
    """
    record = core.health.hosts.get(event.host)
    if record is None or record.telemetry is Telemetry.NONE:
        return
    cards.move(record, event.gpus, core.now_s)
    for report in event.gpus:
        take(gpu_of(record, report.slot), report, core.now_s, core.settings)
    gone = set(event.released)
    for gpu in record.gpus:
        if gpu.released in gone:
            gpu.released = ""
    follow(core, record)


def released(core: Core, container: Container, host: str) -> None:
    """Give none of a container's GPUs out until they are seen free: it is gone, and the server has a monitor."""
    record = core.health.hosts.get(host)
    if record is None or record.telemetry is Telemetry.NONE or not container.gpu_indices:
        return
    for slot in container.gpu_indices:
        if slot < SLOTS_MAX:
            gpu_of(record, slot).released = container.container_id
    follow(core, record)


def held_anew(core: Core, use: ServerUse) -> None:
    """Look who is on a server's GPUs, after a container was told of there: what it holds it may have held before."""
    record = core.health.hosts.get(use.server.host)
    if record is not None:
        follow(core, record)


# What follows


def follow(core: Core, record: HostRecord) -> None:
    """Let servers, holds and timers follow what is known of a host."""
    servers = servers_of(core, record.host)
    holders = [container for use in servers for container in use.containers.values()]
    for gpu in record.gpus:
        mine = {one.container_id for one in holders if gpu.slot in one.gpu_indices}
        known = mine | {UNLISTED} if mine else mine
        if gpu.released in mine:
            gpu.released = ""  # it is there again, and so is its server
        foreign = bool(servers) and any(name not in known for name in gpu.occupants)
        occupy(gpu, foreign=foreign, now_s=core.now_s, settings=core.settings)
    note_time(core, record)
    core.health.touched[record.host] = None
    fitness = fitness_of(record)
    for use in servers:
        if use.fitness != fitness:
            _change(core, use, fitness)
    _hold_lost(core, record)


def note_time(core: Core, record: HostRecord) -> None:
    """Note when time alone changes something of a host."""
    times = [time_s for gpu in record.gpus if (time_s := due_s(gpu, core.settings)) is not None]
    if record.good_since_s is not None:
        times.append(record.good_since_s + core.settings.ok_after_s)
    if times:
        core.health.agenda.note(min(times), record.host)
    else:
        core.health.agenda.strike(record.host)


def _change(core: Core, use: ServerUse, fitness: Fitness) -> None:
    before, partition = use.fitness, use.server.partition
    core.state.put_fitness(use, fitness)
    if not before.same_capacity(fitness):
        server_differs(core, use.server)
        _let_go_of_sick(core, use, fitness.sick & ~before.sick)
    core.freed(partition, by_master=False)


def _let_go_of_sick(core: Core, use: ServerUse, sick: int) -> None:
    """Hold nothing that is not healthy any more: what it was held for looks elsewhere."""
    if not sick:
        return
    for plan in list(core.preemption.plans.values()):
        if any(need.server_id == use.server_id and need.mask & sick for need in plan.needs):
            _plan_without(core, plan, use)
    for decision in list(core.state.decisions.values()):
        if decision.hold_until_s is None or decision.decision_id not in core.state.decisions:
            continue
        if not any(part.use is use and part.mask & sick for part in decision.parts):
            continue
        record = core.state.jobs[decision.job_id]
        if decision.job_id in core.ahead:
            ahead.release(core, record)
        elif core.keeps_for(decision.job_id):
            let_go(core, record)
        else:
            free_hold(core, decision)
        core.changed(record)


def _plan_without(core: Core, plan: Plan, use: ServerUse) -> None:
    """Spare who is only warned; where somebody was stopped already, take other GPUs of the same server, as far as it has any."""
    record = core.state.jobs[plan.job_id]
    if plan.stopped_s is None:
        preempting.end(core, record, plan)
        return
    let_go(core, record)
    plan.needs = tuple(_need_without(need, use) if need.server_id == use.server_id else need for need in plan.needs)


def _need_without(need: Need, use: ServerUse) -> Need:
    sick = use.fitness.sick
    others = indices_of(use.capacity_mask & ~sick & ~need.mask)[: (need.mask & sick).bit_count()]
    return need.on((need.mask & ~sick) | mask_of(others))


def _hold_lost(core: Core, record: HostRecord) -> None:
    """Hold the places of lost members that are free by now."""
    for container_id, container in list(core.health.lost.items()):
        use = core.state.servers.get(container.server_id)
        if use is not None and use.server.host != record.host:
            continue
        if use is None or not mask_of(container.gpu_indices) & (use.fitness.busy | use.fitness.sick):
            del core.health.lost[container_id]
            hold_again(core, container)


def let_time_pass(core: Core) -> None:
    """Follow the time where it changes something."""
    for host in core.health.agenda.pass_by(core.now_s):
        record = core.health.hosts[host]
        for gpu in record.gpus:
            pass_time(gpu, core.now_s, core.settings)
        since_s = record.good_since_s
        if since_s is not None and core.now_s >= since_s + core.settings.ok_after_s:
            record.good_since_s, record.unreadable = None, False
        follow(core, record)
