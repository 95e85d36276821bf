"""Runs the service until it is told to stop."""

import asyncio
import signal
import sys

import structlog

from yarn_gpu_sched.binding.binding_files import UnfitDirectory
from yarn_gpu_sched.service.garbage import Garbage
from yarn_gpu_sched.service.listening import CannotStart
from yarn_gpu_sched.service.log import configure_logging
from yarn_gpu_sched.service.server import Service
from yarn_gpu_sched.service.settings import Settings

EXIT_STOPPED = 0
EXIT_CANNOT_START = 1
EXIT_FAILED = 70

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT, then stop gracefully.

    Returns 0 when stopped, 1 when it could not start (one sentence on standard error says why), 70
    when it failed.
    """
    configure_logging(settings.log_level)
    try:
        return asyncio.run(_serve(settings))
    except (CannotStart, UnfitDirectory) as error:
        sys.stderr.write(f"ygs serve: {error}\n")
        return EXIT_CANNOT_START


async def _serve(settings: Settings) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    service = Service(settings)
    garbage = service.driver.garbage = Garbage()
    garbage.begin()
    failed = loop.create_task(asyncio.sleep(0))
    try:
        await service.start()
        failed = loop.create_task(service.wait_failed())
        stopped = loop.create_task(stopping.wait())
        await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if failed.done():
            _log.critical("driver_gone")
            return EXIT_FAILED
        return EXIT_STOPPED
    finally:
        failed.cancel()
        await service.stop()
        garbage.end()
