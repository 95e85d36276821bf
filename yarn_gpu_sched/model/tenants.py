"""Virtual clusters with what their jobs hold, in a tree: what a queue uses, the queues above it use too (law 3)."""

import msgspec

from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.shares import parent_of
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster


class Use(msgspec.Struct, eq=False):
    """What is held of one partition."""

    memory_mb: int = 0
    vcores: int = 0
    gpus: int = 0


class Masters(msgspec.Struct, eq=False):
    """What application masters hold of the servers with GPUs, live or under way."""

    memory_mb: int = 0
    vcores: int = 0
    containers: int = 0

    def count(self, resource: Resource, sign: int) -> None:
        """Add one; ``sign`` -1 takes one away."""
        self.memory_mb += sign * resource.memory_mb
        self.vcores += sign * resource.vcores
        self.containers += sign


class VirtualClusterRecord:
    """A queue with the sums over the jobs in it and below it. ``virtual_cluster`` is None while nobody has configured it.

    ``uses``: by partition. ``user_gpus``: of the jobs in it, by user and partition. ``masters``, ``jobs``,
    ``jobs_pending`` and ``jobs_running`` count the jobs in it, not those below.
    """

    __slots__ = (
        "above",
        "below",
        "jobs",
        "jobs_pending",
        "jobs_running",
        "masters",
        "path",
        "user_gpus",
        "uses",
        "virtual_cluster",
    )

    def __init__(self, path: str, above: "VirtualClusterRecord | None") -> None:
        self.path = path
        self.above = above
        self.below: dict[str, VirtualClusterRecord] = {}
        self.virtual_cluster: VirtualCluster | None = None
        self.uses: dict[str, Use] = {}
        self.user_gpus: dict[tuple[str, str], int] = {}
        self.masters = Masters()
        self.jobs = self.jobs_pending = self.jobs_running = 0

    @property
    def used(self) -> Resource:
        """What all jobs in it and below it hold, of all partitions."""
        uses = self.uses.values()
        return Resource(
            sum(use.memory_mb for use in uses), sum(use.vcores for use in uses), sum(use.gpus for use in uses)
        )

    def gpus_used(self, partition: str) -> int:
        """Count the GPUs of a partition that its jobs hold."""
        use = self.uses.get(partition)
        return 0 if use is None else use.gpus

    def gpus_of(self, user: str) -> int:
        """Count the GPUs that a user's jobs in it hold, of all partitions."""
        return sum(gpus for (name, _), gpus in self.user_gpus.items() if name == user)

    @property
    def told(self) -> bool:
        """Whether configuration or a job of its own speaks of it; else it only stands above others."""
        return self.virtual_cluster is not None or bool(self.jobs)


class Tenants:
    """All virtual clusters by path. While ``watched``, ``changed`` collects those whose use changed, and whether it grew."""

    def __init__(self) -> None:
        self.by_path: dict[str, VirtualClusterRecord] = {}
        self.watched = False
        self.changed: dict[str, bool] = {}
        self._uses: dict[tuple[str, str], list[Use]] = {}

    def get(self, path: str) -> VirtualClusterRecord:
        """Get a virtual cluster; it comes to be, and what stands above it, where nobody has spoken of it."""
        known = self.by_path.get(path)
        if known is not None:
            return known
        name: str | None = path
        missing: list[str] = []
        while name is not None and name not in self.by_path:
            missing.append(name)
            name = parent_of(name)
        above = None if name is None else self.by_path[name]
        for name in reversed(missing):
            found = self.by_path[name] = VirtualClusterRecord(name, above)
            if above is not None:
                above.below[name] = found
            above = found
        return self.by_path[path]

    def forget_unused(self, record: VirtualClusterRecord) -> None:
        """Forget a virtual cluster that nobody speaks of, and those above that stood for it alone."""
        while not record.told and not record.below:
            del self.by_path[record.path]
            self._uses.clear()
            if record.above is None:
                return
            del record.above.below[record.path]
            record = record.above

    def charge(self, path: str, user: str, partition: str, amount: Resource, sign: int) -> None:
        """Add to what a virtual cluster and all above it use; ``sign`` -1 takes away."""
        record = self.by_path[path]
        if self.watched:
            self.changed[path] = sign > 0 or self.changed.get(path, False)
        memory_mb, vcores, gpus = sign * amount.memory_mb, sign * amount.vcores, sign * amount.gpus
        if gpus:
            by_user, key = record.user_gpus, (user, partition)
            held = by_user.get(key, 0) + gpus
            if held:
                by_user[key] = held
            else:
                del by_user[key]
        for use in self._uses.get((path, partition)) or self._uses_of(record, partition):
            use.memory_mb += memory_mb
            use.vcores += vcores
            use.gpus += gpus

    def _uses_of(self, record: VirtualClusterRecord, partition: str) -> list[Use]:
        """Find what a virtual cluster and all above it use of a partition: the same objects until one of them is forgotten."""
        uses = self._uses[record.path, partition] = []
        at: VirtualClusterRecord | None = record
        while at is not None:
            uses.append(at.uses.setdefault(partition, Use()))
            at = at.above
        return uses
