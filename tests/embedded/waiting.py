"""Wait for a condition, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], what: str, *, wait_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not after {wait_s} s: {what}"
        time.sleep(0.02)
