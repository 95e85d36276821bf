"""Philly: virtual clusters in turn, first come inside one, whole gangs (Jeon et al., ATC 2019, section 2.3).

Whose share of its quota is used least goes next, at each level of the queues; a virtual cluster without a quota comes last. Inside
one it is priority, then first come, and a small job may pass a large one that is blocked. What nobody uses may be borrowed, up to a
maximum. Where the queue says so, users take turns by what they use.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

from yarn_gpu_sched.model.shares import lineage
from yarn_gpu_sched.policy.facts import Facts
from yarn_gpu_sched.policy.group import Group
from yarn_gpu_sched.policy.intent import Intent, Place, Reclaim, Wait
from yarn_gpu_sched.policy.view import View, Want

Turn = tuple[tuple[bool, float, str], ...]
"""Whose turn it is: less goes first. A level of the queues each, from the top, then the user or the place of its first job."""

Queue = tuple[tuple[str, ...], str]
"""A virtual cluster by its path, and a partition."""


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
            yield from _alone(view, groups[0]) if len(groups) == 1 else _Round(view, groups).intents()
        for want in sorted(view.reclaiming(), key=lambda want: _reclaims(view, want)):
            yield Reclaim(want)


def _alone(view: View, group: Group) -> Iterator[Intent]:
    """Let the only group in which somebody is ready have its turn."""
    while (want := view.next_of(group)) is not None:
        placement = view.find(want)
        yield Wait(want) if placement is None else Place(want, placement)


def _reclaims(view: View, want: Want) -> tuple[Turn, float, float, str]:
    """Say when it is a gang's turn to take back what others borrowed."""
    job, path = want.job, lineage(want.vc)
    return _shares(view, path, want.partition), -job.priority, job.submit_time_s, job.job_id


class _Round:
    """The queues in which somebody is ready, in turn, and in each its users. What they use changes only when something is placed.

    What is placed changes the turn of many queues, but of few users: so those are only compared inside their queue.
    """

    def __init__(self, view: View, groups: list[Group]) -> None:
        self._view = view
        self._placed = 0
        self._counted: dict[Queue, tuple[int, Turn]] = {}
        self._users: dict[Queue, list[tuple[Turn, Group]]] = {}
        for group in groups:
            first = view.next_of(group)
            if first is not None:
                self._users.setdefault((group.path, group.partition), []).append((self._own_turn(group, first), group))
        for users in self._users.values():
            heapify(users)
        self._turns = [(self._turn(queue), queue) for queue in self._users]
        heapify(self._turns)

    def intents(self) -> Iterator[Intent]:
        view, turns = self._view, self._turns
        while turns:
            turn, queue = turns[0]
            want = self._first(queue)
            if want is None:
                heappop(turns)
            elif (now := self._turn(queue)) != turn:
                heapreplace(turns, (now, queue))
            else:
                placement = view.find(want)
                self._placed += placement is not None
                yield Wait(want) if placement is None else Place(want, placement)

    def _first(self, queue: Queue) -> Want | None:
        """Give the first want of the user whose turn it is."""
        users = self._users[queue]
        while users:
            turn, group = users[0]
            want = self._view.next_of(group)
            if want is None:
                heappop(users)
            elif (now := self._own_turn(group, want)) != turn:
                heapreplace(users, (now, group))
            else:
                return want
        return None

    def _turn(self, queue: Queue) -> Turn:
        """Say when it is a queue's turn: by its shares, then by its first user's turn."""
        known = self._counted.get(queue)
        if known is None or known[0] != self._placed:
            known = self._counted[queue] = (self._placed, _shares(self._view, *queue))
        return known[1] + self._users[queue][0][0]

    def _own_turn(self, group: Group, first: Want) -> Turn:
        """Say when it is a user's turn; ``first`` is the first ready want. What follows a gang waits for no other user (law 4)."""
        if not group.by_user:
            return ()
        if group.turns:
            return ((not first.follows_gang, float(self._view.used_by(group)), group.user),)
        job = first.job
        place = (not first.follows_gang, float(-job.priority), ""), (False, job.submit_time_s, job.job_id)
        return ((False, 0.0, group.partition), *place)


def _shares(view: View, path: tuple[str, ...], partition: str) -> Turn:
    """Say how much of its quota each queue uses, from the top."""
    turn = []
    for name in path:
        used, quota = view.share(name, partition)
        turn.append((not quota, used / quota if quota else float(used), name))
    return tuple(turn)
