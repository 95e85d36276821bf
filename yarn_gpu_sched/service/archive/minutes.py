"""Looks at every server once a minute: rows of telemetry, and who holds GPUs that are not used, or of which nobody can tell.

So many servers at a time, so that the event loop is never held for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from yarn_gpu_sched.archive import hour_of
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.views import GpuUse, ServerView
from yarn_gpu_sched.service.archive.accounts import Account, Seconds
from yarn_gpu_sched.service.archive.borrowing import borrowed
from yarn_gpu_sched.service.archive.rows import at
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.monitors.fleet import Fleet
from yarn_gpu_sched.service.monitors.telemetry import HostTelemetry

MINUTE_S = 60
SERVERS_A_STEP = 32
LOOKED_AT_MAX = 10_000

Accounts = dict[str, Account]
Rows = list[tuple[Any, ...]]


class Minutes:
    """Makes the rows of a minute; what jobs did not use is added to their accounts."""

    def __init__(self, engine: Engine, fleet: Fleet, clock: Clock, accounts: Accounts) -> None:
        self._engine = engine
        self._fleet = fleet
        self._clock = clock
        self._accounts = accounts
        self._partitions: dict[str, str] = {}
        self.begin(0)

    def begin(self, minute_s: int) -> None:
        """Begin to look at all servers, for this minute."""
        self._minute_s, self._after, self.done = minute_s, "", False
        self._fresh: dict[str, str] = {}

    def step(self) -> Rows:
        """Give the rows of the next servers; `done` says whether these were the last."""
        servers, _ = self._engine.servers(self._after, SERVERS_A_STEP)
        self._fresh |= {one.server.host: one.server.partition for one in servers}
        if len(servers) < SERVERS_A_STEP:
            self.done, self._partitions = True, self._fresh
        else:
            self._after = servers[-1].server.server_id
        return [row for server in servers for row in self._rows(server, self._minute_s)]

    def _rows(self, view: ServerView, minute_s: int) -> Iterator[tuple[Any, ...]]:
        telemetry = self._fleet.hosts.get(view.server.host)
        if telemetry is not None and (telemetry.silent or telemetry.failure):
            if telemetry.means is not None:
                telemetry.means.forget()
            telemetry = None
        for gpu in view.gpus:
            yield self._row(view.server.host, gpu, telemetry, minute_s)

    def _row(self, host: str, gpu: GpuUse, telemetry: HostTelemetry | None, minute_s: int) -> tuple[Any, ...]:
        mean, used_mb, total_mb = _read(telemetry, gpu.index, self._clock.now_s())
        account = self._accounts.get(gpu.job_id) if gpu.job_id else None
        idle = None if mean is None or not gpu.job_id else mean < self._fleet.idle.below_percent
        if account is not None and idle is not False and gpu.container_id in account.held:
            kind = Seconds(unread_gpu_s=MINUTE_S) if idle is None else Seconds(idle_gpu_s=MINUTE_S)
            account.add(hour_of(minute_s), kind)
        vc = "" if account is None else account.vc
        return (at(minute_s), host, gpu.index, mean, used_mb, total_mb, gpu.job_id, vc, idle)

    def count_borrowed(self, minute_s: int) -> None:
        """Count what is borrowed now as borrowed for a minute."""
        uses, _ = self._engine.virtual_clusters(limit=LOOKED_AT_MAX)
        for use in uses:
            for share in use.shares:
                if share.borrowed_gpus and share.quota_gpus is not None and not use.virtual_cluster.parent:
                    self._borrow(use.virtual_cluster.path, share.partition, share.quota_gpus, minute_s)

    def _borrow(self, vc: str, partition: str, quota_gpus: int, minute_s: int) -> None:
        holding = [one for one in self._accounts.values() if one.vc == vc and one.held]

        def is_there(server: str) -> bool:
            return self._partitions.get(server) == partition

        for job_id, gpus in borrowed(holding, quota_gpus, is_there).items():
            self._accounts[job_id].add(hour_of(minute_s), Seconds(borrowed_gpu_s=gpus * MINUTE_S))


def _read(telemetry: HostTelemetry | None, slot: int, now_s: float) -> tuple[float | None, int | None, int | None]:
    sample = None if telemetry is None else telemetry.samples.get(slot)
    if telemetry is None or sample is None:
        return None, None, None
    message = sample.message
    return (
        None if telemetry.means is None else telemetry.means.take(slot, now_s),
        message.memory_used_mb if message.HasField("memory_used_mb") else None,
        message.memory_total_mb if message.HasField("memory_total_mb") else None,
    )
