"""What is known of servers and GPUs and outlasts a restart: what operators said, and the faults that wait for them.

Written a moment after a change, so that a thousand servers that change together are one file; at once where an operator waits for
it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from yarn_gpu_sched.engine import Engine, events
from yarn_gpu_sched.model.health import KeptHost
from yarn_gpu_sched.service.checkpoint_watch import Tell
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.state_file import Damaged, StateFile

FILE_NAME = "health.json"
WRITE_AFTER_S = 1.0
AGAIN_AFTER_S = 10.0
"""Seconds after which what could not be written is tried again."""
NO_STATE_DIR = "the service has no state_dir: after a restart it is forgotten"

_log = structlog.get_logger(__name__)


class HealthFile(StateFile[tuple[KeptHost, ...]]):
    """What outlasts a restart, in a directory."""

    def __init__(self, directory: Path) -> None:
        """Take the directory, and make it if need be; `UnfitStateDirectory` if it cannot be written."""
        super().__init__(directory, FILE_NAME, tuple[KeptHost, ...])


class HealthKeeper:
    """Writes down what the engine would forget, and tells it after a restart."""

    def __init__(self, engine: Engine, clock: Clock, file: HealthFile | None) -> None:
        self._engine = engine
        self._clock = clock
        self._file = file
        self._written: tuple[KeptHost, ...] = ()
        self._timer: Timer | None = None
        self._closed = False
        self._writing: asyncio.Task[str] | None = None
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="health")

    async def restore(self, tell: Tell) -> None:
        """Tell the engine what was kept; what cannot be read is kept aside."""
        found = None if self._file is None else self._read(self._file)
        if found:
            self._written = found
            await tell(lambda now_s: [events.HealthRestored(now_s=now_s, hosts=found)])
            _log.info("health_restored", servers=len(found))

    def _read(self, file: HealthFile) -> tuple[KeptHost, ...] | None:
        try:
            return file.read()
        except Damaged as damaged:
            error = str(damaged)
        try:
            file.set_aside()
            kept = str(file.directory / file.damaged_name)
        except OSError as failed:
            kept = f"where it is ({failed})"
        _log.warning("health_damaged", error=error, kept=kept)
        return None

    def changed(self) -> None:
        """Write soon, if anything differs from what is written."""
        self._write_in(WRITE_AFTER_S)

    def _write_in(self, seconds: float) -> None:
        if self._file is not None and self._timer is None and not self._closed:
            self._timer = self._clock.call_at(self._clock.now_s() + seconds, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self.keep())
        else:
            self.changed()

    async def keep(self) -> str:
        """Write down what is so now; return why that failed, empty if it did not."""
        if self._file is None:
            return NO_STATE_DIR
        kept = self._engine.kept_health()
        if kept == self._written:
            return ""
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._file.write, kept)
        except OSError as error:
            _log.error("health_not_written", error=str(error))
            self._write_in(AGAIN_AFTER_S)
            return f"it could not be written to state_dir: {error}"
        self._written = kept
        return ""

    async def close(self) -> None:
        """Write what is to be written, and let go of the file."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.wait({self._writing})
        await self.keep()
        self._writer.shutdown()
        if self._file is not None:
            self._file.close()
