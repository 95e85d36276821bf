"""Containers of a gang that are all alike."""

from typing import NamedTuple


class Kind(NamedTuple):
    """``containers`` that each have so much."""

    containers: int
    gpus: int
    memory_mb: int
    vcores: int
