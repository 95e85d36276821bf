"""Servers that have free GPUs and lack memory or vcores for what is asked there."""

from typing import NamedTuple

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.finding import partitions_of
from yarn_gpu_sched.engine.phrases import NAMED_MAX, counted
from yarn_gpu_sched.engine.want import Demand
from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.model.tag import shown
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.spare import spare_mb, spare_vcores


class Lack(NamedTuple):
    """What a server lacks for one container."""

    server_id: str
    gpus_free: int
    memory_mb: int
    vcores: int


def lacking(core: Core, demand: Demand) -> list[Lack]:
    """List the servers that have the GPUs for a container and not its memory or vcores, who lacks least first.

    Of containers without GPUs: what is free beyond the share of the free GPUs counts.
    """
    partitions = partitions_of(core, demand)
    found = []
    for use in core.state.servers.values():
        if use.indexed and use.server.partition in partitions:
            lacks = [one for kind in demand.kinds if (one := _lack(use, kind)) is not None]
            if lacks and len(lacks) == len(demand.kinds):
                found.append(min(lacks, key=_size))
    return sorted(found, key=_size)


def _lack(use: ServerUse, kind: Kind) -> Lack | None:
    if kind.gpus > use.gpus_free or (not kind.gpus and not use.gpus):
        return None
    free_mb, free_vcores = use.memory_free_mb, use.vcores_free
    if not kind.gpus:
        free_mb, free_vcores = spare_mb(use), spare_vcores(use)
    memory_mb, vcores = max(0, kind.memory_mb - free_mb), max(0, kind.vcores - free_vcores)
    return Lack(use.server_id, use.gpus_free, memory_mb, vcores) if memory_mb or vcores else None


def _size(one: Lack) -> tuple[int, int, str]:
    return (one.memory_mb, one.vcores, one.server_id)


def said(lacks: list[Lack]) -> str:
    """Say what the first of them lack."""
    parts = [_one(one) for one in lacks[:NAMED_MAX]]
    if len(lacks) > NAMED_MAX:
        parts.append(f"and {counted(len(lacks) - NAMED_MAX, 'more server')}")
    return f"memory or vcores, not GPUs: {'; '.join(parts)}"


def _one(one: Lack) -> str:
    lacks = [f"{amount} {unit}" for amount, unit in ((one.memory_mb, "MB"), (one.vcores, "vcores")) if amount]
    return f"{shown(one.server_id)} has {one.gpus_free} GPUs free and lacks {' and '.join(lacks)} for a container"
