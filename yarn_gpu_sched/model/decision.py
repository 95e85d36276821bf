"""A decision under way: sent, its outcome not yet known."""

import msgspec

from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.assignment import Assignment, Level
from yarn_gpu_sched.model.resource import NOTHING, Resource
from yarn_gpu_sched.model.server_use import Part

AskKey = tuple[RequestKey, Resource, bool]
"""What tells one ask of a job from another: two sizes may share a request key, and a master may share it with workers."""


class Decision(msgspec.Struct, eq=False):
    """What was decided, and what it holds until its outcome is known.

    ``parts`` is empty for a refusal. ``lost`` names the servers that vanished meanwhile: nothing is held there any more.
    ``members`` are the asks that it answers, with the containers of each. ``gang`` tells that it places the job's gang,
    ``application_master`` that it places the job's master. With ``hold_until_s`` it was not sent: it keeps a place for the
    replacement of a member that was lost. ``requeue``: it orders the job to start anew.
    ``warning``: it tells the job that it will be stopped; ``stops``: it stops single containers of it.
    """

    decision_id: int
    job_id: str
    attempt: int
    assignments: tuple[Assignment, ...] = ()
    level: Level = Level.FEWEST_SERVERS
    parts: list[Part] = []
    lost: set[str] = set()
    gang: bool = False
    application_master: bool = False
    members: tuple[tuple[AskKey, int], ...] = ()
    total: Resource = NOTHING
    hold_until_s: float | None = None
    requeue: bool = False
    warning: bool = False
    stops: bool = False

    @property
    def held(self) -> Resource:
        """What its parts hold: all of it, but for servers that vanished."""
        if not self.lost:
            return self.total
        return Resource(
            sum(part.memory_mb for part in self.parts),
            sum(part.vcores for part in self.parts),
            sum(part.gpus for part in self.parts),
        )

    @property
    def refusal(self) -> bool:
        """Tell whether this is an order to end the job."""
        return not self.assignments
