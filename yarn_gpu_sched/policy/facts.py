"""What a policy may know of a job."""

from typing import Protocol


class Facts(Protocol):
    """A job, as far as its turn may depend on it. Read-only."""

    @property
    def job_id(self) -> str:
        """Its name; ties end here."""

    @property
    def submit_time_s(self) -> float:
        """When it was submitted, by its resource manager's clock."""

    @property
    def priority(self) -> int:
        """Higher goes first, whatever the policy."""

    @property
    def gpus(self) -> int:
        """GPUs of its gang; 0 where nothing says how many they are."""

    @property
    def runtime_s(self) -> int | None:
        """How long this attempt says that it runs once it is placed."""

    @property
    def started_s(self) -> float | None:
        """When the gang of this attempt was placed, by the driver's clock."""

    @property
    def attained_gpu_s(self) -> float:
        """GPU-seconds that its gangs had in the attempts before this one."""
