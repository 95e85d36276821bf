"""Containers that no decision made, and the release of any."""

import msgspec

from yarn_gpu_sched.engine.commands import Bind, Unbind
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.events import ContainerReleased, ContainerSeen
from yarn_gpu_sched.engine.health import held_anew, released
from yarn_gpu_sched.engine.jobs import came_back, count_member, count_members, start_anew_within_attempt
from yarn_gpu_sched.engine.repair import member_lost
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.server_use import ServerUse, mask_of


def on_container_seen(core: Core, event: ContainerSeen) -> None:
    """Account for a live container, or take news of one that is known."""
    use = core.state.servers.get(event.container.server_id)
    if use is None:
        return
    known = core.state.containers.get(event.container.container_id)
    container = _with_indices(event.container, known, use)
    if container == known:
        return
    if known is not None and _same_use(known, container):
        core.state.replace_container(container)
        record = core.state.jobs[container.job_id]
        if (known.attempt, known.ending) != (container.attempt, container.ending):
            count_members(record)
        core.changed(record)
        return
    if known is not None:
        _remove_from_elsewhere(core, known, container)
    record = core.state.jobs.get(container.job_id) or _unknown_job(core, container)
    displaced = _displaced(core, use, container)
    core.state.add_container(container)
    for other in displaced:
        _assume(core, use, other)
    core.session.bound.pop(container.container_id, None)
    if known is None:
        came_back(core, record, container)
        count_member(record, container)
    else:
        count_members(record)
    if use.gpus:
        core.commands.append(bind(container))
        held_anew(core, use)
    core.queue.wake_spare(use.server.partition)
    core.preemption.changed(use.server.partition)
    core.changed(record)


def _displaced(core: Core, use: ServerUse, container: Container) -> list[Container]:
    """Take away whatever was only assumed to have the GPUs that a container is told to have."""
    told = 0 if container.assumed else mask_of(container.gpu_indices)
    displaced = [one for one in use.containers.values() if one.assumed and mask_of(one.gpu_indices) & told]
    for other in displaced:
        core.state.remove_container(other.container_id)
    return displaced


def _assume(core: Core, use: ServerUse, container: Container) -> None:
    """Take it that a container has the lowest free GPUs."""
    moved = msgspec.structs.replace(container, gpu_indices=use.free_indices(container.resource.gpus))
    core.state.add_container(moved)
    core.commands.append(bind(moved))


def _remove_from_elsewhere(core: Core, known: Container, container: Container) -> None:
    """Let go of what was said of a container before."""
    _remove(core, known, core.state.servers[known.server_id])
    if known.server_id != container.server_id and core.state.servers[known.server_id].gpus:
        core.commands.append(Unbind(container_id=known.container_id, server_id=known.server_id))
    if known.job_id != container.job_id:
        before = core.state.jobs[known.job_id]
        count_members(before)
        core.settle_job(before)


def bind(container: Container) -> Bind:
    """Make known which GPUs a container has."""
    return Bind(
        container_id=container.container_id,
        job_id=container.job_id,
        server_id=container.server_id,
        gpu_indices=container.gpu_indices,
    )


def _same_use(known: Container, container: Container) -> bool:
    return (
        known.server_id == container.server_id
        and known.job_id == container.job_id
        and known.resource == container.resource
        and known.gpu_indices == container.gpu_indices
        and known.application_master == container.application_master
    )


def _with_indices(container: Container, known: Container | None, use: ServerUse) -> Container:
    """Give a container the indices that nobody told: those that it has already, else the lowest free ones."""
    gpus = container.resource.gpus
    if len(container.gpu_indices) == gpus:
        return container
    if known is not None and known.server_id == container.server_id and len(known.gpu_indices) == gpus:
        return msgspec.structs.replace(container, gpu_indices=known.gpu_indices, assumed=known.assumed)
    return msgspec.structs.replace(container, gpu_indices=use.free_indices(gpus), assumed=True)


def _unknown_job(core: Core, container: Container) -> JobRecord:
    """Keep account of a container whose job nobody has told of yet."""
    record = core.state.add_job(Job(job_id=container.job_id, vc="", attempt=container.attempt), core.now_s)
    record.known = False
    return record


def on_container_released(core: Core, event: ContainerReleased) -> None:
    """Free what a container held."""
    container = core.state.containers.get(event.container_id)
    if container is None:
        return
    use = core.state.servers[container.server_id]
    _remove(core, container, use)
    released(core, container, use.server.host)
    record = core.state.jobs[container.job_id]
    if event.lost:
        member_lost(core, container)
    count_members(record)
    start_anew_within_attempt(core, record)
    if use.gpus:
        core.commands.append(Unbind(container_id=container.container_id, server_id=container.server_id))
    if record.end is None:
        core.settle_job(record)
    else:
        core.touched[record.job.job_id] = None
        core.forget_old_jobs()


def _remove(core: Core, container: Container, use: ServerUse) -> None:
    core.state.remove_container(container.container_id)
    core.freed(use.server.partition, by_master=container.application_master)
