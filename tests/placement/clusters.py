"""Clusters for the tests of the search: servers by name, and what is free there."""

from __future__ import annotations

from collections.abc import Iterable

from tests.engine.world import server
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.server_use import Part
from yarn_gpu_sched.placement import FreeIndex, Kind, Placement


def cluster_of(
    servers: Iterable[Server], *, cpu: bool = False, cpu_share: float = 0.1
) -> tuple[ClusterState, FreeIndex]:
    """Make a state of these servers, empty, with its index."""
    index = FreeIndex(place_on_cpu_servers=cpu)
    state = ClusterState(index, cpu_share)
    for one in servers:
        state.put_server(one)
    return state, index


def take(state: ClusterState, name: str, memory_mb: int, vcores: int, *gpus: int) -> None:
    """Put some of a server to use; it must be free."""
    mask = sum(1 << gpu for gpu in gpus)
    with state.transaction() as plan:
        assert plan.take(Part(state.servers[name], memory_mb, vcores, mask, len(gpus)))
        plan.commit()


def fill(state: ClusterState, name: str, gpus: int) -> None:
    """Take the first free GPUs of a server and next to nothing else."""
    free = [place for place in range(state.servers[name].gpus) if state.servers[name].free_mask >> place & 1]
    take(state, name, 1, 1, *free[:gpus])


def seats(placement: Placement | None) -> tuple[int, list[tuple[str, int, int]]] | None:
    """Tell a placement: level and (server, kind, containers) in its order."""
    if placement is None:
        return None
    return int(placement.level), [(use.server_id, kind, count) for use, kind, count in placement.portions]


def gang(containers: int, gpus: int, memory_mb: int = 1, vcores: int = 1) -> Kind:
    """Make a kind; it asks for next to nothing but GPUs unless said otherwise."""
    return Kind(containers, gpus, memory_mb, vcores)


__all__ = ["cluster_of", "fill", "gang", "seats", "server", "take"]
