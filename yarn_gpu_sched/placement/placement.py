"""A place for a gang, found by a search."""

from typing import NamedTuple

from yarn_gpu_sched.model.assignment import Level
from yarn_gpu_sched.model.server_use import ServerUse


class Portion(NamedTuple):
    """So many containers of a kind (its index within the gang) on a server."""

    use: ServerUse
    kind: int
    containers: int


class Placement(NamedTuple):
    """All containers of a gang, server by server."""

    level: Level
    portions: list[Portion]
