"""What an engine wants done. A driver carries the commands out in order.

A policy's intents become commands only after the engine has checked them. `AnyDecision` lists the decisions: each has an id and
is answered by exactly one `OutcomeReported`. The others tell the driver what it may pass on.
"""

import msgspec

from yarn_gpu_sched.model.assignment import Assignment, Level


class Command(msgspec.Struct, frozen=True, gc=False, tag=True, kw_only=True):
    """Something that a driver must do."""


class PlaceGang(Command, frozen=True, gc=False, tag=True, kw_only=True):
    """Commit all of these containers or none. What they hold counts as in use from here on."""

    decision_id: int
    job_id: str
    attempt: int
    assignments: tuple[Assignment, ...]
    level: Level


class RefuseJob(Command, frozen=True, gc=False, tag=True, kw_only=True):
    """End the job: it can never run. ``diagnostics`` is shown to its submitter."""

    decision_id: int
    job_id: str
    diagnostics: str


class RequeueJob(Command, frozen=True, gc=False, tag=True, kw_only=True):
    """End all containers of this attempt, its master's included: the job starts anew and asks again."""

    decision_id: int
    job_id: str
    attempt: int
    diagnostics: str
    preempted_by: str = ""


class WarnJob(Command, frozen=True, gc=False, tag=True, kw_only=True):
    """Tell the job's master that these containers (none named: all that are live in the attempt) will be stopped. Stops nothing."""

    decision_id: int
    job_id: str
    attempt: int
    container_ids: tuple[str, ...] = ()
    diagnostics: str


class StopContainers(Command, frozen=True, gc=False, tag=True, kw_only=True):
    """Stop exactly these containers, none of them the master's, as preempted: the attempt goes on. All of them or none."""

    decision_id: int
    job_id: str
    attempt: int
    container_ids: tuple[str, ...]
    diagnostics: str


class Bind(Command, frozen=True, gc=False, tag=True, kw_only=True):
    """A container is live on a server with GPUs: these are its GPUs (none for a container without)."""

    container_id: str
    job_id: str
    server_id: str
    gpu_indices: tuple[int, ...]


class Unbind(Command, frozen=True, gc=False, tag=True, kw_only=True):
    """A container is gone: what was made known for it may be removed."""

    container_id: str
    server_id: str


class JobTouched(Command, frozen=True, gc=False, tag=True, kw_only=True):
    """Something that a view of the job shows may have changed; at most once an event and job."""

    job_id: str


class HealthChanged(Command, frozen=True, gc=False, tag=True, kw_only=True):
    """Something of what is known of a host may have changed; at most once an event and host."""

    host: str


AnyDecision = PlaceGang | RefuseJob | RequeueJob | WarnJob | StopContainers
AnyCommand = AnyDecision | Bind | Unbind | JobTouched | HealthChanged
