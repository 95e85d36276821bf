"""Where the containers of a gang go."""

import enum

import msgspec

from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.resource import Resource


class Level(enum.IntEnum):
    """Locality level."""

    FEWEST_SERVERS = 0
    ONE_DOMAIN = 1
    ANYWHERE = 2


FEWEST_SERVERS, ONE_DOMAIN, ANYWHERE = Level
"""The levels, for code that runs for every job: to look one up in its class takes ten times as long."""


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """One container of a gang: its ask, its server, what it gets, its GPUs there (ascending)."""

    key: RequestKey
    server_id: str
    resource: Resource
    gpu_indices: tuple[int, ...] = ()
