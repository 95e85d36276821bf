"""What a policy may read."""

from typing import Protocol

from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.placement import Placement


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


class View(Protocol):
    """The scheduling state, for reading."""

    @property
    def now_s(self) -> float:
        """Time of the pass by the driver's clock."""

    def next_ready(self) -> Want | None:
        """Give the first ready want, or None when nothing is left to examine.

        First what completes or extends a gang that was placed, then by priority, then in order of submission.
        """

    def find(self, want: Want) -> Placement | None:
        """Find a place for all of a want now, at the tightest level there is; None also where a limit forbids it."""
