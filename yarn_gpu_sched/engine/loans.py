"""What runs in a virtual cluster beyond its quota (law 7), worked out when asked for and kept until something of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.model.container import Container
    from yarn_gpu_sched.model.job_record import JobRecord


class Borrowed(NamedTuple):
    """A job that is borrowed, whole, or a container of one without a gang: its ``place`` among these.

    ``name`` is the job's, or the container's if that is ``single``; ``gpus`` are those of the partition, ``places`` say how many on
    which servers.
    """

    record: JobRecord
    gpus: int
    name: str
    places: tuple[tuple[str, int], ...]
    single: bool = False
    place: int = 0

    @property
    def containers(self) -> tuple[Container, ...]:
        """What is stopped."""
        containers = self.record.containers
        return (containers[self.name],) if self.single else tuple(containers.values())

    @property
    def container_ids(self) -> tuple[str, ...]:
        """Which container that is, if it is not all of a job."""
        return (self.name,) if self.single else ()


COST_BASE_S = 300
"""Added to the time that is lost, so that of jobs which lose nothing the fewest GPUs are stopped."""

Key = tuple[float, int, str, Borrowed]
"""Of those that cost the same the least goes first: the youngest, and of a job's containers the last."""


class Loans:
    """Who borrows in a virtual cluster: ``all``, and ``stoppable`` who may be stopped at all, both in order of start.

    Of these, by place: since when they run, their ``keys``, and until when their work is safe; that of those in ``periodic`` moves
    on with the time.
    """

    __slots__ = ("_gpus", "_periodic", "_safe_s", "all", "keys", "started_s", "stoppable")

    def __init__(self, borrowed: list[Borrowed], stopped_most: int, now_s: float) -> None:
        self.all = borrowed
        self.stoppable = [one for one in borrowed if _may_be_stopped(one, stopped_most)]
        self.started_s = [_started_s(one.record) for one in self.stoppable]
        self.keys = [key_of(one) for one in self.stoppable]
        self._gpus = [one.gpus for one in self.stoppable]
        self._safe_s = [safe_until_s(one.record, now_s) for one in self.stoppable]
        self._periodic = [place for place, one in enumerate(self.stoppable) if one.record.tenure.checkpoint_every_s]

    def costs(self, now_s: float, count: int) -> list[float]:
        """Say what stopping each of the first so many costs."""
        for place in self._periodic:
            self._safe_s[place] = safe_until_s(self.stoppable[place].record, now_s)
        return costs_of(self._gpus[:count], self._safe_s[:count], now_s)


def costs_of(gpus: list[int], safe_s: list[float], now_s: float) -> list[float]:
    """Say what is lost with so many GPUs each, GPU-seconds, where the work is safe until then."""
    return [each * (now_s - until_s + COST_BASE_S) for each, until_s in zip(gpus, safe_s, strict=True)]


def key_of(one: Borrowed) -> Key:
    """Give the place of who borrows among those that cost the same."""
    return (-_started_s(one.record), -one.place, one.name, one)


def loans_of(core: Core, vc: str, partition: str) -> Loans:
    """Say who borrows: running jobs are charged to the quota in order of start, and what does not fit is borrowed."""
    known = core.preemption.loans.setdefault(vc, {})
    found = known.get(partition)
    if found is None:
        borrowed = _charge(core, vc, partition)
        found = known[partition] = Loans(borrowed, core.settings.preempt_spare_after, core.now_s)
    return found


def idle_loans(core: Core, vc: str, partition: str) -> Loans:
    """Say who of those who borrow is idle: these may be stopped though their queue is not above its quota."""
    idle = [one for one in loans_of(core, vc, partition).all if one.record.tenure.idle]
    return Loans(idle, core.settings.preempt_spare_after, core.now_s)


def _may_be_stopped(one: Borrowed, most: int) -> bool:
    """Tell whether who borrows may be stopped at all, some time; ``most``: nobody is more often."""
    record = one.record
    job, tenure = record.job, record.tenure
    if job.unmanaged or record.requeued or record.decisions or tenure.unstoppable or len(tenure.preempted) >= most:
        return False
    return one.single or not job.one_attempt  # to stop all of a job that cannot start anew would be its end


def safe_until_s(record: JobRecord, now_s: float) -> float:
    """Say until when a running job's work is safe: its last checkpoint, as it reported or by the period that its tag names."""
    began_s = _started_s(record)
    safe_s = max(began_s, record.tenure.checkpoint_s or began_s)
    every_s = record.tenure.checkpoint_every_s
    if every_s:
        periods = int((now_s - began_s) / every_s)
        safe_s = max(safe_s, began_s + periods * every_s)
    return min(safe_s, now_s)


def _started_s(record: JobRecord) -> float:
    assert record.started_s is not None
    return record.started_s


def _charge(core: Core, vc: str, partition: str) -> list[Borrowed]:
    left = core.in_force.limits(vc, partition).quota_gpus
    if left is None:
        return []
    borrowed = []
    for record in sorted(core.running_in[vc].values(), key=_by_start):
        for one in _units(core, record, partition):
            if record.tenure.idle:
                borrowed.append(one)  # who uses nothing holds what is not needed, and charges the quota with nothing
            elif one.gpus <= left:
                left -= one.gpus
            elif not one.single or not one.containers[0].application_master:
                borrowed.append(one)
    return borrowed


def _by_start(record: JobRecord) -> tuple[float, float, str]:
    return (_started_s(record), *record.order)


def _units(core: Core, record: JobRecord, partition: str) -> list[Borrowed]:
    """List what of a job is charged as a whole, until something of the job changes."""
    known = core.preemption.units.setdefault(record.job.job_id, {})
    units = known.get(partition)
    if units is None:
        units = known[partition] = _units_of(core, record, partition)
    return units


def _units_of(core: Core, record: JobRecord, partition: str) -> list[Borrowed]:
    """Work it out: all of a job with a gang, else each container, in the order in which they came."""
    servers = core.state.servers
    held = [
        one
        for one in record.containers.values()
        if one.resource.gpus and servers[one.server_id].server.partition == partition
    ]
    if record.gang is None:
        held.sort(key=lambda one: one.container_id)
        return [
            Borrowed(record, one.resource.gpus, one.container_id, ((one.server_id, one.resource.gpus),), True, place)  # noqa: FBT003 - a field, by place
            for place, one in enumerate(held)
        ]
    places: dict[str, int] = {}
    for one in held:
        places[one.server_id] = places.get(one.server_id, 0) + one.resource.gpus
    gpus = sum(places.values())
    return [Borrowed(record, gpus, record.job.job_id, tuple(places.items()))] if gpus else []
