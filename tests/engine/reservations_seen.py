"""Looks at reservations from outside (law 9): who must have one, how many there are, what they keep, and who may start at once."""

from __future__ import annotations

from collections import Counter

from tests.engine.charges import Charges, place_for
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

LOOKED_AGAIN_S = 30.0
"""A gang for which there was no place even if all others ended is looked at again after so many seconds."""

IDLE_PERCENT = 5

Spell = tuple[str, int]
"""A job and its attempt."""


class ReservationsSeen:
    """Keeps clocks of its own: since when each gang waits that could run if the cluster were empty."""

    def __init__(self) -> None:
        self._since_s: dict[Spell, float] = {}
        self.counted: Counter[str] = Counter()

    def begin_anew(self) -> None:
        """Follow a resource manager that begins anew: who waits begins to wait then."""
        self._since_s.clear()

    def look(self, engine: Engine, told: dict[str, VirtualCluster]) -> None:
        """Look on after a pass."""
        core = engine._core
        if not core.session.deciding or not core.settings.reserve_after_s:
            self._since_s.clear()
            return
        charges = Charges(core, told)
        waiting = {
            (job_id, one.job.attempt): one for job_id, one in core.state.jobs.items() if _waits(core, charges, one)
        }
        self._since_s = {spell: self._since_s.get(spell, core.now_s) for spell in waiting}
        owners = Counter(core.state.jobs[job_id].job.vc for job_id in core.reservations.by_job)
        self.counted["reserved"] += len(owners)
        assert all(count == 1 for count in owners.values()), f"{owners} have reservations"
        self._few_are_idle(core, charges)
        if core.unexamined or engine.next_wake_s() == core.now_s or not core.session.settled:
            return
        for spell, record in waiting.items():
            self._has_its_due(core, charges, record, self._since_s[spell], owners)

    def _few_are_idle(self, core: Core, charges: Charges) -> None:
        kept: dict[str, list[int]] = {}
        for job_id, one in core.reservations.by_job.items():
            kept.setdefault(one.partition, []).append(charges.kept(job_id, one.partition))
        for partition, gpus in kept.items():
            _, usable = charges.in_use(partition)
            most = usable * IDLE_PERCENT // 100
            assert sum(gpus) - max(gpus) <= most, f"of {usable} GPUs all reservations but one keep {gpus}"

    def _has_its_due(
        self, core: Core, charges: Charges, record: JobRecord, since_s: float, owners: Counter[str]
    ) -> None:
        want, job_id, vc = record.want, record.job.job_id, record.job.vc
        assert isinstance(want, JobWant)
        if since_s + core.settings.reserve_after_s + LOOKED_AGAIN_S < core.now_s:
            said = f"{job_id} of {vc} waits since {since_s}, and there is no reservation at {core.now_s}"
            assert owners[vc] or job_id in core.preemption.plans, said
            self.counted["due"] += 1
        if job_id in core.reservations.by_job and not core.preemption.plans:
            assert not place_for(charges, want, ()), f"{job_id} has a reservation and room, and does not start"


def _waits(core: Core, charges: Charges, record: JobRecord) -> bool:
    """Tell whether a gang waits that its maximum admits and the cluster would hold if all who run ended."""
    want = record.want
    if not isinstance(want, JobWant) or not want.gang or want.line.forbidden is not None or len(want.kinds) != 1:
        return False
    if record.job.job_id in core.ahead:
        return False
    running = [one.container_id for one in core.state.containers.values() if one.job_id in core.running]
    return place_for(charges, want, running)
