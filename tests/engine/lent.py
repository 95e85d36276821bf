"""What an engine keeps of who borrows, held against what it works out anew."""

from __future__ import annotations

from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.loans import loans_of

Told = dict[tuple[str, str], tuple[list[object], list[str], list[float]]]


def kept(core: Core) -> Told:
    """Say who borrows and what stopping each would cost, as far as it is kept from before."""
    return {(vc, partition): _told(core, vc, partition) for vc in core.running_in for partition in ("", "p")}


def anew(core: Core) -> Told:
    """Say the same with nothing kept."""
    core.preemption.servers_changed()
    return kept(core)


def _told(core: Core, vc: str, partition: str) -> tuple[list[object], list[str], list[float]]:
    loans = loans_of(core, vc, partition)
    borrowed: list[object] = [
        (one.name, one.gpus, one.places, one.single, one.place, one.containers) for one in loans.all
    ]
    costs = loans.costs(core.now_s, len(loans.stoppable))
    return borrowed, [one.name for one in loans.stoppable], costs
