"""The thread that writes the spool. Its queue is bounded; what finds no place there is lost and counted."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from yarn_gpu_sched.archive import Kind
from yarn_gpu_sched.service.archive.spool import Spool
from yarn_gpu_sched.service.metrics import Metrics

QUEUE_MAX = 1_024
TELEMETRY_QUEUE_MAX = 512
"""Of these at most so many before telemetry finds no place, so that jobs always find some."""
WAITING_MAX = 1_024
"""Batches that are kept in memory while the disk cannot be written."""
RETRY_S = 1.0
ENDING_S = 10.0

_log = structlog.get_logger(__name__)


class Batch(msgspec.Struct, frozen=True):
    """Rows of a kind, to be written into the file of an hour."""

    kind: Kind
    hour_s: int
    number: int
    rows: list[tuple[Any, ...]]


class Keep(msgspec.Struct, frozen=True):
    """What is to survive a restart; ``close``: an hour has ended, its files may go to the archive."""

    content: bytes
    close: bool = False


class Writer:
    """See the module. `put` and `keep` are called on the event loop, the rest happens on the thread."""

    def __init__(self, spool: Spool, metrics: Metrics, closed: Callable[[], None] = lambda: None) -> None:
        self.number = 0
        self._spool = spool
        self._metrics = metrics
        self._closed = closed
        self._queue: queue.Queue[Batch | Keep | None] = queue.Queue(QUEUE_MAX)
        self._waiting: deque[Batch] = deque()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="archive-writer", daemon=True)

    @property
    def queued(self) -> int:
        """What waits to be written, or is being."""
        return self._queue.unfinished_tasks + len(self._waiting)

    def start(self) -> None:
        """Write what is put."""
        self._thread.start()

    def put(self, kind: Kind, hour_s: int, rows: list[tuple[Any, ...]]) -> None:
        """Have rows written; lost and counted if too much waits."""
        if not rows:
            return
        if kind is Kind.GPUS and self._queue.qsize() >= TELEMETRY_QUEUE_MAX:
            self._lost(kind, len(rows), "queue")
            return
        try:
            self._queue.put_nowait(Batch(kind, hour_s, self.number + 1, rows))
            self.number += 1
        except queue.Full:
            self._lost(kind, len(rows), "queue")

    def keep(self, content: bytes, *, close: bool = False) -> None:
        """Have something kept over a restart; if too much waits, the next one will do."""
        try:
            self._queue.put_nowait(Keep(content, close))
        except queue.Full:
            _log.warning("archive_state_not_kept", why=f"{QUEUE_MAX} pieces of work wait")

    def stop(self) -> None:
        """Write what waits, and end; not later than in 10 s."""
        if not self._thread.is_alive():
            self._spool.end()
            return
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=ENDING_S)
            self._thread.join(ENDING_S)

    def _run(self) -> None:
        while True:
            try:
                item = self._queue.get(timeout=RETRY_S)
            except queue.Empty:
                self._do(None)
                continue
            if item is None:
                break
            self._do(item)
            self._queue.task_done()
        self._do(None)
        for one in self._waiting:
            self._lost(one.kind, len(one.rows), "disk")
        self._spool.end()

    def _do(self, item: Batch | Keep | None) -> None:
        """Take one; None: try again what waits."""
        try:
            if item is None:
                self._write_waiting()
            elif isinstance(item, Batch):
                self._take(item)
            else:
                self._keep(item)
        except Exception:  # noqa: BLE001 - the thread lives on: whatever it was is logged, and the rows are counted
            if isinstance(item, Batch) and item in self._waiting:
                self._waiting.remove(item)
                self._count_lost(item.kind, len(item.rows), "fault")
            with contextlib.suppress(OSError):  # a log on the same full disk
                _log.exception("archive_writer_failed")

    def _take(self, batch: Batch) -> None:
        self._waiting.append(batch)
        self._write_waiting()
        while len(self._waiting) > WAITING_MAX:
            one = next((one for one in self._waiting if one.kind is Kind.GPUS), self._waiting[0])
            self._waiting.remove(one)
            self._lost(one.kind, len(one.rows), "disk")

    def _write_waiting(self) -> None:
        while self._waiting:
            one = self._waiting[0]
            try:
                self._spool.append(one.kind, one.hour_s, one.number, one.rows)
            except OSError as error:
                self._fail(error)
                if not self._drop("disk"):
                    return
                continue
            self._waiting.popleft()
            self._metrics.archive_rows.labels(one.kind.value).inc(len(one.rows))
            self._failing = False
            self._make_room()

    def _make_room(self) -> None:
        """Drop the oldest while there is more than there may be; where nothing else is left, what is being written."""
        while self._spool.over_full():
            if not self._drop("spool"):
                self._spool.close()
                if not self._drop("spool"):
                    return

    def _drop(self, why: str) -> bool:
        dropped = self._spool.drop_one()
        if dropped is not None:
            self._lost(*dropped, why)
        return dropped is not None

    def _keep(self, item: Keep) -> None:
        try:
            self._spool.keep("open.msgpack", item.content)
        except OSError as error:
            self._fail(error)
            return
        if item.close and not self._waiting:
            # Only after what is kept says so, or a crash in between would have these rows written again.
            self._spool.close()
            self._closed()

    def _fail(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            with contextlib.suppress(OSError):  # a log on the same full disk
                _log.error("archive_spool_failed", error=str(error), retry_s=RETRY_S)

    def _lost(self, kind: Kind, rows: int, why: str) -> None:
        self._count_lost(kind, rows, why)
        with contextlib.suppress(OSError):  # a log on the same full disk
            _log.error("archive_rows_lost", kind=kind.value, rows=rows, why=why)

    def _count_lost(self, kind: Kind, rows: int, why: str) -> None:
        self._metrics.archive_lost_rows.labels(kind.value, why).inc(rows)
