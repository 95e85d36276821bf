"""A YARN node, with or without GPUs."""

import enum

import msgspec

from yarn_gpu_sched.model.resource import Resource

UNKNOWN_RACK = "/default-rack"


class ServerState(enum.Enum):
    """What may be done with a server."""

    RUNNING = "running"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"


class Server(msgspec.Struct, frozen=True, gc=False):
    """A server. GPU indices are 0 to ``capacity.gpus`` - 1, in the order of nvidia-smi; with a monitor they are its slots.

    ``partition_shared``: its partition lends what it does not use to asks of the default partition.
    """

    server_id: str
    host: str
    rack: str
    capacity: Resource
    partition: str = ""
    state: ServerState = ServerState.RUNNING
    partition_shared: bool = False

    @property
    def domain(self) -> str:
        """RDMA domain: the rack; YARN's default rack promises nothing, so there each server is a domain of its own."""
        return self.server_id if self.rack == UNKNOWN_RACK else self.rack
