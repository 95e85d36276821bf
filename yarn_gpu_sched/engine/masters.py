"""What application masters may hold of the GPU servers: without a limit they alone could fill them, and no gang would start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.tenants import Masters

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core


def masters_admit(core: Core, want: JobWant) -> bool:
    """Tell whether one more application master may be placed on the GPU servers; one always may."""
    state = core.state
    masters, share, _ = allowance(core, want)
    master = want.members[0][0].resource
    return not masters.containers or (
        masters.memory_mb + master.memory_mb <= share * state.gpu_servers_mb
        and masters.vcores + master.vcores <= share * state.gpu_servers_vcores
    )


def allowance(core: Core, want: JobWant) -> tuple[Masters, float, str]:
    """Say which masters count together, what share of the GPU servers they may hold, and whose they are, in words.

    Where a virtual cluster has a quota its masters may hold that part of all masters' share which the quota is of all GPUs.
    """
    part = core.in_force.part(want.vc) if core.by_vc else None
    if part is None:
        return core.state.masters, core.settings.am_share, ""
    return core.state.tenants.by_path[want.vc].masters, core.settings.am_share * part, f" of queue {want.vc}"
