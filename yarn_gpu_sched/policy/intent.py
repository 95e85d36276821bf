"""What a policy wants done with a want that it was given."""

import msgspec

from yarn_gpu_sched.placement.placement import Placement
from yarn_gpu_sched.policy.view import Want


class Place(msgspec.Struct, frozen=True, gc=False):
    """Put the whole want there. The engine checks that the place is still free and that nothing is missing."""

    want: Want
    placement: Placement


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """End the job: what it wants can never be had. The text is shown to its submitter."""

    want: Want
    diagnostics: str


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Let the want, and all that are equal to it, wait until something that they wait for is freed."""

    want: Want


class Preempt(msgspec.Struct, frozen=True, gc=False):
    """Stop a running gang, whole, for a want; its job starts anew and asks again."""

    job_id: str
    want: Want


class Reclaim(msgspec.Struct, frozen=True, gc=False):
    """Let borrowed jobs be stopped for a gang that waits within its quota, by law 7; the engine finds whom, if anybody."""

    want: Want


class WakeAt(msgspec.Struct, frozen=True, gc=False):
    """Decide again then, even if nothing happens. Of several in a pass the last counts."""

    time_s: float


Intent = Place | Preempt | Reclaim | Refuse | Wait | WakeAt
