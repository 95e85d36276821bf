"""A YARN application, or a job of an integrator."""

import enum
from math import ceil

import msgspec


class JobState(enum.Enum):
    """Where a job stands."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


PENDING, RUNNING, ENDED = JobState
"""The states, for code that runs for every job: to look one up in its class takes ten times as long."""


class JobEnd(enum.Enum):
    """How a job ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"


class Job(msgspec.Struct, frozen=True, gc=False):
    """What the resource manager says of a job.

    ``submit_time_s`` is by the resource manager's clock and orders jobs, ties by ``job_id``. ``attempt`` is 0 before the
    first. ``active`` is false until the resource manager lets the job ask for containers. Of higher ``priority`` goes first in its
    virtual cluster. ``keeps_containers``: they outlive an attempt. ``expire_time_s``: when the resource manager will end it, by
    the resource manager's clock. ``one_attempt``: it cannot start anew, an order to do so is refused.
    """

    job_id: str
    vc: str
    user: str = ""
    name: str = ""
    tags: tuple[str, ...] = ()
    submit_time_s: float = 0.0
    attempt: int = 1
    active: bool = True
    recovered: bool = False
    unmanaged: bool = False
    priority: int = 0
    keeps_containers: bool = False
    expire_time_s: float | None = None
    one_attempt: bool = False

    @property
    def lifetime_s(self) -> int | None:
        """How long the resource manager lets it go on from its submission, waiting included; None: as long as it likes."""
        return None if self.expire_time_s is None else max(0, ceil(self.expire_time_s - self.submit_time_s))
