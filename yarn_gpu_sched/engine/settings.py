"""What may be set about an engine."""

import msgspec

from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.policy import POLICIES


class EngineSettings(msgspec.Struct, frozen=True):
    """Settings of an engine; a replay needs the same ones. Raises ValueError for what is out of range."""

    am_share: float = 0.10
    """Share of the running GPU servers' memory and vcores that application masters may hold there together; 0 to 1. One may
    always run."""

    cpu_share: float = 0.10
    """Share of a GPU server's memory and vcores that is not kept for its free GPUs; 0 to 1."""

    backoff_min_s: float = 0.1
    """Pause after a decision that the resource manager refused, seconds; above 0, at most `backoff_max_s`."""

    backoff_max_s: float = 30.0
    """Longest pause, reached by doubling while a job is refused and asks nothing else, seconds; at most 3600."""

    ended_jobs_max: int = 10_000
    """Ended jobs that are kept to be looked at; 0 to 1,000,000."""

    decisions_per_pass_max: int = 1_024
    """Decisions of one pass; what is left goes on in the next one; 1 to 1,000,000."""

    place_on_cpu_servers: bool = False
    """Whether containers without GPUs are also placed on servers without GPUs. By default these are left to stock placement."""

    repair_hold_s: float = 120.0
    """How long the place of a lost member of a gang is held for its replacement, seconds; 0 to 86,400."""

    requeue_after_s: float = 600.0
    """How long a gang may wait for the replacement of a lost member before it starts anew as a whole, seconds; 1 to 86,400."""

    gang_hold_s: float = 60.0
    """How long GPUs are held for the gang of a master that has GPUs itself, until the gang is asked, seconds; 0 to 60."""

    gather_s: float = 4.0
    """How long the asks of a job without a gang tag must not change before they are taken as a gang, where its virtual cluster
    debounces, seconds; 4 to 600."""

    relax_after_s: float = 0.0
    """How long a gang waits at a level of locality before the next, seconds; 0, or 0.001 to 86,400. 0: it takes what there is
    at once."""

    relax_after_max_s: float = 3_600.0
    """Most seconds at a level that a job's own tag may say, where its virtual cluster does not; 0 to 31,536,000."""

    preemption: Mode = Mode.OFF
    """Whether borrowed jobs are stopped for those within their quota (law 7): "off", "observe" (it is shown who would be) or "on";
    until an operator says otherwise."""

    preempt_threshold_percent: int = 90
    """Nobody is stopped while less of a partition's GPUs are in use, percent; 90 to 100."""

    preempt_after_s: float = 120.0
    """How long a gang waits, complete, before others are stopped for it, seconds; 0 to 86,400."""

    preempt_grace_s: float = 30.0
    """How long a job is warned before it is stopped, seconds; 0 to 3,600."""

    preempt_hold_s: float = 120.0
    """How long what a stopped job leaves is held for the gang, seconds; 1 to 3,600."""

    preempt_min_run_s: float = 600.0
    """How long a job runs before it may be stopped, seconds; 0 to 31,536,000."""

    preempt_spare_after: int = 3
    """A job that was stopped so often is spared; 0 to 1,000."""

    preempt_victims_per_minute: int = 16
    """Most jobs, or single containers, that are stopped in a minute; 1 to 10,000."""

    preempt_pause_s: float = 120.0
    """How long nobody is stopped after a resource manager registered, seconds; 0 to 86,400."""

    reserve_after_s: float = 0.0
    """How long a gang waits, complete, before places are kept for it (law 9), seconds; 0: never, or 1 to 31,536,000."""

    suspect_after_readings: int = 3
    """Bad readings in a row after which a GPU is suspect; 1 to 1,000."""

    ok_after_s: float = 60.0
    """How long a GPU, or a server's telemetry, reads well before it counts as well again, seconds; 0 to 86,400."""

    quarantine_after_s: float = 60.0
    """How long a suspect GPU reads badly before it is quarantined, seconds; 1 to 86,400."""

    zombie_alarm_s: float = 60.0
    """How long a GPU that was given back may be held by somebody before it counts as faulty, seconds; 1 to 86,400."""

    policy: str = "fifo"
    """Name of the policy."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        _between("am_share", self.am_share, 0, 1)
        _between("cpu_share", self.cpu_share, 0, 1)
        _between("backoff_max_s", self.backoff_max_s, 0.001, 3600)
        _between("backoff_min_s", self.backoff_min_s, 0.001, self.backoff_max_s)
        _between("ended_jobs_max", self.ended_jobs_max, 0, 1_000_000)
        _between("decisions_per_pass_max", self.decisions_per_pass_max, 1, 1_000_000)
        _between("repair_hold_s", self.repair_hold_s, 0, 86_400)
        _between("requeue_after_s", self.requeue_after_s, 1, 86_400)
        _between("gang_hold_s", self.gang_hold_s, 0, 60)
        _between("gather_s", self.gather_s, 4, 600)
        if self.relax_after_s:
            _between("relax_after_s", self.relax_after_s, 0.001, 86_400)
        _between("relax_after_max_s", self.relax_after_max_s, 0, 31_536_000)
        _between("preempt_threshold_percent", self.preempt_threshold_percent, 90, 100)
        _between("preempt_after_s", self.preempt_after_s, 0, 86_400)
        _between("preempt_grace_s", self.preempt_grace_s, 0, 3_600)
        _between("preempt_hold_s", self.preempt_hold_s, 1, 3_600)
        _between("preempt_min_run_s", self.preempt_min_run_s, 0, 31_536_000)
        _between("preempt_spare_after", self.preempt_spare_after, 0, 1_000)
        _between("preempt_victims_per_minute", self.preempt_victims_per_minute, 1, 10_000)
        _between("preempt_pause_s", self.preempt_pause_s, 0, 86_400)
        if self.reserve_after_s:
            _between("reserve_after_s", self.reserve_after_s, 1, 31_536_000)
        _between("suspect_after_readings", self.suspect_after_readings, 1, 1_000)
        _between("ok_after_s", self.ok_after_s, 0, 86_400)
        _between("quarantine_after_s", self.quarantine_after_s, 1, 86_400)
        _between("zombie_alarm_s", self.zombie_alarm_s, 1, 86_400)
        if self.policy not in POLICIES:
            raise ValueError(f'policy "{self.policy}" is not known; there is {", ".join(sorted(POLICIES))}')


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} {value} is out of range; it must be from {low} to {high}")
