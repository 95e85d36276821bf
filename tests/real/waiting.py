"""Wait for conditions, never for time to pass; say what was seen when they do not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_POLL_S = 0.05


def wait_until(
    look: Callable[[], T],
    holds: Callable[[T], bool],
    what: str,
    *,
    wait_s: float = 60.0,
    logs: object = "",
) -> T:
    """Look until what is seen holds, and return it.

    Raises AssertionError that shows what was seen last and where the logs are.
    """
    deadline_s = time.monotonic() + wait_s
    while True:
        seen = look()
        if holds(seen):
            return seen
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {wait_s:.0f} s: {what}\nseen last: {seen!r}\nlogs: {logs}")
        time.sleep(_POLL_S)
