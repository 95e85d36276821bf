"""What a policy may read during a pass."""

from yarn_gpu_sched.engine import preempting
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.finding import find
from yarn_gpu_sched.engine.masters import masters_admit
from yarn_gpu_sched.engine.planning import EnginePlan
from yarn_gpu_sched.engine.promises import uses_up
from yarn_gpu_sched.engine.want import JobWant
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.placement import Placement
from yarn_gpu_sched.policy import Facts, Want
from yarn_gpu_sched.policy.group import Group


class PassView:
    """What a policy may read (see `yarn_gpu_sched.policy.View`)."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def now_s(self) -> float:
        """Time of the pass by the driver's clock."""
        return self._core.now_s

    def next_ready(self) -> Want | None:
        """Give the first ready want."""
        return self._core.queue.first()

    def next_in_order(self) -> Want | None:
        """Give the first want of all, if it is ready."""
        return self._core.queue.next_in_order()

    def groups(self) -> list[Group]:
        """List the groups in which a want may be ready."""
        return self._core.queue.groups()

    def next_of(self, group: Group) -> Want | None:
        """Give the first ready want of a group."""
        core = self._core
        while (want := core.queue.first(group)) is not None:
            if core.may_go_on(want.line):
                break
        return want

    def share(self, path: str, partition: str) -> tuple[int, int | None]:
        """Say what a queue uses, and what its quota is."""
        core = self._core
        record = core.state.tenants.by_path.get(path)
        return 0 if record is None else record.gpus_used(partition), core.in_force.limits(path, partition).quota_gpus

    def used_by(self, group: Group) -> int:
        """Count the GPUs that a group's user uses."""
        record = self._core.state.tenants.by_path.get(group.vc)  # nobody may stand there any more
        return 0 if record is None else record.user_gpus.get((group.user, group.partition), 0)

    def waiting(self) -> list[Want]:
        """List all wants of gangs."""
        return [want for want in self._core.queue.wants() if want.gang]

    def reclaiming(self) -> list[Want]:
        """List the gangs for which borrowed jobs may be stopped."""
        return list(preempting.waiting(self._core))

    def running(self) -> list[Facts]:
        """List the jobs whose gangs run and may be stopped."""
        core = self._core
        return [record for record in core.running.values() if may_stop(core, record)]

    @property
    def gpus_free(self) -> int:
        """Count the free GPUs of all partitions."""
        for partition in self._core.index.partitions.values():
            partition.refresh()
        return sum(partition.gpus_free for partition in self._core.index.partitions.values())

    def plan(self) -> EnginePlan:
        """Begin a plan."""
        return EnginePlan(self._core)

    def find(self, want: Want) -> Placement | None:
        """Find a place for all of a want now."""
        core = self._core
        core.counters.searches += 1
        assert isinstance(want, JobWant)
        if want.application_master and not masters_admit(core, want):
            return None
        if core.preemption.plans and want.gpus and uses_up(core, want):
            return None
        return find(core, want.demand, want.line.barred)


def may_stop(core: Core, record: JobRecord) -> bool:
    """Tell whether a running gang may be told to start anew: nothing is under way for it, and no such order was just refused."""
    if record.gang is None or record.requeued or record.decisions:
        return False
    return record.backoff is None or record.backoff.until_s <= core.now_s
