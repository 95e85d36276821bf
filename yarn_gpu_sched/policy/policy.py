"""What every policy is, and which there are."""

from collections.abc import Callable, Iterator
from typing import Protocol

from yarn_gpu_sched.policy.arrival import Arrival
from yarn_gpu_sched.policy.intent import Intent
from yarn_gpu_sched.policy.view import View


class Policy(Protocol):
    """Decides who goes next. The contract is the docstring of this package."""

    @property
    def name(self) -> str:
        """Its name in settings."""

    def decide(self, view: View) -> Iterator[Intent]:
        """Yield what is wanted, one intent after the other, until nothing is left to do in this pass."""


POLICIES: dict[str, Callable[[], Policy]] = {Arrival.name: Arrival}
"""Every policy by its name."""


def policy_named(name: str) -> Policy:
    """Make the policy of a name. Raises ValueError, with the names that there are."""
    if name not in POLICIES:
        raise ValueError(f'policy "{name}" is not known; there is {", ".join(sorted(POLICIES))}')
    return POLICIES[name]()
