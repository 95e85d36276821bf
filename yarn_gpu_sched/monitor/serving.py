"""Runs the monitor until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import structlog

from yarn_gpu_sched.binding import UnfitDirectory
from yarn_gpu_sched.monitor.agent import Agent, GpuReader, HostReader
from yarn_gpu_sched.monitor.clock import LoopClock
from yarn_gpu_sched.monitor.log import configure_logging
from yarn_gpu_sched.monitor.metrics import Exporter
from yarn_gpu_sched.monitor.reading import GpusReading, GpuSource

if TYPE_CHECKING:
    from yarn_gpu_sched.monitor.settings import Settings

EXIT_STOPPED = 0
EXIT_CANNOT_START = 1
EXIT_FAILED = 70

_log = structlog.get_logger(__name__)


class InThread:
    """Reads GPUs in a thread of this process: for sources that cannot hang."""

    def __init__(self, source: GpuSource) -> None:
        self._source = source
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gpus")

    async def read(self) -> GpusReading:
        """Look once."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._source.read)


def run(settings: Settings) -> int:
    """Watch this server until SIGTERM or SIGINT.

    Returns 0 when stopped, 1 when it could not start (one sentence on standard error says why), 70 when it failed.
    """
    configure_logging(settings.log_level)
    try:
        return asyncio.run(_watch(settings))
    except (OSError, UnfitDirectory) as error:
        sys.stderr.write(f"ygs monitor: {error}\n")
        return EXIT_CANNOT_START


async def _watch(settings: Settings) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    agent = Agent(settings, _gpu_reader(settings), _host_reader(), LoopClock())
    with contextlib.ExitStack() as stack:
        stack.callback(agent.close)
        if settings.metrics_listen:
            exporter = Exporter(settings.metrics_listen, lambda: agent.shown)
            stack.callback(exporter.close)
        _log.info("monitor_started", host=settings.host_name, service=settings.service)
        return await _run_until(stopping, agent)


async def _run_until(stopping: asyncio.Event, agent: Agent) -> int:
    running = asyncio.ensure_future(agent.run())
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    failed = running.done()
    if failed:
        _log.critical("monitor_failed", exc_info=running.exception())
    for task in (running, stopped):
        task.cancel()
    await asyncio.gather(running, stopped, return_exceptions=True)
    _log.info("monitor_stopped")
    return EXIT_FAILED if failed else EXIT_STOPPED
