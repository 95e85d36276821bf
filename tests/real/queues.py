"""Queues with quotas in GPUs, changed while all goes on, as an administrator does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from tests.real.joint import ServedJoint

_PREFIX = "yarn.scheduler.capacity."
_NAMES = _PREFIX + "root.queues"


def of(gpus: int) -> str:
    """Return so many GPUs with their share of a server, in YARN's words."""
    return f"[memory={gpus * 2048},vcores={gpus * 6},yarn.io/gpu={gpus}]"


def keys(settings: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return Hadoop's own keys for `a.capacity` and the like."""
    return {f"{_PREFIX}root.{key}": value for key, value in settings.items()}


RELAX_AFTER_S = 10
# For 16 GPUs: a borrows up to 12, b what there is.
_QUEUES = {
    "queues": "default,a,b",
    "default.capacity": of(0),
    "default.maximum-capacity": of(16),
    "a.capacity": of(8),
    "a.maximum-capacity": of(12),
    "a.user-limit-factor": "-1",
    "a.ygs.relax-after-s": str(RELAX_AFTER_S),
    "b.capacity": of(8),
    "b.user-limit-factor": "-1",
}
QUEUES: dict[str, str] = {f"{_PREFIX}root.{key}": value for key, value in _QUEUES.items()}


class Share(NamedTuple):
    """What a queue has of the default partition, in GPUs; None: no quota, no limit of its own."""

    quota: int | None
    maximum: int | None
    used: int
    borrowed: int


def share(joint: ServedJoint, path: str) -> Share | None:
    """Return what the service says of a queue; nothing while it knows no such queue."""
    uses = (use for use in joint.client.virtual_clusters() if use.virtual_cluster.path == path)
    one = next((one for use in uses for one in use.shares if one.partition == ""), None)
    if one is None:
        return None
    quota = one.quota_gpus if one.HasField("quota_gpus") else None
    maximum = one.maximum_gpus if one.HasField("maximum_gpus") else None
    return Share(quota, maximum, one.used_gpus, one.borrowed_gpus)


def await_share(joint: ServedJoint, path: str, *expected: int | None) -> None:
    """Wait until the service says this of a queue: quota, maximum, used, borrowed."""
    wanted = Share(*expected)  # type: ignore[arg-type] # four of them
    joint.until(lambda: share(joint, path), lambda now: now == wanted, f"{path} is {wanted}", 20)


def refresh(joint: ServedJoint, settings: Mapping[str, str | None]) -> subprocess.CompletedProcess[str]:
    """Change settings below root (None: takes one back) and tell the ResourceManager; return what the command said."""
    joint.cluster.configure(keys(settings))
    return joint.yarn("rmadmin", "-refreshQueues")


def refreshed(joint: ServedJoint, settings: Mapping[str, str | None]) -> None:
    """Do the same; it has to be accepted."""
    done = refresh(joint, settings)
    assert done.returncode == 0, done.stdout


@contextmanager
def as_they_were(joint: ServedJoint) -> Iterator[None]:
    """Afterwards take back what a test has changed of the queues; what it has added is stopped before it can go."""
    before = dict(joint.cluster.spec.settings)
    try:
        yield
    finally:
        now = dict(joint.cluster.spec.settings)
        if now != before:
            joint.clear()
            more = sorted(set(now[_NAMES].split(",")) - set(before[_NAMES].split(",")))
            if more:
                refreshed(joint, {f"{queue}.state": "STOPPED" for queue in more})
            joint.cluster.configure({key: before.get(key) for key in {*now, *before}})
            stopped = [key for key, value in now.items() if key.endswith(".state") and value == "STOPPED"]
            # YARN leaves a queue stopped about which nothing is said any more.
            joint.cluster.configure(dict.fromkeys(stopped, "RUNNING"))
            refreshed(joint, {f"{queue}.state": None for queue in more})
