"""What a job held and asked before its resource manager began anew, set against what it asks afterwards."""

from collections.abc import Iterable

import msgspec

from yarn_gpu_sched.model.ask import Ask
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.decision import AskKey

Counts = dict[AskKey, int]

REPEATED_WITHIN_S = 120.0
"""What is asked later after a resource manager began anew is meant: masters find it again within half a minute by default
(`yarn.resourcemanager.connect.retry-interval.ms`), and then ask at once."""


class Resync(msgspec.Struct, eq=False):
    """Asks are totals, and a new resource manager knows none of them: the master sends them again.

    A careful one asks what it still lacks. Another repeats all that it ever asked, also what containers that came back meet
    already; such an ask is told by its count, which is at least what was held and pending ``before``, and by its coming before
    ``until_s``. ``surplus`` is what must not be met of each ask, until the master asks something else there. ``back``: containers
    that came back; ``returning`` while more of them may. ``told``: what was asked when the service lost sight of the job and its
    resource manager went on.
    """

    before: Counts
    until_s: float
    back: Counts = {}
    surplus: Counts = {}
    told: Counts | None = None
    heard: bool = False
    returning: bool = True

    def comes_back(self, container: Container) -> None:
        """Count a container that outlived the resource manager."""
        key = (container.key, container.resource, container.application_master)
        if self.returning and key in self.before:
            self.back[key] = self.back.get(key, 0) + 1
            if key in self.surplus:
                self.surplus[key] += 1

    def hear(self, asks: Iterable[Ask], known: Iterable[Ask], now_s: float) -> None:
        """Take the asks that are told now. ``known`` are those told before, less what was committed since."""
        now = counts(asks)
        if self.heard:
            self.surplus = {key: left for key, left in self.surplus.items() if self._unchanged(key, now, known)}
            self.told = None
        elif now:
            self.heard = True
            before = self.before if now_s <= self.until_s else {}
            repeated = {key: count for key, count in before.items() if now.get(key, 0) >= count}
            self.surplus = {key: self.back.get(key, 0) for key in repeated}

    def _unchanged(self, key: AskKey, now: Counts, known: Iterable[Ask]) -> bool:
        if self.told is not None:  # what was committed unseen is off already
            return now.get(key, 0) <= self.told.get(key, 0)
        return now.get(key) == counts(known).get(key)

    def lose_sight(self, asks: Iterable[Ask]) -> None:
        """Note that the same resource manager tells all anew: its containers do not come back, they were never gone."""
        self.returning = False
        self.told = counts(asks)


def counts(asks: Iterable[Ask]) -> Counts:
    """Count what is asked with GPUs."""
    return {(ask.key, ask.resource, ask.application_master): ask.count for ask in asks if ask.resource.gpus}
