"""A server with what is in use on it."""

from typing import NamedTuple

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


class Fitness(NamedTuple):
    """What telemetry and operators say of a server's GPUs, by slot (see `yarn_gpu_sched.model.health`).

    ``slots``: how many there are, of which some may have lost their cards. ``sick`` are those that are not healthy, ``busy``
    those that are not given out for the moment. ``blocked``: nothing new is placed on the server. ``links`` tells how well which
    two are connected: a row of scores a slot; empty: nobody knows.
    """

    slots: int = 0
    sick: int = 0
    busy: int = 0
    blocked: bool = False
    links: tuple[tuple[int, ...], ...] = ()

    def same_capacity(self, other: "Fitness") -> bool:
        """Tell whether an empty server could do as much."""
        return self[:2] == other[:2] and self.blocked == other.blocked


FIT = Fitness()
"""Nothing is said."""


class ServerUse:
    """A server, what is in use there, and what is free.

    Free memory and vcores may be negative: what a resource manager over-committed is shown as it is, and nothing new fits.
    ``gpus_free`` is never negative; ``usable`` tells whether new containers may be placed here. ``fitness`` is what telemetry and
    operators say of it. The placement index keeps ``bit``, ``cell``, ``domain``, ``indexed`` and ``indexed_gpus`` current.
    """

    __slots__ = (
        "_counted",
        "bit",
        "capacity_mask",
        "cell",
        "containers",
        "domain",
        "fitness",
        "free_mask",
        "gpus",
        "gpus_free",
        "gpus_healthy",
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

    def __init__(self, server: Server, cpu_share: float, fitness: Fitness = FIT) -> None:
        self.fitness = fitness
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
        fitness = self.fitness
        self.usable = server.state is ServerState.RUNNING and not fitness.blocked
        self.capacity_mask = (1 << max(self.gpus, fitness.slots)) - 1 if self.gpus else 0
        self.gpus_healthy = min(self.gpus, (self.capacity_mask & ~fitness.sick).bit_count())
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
            self.gpus_free = self._gpus_free() if self._counted else self.gpus_free - gpus

    def give(self, memory_mb: int, vcores: int, mask: int, gpus: int) -> None:
        """Free what was in use. The container or decision that held it is no longer listed here."""
        if self.irregular:
            self.recount()
            return
        self.memory_free_mb += memory_mb
        self.vcores_free += vcores
        if gpus:
            self.gpus_used -= gpus
            if self._counted:
                self.free_mask |= mask & self.capacity_mask & ~(self.fitness.sick | self.fitness.busy)
                self.gpus_free = self._gpus_free()
            else:
                self.free_mask |= mask
                self.gpus_free += gpus

    def recount(self) -> None:
        """Count all that is held: the slow way, for what is rare.

        ``irregular`` afterwards tells that GPUs are held twice, or that nobody knows which: what is free once they are given
        back cannot be foretold. One that is not healthy, or not counted any more, can be held, and is not free then.
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
        fitness = self.fitness
        self.free_mask = self.capacity_mask & ~(held | fitness.sick | fitness.busy)
        self.irregular = bits != held.bit_count() or gpus != bits
        self._counted = self.irregular or fitness is not FIT or bool(held & ~self.capacity_mask)
        self.gpus_free = self._gpus_free()

    @property
    def gpus_out(self) -> int:
        """GPUs that nobody holds and that are not given out, because they are not healthy or not known to be free."""
        return max(0, self.gpus - self.gpus_used - self.gpus_free)

    def would_free(self, mask: int) -> int:
        """Count at most how many of these GPUs could be given out once who holds them is gone."""
        fitness = self.fitness
        if fitness.slots > self.gpus:  # the resource manager counts fewer: another one may be given out instead
            return mask.bit_count()
        return (mask & ~(fitness.sick | fitness.busy)).bit_count()

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
