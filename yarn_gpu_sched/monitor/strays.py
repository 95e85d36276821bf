"""Ends processes on GPUs that are not theirs, where that is configured: SIGTERM, once, after two readings that agree."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from yarn_gpu_sched.monitor.processes import describe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yarn_gpu_sched.monitor.prechecks import Stray
    from yarn_gpu_sched.monitor.reading import GpuProcess

INIT_PID = 1

_log = structlog.get_logger(__name__)


def end(process: GpuProcess, proc_root: Path = Path("/proc")) -> bool:
    """Ask a process to end; False if it is gone, or is another one by now, or may not be ended. May block: reads `/proc`."""
    if process.pid <= INIT_PID or process.pid == os.getpid():
        return False
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        # The number may have been given away since the GPU was read; from here on the handle means one process only.
        if describe(process.pid, proc_root) != (process.container_id, process.user, process.command):
            return False
        signal.pidfd_send_signal(handle, signal.SIGTERM)
    except OSError as error:
        _log.warning("stray_not_ended", pid=process.pid, error=str(error))
        return False
    finally:
        os.close(handle)
    return True


class Strays:
    """Remembers the strays of the reading before: one that is there again is ended."""

    def __init__(self, end_one: Callable[[GpuProcess], bool] = end) -> None:
        self.ended_total = 0
        self._end = end_one
        self._before: dict[GpuProcess, bool] = {}

    def see(self, strays: Iterable[Stray]) -> None:
        """Take the strays of a reading. May block."""
        now: dict[GpuProcess, bool] = {}
        for stray in strays:
            process = _who(stray)
            ended = self._before.get(process)
            if ended is False and now.get(process) is not True and self._end(process):
                ended = True
                self.ended_total += 1
                _log.warning(
                    "stray_ended",
                    pid=process.pid,
                    slot=stray.slot,
                    user=process.user,
                    command=process.command,
                    container_id=process.container_id,
                )
            now[process] = bool(ended) or now.get(process, False)
        self._before = now


def _who(stray: Stray) -> GpuProcess:
    """Return the process without its memory, which changes."""
    process = stray.process
    return type(process)(process.pid, None, process.container_id, process.user, process.command)
