"""Why a job waits."""

import enum

import msgspec


class ReasonCode(enum.Enum):
    """Why a job waits; bounded, so it may be a metric's label."""

    NOT_ASKED = "not_asked"
    GANG_INCOMPLETE = "gang_incomplete"
    AM_LIMIT = "am_limit"
    VC_QUOTA = "vc_quota"
    VC_MAXIMUM = "vc_maximum"
    USER_LIMIT = "user_limit"
    CLUSTER_FULL = "cluster_full"
    HELD = "held"
    RESERVED = "reserved"
    UNHEALTHY = "unhealthy"
    FRAGMENTED = "fragmented"
    OTHER_RESOURCES = "other_resources"
    NEVER_FITS_NOW = "never_fits_now"
    REFUSED_BY_RM = "refused_by_rm"
    NO_RESOURCE_MANAGER = "no_resource_manager"
    DECIDED = "decided"
    REFUSED = "refused"
    GANG_DEGRADED = "gang_degraded"
    GATHERING = "gathering"
    CONFINED = "confined"


class WaitingReason(msgspec.Struct, frozen=True, gc=False):
    """A reason with its numbers: what must be had at once, what is free and on how many servers."""

    code: ReasonCode
    sentence: str
    gpus_asked: int = 0
    containers_asked: int = 0
    gpus_free: int = 0
    servers_free: int = 0


class ReasonSince(msgspec.Struct, frozen=True, gc=False):
    """Since when a job has waited for a reason, by the driver's clock."""

    code: ReasonCode
    since_us: int

    @property
    def since_s(self) -> float:
        """The same in seconds."""
        return self.since_us / 1_000_000
