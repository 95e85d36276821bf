"""Spare memory and vcores: what containers without GPUs may take without stranding a GPU.

Every free GPU of a server keeps its share of memory and vcores; what is free beyond that is spare. Servers are kept in cells by
the binary magnitude of both, so that a fitting one is found without looking at all of them.
"""

from yarn_gpu_sched.model.server_use import ServerUse

CELL_BITS = 6
"""Bits of a cell's number that hold the magnitude of the vcores."""

MAGNITUDE_MAX = (1 << CELL_BITS) - 1


def spare_mb(use: ServerUse) -> int:
    """Give the memory that is free beyond the free GPUs' share; negative if the share is already short."""
    return use.memory_free_mb - use.gpus_free * use.share_mb


def spare_vcores(use: ServerUse) -> int:
    """Give the vcores that are free beyond the free GPUs' share; negative if the share is already short."""
    return use.vcores_free - use.gpus_free * use.share_vcores


def cell_of(use: ServerUse) -> int:
    """Give the cell of a server: magnitude of its spare memory, then of its spare vcores."""
    memory_mb = use.memory_free_mb - use.gpus_free * use.share_mb
    vcores = use.vcores_free - use.gpus_free * use.share_vcores
    rows = memory_mb.bit_length() if memory_mb > 0 else 0
    columns = vcores.bit_length() if vcores > 0 else 0
    return rows << CELL_BITS | columns
