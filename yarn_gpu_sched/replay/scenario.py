"""What a replay takes for right because no trace says it."""

import msgspec

from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.replay.layout import ListedServer, domain_size, uniform
from yarn_gpu_sched.replay.quotas import Quotas
from yarn_gpu_sched.replay.simulation import Overheads
from yarn_gpu_sched.replay.summary import counted

RELAX_AFTER_S = 150.0
"""Jeon et al. (ATC 2019): a gang waits two to three minutes at a level of locality."""

COST_MIN_S = 0.001
COST_MAX_S = 10_000_000.0


class Scenario(msgspec.Struct, frozen=True):
    """A cluster and what it costs to stop a job. Raises ValueError for what is out of range.

    ``servers``: "60x8", or the servers of a list. ``domains``: RDMA domains that they are dealt to in order, as `servers_of` does.
    ``relax_after_s``: how long a gang waits at a level of locality before the next; 0: it takes what there is.
    ``restart_cost_s``: time without work at each new start of a job. ``checkpoint_every_s``: work since the last checkpoint is
    lost when a job is stopped; 0: nothing is lost, or all of it where ``preemption`` stops borrowed jobs for gangs within their
    quota (law 7), ``grace_s`` after they are warned. ``reserve_after_s``: places are kept for a gang that has waited so long
    (law 9); 0: never.
    """

    servers: str | tuple[ListedServer, ...]
    domains: int = 1
    relax_after_s: float = RELAX_AFTER_S
    restart_cost_s: float = 0.0
    checkpoint_every_s: float = 0.0
    quotas: Quotas | None = None
    preemption: bool = False
    grace_s: float = 0.0
    reserve_after_s: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        domain_size(len(self.gpus), self.domains)
        self.engine_settings  # noqa: B018 - it checks the ranges
        for name in ("restart_cost_s", "checkpoint_every_s"):
            value = getattr(self, name)
            if value != 0 and not COST_MIN_S <= value <= COST_MAX_S:
                raise ValueError(f"{name} {value}: 0, or {COST_MIN_S} to {COST_MAX_S:.0f}, would be right")

    @property
    def gpus(self) -> list[int]:
        """The GPUs of each server."""
        return uniform(self.servers) if isinstance(self.servers, str) else [server.gpus for server in self.servers]

    @property
    def overheads(self) -> Overheads:
        """What stopping a job costs."""
        return Overheads(self.restart_cost_s, self.checkpoint_every_s, loses_all=self.preemption)

    @property
    def engine_settings(self) -> EngineSettings:
        """Settings for the engine. There is no start of a service after which nobody would be stopped."""
        return EngineSettings(
            relax_after_s=self.relax_after_s,
            ended_jobs_max=0,
            preemption=Mode.ON if self.preemption else Mode.OFF,
            preempt_grace_s=self.grace_s,
            preempt_pause_s=0.0,
            reserve_after_s=self.reserve_after_s,
        )

    def assumed(self) -> list[str]:
        """Say it, a sentence each, with the option that changes it."""
        gpus = self.gpus
        size = domain_size(len(gpus), self.domains)
        option = "--servers" if isinstance(self.servers, str) else "--server-list"
        most = "up to " if len(gpus) % size else ""
        domains = (
            f"RDMA domains of {most}{counted(size, 'server')} each, in the servers' order: {-(-len(gpus) // size)}"
        )
        ladder = f"waits {self.relax_after_s:g} s at a level of locality before the next"
        said = [
            f"{counted(len(gpus), 'server')}, {counted(sum(gpus), 'GPU')} ({option})",
            f"{domains} (--domains)",
            f"a gang {ladder if self.relax_after_s else 'takes the tightest places there are'} (--relax-after)",
            f"a job that is stopped {self._stopped()} (--checkpoint-every, --restart-cost)",
            "a job of N GPUs is a gang of N members of one GPU; processors and memory never lack",
            "how long a job runs is known to policies that ask for it",
        ]
        if self.quotas is not None:
            said += [
                *self.quotas.assumed,
                "quotas are those of the file (--quotas)",
                self._reclaims(),
                self._reserves(),
            ]
        return said

    def _reclaims(self) -> str:
        if not self.preemption:
            return "what is borrowed is never taken back (--preemption)"
        settings = self.engine_settings
        who = f"jobs that borrow and ran {settings.preempt_min_run_s:g} s"
        when = (
            f"waited {settings.preempt_after_s:g} s while {settings.preempt_threshold_percent} % of the GPUs are in use"
        )
        grace = f", {self.grace_s:g} s after a warning (--grace)" if self.grace_s else ""
        most = f"each at most {settings.preempt_spare_after} times"
        return f"{who} are stopped{grace} for a gang within its quota that {when}, {most}"

    def _reserves(self) -> str:
        if not self.reserve_after_s:
            return "no places are kept for a gang that waits long (--reserve-after)"
        return f"places are kept for a gang that has waited {self.reserve_after_s:g} s (--reserve-after)"

    def _stopped(self) -> str:
        kept = "loses all its work" if self.preemption else "keeps all its work"
        if self.checkpoint_every_s:
            kept = f"keeps its work up to the last checkpoint, one every {self.checkpoint_every_s:g} s,"
        cost = f"after {self.restart_cost_s:g} s without work" if self.restart_cost_s else "at no cost"
        return f"{kept} and resumes anywhere {cost}"
