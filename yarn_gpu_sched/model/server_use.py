"""A server with what is in use on it."""

import msgspec

from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState


class Part(msgspec.Struct, eq=False):
    """What one decision takes on one server. ``mask`` has a bit for each GPU index."""

    use: "ServerUse"
    memory_mb: int
    vcores: int
    mask: int
    gpus: int


class ServerUse:
    """A server, what is in use there, and what is free.

    Free memory and vcores may be negative: what a resource manager over-committed is shown as it is, and nothing new fits.
    ``gpus_free`` is never negative; ``usable`` tells whether new containers may be placed here. The last five fields belong to
    the placement index, which keeps them current.
    """

    __slots__ = (
        "bit",
        "capacity_mask",
        "cell",
        "containers",
        "domain",
        "free_mask",
        "gpus",
        "gpus_free",
        "gpus_used",
        "in_flight",
        "indexed",
        "indexed_gpus",
        "irregular",
        "memory_free_mb",
        "server",
        "server_id",
        "share_mb",
        "share_vcores",
        "usable",
        "vcores_free",
    )

    def __init__(self, server: Server, cpu_share: float) -> None:
        self.containers: dict[str, Container] = {}
        self.in_flight: dict[int, Part] = {}
        self.gpus_free = 0
        self.indexed = False
        self.indexed_gpus = 0
        self.domain: object = None
        self.bit = 0
        self.cell = 0
        self.set_server(server, cpu_share)

    @property
    def used(self) -> Resource:
        """What live containers and decisions under way hold."""
        capacity = self.server.capacity
        return Resource(capacity.memory_mb - self.memory_free_mb, capacity.vcores - self.vcores_free, self.gpus_used)

    def set_server(self, server: Server, cpu_share: float) -> None:
        """Take the server's description, new or changed, and count anew.

        ``cpu_share`` (0 to 1) of memory and vcores is not kept for the GPUs.
        """
        self.server = server
        self.server_id = server.server_id
        self.gpus = server.capacity.gpus
        self.usable = server.state is ServerState.RUNNING
        self.capacity_mask = (1 << self.gpus) - 1
        self.share_mb = int(server.capacity.memory_mb * (1 - cpu_share)) // self.gpus if self.gpus else 0
        self.share_vcores = int(server.capacity.vcores * (1 - cpu_share)) // self.gpus if self.gpus else 0
        self.recount()

    def take(self, memory_mb: int, vcores: int, mask: int, gpus: int) -> None:
        """Put to use what is free. The caller has checked that it is."""
        self.memory_free_mb -= memory_mb
        self.vcores_free -= vcores
        if gpus:
            self.gpus_used += gpus
            self.free_mask &= ~mask
            self.gpus_free = self._gpus_free() if self.irregular else self.gpus_free - gpus

    def give(self, memory_mb: int, vcores: int, mask: int, gpus: int) -> None:
        """Free what was in use. The container or decision that held it is no longer listed here."""
        if self.irregular:
            self.recount()
            return
        self.memory_free_mb += memory_mb
        self.vcores_free += vcores
        if gpus:
            self.gpus_used -= gpus
            self.free_mask |= mask
            self.gpus_free += gpus

    def recount(self) -> None:
        """Count all that is held: the slow way, for what is rare.

        ``irregular`` afterwards tells that GPUs are held twice, or that an index is held that the server does not have.
        """
        memory_mb = vcores = gpus = held = bits = 0
        for container in self.containers.values():
            memory_mb += container.resource.memory_mb
            vcores += container.resource.vcores
            gpus += container.resource.gpus
            bits += len(container.gpu_indices)
            held |= mask_of(container.gpu_indices)
        for part in self.in_flight.values():
            memory_mb += part.memory_mb
            vcores += part.vcores
            gpus += part.gpus
            bits += part.mask.bit_count()
            held |= part.mask
        self.memory_free_mb = self.server.capacity.memory_mb - memory_mb
        self.vcores_free = self.server.capacity.vcores - vcores
        self.gpus_used = gpus
        self.free_mask = self.capacity_mask & ~held
        self.irregular = bits != held.bit_count() or gpus != bits or bool(held & ~self.capacity_mask)
        self.gpus_free = self._gpus_free()

    def free_indices(self, gpus: int) -> tuple[int, ...]:
        """Give the lowest indices that nobody holds; past the last GPU if there are not enough (over-commitment)."""
        held = 0
        for container in self.containers.values():
            held |= mask_of(container.gpu_indices)
        for part in self.in_flight.values():
            held |= part.mask
        indices = [index for index in range(gpus + held.bit_length()) if not held >> index & 1]
        return tuple(indices[:gpus])

    def _gpus_free(self) -> int:
        return max(0, min(self.free_mask.bit_count(), self.gpus - self.gpus_used))


def mask_of(indices: tuple[int, ...]) -> int:
    """Make a bit mask of GPU indices."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


def indices_of(mask: int) -> tuple[int, ...]:
    """List the GPU indices of a bit mask, ascending."""
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)
