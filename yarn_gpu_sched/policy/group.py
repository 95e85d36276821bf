"""Whose wants stand together."""

from typing import NamedTuple

from yarn_gpu_sched.policy.facts import Facts


class Group(NamedTuple):
    """The jobs of a virtual cluster that ask for one partition; of one user, where users take turns or have a limit of their own.

    ``path`` names the queues from the one below the root down to the virtual cluster. ``by_user``: each user stands apart.
    ``turns``: they take turns by what they use; else all go in one order.
    """

    partition: str
    path: tuple[str, ...]
    user: str = ""
    by_user: bool = False
    turns: bool = False

    @property
    def vc(self) -> str:
        """The virtual cluster."""
        return self.path[-1]


TOGETHER = Group("", ())
"""All jobs: where a policy does not go by virtual clusters."""


def together(job: Facts, partition: str) -> Group:
    """Let all jobs stand together."""
    del job, partition
    return TOGETHER
