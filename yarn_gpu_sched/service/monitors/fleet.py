"""All node monitors: what each told, what each is to be told, and who has fallen silent.

Whatever the engine has to know goes through the driver's queue, a bounded number of monitors at a time; the others wait for their
turn, and what they send meanwhile waits in their streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import structlog

from yarn_gpu_sched.engine import Engine, commands, events
from yarn_gpu_sched.model.health import Telemetry
from yarn_gpu_sched.service.checkpoint_watch import Tell
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.means import Means
from yarn_gpu_sched.service.monitors.orders import Orders, binding_message
from yarn_gpu_sched.service.monitors.telemetry import HostTelemetry, Idle
from yarn_gpu_sched.service.refusal import Refusal

LOOK_S = 1.0
TELLING_MAX = 64
"""Monitors whose news are in the driver's queue at a time."""
HOSTS_MAX = 16_384


_log = structlog.get_logger(__name__)


class Limits(msgspec.Struct, frozen=True):
    """What counts as free, as not used, and as silent.

    A GPU on which no process is listed is free with up to so much memory in use, MiB; it is not used below so many percent for so
    many seconds; a server whose monitor was not heard for so many seconds is silent. ``bad_readings``: so many in a row the engine
    wants to hear of.
    """

    free_memory_mb_max: int = 512
    idle_below_percent: int = 5
    idle_after_s: float = 1_800.0
    silent_after_s: float = 30.0
    bad_readings: int = 3


class Fleet:
    """Knows the telemetry and the orders of every server that has, or had, a monitor. Lives on the event loop's thread alone.

    ``bound_s``: since when each container has its GPUs, as far as this service knows. ``connected``: monitors that are.
    ``keeps_means``: whether somebody wants to know how much GPUs were used in a stretch of time.
    """

    def __init__(self, engine: Engine, clock: Clock, metrics: Metrics, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.hosts: dict[str, HostTelemetry] = {}
        self.idle = Idle(limits.idle_below_percent, limits.idle_after_s)
        self._engine = engine
        self._clock = clock
        self._metrics = metrics
        self._silent_after_s = limits.silent_after_s
        self._free_memory_mb_max = limits.free_memory_mb_max
        self._bad_readings = limits.bad_readings
        self._orders: dict[str, Orders] = {}
        self._host_of: dict[str, str] = {}
        self.bound_s: dict[str, float] = {}
        self._rebound: dict[str, dict[str, None]] = {}
        self.connected = 0
        self.keeps_means = False
        self._complete = False
        self._settled_s = 0.0
        self._settling: Timer | None = None
        self._timer: Timer | None = None
        self._tell: Tell | None = None
        self._turns = asyncio.Semaphore(TELLING_MAX)
        self._silencing: asyncio.Task[None] | None = None

    # Telemetry

    def start(self, tell: Tell) -> None:
        """Take monitors, and look who has fallen silent, until `stop`."""
        self._tell = tell
        self._look()

    def stop(self) -> None:
        """Look no more."""
        for timer in (self._timer, self._settling):
            if timer is not None:
                timer.cancel()
        if self._silencing is not None:
            self._silencing.cancel()

    def join(self, host: str) -> tuple[HostTelemetry, Orders]:
        """Take a server's monitor; what containers it has there it is told anew, and whose end no monitor has confirmed."""
        known = self.hosts.get(host)
        if known is None:
            self._forget_one()
            known = self.hosts[host] = HostTelemetry(
                host, self._free_memory_mb_max, self.idle.below_percent, self._bad_readings
            )
            known.heard_s = self._clock.now_s()
            known.means = Means() if self.keeps_means else None
            self._orders[host] = Orders()
            for container in self._engine.containers_on(host):
                self._rebound.setdefault(container.job_id, {})[container.container_id] = None
            self.flush()
        orders = self._orders[host]
        for container_id in self._engine.not_seen_free(host):
            orders.unbind(container_id)
        orders.begin(complete=self._complete)
        return known, orders

    async def leave(self, host: str) -> None:
        """Forget a server by a name that is not the one it has: nobody speaks for that."""
        self.hosts.pop(host, None)
        self._orders.pop(host, None)
        await self.tell([events.TelemetryChanged(now_s=self._clock.now_s(), host=host, telemetry=Telemetry.NONE)])

    def _forget_one(self) -> None:
        """Make room for another server: of those that were heard longest ago one is forgotten."""
        if len(self.hosts) >= HOSTS_MAX:
            host = min(self.hosts, key=lambda name: self.hosts[name].heard_s)
            del self.hosts[host], self._orders[host]

    async def tell(self, made: Sequence[events.AnyEvent]) -> None:
        """Have the engine take what a monitor told, when it is its turn; raises `Refusal`."""
        assert self._tell is not None
        async with self._turns:
            await self._tell(lambda _now_s: made)

    def _look(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_s() + LOOK_S, self._look)
        if self._silencing is None or self._silencing.done():
            silent = [one for one in self.hosts.values() if not one.silent and self._is_silent(one)]
            if silent:
                self._silencing = asyncio.create_task(self._silence(silent))

    def _is_silent(self, one: HostTelemetry) -> bool:
        return self._clock.now_s() - one.heard_s > self._silent_after_s

    async def _silence(self, silent: list[HostTelemetry]) -> None:
        """Tell the engine who is silent, together: a network that breaks is one event."""

        def make(now_s: float) -> list[events.AnyEvent]:
            found: list[events.AnyEvent] = []
            for one in silent:
                if self._is_silent(one):  # it may have spoken meanwhile
                    one.silent = True
                    one.unused_since_s.clear()
                    detail = f"its monitor was last heard {now_s - one.heard_s:.0f} s before"
                    found.append(
                        events.TelemetryChanged(now_s=now_s, host=one.host, telemetry=Telemetry.SILENT, detail=detail)
                    )
                    _log.warning("monitor_silent", host=one.host, heard_s=round(now_s - one.heard_s, 1))
            return found

        assert self._tell is not None
        try:
            await self._tell(make)
        except Refusal as refusal:
            _log.warning("silence_not_told", why=refusal.sentence)

    def jobs_with_idle_gpus(self, now_s: float) -> list[str]:
        """List the jobs on hosts that have GPUs which were not used for long enough, each once, in order."""
        found: dict[str, None] = {}
        for host, one in self.hosts.items():
            if any(now_s - since_s >= self.idle.after_s for since_s in one.unused_since_s.values()):
                found |= dict.fromkeys(one.job_id for one in self._engine.containers_on(host))
        return sorted(found)

    # Orders

    def bind(self, command: commands.Bind) -> None:
        """Make known which GPUs a container has, where its server has a monitor; with `flush`."""
        host = self._engine.host_of(command.server_id)
        self._host_of[command.container_id] = host
        self.bound_s.setdefault(command.container_id, self._clock.now_s())
        self._rebound.setdefault(command.job_id, {})[command.container_id] = None

    def unbind(self, command: commands.Unbind) -> None:
        """Forget a container."""
        host = self._host_of.pop(command.container_id, "")
        self.bound_s.pop(command.container_id, None)
        orders = self._orders.get(host)
        if orders is not None:
            orders.unbind(command.container_id)

    def flush(self) -> None:
        """Tell monitors of the jobs whose containers have changed."""
        rebound, self._rebound = self._rebound, {}
        for job_id, containers in rebound.items() if self._orders else ():
            self._bind_job(job_id, containers)

    def _bind_job(self, job_id: str, containers: dict[str, None]) -> None:
        places = self._engine.gang_places(job_id, containers)
        hosts = [place.host for place in places.members] if places.whole else []
        ranked = [(place, rank if places.whole else None, hosts) for rank, place in enumerate(places.members)]
        nobody: list[str] = []
        for place, rank, world in [*ranked, *((place, None, nobody) for place in places.others)]:
            orders = self._orders.get(place.host)
            if orders is not None and self._host_of.get(place.container_id, place.host) == place.host:
                orders.bind(
                    binding_message(
                        place.container_id,
                        job_id,
                        place.gpu_indices,
                        rank=rank,
                        hosts=world,
                        domain=place.domain,
                        vc=places.vc,
                    )
                )

    def begin(self, settle_left_s: float) -> None:
        """Take what is known of containers as not complete: a snapshot begins."""
        self._complete = False
        self._settle_no_more()
        self._settled_s = self._clock.now_s() + settle_left_s

    def end(self) -> None:
        """Let monitors forget what nobody named, once the snapshot has ended and all servers had their time to come back."""
        self._settle_no_more()
        if self._settled_s <= self._clock.now_s():
            self._settle()
        else:
            self._settling = self._clock.call_at(self._settled_s, self._settle)

    def _settle_no_more(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None

    def _settle(self) -> None:
        self._settling = None
        self._complete = True
        self.flush()
        for orders in self._orders.values():
            orders.tell_all()

    @property
    def queued(self) -> int:
        """Containers of which monitors are still to be told."""
        return sum(orders.queued for orders in self._orders.values())
