"""Queues for a real ResourceManager as tenants have them: leaves below others, with quotas and maxima at both levels."""

from __future__ import annotations

PARENTS, LEAVES = 3, 12
LEAF_NAMES = [f"root.g{number % PARENTS}.q{number:02d}" for number in range(LEAVES)]
LEAF_QUEUES = ",".join(LEAF_NAMES)
"""As the load generator takes them: applications go to them in turn."""

FULL, FULL_GPUS, WAITING = "root.full", 8, 100
"""Beside them so many wait for a queue that is at its maximum."""

_PREFIX = "yarn.scheduler.capacity."
_MEMORY_MB, _VCORES = 262_144, 1_024
"""Of each simulated server."""


def queues(servers: int, server_gpus: int) -> dict[str, str]:
    """Return the settings: quotas of nine tenths of the cluster, maxima of twice the quota for each parent and every other leaf."""
    gpus = servers * server_gpus * 9 // 10 // LEAVES
    settings = {"root.queues": ",".join([*(f"g{number}" for number in range(PARENTS)), "full"])}
    for number in range(PARENTS):
        below = [path.rsplit(".", 1)[1] for path in LEAF_NAMES if path.startswith(f"root.g{number}.")]
        settings[f"root.g{number}.queues"] = ",".join(below)
        settings |= _capacity(f"root.g{number}", len(below) * gpus, 2 * len(below) * gpus, server_gpus)
    for number, path in enumerate(LEAF_NAMES):
        settings |= _leaf(path, gpus, 2 * gpus if number % 2 else None, server_gpus)
    settings |= _leaf(FULL, FULL_GPUS, FULL_GPUS, server_gpus)
    return {_PREFIX + key: value for key, value in settings.items()}


def _leaf(path: str, quota: int, maximum: int | None, server_gpus: int) -> dict[str, str]:
    # By itself YARN lets a queue have a part of all applications, as large as its quota is of the cluster.
    limits = {f"{path}.user-limit-factor": "-1", f"{path}.maximum-applications": "200000"}
    return limits | _capacity(path, quota, maximum, server_gpus)


def _capacity(path: str, quota: int, maximum: int | None, server_gpus: int) -> dict[str, str]:
    capacity = {f"{path}.capacity": _of(quota, server_gpus)}
    return capacity if maximum is None else capacity | {f"{path}.maximum-capacity": _of(maximum, server_gpus)}


def _of(gpus: int, server_gpus: int) -> str:
    """Return so many GPUs with their share of a server, in YARN's words."""
    memory_mb, vcores = gpus * _MEMORY_MB // server_gpus, gpus * _VCORES // server_gpus
    return f"[memory={memory_mb},vcores={vcores},yarn.io/gpu={gpus}]"
