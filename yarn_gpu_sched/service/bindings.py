"""Which GPUs are a container's: one file a live container, read at its start on this machine.

``<directory>/<container id>`` holds the indices of its GPUs, ``0,3`` and a newline, or an empty
line for a container without GPUs. Files appear whole, by rename, and go when their container is
gone. This reaches one machine only: servers elsewhere need the directory shared, or a monitor of
their own.

The files mirror ``wanted``; what differs is ``dirty`` and written by one thread, off the event loop,
a bounded handful at a time. Only the last state of a container is ever written, so the order of its
changes holds. A failure is counted, logged and tried again a second later.
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import structlog

from yarn_gpu_sched.binding.binding_files import BindingFiles, is_file_name
from yarn_gpu_sched.service.checkpoint_watch import CheckpointWatch
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.metrics import Metrics

DIRTY_MAX = 65_536
RETRY_S = 1.0
_CHUNK_FILES = 64

_log = structlog.get_logger(__name__)


class Bindings:
    """Keeps binding files equal to the engine's `Bind` and `Unbind`."""

    def __init__(self, files: BindingFiles, clock: Clock, metrics: Metrics, dirty_max: int = DIRTY_MAX) -> None:
        self.checkpoints = CheckpointWatch(files.checkpoints, clock)
        self._files = files
        self._clock = clock
        self._metrics = metrics
        self._dirty_max = dirty_max
        self._wanted: dict[str, str] = {}
        self._dirty: dict[str, None] = {}
        self._sweep = False
        self._snapshot = False
        self._settled_s = 0.0
        self._settling: Timer | None = None
        self._waiting = False
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bindings")

    @property
    def queued(self) -> int:
        """Files that differ from what is wanted."""
        return len(self._dirty)

    def bind(self, container_id: str, gpu_indices: Iterable[int], job_id: str) -> None:
        """Make a container's GPUs known."""
        if not is_file_name(container_id):
            self._metrics.binding_failures.inc()
            _log.warning("container_id_unfit_for_binding", container_id=container_id)
            return
        self._wanted[container_id] = ",".join(map(str, gpu_indices)) + "\n"
        self.checkpoints.bind(container_id, job_id)
        self._mark(container_id)

    def unbind(self, container_id: str) -> None:
        """Forget a container. Until all are known nothing is removed: it may be named again."""
        self.checkpoints.unbind(container_id)
        if self._wanted.pop(container_id, None) is not None and not self._snapshot:
            self._mark(container_id)

    def begin(self, settle_left_s: float) -> None:
        """Forget what is wanted: a snapshot begins and tells it anew.

        The files stay, containers go on while we learn of them: those of others go when the
        snapshot has ended and all servers had their time to come back.
        """
        self._wait_no_more()
        self._wanted.clear()
        self.checkpoints.begin()
        self._snapshot = True
        self._settled_s = self._clock.now_s() + settle_left_s

    def end(self) -> None:
        """Take what is wanted as complete: the snapshot has ended."""
        self.checkpoints.end()
        self._wait_no_more()
        if self._settled_s <= self._clock.now_s():
            self._settle()
        else:
            self._settling = self._clock.call_at(self._settled_s, self._settle)

    def _wait_no_more(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None

    def _settle(self) -> None:
        self._settling = None
        self._snapshot = False
        self._sweep = True
        self._start()

    @property
    def _may_sweep(self) -> bool:
        return self._sweep and not self._snapshot

    def _mark(self, container_id: str) -> None:
        self._dirty[container_id] = None
        if len(self._dirty) > self._dirty_max:
            # Compare the whole directory instead of remembering each difference.
            self._dirty.clear()
            self._sweep = True
        self._start()

    def _start(self) -> None:
        if self._task is None and not self._waiting:
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        # The task lets go of itself before it ends: whoever finds it there knows that it will look again.
        failed = True
        try:
            failed = await self._drain()
        except Exception:  # noqa: BLE001 - whatever it was: logged, and tried again
            _log.exception("bindings_failed")
        finally:
            self._task = None
        if failed:
            self._waiting = True
            self._clock.call_at(self._clock.now_s() + RETRY_S, self._retry)

    def _retry(self) -> None:
        self._waiting = False
        self._start()

    async def _drain(self) -> bool:
        """Write until nothing differs but what failed; tells whether anything did."""
        failed: dict[str, None] = {}
        while self._dirty or self._may_sweep:
            if self._may_sweep and not await self._swept():
                self._dirty.update(failed)
                return True
            chunk = list(self._dirty)[:_CHUNK_FILES]
            for container_id in chunk:
                del self._dirty[container_id]
            for container_id in await self._in_thread(self._changes(chunk)):
                failed[container_id] = None
        self._dirty.update(failed)
        return bool(failed)

    def _changes(self, chunk: list[str]) -> dict[str, str | None]:
        """Return what to write, and what to remove; during a snapshot nothing goes, the sweep after it finds what must."""
        wanted = {container_id: self._wanted.get(container_id) for container_id in chunk}
        return {container_id: content for container_id, content in wanted.items() if content or not self._snapshot}

    async def _swept(self) -> bool:
        loop = asyncio.get_running_loop()
        self._sweep = False
        try:
            names = await loop.run_in_executor(self._thread, self._files.names)
        except OSError as error:
            self._failed("", error)
            self._sweep = True
            return False
        self._dirty.update(dict.fromkeys(names - self._wanted.keys()))
        self._dirty.update(dict.fromkeys(self._wanted))
        return True

    async def _in_thread(self, changes: dict[str, str | None]) -> list[str]:
        loop = asyncio.get_running_loop()
        errors = await loop.run_in_executor(self._thread, self._files.change, changes)
        for container_id, error in errors.items():
            self._failed(container_id, error)
        return list(errors)

    def _failed(self, container_id: str, error: OSError) -> None:
        self._metrics.binding_failures.inc()
        _log.warning("binding_failed", container_id=container_id, error=str(error))

    async def flush(self, timeout_s: float) -> None:
        """Wait until what is wanted is written, but not longer than this."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_s)

    async def close(self) -> None:
        """Write no more; the files stay, as the containers do."""
        self._wait_no_more()
        self.checkpoints.stop()
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=True, cancel_futures=True)
