"""What is said to a service is applied late, by a random while: finds tests that count on its being applied at once.

`YGS_LATE=0.06 pytest -p tests.service.late tests/service` (seconds at most); part of `make soak`.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any

from yarn_gpu_sched.service.driver import Driver
from yarn_gpu_sched.service.monitors.link import MonitorLink

_LATE_S_MAX = float(os.environ.get("YGS_LATE", "0.06"))


def _late(call: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def called(*args: Any) -> None:  # noqa: ANN401 - those of the wrapped method
        await asyncio.sleep(random.random() * _LATE_S_MAX)
        await call(*args)

    return called


def pytest_configure() -> None:
    """Wrap where monitors' and resource managers' messages are taken."""
    MonitorLink.hear = _late(MonitorLink.hear)  # type: ignore[assignment, method-assign] # that is what this plugin is for
    Driver._do = _late(Driver._do)  # type: ignore[assignment, method-assign] # likewise
