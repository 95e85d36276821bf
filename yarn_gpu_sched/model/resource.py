"""An amount of each resource type that is placed."""

import msgspec


class Resource(msgspec.Struct, frozen=True, gc=False):
    """Memory in MiB, virtual cores, whole GPUs (Hadoop: ``Resource`` with ``yarn.io/gpu``)."""

    memory_mb: int = 0
    vcores: int = 0
    gpus: int = 0

    def plus(self, other: "Resource") -> "Resource":
        """Add type by type."""
        return Resource(self.memory_mb + other.memory_mb, self.vcores + other.vcores, self.gpus + other.gpus)

    def minus(self, other: "Resource") -> "Resource":
        """Subtract type by type; a result may be negative."""
        return Resource(self.memory_mb - other.memory_mb, self.vcores - other.vcores, self.gpus - other.gpus)

    def times(self, count: int) -> "Resource":
        """Multiply type by type."""
        return Resource(self.memory_mb * count, self.vcores * count, self.gpus * count)


NOTHING = Resource()
