"""The thread that puts closed files into the archive, and removes there what is older than it is to be kept.

The spool is its queue. A file is written under another name and renamed, so readers see it whole. A name is used once, so a file
that is there already with the same length is there because this process, or one before it, ended between the renaming and the
removal here: it counts as done.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from yarn_gpu_sched.archive import ArchiveError, Kind, Store, parse_name
from yarn_gpu_sched.archive.names import PART_FOLDER
from yarn_gpu_sched.service.archive.spool import CLOSED, Spool
from yarn_gpu_sched.service.metrics import Metrics

LOOK_S = 10.0
TRIES = 3
FAILURES_MAX = 2
"""After so many files that fail a round ends; one alone never keeps the others."""
WAIT_MAX_S = 60.0
RETAIN_EVERY_S = 3_600.0
DAY_S = 86_400.0
ENDING_S = 2.0

_log = structlog.get_logger(__name__)


class Uploader:
    """See the module. ``user`` owns what is written: what others own is never removed."""

    def __init__(
        self,
        spool: Spool,
        store: Store,
        metrics: Metrics,
        user: str,
        retention_days: int,
        wall_s: Callable[[], float],
    ) -> None:
        self._spool = spool
        self._store = store
        self._metrics = metrics
        self._user = user
        self._retention_s = retention_days * DAY_S
        self._wall_s = wall_s
        self._retained_s = 0.0
        self._failing = False
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="archive-uploader", daemon=True)

    def start(self) -> None:
        """Put what is closed into the archive, now and whenever something is."""
        self._thread.start()

    def hurry(self) -> None:
        """Look now."""
        self._wake.set()

    def stop(self) -> None:
        """End, not later than in 2 s: what is under way then is done again by the next service."""
        self._ending.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(ENDING_S)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            try:
                self.round()
            except Exception:  # noqa: BLE001 - the thread lives on: whatever it was is logged and tried again
                _log.exception("archive_uploader_failed")
            self._wake.wait(LOOK_S)

    def round(self) -> None:
        """Put everything that is closed into the archive, then remove what is too old; until it fails twice."""
        failed = 0
        for path in self._spool.waiting():
            if self._ending.is_set() or failed >= FAILURES_MAX:
                break
            failed += not self._succeeds(partial(self._archive, path))
        if not failed and self._succeeds(self._retain) and self._failing:
            self._failing = False
            _log.info("archive_reachable")
        self._metrics.archive_waiting_files.set(len(self._spool.waiting()))

    def _succeeds(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except (ArchiveError, OSError) as error:
            self._metrics.archive_failures.inc()
            if not self._failing:
                self._failing = True
                _log.warning("archive_unreachable", error=str(error))
            return False
        return True

    def _archive(self, path: Path) -> None:
        ready = self._spool.make_ready(path) if path.suffix == CLOSED and path.exists() else path
        if ready is None or not self._spool.take(ready):
            return
        archived = False
        try:
            self._put(ready)
            archived = True
        finally:
            self._spool.release(archived=archived)

    def _put(self, ready: Path) -> None:
        name = parse_name(ready.name)
        assert name is not None
        retrying = Retrying(
            stop=stop_after_attempt(TRIES),
            wait=wait_exponential(min=1.0, max=WAIT_MAX_S),
            retry=retry_if_exception_type(ArchiveError),
            sleep=self._sleep,
            reraise=True,
        )
        fresh = retrying(self._store.put, ready, name.path)
        self._metrics.archive_files.labels(name.kind.value).inc()
        if not fresh:
            _log.info("archived_before", file=name.path)

    def _sleep(self, seconds: float) -> None:
        self._ending.wait(seconds)

    def _retain(self) -> None:
        now_s = self._wall_s()
        if now_s < self._retained_s + RETAIN_EVERY_S:
            return
        self._retained_s = now_s
        days = [(kind, day) for kind in Kind for day in self._store.entries(kind.value) if day.folder]
        # A wall clock that is wrong by years must not empty the archive: the store's own clock says when it last changed.
        changed_s = max((day.modified_s for _, day in days), default=now_s)
        before_s = min(now_s, changed_s + DAY_S) - self._retention_s
        for kind, day in days:
            if _day_ended_s(day.name) < before_s:
                self._remove_day(kind, f"{kind.value}/{day.name}")
        for one in self._store.entries(PART_FOLDER):
            if not one.folder and self._is_own(one.name, one.owner) and one.modified_s < now_s - DAY_S:
                self._store.remove(f"{PART_FOLDER}/{one.name}")

    def _remove_day(self, kind: Kind, folder: str) -> None:
        """Remove the files of a day that are this archive's own, and the folder if nothing else is there."""
        found = self._store.entries(folder)
        own = [one for one in found if not one.folder and self._is_own(one.name, one.owner, kind)]
        for one in own:
            self._store.remove(f"{folder}/{one.name}")
        if len(own) == len(found):
            self._store.remove(folder)
        if own:
            _log.info("archive_removed", folder=folder, files=len(own))

    def _is_own(self, name: str, owner: str, kind: Kind | None = None) -> bool:
        parsed = parse_name(name)
        return parsed is not None and owner == self._user and kind in (None, parsed.kind)


def _day_ended_s(folder: str) -> float:
    """Say when the day of a folder ended; never, if it is named otherwise."""
    try:
        day = dt.datetime.strptime(folder, "date=%Y-%m-%d").replace(tzinfo=dt.UTC)
    except ValueError:
        return float("inf")
    return day.timestamp() + DAY_S
