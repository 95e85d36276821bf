"""What a job held and asked before its resource manager began anew, set against what it asks afterwards."""

from collections.abc import Iterable

import msgspec

from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.decision import AskKey

Counts = dict[AskKey, int]

REPEATED_WITHIN_S = 120.0
"""What is asked later after a resource manager began anew is meant: masters find it again within half a minute by default
(`yarn.resourcemanager.connect.retry-interval.ms`), and then ask at once."""


class Resync(msgspec.Struct, eq=False):
    """Asks are totals, and a new resource manager knows none of them: the master sends them again.

    A careful one asks what it still lacks. Another repeats all that it ever asked, also what containers that came back meet
    already. An ask is taken for repeated if it is the first at its key, comes before ``until_s`` and counts at least what was held
    and pending ``before``; of it as many are ``surplus`` as the job holds. They stay so while the ask is served and grows, until
    the master asks less there. Nothing tells a careful master that wants as much again as it had from one that repeats.
    """

    before: Counts
    until_s: float
    surplus: Counts = {}

    def comes_back(self, key: AskKey) -> None:
        """Count a container that outlived the resource manager and is told of after the ask that it meets."""
        if key in self.surplus:
            self.surplus[key] += 1

    def was_made(self, key: AskKey) -> None:
        """Take back that a container came back: it was told of before the outcome of the decision that made it."""
        if self.surplus.get(key):
            self.surplus[key] -= 1

    def hear(self, asked: Counts, known: Counts, held: Counts, now_s: float) -> None:
        """Take what is asked now. ``known`` was asked before, less what was committed since; ``held`` are the live members."""
        self.surplus = {
            key: min(surplus, asked[key])
            for key, surplus in self.surplus.items()
            if asked.get(key, 0) >= max(1, known.get(key, 0))
        }
        for key in [key for key in self.before if key in asked]:
            if asked[key] >= self.before.pop(key) and now_s <= self.until_s:
                self.surplus[key] = held.get(key, 0)


def counts(asks: Iterable[Ask]) -> Counts:
    """Count what is asked with GPUs."""
    return {(ask.key, ask.resource, ask.application_master): ask.count for ask in asks if ask.resource.gpus}
