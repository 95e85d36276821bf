"""What a monitor tells of containers: which GPUs a NodeManager gave them itself, and who wrote a checkpoint."""

from __future__ import annotations

import msgspec

from yarn_gpu_sched.engine import Engine, events
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.protocol.v1 import monitor_pb2


def news_of(engine: Engine, host: str, telemetry: monitor_pb2.Telemetry, now_s: float) -> list[events.AnyEvent]:
    """Make the events for what a monitor tells of live containers of its own server; of others it is not asked."""
    made = _assigned(engine, host, telemetry, now_s)
    for container_id in telemetry.checkpointed_container_ids:
        container = _on(engine, host, container_id)
        if container is not None:
            made.append(events.CheckpointReported(now_s=now_s, job_id=container.job_id))
    return made


def _assigned(engine: Engine, host: str, telemetry: monitor_pb2.Telemetry, now_s: float) -> list[events.AnyEvent]:
    """Follow which GPUs containers have; who was thought to have one of them has others, until it is told which.

    Where two are told to have the same one, one of them is not true, and none is followed.
    """
    there = engine.containers_on(host) if telemetry.assigned else []
    told = {each.container_id: tuple(sorted(set(each.slots))) for each in telemetry.assigned}
    told = {one.container_id: told[one.container_id] for one in there if one.container_id in told}
    if len({slot for slots in told.values() for slot in slots}) < sum(map(len, told.values())):
        return []
    made: list[events.AnyEvent] = []
    places = {one.container_id: set(one.gpu_indices) for one in there}
    for container in there:
        slots = told.get(container.container_id, ())
        if len(slots) != container.resource.gpus or slots == container.gpu_indices:
            continue
        displaced = [one for one in there if one is not container and places[one.container_id] & {*slots}]
        places |= {one.container_id: set() for one in displaced} | {container.container_id: set(slots)}
        seen = [msgspec.structs.replace(one, assumed=True) for one in displaced]
        seen.append(msgspec.structs.replace(container, gpu_indices=slots, assumed=False))
        made += [events.ContainerSeen(now_s=now_s, container=one) for one in seen]
    return made


def _on(engine: Engine, host: str, container_id: str) -> Container | None:
    container = engine.container(container_id)
    return container if container is not None and engine.host_of(container.server_id) == host else None
