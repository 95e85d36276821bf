"""Sees that a replay comes to an end, whatever a policy does."""

STOPS_WITHOUT_END_MAX = 10_000
"""Preemptions in which no job ends or gets on, at least; or a hundred for each job that lives, if those are more."""

IDLE_INSTANTS_MAX = 1_000_000
"""Instants in which nothing starts or ends, at least; or ten for each job of the trace, if those are more."""


class StalledError(ValueError):
    """The replay would never end: jobs stop each other for ever, or are left waiting."""


class Stalling:
    """Counts what happens to so many jobs under a policy. Raises StalledError."""

    def __init__(self, jobs: int, policy: str) -> None:
        self._idle_most = max(IDLE_INSTANTS_MAX, 10 * jobs)
        self._policy = policy
        self._stops = 0
        self._idle = 0
        self._sequence = 0

    def ended(self) -> None:
        """Count the end of a job."""
        self._stops = 0

    def stopped(self, living: int, kept_s: float, now_s: float) -> None:
        """Count a preemption while so many jobs live; one that keeps some of the job's work brings its end nearer."""
        self._stops = 0 if kept_s > 0 else self._stops + 1
        if self._stops > max(STOPS_WITHOUT_END_MAX, 100 * living):
            what = f"no job ended or got on in {self._stops} preemptions, the last at {now_s:.0f} s"
            raise StalledError(
                f"{what}: jobs lose all they do; more checkpoints or a smaller restart cost would be right"
            )

    def instant(self, sequence: int, now_s: float) -> None:
        """Count an instant; ``sequence`` grows with each start and end of an attempt."""
        self._idle = 0 if sequence != self._sequence else self._idle + 1
        self._sequence = sequence
        if self._idle > self._idle_most:
            what = f"nothing started or ended in {self._idle} instants, the last at {now_s:.0f} s"
            raise StalledError(f"{what}: policy {self._policy} wakes for nothing")

    def over(self, living: int, now_s: float) -> None:
        """See that nobody lives when nothing can happen any more."""
        if living:
            what = f"nothing happens after {now_s:.0f} s, and not all jobs have ended, {living} live"
            raise StalledError(f"{what}: policy {self._policy} leaves them waiting for ever")
