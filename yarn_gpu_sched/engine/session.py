"""The link to a resource manager, as far as it matters for deciding."""

from yarn_gpu_sched.model.job_record import JobRecord


class Session:
    """Which resource manager is connected, and whether its capacity has settled.

    ``missing`` are the servers that were known before it registered again and are not back yet; ``previous`` are the live jobs of
    before, until the snapshot speaks of them or ends; ``bound`` are the containers of before with their servers.
    """

    __slots__ = (
        "bound",
        "cluster_id",
        "connected",
        "epoch",
        "knew_servers",
        "missing",
        "previous",
        "settled",
        "settles_at_s",
        "snapshot_ended",
        "start_time_ms",
    )

    def __init__(self) -> None:
        self.cluster_id = ""
        self.epoch = 0
        self.start_time_ms = 0
        self.connected = False
        self.snapshot_ended = False
        self.settled = False
        self.settles_at_s = 0.0
        self.knew_servers = False
        self.missing: dict[str, None] = {}
        self.previous: dict[str, JobRecord] = {}
        self.bound: dict[str, str] = {}

    @property
    def deciding(self) -> bool:
        """Whether a pass may decide."""
        return self.connected and self.snapshot_ended

    def settle(self, now_s: float) -> bool:
        """Settle if it is time, or all servers known before are back; tell whether capacity has settled."""
        if not self.settled and self.deciding:
            self.settled = now_s >= self.settles_at_s or (self.knew_servers and not self.missing)
            if self.settled:
                self.missing.clear()
        return self.settled
