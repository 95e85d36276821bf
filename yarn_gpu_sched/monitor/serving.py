"""Runs the monitor until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from yarn_gpu_sched.binding import UnfitDirectory
from yarn_gpu_sched.identity import BadCertificate
from yarn_gpu_sched.monitor.agent import Agent
from yarn_gpu_sched.monitor.child import ChildReader, reader_argv
from yarn_gpu_sched.monitor.clock import LoopClock
from yarn_gpu_sched.monitor.host import HostSource
from yarn_gpu_sched.monitor.log import configure_logging
from yarn_gpu_sched.monitor.metrics import Exporter
from yarn_gpu_sched.monitor.simulated.scenario import BadScenario, load
from yarn_gpu_sched.monitor.simulated.spec import parse

if TYPE_CHECKING:
    from yarn_gpu_sched.monitor.settings import Settings

EXIT_STOPPED = 0
EXIT_CANNOT_START = 1
EXIT_FAILED = 70
_SMI_PART = 0.7

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> int:
    """Watch this server until SIGTERM or SIGINT.

    Returns 0 when stopped, 1 when it could not start (one sentence on standard error says why), 70 when it failed.
    """
    configure_logging(settings.log_level)
    try:
        if settings.scenario:
            load(Path(settings.scenario), len(parse(settings.simulate)))
        if settings.tls_files:
            settings.tls_files.read()  # what cannot be used from the start is said at the start
        return asyncio.run(_watch(settings))
    except (OSError, UnfitDirectory, BadScenario, BadCertificate) as error:
        sys.stderr.write(f"ygs monitor: {error}\n")
        return EXIT_CANNOT_START


async def _watch(settings: Settings) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    reader = ChildReader(_reader_argv(settings), timeout_s=settings.read_timeout_s)
    agent = Agent(settings, reader, HostSource(), LoopClock())
    reader.expects_gpus = bool(agent.slots.cards)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(reader.close)
        stack.callback(agent.close)
        if settings.metrics_listen:
            exporter = Exporter(settings.metrics_listen, lambda: agent.shown, settings.tls_files)
            stack.callback(exporter.close)
        _log.info("monitor_started", host=settings.host_name, service=settings.service)
        return await _run_until(stopping, agent)


def _reader_argv(settings: Settings) -> list[str]:
    return reader_argv(
        simulate=settings.simulate or None,
        scenario=Path(settings.scenario) if settings.scenario else None,
        state_dir=Path(settings.state_dir) if settings.state_dir else None,
        host=settings.host_name,
        # Shorter than the reading itself may take: one that hangs is then told by the child, which does not start another.
        smi_timeout_s=settings.read_timeout_s * _SMI_PART if settings.source == "smi" else None,
    )


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
