"""How much an engine has done. Not part of its state: a replay may count otherwise."""

from yarn_gpu_sched.placement.visits import Visits


class Counters:
    """Counts since the engine was made. ``rejected`` are intents of the policy that the engine did not carry out.

    ``preempted`` counts jobs and single containers that were stopped for others, ``observed`` gangs for which some would have been.
    ``reserved`` counts gangs that got a reservation, ``passed`` decisions that went on what is kept for such.
    """

    __slots__ = (
        "_visits",
        "decisions",
        "events",
        "observed",
        "passed",
        "passes",
        "preempted",
        "refusals",
        "rejected",
        "reserved",
        "searches",
    )

    def __init__(self, visits: Visits) -> None:
        self._visits = visits
        self.events = 0
        self.passes = 0
        self.searches = 0
        self.decisions = 0
        self.refusals = 0
        self.preempted = 0
        self.observed = 0
        self.rejected = 0
        self.reserved = 0
        self.passed = 0

    @property
    def index_entries_visited(self) -> int:
        """Entries of the placement index that searches looked at: the work that must not grow with the cluster."""
        return self._visits.entries
