"""The first policy: order of submission, whole gangs or nothing, later jobs may pass a blocked one."""

from collections.abc import Iterator

from yarn_gpu_sched.policy.intent import Intent, Place, Wait
from yarn_gpu_sched.policy.view import View


class Arrival:
    """Examines wants in their order (see `View.next_ready`) and places each that fits. It keeps nothing between passes.

    A large gang may be passed for ever by smaller ones: nothing is reserved for it.
    """

    name = "arrival"

    def decide(self, view: View) -> Iterator[Intent]:
        """Yield an intent for each ready want."""
        while (want := view.next_ready()) is not None:
            placement = view.find(want)
            yield Wait(want) if placement is None else Place(want, placement)
