"""Why jobs wait, by cause: how long, and how many (Jeon et al., ATC 2019, section 3.1; the paper tells two causes apart).

Fair-share delay is the tenant's share being used up; the paper counts capacity delay, when others hold what is within the quota, as
such too. Fragmentation delay is waiting although enough GPUs are free. The rest is not the cluster's doing.
"""

import enum
from bisect import bisect_left

import msgspec

from yarn_gpu_sched.model.reason import ReasonCode


class Cause(enum.IntEnum):
    """What a wait is counted as; the number is its place among the figures."""

    FAIR_SHARE = 0
    CAPACITY = 1
    FRAGMENTATION = 2
    OTHER = 3


CAUSES: dict[ReasonCode, Cause] = dict.fromkeys(ReasonCode, Cause.OTHER) | {
    ReasonCode.VC_QUOTA: Cause.FAIR_SHARE,
    ReasonCode.VC_MAXIMUM: Cause.FAIR_SHARE,
    ReasonCode.USER_LIMIT: Cause.FAIR_SHARE,
    ReasonCode.CLUSTER_FULL: Cause.CAPACITY,
    ReasonCode.HELD: Cause.CAPACITY,
    ReasonCode.RESERVED: Cause.CAPACITY,
    ReasonCode.UNHEALTHY: Cause.CAPACITY,
    ReasonCode.FRAGMENTED: Cause.FRAGMENTATION,
    ReasonCode.OTHER_RESOURCES: Cause.FRAGMENTATION,
    ReasonCode.CONFINED: Cause.FRAGMENTATION,
}
"""The cause of each reason."""

SIZES = ("0", "1", "2-4", "5-8", ">8")
"""GPUs at once, as waits are told apart by them; the paper's buckets, and jobs without GPUs."""

_LARGEST = (0, 1, 4, 8)


def size_of(gpus: int) -> str:
    """Name the bucket of so many GPUs at once."""
    return SIZES[bisect_left(_LARGEST, gpus)]


class Delays(msgspec.Struct, frozen=True, gc=False):
    """How long was waited, by cause, in microseconds: whole numbers, so that their sum is the same in every order."""

    fair_share_us: int = 0
    capacity_us: int = 0
    fragmentation_us: int = 0
    other_us: int = 0

    @property
    def total_us(self) -> int:
        """All of the wait."""
        return self.fair_share_us + self.capacity_us + self.fragmentation_us + self.other_us

    def plus(self, other: "Delays") -> "Delays":
        """Add."""
        return Delays(
            self.fair_share_us + other.fair_share_us,
            self.capacity_us + other.capacity_us,
            self.fragmentation_us + other.fragmentation_us,
            self.other_us + other.other_us,
        )

    @property
    def mostly(self) -> Cause | None:
        """The cause that took longest, the first of equal ones; None if there was no wait."""
        by_cause = (self.fair_share_us, self.capacity_us, self.fragmentation_us, self.other_us)
        most = max(by_cause)
        return Cause(by_cause.index(most)) if most else None


NO_DELAYS = Delays()


class Totals(msgspec.Struct, eq=False):
    """Waits that have ended: how many, how long together, and how many took longest by each cause."""

    waits: int = 0
    delays: Delays = NO_DELAYS
    mostly: list[int] = msgspec.field(default_factory=lambda: [0] * len(Cause))

    def count(self, delays: Delays) -> None:
        """Count one."""
        self.waits += 1
        mostly = None if delays is NO_DELAYS else delays.mostly
        if mostly is not None:
            self.delays = self.delays.plus(delays)
            self.mostly[mostly] += 1
