"""What a policy wants done with a want that it was given."""

from typing import NamedTuple

from yarn_gpu_sched.placement.placement import Placement
from yarn_gpu_sched.policy.view import Want


class Place(NamedTuple):
    """Put the whole want there. The engine checks that the place is still free and that nothing is missing."""

    want: Want
    placement: Placement


class Refuse(NamedTuple):
    """End the job: what it wants can never be had. The text is shown to its submitter."""

    want: Want
    diagnostics: str


class Wait(NamedTuple):
    """Let the want, and all that are equal to it, wait until something that they wait for is freed."""

    want: Want


Intent = Place | Refuse | Wait
