"""The archive's parts, put together, with their timers."""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from yarn_gpu_sched.archive import ArchiveError, HdfsStore, Kind, Store, hour_of, need_extra
from yarn_gpu_sched.engine import Engine, commands, events
from yarn_gpu_sched.service.archive.accounts import Kept
from yarn_gpu_sched.service.archive.book import Book, told_already
from yarn_gpu_sched.service.archive.minutes import MINUTE_S, Minutes, Rows
from yarn_gpu_sched.service.archive.spool import Spool
from yarn_gpu_sched.service.archive.uploader import Uploader
from yarn_gpu_sched.service.archive.writer import Writer
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.fleet import Fleet
from yarn_gpu_sched.service.settings import Settings

LOOK_S = 0.2
"""How long rows of jobs that ended are gathered, so that one write to the disk serves many."""
STEP_S = 0.05
ROWS_A_BATCH = 2_048
"""Rows of telemetry that are written at once, and a few more."""
KEPT = "open.msgpack"

_log = structlog.get_logger(__name__)


class _Kept(msgspec.Struct):
    """What is kept over a restart."""

    kept: Kept
    ended: list[str]


class Around(NamedTuple):
    """What is around the archive in a service."""

    engine: Engine
    clock: Clock
    metrics: Metrics
    fleet: Fleet


class Archiving:
    """See the package. It hears events and commands as an outlet does; `start`, then `stop`."""

    def __init__(
        self,
        around: Around,
        spool: Spool,
        store: Store,
        settings: Settings,
        *,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """Take the spool up where a run before left it. Raises OSError."""
        engine, self._clock, self._metrics, fleet = around
        self._spool = spool
        self._wall_s = wall_s
        self.book = Book(engine, self._clock.now_s, wall_s)
        self._minutes = Minutes(engine, fleet, self._clock, self.book.accounts)
        fleet.keeps_means = True
        user = settings.archive_user or getpass.getuser()
        self.uploader = Uploader(spool, store, self._metrics, user, settings.archive_retention_days, wall_s)
        self.writer = Writer(spool, self._metrics, self.uploader.hurry)
        self._minute_s = self._minute()
        self._looking: Timer | None = None
        self._timer: Timer | None = None
        self._telemetry: Rows = []
        self._restore()

    def _minute(self) -> int:
        return int(self._wall_s() // MINUTE_S) * MINUTE_S

    def _restore(self) -> None:
        path = self._spool.directory / KEPT
        known = _Kept(Kept(), [])
        if path.exists():
            try:
                known = msgspec.msgpack.decode(path.read_bytes(), type=_Kept)
            except msgspec.MsgspecError as problem:
                _log.error("archive_state_damaged", file=str(path), error=str(problem))
        told, self.writer.number = self._spool.left_open(known.kept.number)
        told_already(known.kept, told)
        ended = [row["job_id"] for kind, row in told if kind is Kind.JOBS and row["final"]]
        self.book.restore(known.kept, known.ended + ended)
        # In this order: once a file is closed it may be archived and gone, and what is kept must know of its rows by then.
        self._spool.keep(KEPT, self._kept())
        self._spool.close_left_open()

    # Outlet

    def before(self, event: events.AnyEvent) -> None:
        """Take note of an event that is about to be applied."""
        self.book.before(event)
        self._look_soon()

    def hear(self, command: commands.AnyCommand) -> None:
        """Take note of a command."""
        if isinstance(command, commands.Bind):
            self.book.bind(command)
            self._look_soon()
        elif isinstance(command, commands.Unbind):
            self.book.unbind(command)
        elif isinstance(command, commands.StopContainers | commands.RequeueJob):
            self.book.stopping(command)

    def _look_soon(self) -> None:
        if self._looking is None and self.book.has_news:
            self._looking = self._clock.call_at(self._clock.now_s() + LOOK_S, self._look)

    def _look(self) -> None:
        self._looking = None
        self._write(self.book.look())

    # Timers

    def start(self) -> None:
        """Begin to write and to archive."""
        self.writer.start()
        self.uploader.start()
        self._wait()

    async def stop(self) -> None:
        """Write what is known, and end: within 10 s, if the disk takes it, and 2 s more for an upload that is under way."""
        for timer in (self._looking, self._timer):
            if timer is not None:
                timer.cancel()
        self._write(self.book.look())
        self._keep(close=False)
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def _end(self) -> None:
        self.uploader.stop()
        self.writer.stop()

    def _wait(self) -> None:
        left_s = self._minute_s + MINUTE_S - self._wall_s()
        self._timer = self._clock.call_at(self._clock.now_s() + min(max(left_s, STEP_S), MINUTE_S), self._tick)

    def _tick(self) -> None:
        if self._minute() <= self._minute_s:
            self._wait()
            return
        self._minutes.begin(self._minute_s)
        self._step()

    def _step(self) -> None:
        self._telemetry += self._minutes.step()
        if len(self._telemetry) >= ROWS_A_BATCH or self._minutes.done:
            self._write_telemetry()
        if not self._minutes.done:
            self._timer = self._clock.call_at(self._clock.now_s() + STEP_S, self._step)
            return
        self._timer = self._clock.call_at(self._clock.now_s(), self._count_borrowed)

    def _count_borrowed(self) -> None:
        self._minutes.count_borrowed(self._minute_s)
        self._timer = self._clock.call_at(self._clock.now_s(), self._finish)

    def _finish(self) -> None:
        self._end_minute()
        self._wait()

    def _write_telemetry(self) -> None:
        rows, self._telemetry = self._telemetry, []
        self.writer.put(Kind.GPUS, hour_of(self._minute_s), rows)

    def _end_minute(self) -> None:
        """Write what the minute brought; the first one of an hour ends the hour before, and closes its files."""
        before, self._minute_s = self._minute_s, self._minute()
        ended = hour_of(self._minute_s) != hour_of(before)
        rows = self.book.minute_ended()
        if ended:
            rows += self.book.use_rows(hour_of(self._minute_s))
        self._write(rows, hour_of(before))
        self._keep(close=ended)
        self._metrics.queue_depth.labels("archive").set(self.writer.queued)
        self._metrics.archive_spool_bytes.set(self._spool.bytes)

    def _write(self, rows: list[tuple[Kind, tuple[object, ...]]], hour_s: int | None = None) -> None:
        hour_s = hour_of(self._minute_s) if hour_s is None else hour_s
        for kind in (Kind.JOBS, Kind.USE):
            self.writer.put(kind, hour_s, [row for of, row in rows if of is kind])

    def _keep(self, *, close: bool) -> None:
        self.writer.keep(self._kept(), close=close)

    def _kept(self) -> bytes:
        kept, ended = self.book.kept(self.writer.number)
        return msgspec.msgpack.encode(_Kept(kept, ended))


def archiving_of(settings: Settings, around: Around) -> Archiving | None:
    """Make the archive that the settings name; None if they name none.

    Raises `MissingExtraError`, `SpoolInUseError`, `ArchiveError` and OSError with one sentence that says why it cannot be.
    """
    if not settings.archive_url:
        return None
    need_extra()
    directory = Path(settings.archive_spool_dir) if settings.archive_spool_dir else Path(settings.state_dir) / "archive"
    try:
        spool = Spool(directory, settings.archive_spool_mb_max << 20)
    except OSError as error:
        raise ArchiveError(f"archive_spool_dir: {directory} cannot be used: {error}") from error
    store = HdfsStore(settings.archive_url, settings.archive_path, settings.archive_user)
    return Archiving(around, spool, store, settings)
