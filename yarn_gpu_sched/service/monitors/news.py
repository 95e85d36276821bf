"""What a monitor tells of containers: which GPUs a NodeManager gave them itself, and who wrote a checkpoint."""

from __future__ import annotations

import msgspec

from yarn_gpu_sched.engine import Engine, events
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.protocol.v1 import monitor_pb2


def news_of(engine: Engine, host: str, telemetry: monitor_pb2.Telemetry, now_s: float) -> list[events.AnyEvent]:
    """Make the events for what a monitor tells of live containers of its own server; of others it is not asked."""
    made: list[events.AnyEvent] = []
    for assigned in telemetry.assigned:
        container = _on(engine, host, assigned.container_id)
        slots = tuple(sorted(set(assigned.slots)))
        if container is not None and len(slots) == container.resource.gpus and slots != container.gpu_indices:
            truth = msgspec.structs.replace(container, gpu_indices=slots, assumed=False)
            made.append(events.ContainerSeen(now_s=now_s, container=truth))
    for container_id in telemetry.checkpointed_container_ids:
        container = _on(engine, host, container_id)
        if container is not None:
            made.append(events.CheckpointReported(now_s=now_s, job_id=container.job_id))
    return made


def _on(engine: Engine, host: str, container_id: str) -> Container | None:
    container = engine.container(container_id)
    return container if container is not None and engine.host_of(container.server_id) == host else None
