"""What `ygs servers --json` prints of reservations; see `documents`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from yarn_gpu_sched.protocol.v1 import cluster_pb2


class ReservedServerDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The GPUs that a gang takes on a server, and those of them that are kept for it by now; the rest is in use."""

    server_id: str
    gpus: int
    kept_gpus: int


class ReservationDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept for a gang that has waited too long, for ``age_s`` seconds by now; ``level`` is that of the place.

    ``ready_in_s``: until all of it is expected to be free, null where nobody knows; ``awaited_job_ids``: at most 10 of those that
    hold the rest. ``over_quota``: it would borrow, and jobs within their quotas may take what is kept.
    """

    job_id: str
    virtual_cluster: str
    partition: str
    gpus: int
    kept_gpus: int
    level: int
    servers: tuple[ReservedServerDocument, ...]
    age_s: float
    ready_in_s: float | None
    awaited_job_ids: tuple[str, ...]
    over_quota: bool


def reservation_document(one: cluster_pb2.Reservation) -> ReservationDocument:
    """Return what is kept for a gang."""
    return ReservationDocument(
        job_id=one.job_id,
        virtual_cluster=one.virtual_cluster,
        partition=one.partition,
        gpus=one.gpus,
        kept_gpus=one.kept_gpus,
        level=one.level,
        servers=tuple(ReservedServerDocument(part.server_id, part.gpus, part.kept_gpus) for part in one.servers),
        age_s=one.age_s,
        ready_in_s=one.ready_in_s if one.HasField("ready_in_s") else None,
        awaited_job_ids=tuple(one.awaited_job_ids),
        over_quota=one.over_quota,
    )
