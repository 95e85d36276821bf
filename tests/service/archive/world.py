"""An engine with an archive beside it, driven as the service's driver does, on clocks that tests move."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

from tests.engine.world import World as EngineWorld
from tests.service.conftest import until
from yarn_gpu_sched.archive import FolderStore, Kind, Store
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.commands import AnyCommand
from yarn_gpu_sched.engine.events import Event
from yarn_gpu_sched.service import FakeClock, Settings
from yarn_gpu_sched.service.archive import Archiving, Around
from yarn_gpu_sched.service.archive.spool import Spool, _entries, _table
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.fleet import Fleet, Limits

HOUR_S = 3_600
BEGIN_S = 1_790_000_000 // HOUR_S * HOUR_S
"""When the wall clock of these tests begins: a full hour."""


class Ear(Engine):
    """An engine that tells an archive what it is told and what it says."""

    archiving: Archiving | None = None

    def apply(self, event: Event) -> list[AnyCommand]:
        if self.archiving is not None:
            self.archiving.before(event)  # type: ignore[arg-type] # every event is one of them
        commands = super().apply(event)
        for command in commands if self.archiving is not None else ():
            self.archiving.hear(command)  # type: ignore[union-attr] # it is there
        return commands


class ArchiveWorld:
    """A cluster, its archive in a local folder, and both clocks: `pass_s` moves them together."""

    def __init__(
        self, folder: Path, *, store: Store | None = None, spool_bytes: int = 1 << 30, begin_s: float = 0.0
    ) -> None:
        self.folder = folder
        self.clock = FakeClock(1_000.0 + begin_s)
        self.metrics = Metrics()
        self.engine = Ear()
        limits = Limits()
        self.fleet = Fleet(self.engine, self.clock, self.metrics, limits)
        self.cluster = EngineWorld(engine=self.engine)
        self.cluster.now_s = self.clock.now_s()
        self.store = store or FolderStore(folder / "archive")
        self.spool = Spool(folder / "spool", spool_bytes)
        around = Around(self.engine, self.clock, self.metrics, self.fleet)
        settings = Settings(archive_user=getpass.getuser())
        self.archiving = self.engine.archiving = Archiving(around, self.spool, self.store, settings, wall_s=self.wall_s)
        self.archiving.writer.start()
        self.archiving._wait()

    def wall_s(self) -> float:
        return BEGIN_S + self.clock.now_s() - 1_000.0

    def pass_s(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.cluster.now_s = self.clock.now_s()

    async def written(self) -> None:
        """Wait until all that was handed over is on the disk."""
        await until(lambda: not self.archiving.writer.queued)

    async def stop(self) -> None:
        self.engine.archiving = None
        await self.archiving.stop()

    def kill(self) -> None:
        """End as by SIGKILL: nothing more is written. The lock goes, as with a process."""
        self.engine.archiving = None
        for timer in (self.archiving._looking, self.archiving._timer):
            if timer is not None:
                timer.cancel()
        self.spool.close = lambda: None  # type: ignore[method-assign] # what is open stays open
        self.archiving.writer._queue.put(None)
        self.archiving.writer._thread.join()
        for one in self.spool._writing.values():
            one.stream.close()

    def rows(self, kind: Kind) -> list[dict[str, Any]]:
        """Give the rows of a kind that are in the spool or in the archive."""
        found = rows_in_spool(self.folder / "spool", kind)
        return found + rows_archived(self.folder / "archive", kind)

    def lost(self) -> dict[tuple[str, str], float]:
        return lost(self.metrics)


def rows_in_spool(folder: Path, kind: Kind) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - as in the product

    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob(f"{kind.value}-*")):
        if path.suffix in (".open", ".rows"):
            found += [row for one in _entries(path) for row in _table(one).to_pylist()]
        elif path.suffix == ".parquet":
            found += pq.read_table(path).to_pylist()
    return found


def rows_archived(folder: Path, kind: Kind) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - as in the product

    return [
        row
        for path in sorted((folder / kind.value).rglob("*.parquet"))
        for row in pq.ParquetFile(path).read().to_pylist()
    ]


def lost(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Give the rows that were counted as lost, by kind and cause."""
    return {
        (sample.labels["kind"], sample.labels["why"]): sample.value
        for metric in metrics.archive_lost_rows.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }
