"""Where the product keeps what it can fetch or make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `$YGS_CACHE`, by default `~/.cache/yarn-gpu-sched`; it need not exist yet."""
    configured = os.environ.get("YGS_CACHE", "")
    if configured:
        return Path(configured).expanduser().absolute()
    return Path("~/.cache/yarn-gpu-sched").expanduser()
