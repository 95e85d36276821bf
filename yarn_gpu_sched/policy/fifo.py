"""Order of submission, whole gangs or nothing: with and without overtaking; and the shortest job first."""

from collections.abc import Iterator

from yarn_gpu_sched.policy.facts import Facts
from yarn_gpu_sched.policy.intent import Intent, Place, Wait
from yarn_gpu_sched.policy.view import View

NEVER_S = float("inf")


class Fifo:
    """Examines wants in order of submission and places each that fits: later jobs may pass a blocked one.

    A large gang may be passed for ever by smaller ones: nothing is reserved for it. It keeps nothing between passes.
    """

    name = "fifo"

    def key(self, job: Facts) -> float:
        """Say when a job's turn is: all are equal before the order of submission."""
        del job
        return 0.0

    def decide(self, view: View) -> Iterator[Intent]:
        """Yield an intent for each ready want."""
        while (want := view.next_ready()) is not None:
            placement = view.find(want)
            yield Wait(want) if placement is None else Place(want, placement)


class FifoStrict(Fifo):
    """Order of submission without overtaking: it stops at the first that does not fit."""

    name = "fifo_strict"

    def decide(self, view: View) -> Iterator[Intent]:
        """Yield an intent for each want until one has to wait."""
        while (want := view.next_in_order()) is not None:
            placement = view.find(want)
            if placement is None:
                yield Wait(want)
                return
            yield Place(want, placement)


class Sjf(Fifo):
    """The shortest job first, by its declared run time; those that declare none come last. Not preemptive; it passes over."""

    name = "sjf"

    def key(self, job: Facts) -> float:
        """Say how long a job runs."""
        return NEVER_S if job.runtime_s is None else float(job.runtime_s)
