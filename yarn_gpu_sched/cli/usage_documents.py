"""What `ygs usage --json` prints; see `documents`."""

from __future__ import annotations

import msgspec


class UsageRowDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GPU-hours of a virtual cluster, a user, a job, or a combination; null: not told apart by that.

    ``borrowed``, ``idle`` and ``unread`` (nobody can tell whether it was used) are part of ``used``; ``lost`` was done in vain.
    """

    virtual_cluster: str | None
    user: str | None
    job_id: str | None
    used: float
    borrowed: float
    idle: float
    unread: float
    lost: float


class UsageDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GPU-hours of the full hours that begin in a stretch of time (UTC, RFC 3339), the end not included; most used first."""

    since: str
    until: str
    usage: tuple[UsageRowDocument, ...]
