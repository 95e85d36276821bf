"""What every policy is, and which there are."""

from collections.abc import Callable, Iterator
from typing import Protocol

from yarn_gpu_sched.policy.facts import Facts
from yarn_gpu_sched.policy.fifo import Fifo, FifoStrict, Sjf
from yarn_gpu_sched.policy.intent import Intent
from yarn_gpu_sched.policy.philly import Philly
from yarn_gpu_sched.policy.preemptive import Las, Srtf, Tiresias
from yarn_gpu_sched.policy.view import View


class Policy(Protocol):
    """Decides who goes next. The contract is the docstring of this package."""

    @property
    def name(self) -> str:
        """Its name in settings."""

    def key(self, job: Facts) -> float:
        """Say when a waiting job's turn is: smaller first, after priority and before the order of submission."""

    def decide(self, view: View) -> Iterator[Intent]:
        """Yield what is wanted, one intent after the other, until nothing is left to do in this pass."""


POLICIES: dict[str, Callable[[], Policy]] = {
    made.name: made for made in (Fifo, FifoStrict, Philly, Sjf, Srtf, Las, Tiresias)
}
"""Every policy by its name."""


def policy_named(name: str, step_gpu_s: float | None = None) -> Policy:
    """Make the policy of a name; ``step_gpu_s`` is for those that count attained service.

    Raises ValueError, with the names that there are, or the steps.
    """
    if name not in POLICIES:
        raise ValueError(f'policy "{name}" is not known; there is {", ".join(sorted(POLICIES))}')
    if step_gpu_s is None:
        return POLICIES[name]()
    stepping = {made.name: made for made in (Las, Tiresias)}
    if name not in stepping:
        raise ValueError(f'policy "{name}" counts no attained service; {" and ".join(stepping)} do, in steps')
    return stepping[name](step_gpu_s)
