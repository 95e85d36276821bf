"""What became of a decision."""

import enum


class OutcomeCode(enum.Enum):
    """Why a resource manager did, or did not do, what was decided."""

    COMMITTED = "committed"
    STALE_EPOCH = "stale_epoch"
    NO_ATTEMPT = "no_attempt"
    NO_ASK = "no_ask"
    SERVER_GONE = "server_gone"
    NO_FIT = "no_fit"
    QUEUE_LIMIT = "queue_limit"
    BLACKLISTED = "blacklisted"
    LABEL = "label"
    NOT_READY = "not_ready"
    INVALID = "invalid"
    COMMIT_FAILED = "commit_failed"


COMMITTED = OutcomeCode.COMMITTED
"""For code that runs for every decision: to look it up in its class takes ten times as long."""
