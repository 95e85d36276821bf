"""Philly: virtual clusters in turn, first come inside one, whole gangs (Jeon et al., ATC 2019, section 2.3).

Whose share of its quota is used least goes next, at each level of the queues; a virtual cluster without a quota comes last. Inside
one it is priority, then first come, and a small job may pass a large one that is blocked. What nobody uses may be borrowed, up to a
maximum. Where the queue says so, users take turns by what they use.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

from yarn_gpu_sched.policy.facts import Facts
from yarn_gpu_sched.policy.group import Group
from yarn_gpu_sched.policy.intent import Intent, Place, Wait
from yarn_gpu_sched.policy.view import View, Want

Turn = tuple[tuple[bool, float, str], ...]
"""Whose turn it is: less goes first. A level of the queues each, from the top, then the user."""


class Philly:
    """See the module. It keeps nothing between passes."""

    name = "philly"
    grouped = True

    def key(self, job: Facts) -> float:
        """Say when a job's turn is inside its virtual cluster: all are equal before the order of submission."""
        del job
        return 0.0

    def decide(self, view: View) -> Iterator[Intent]:
        """Yield an intent for each ready want, always of whom it is the turn now: what was placed counts at once."""
        while groups := view.groups():  # again, if somebody woke in a group in which nobody was ready
            turns = [(turn_of(view, group, view.next_of(group)), group) for group in groups]
            heapify(turns)
            yield from _in_turn(view, turns)


def _in_turn(view: View, turns: list[tuple[Turn, Group]]) -> Iterator[Intent]:
    while turns:
        turn, group = turns[0]
        want = view.next_of(group)
        now = turn_of(view, group, want)
        if want is None:
            heappop(turns)
        elif now != turn:
            heapreplace(turns, (now, group))
        else:
            placement = view.find(want)
            yield Wait(want) if placement is None else Place(want, placement)


def turn_of(view: View, group: Group, first: Want | None) -> Turn:
    """Say when it is a group's turn; ``first`` is its first ready want. What follows a gang waits for no other user (law 4)."""
    turn = []
    for path in group.path:
        used, quota = view.share(path, group.partition)
        turn.append((not quota, used / quota if quota else float(used), path))
    if group.user:
        turn.append((first is None or not first.follows_gang, float(view.used_by(group)), group.user))
    return tuple(turn)
