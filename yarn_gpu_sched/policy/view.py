"""What a policy may read."""

from contextlib import AbstractContextManager
from typing import Protocol

from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.placement import Placement
from yarn_gpu_sched.policy.facts import Facts
from yarn_gpu_sched.policy.group import Group


class Want(Protocol):
    """What a job must have at once: its application master, its gang, or its next single container. Read-only."""

    @property
    def job_id(self) -> str:
        """The job."""

    @property
    def vc(self) -> str:
        """Its virtual cluster."""

    @property
    def partition(self) -> str:
        """The partition that it asks for."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The containers, by kind."""

    @property
    def application_master(self) -> bool:
        """Whether it is the container of the application's master."""

    @property
    def gang(self) -> bool:
        """Whether it is the gang of its job, whole: not a master, nor a single container."""

    @property
    def follows_gang(self) -> bool:
        """Whether it completes or extends a gang that was placed: it goes first in its virtual cluster."""

    @property
    def gpus(self) -> int:
        """The GPUs of all of it."""

    @property
    def job(self) -> Facts:
        """What may be known of the job."""


class Plan(Protocol):
    """What if several wants were placed, and running gangs stopped for them? All of it is undone at the end.

    Each question sees what was taken before it.
    """

    def find(self, want: Want) -> Placement | None:
        """Find a place beside what was taken."""

    def take(self, want: Want, placement: Placement) -> bool:
        """Take it that the want has this place; False, and nothing changes, if it is not free."""

    def find_without(self, want: Want, surplus: list[str]) -> tuple[Placement | None, list[str]]:
        """Find a place where these running jobs may be stopped, the first ones rather; say which must be; take it that they are."""


class View(Protocol):
    """The scheduling state, for reading."""

    @property
    def now_s(self) -> float:
        """Time of the pass by the driver's clock."""

    def next_ready(self) -> Want | None:
        """Give the first ready want, or None when nothing is left to examine.

        First what completes or extends a gang that was placed, then by priority, then in order of submission.
        """

    def next_in_order(self) -> Want | None:
        """Give the first want of all that wait; None where it has been said to wait, or nobody waits."""

    def groups(self) -> list[Group]:
        """List the groups in which a want is ready, in no order; of a policy that is not ``grouped`` there are none."""

    def next_of(self, group: Group) -> Want | None:
        """Give the first ready want of a group, or None when nothing of it is left to examine; in the order of `next_ready`."""

    def share(self, path: str, partition: str) -> tuple[int, int | None]:
        """Say how many GPUs of a partition a queue uses, all below it included, and what its quota is (None: it has none)."""

    def used_by(self, group: Group) -> int:
        """Count the GPUs of the partition that a group's user uses in its virtual cluster."""

    def waiting(self) -> list[Want]:
        """List all wants of gangs, one a job, also those that have been said to wait, in no order."""

    def reclaiming(self) -> list[Want]:
        """List the gangs that have waited so long that borrowed jobs may be stopped for them, in no order."""

    def running(self) -> list[Facts]:
        """List the jobs whose gangs run and may be stopped, in no order."""

    @property
    def gpus_free(self) -> int:
        """Count the free GPUs of all partitions."""

    def plan(self) -> AbstractContextManager[Plan]:
        """Begin a plan."""

    def find(self, want: Want) -> Placement | None:
        """Find a place for all of a want now, at the tightest level there is; None also where a limit forbids it."""
