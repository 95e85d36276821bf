"""From what a resource manager says on the link to events.

A batch is converted whole before any of it is applied, so that a bad field leaves nothing
half-applied.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from yarn_gpu_sched.engine import events
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.protocol import bounds
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.bounds import (
    checked_count,
    checked_id,
    checked_queue,
    checked_seconds,
    checked_text,
)
from yarn_gpu_sched.protocol.enums import JOB_ENDS, OUTCOME_CODES, known
from yarn_gpu_sched.protocol.v1 import ask_pb2, decision_pb2, job_pb2, link_pb2
from yarn_gpu_sched.protocol.values import (
    asks_value,
    blacklist_value,
    container_value,
    diagnostics_value,
    job_value,
    server_value,
    virtual_cluster_value,
)

PROTOCOL_VERSIONS = (1,)
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")


class Registration(msgspec.Struct, frozen=True):
    """Who registered. ``fence`` orders resource managers of one cluster: the newer one wins."""

    cluster_id: str
    epoch: int
    start_time_ms: int
    settle_left_s: float
    agent: str

    @property
    def fence(self) -> tuple[int, int]:
        """Epoch, then start time."""
        return self.epoch, self.start_time_ms

    def event(self, now_s: float) -> events.ResourceManagerRegistered:
        """Tell the engine of it."""
        return events.ResourceManagerRegistered(
            now_s=now_s,
            cluster_id=self.cluster_id,
            epoch=self.epoch,
            start_time_ms=self.start_time_ms,
            settle_left_s=self.settle_left_s,
        )


def registration(message: link_pb2.Register) -> Registration:
    """Convert the first message of a stream. Its protocol version has been looked at before."""
    if not _CLUSTER_ID.match(message.cluster_id):
        right = '1 to 128 characters of letters, digits, "-", "_", "."'
        raise BadField("register.cluster_id", message.cluster_id, right)
    most = (1 << 63) - 1
    settle_s = checked_seconds("register.settle_s", message.settle_s, bounds.SETTLE_S_MAX)
    active_s = checked_seconds("register.active_s", message.active_s)
    return Registration(
        message.cluster_id,
        checked_count("register.epoch", message.epoch, 0, most),
        checked_count("register.start_time_ms", message.start_time_ms, 0, most),
        max(0.0, settle_s - active_s),
        checked_text("register.agent", message.agent, bounds.AGENT_CHARACTERS_MAX),
    )


def _asks_changed(now_s: float, message: ask_pb2.JobAsks) -> events.AsksChanged:
    return events.AsksChanged(
        now_s=now_s,
        job_id=checked_id("job_id", message.job_id),
        attempt=checked_count("attempt", message.attempt, 1, (1 << 32) - 1),
        asks=asks_value(message.asks),
        blacklist=blacklist_value(message.blacklist),
    )


def _job_ended(now_s: float, message: job_pb2.JobEnded) -> events.JobEnded:
    return events.JobEnded(
        now_s=now_s,
        job_id=checked_id("job_id", message.job_id),
        end=known("end", message.end, JOB_ENDS),
        diagnostics=diagnostics_value(message.diagnostics),
    )


def _container_ids(message: decision_pb2.Outcome, code: OutcomeCode) -> tuple[str, ...]:
    container_ids = tuple(message.container_ids)
    if not container_ids:
        return container_ids
    if code is not OutcomeCode.COMMITTED:
        raise BadField("container_ids", list(container_ids), f"empty when the code is {code.name}")
    if len(container_ids) > bounds.ASSIGNMENTS_MAX:
        count = f"{len(container_ids)} container ids"
        raise BadField("container_ids", count, f"at most {bounds.ASSIGNMENTS_MAX}")
    if len(set(container_ids)) != len(container_ids):
        raise BadField("container_ids", list(container_ids), "each once")
    for container_id in container_ids:
        checked_id("container_ids", container_id)
    return container_ids


def _outcome_reported(now_s: float, message: decision_pb2.Outcome) -> events.OutcomeReported:
    code = known("code", message.code, OUTCOME_CODES)
    return events.OutcomeReported(
        now_s=now_s,
        decision_id=message.decision_id,
        code=code,
        container_ids=_container_ids(message, code),
        detail=diagnostics_value(message.detail),
    )


_CHANGES: dict[str, Callable[[float, Any], events.AnyEvent]] = {
    "server": lambda now_s, m: events.ServerChanged(now_s=now_s, server=server_value(m)),
    "server_removed": lambda now_s, m: events.ServerRemoved(now_s=now_s, server_id=checked_id("", m)),
    "virtual_cluster": lambda now_s, m: events.VirtualClusterChanged(
        now_s=now_s, virtual_cluster=virtual_cluster_value(m)
    ),
    "virtual_cluster_removed": lambda now_s, m: events.VirtualClusterRemoved(now_s=now_s, path=checked_queue("", m)),
    "job": lambda now_s, m: events.JobChanged(now_s=now_s, job=job_value(m)),
    "asks": _asks_changed,
    "container": lambda now_s, m: events.ContainerSeen(now_s=now_s, container=container_value(m)),
    "container_released": lambda now_s, m: events.ContainerReleased(
        now_s=now_s, container_id=checked_id("container_id", m.container_id), lost=m.lost
    ),
    "job_ended": _job_ended,
    "outcome": _outcome_reported,
}


def change_event(now_s: float, change: link_pb2.Change) -> events.AnyEvent:
    """Convert one change."""
    kind = change.WhichOneof("change")
    if kind is None:
        raise BadField("change", "nothing", "one of " + ", ".join(_CHANGES))
    try:
        return _CHANGES[kind](now_s, getattr(change, kind))
    except BadField as bad:
        raise bad.within(kind) from None


def batch_events(now_s: float, batch: link_pb2.Batch) -> list[events.AnyEvent]:
    """Convert a whole batch or none of it. `SnapshotEnded` is the caller's: it knows the stream."""
    if len(batch.changes) > bounds.CHANGES_MAX:
        count = f"{len(batch.changes)} changes"
        raise BadField("batch.changes", count, f"at most {bounds.CHANGES_MAX}")
    converted = []
    for index, change in enumerate(batch.changes):
        try:
            converted.append(change_event(now_s, change))
        except BadField as bad:
            raise bad.within(f"batch.changes[{index}]") from None
    return converted
