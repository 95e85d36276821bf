"""A bash as a NodeManager starts it in a container, and the binding files that it finds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from yarn_gpu_sched.embedded import BIND_SCRIPT

CONTAINER = "container_e01_1700000000000_0001_01_000002"
SHOW = 'echo "[${CUDA_VISIBLE_DEVICES}] ${CUDA_DEVICE_ORDER} ${NVIDIA_VISIBLE_DEVICES} ${BASH_ENV-none}"'
Outcome = subprocess.CompletedProcess[str]


def deliver(folder: Path, content: str, container: str = CONTAINER) -> None:
    parts = folder / f".{container}"
    parts.write_text(content)
    parts.rename(folder / container)


def run(folder: Path | None, command: str, *flags: str, container: str | None = CONTAINER, **more: str) -> Outcome:
    environment = {"PATH": os.environ["PATH"], "BASH_ENV": str(BIND_SCRIPT)} | more
    if folder is not None:
        environment["YGS_BINDING_DIR"] = str(folder)
    if container is not None:
        environment["CONTAINER_ID"] = container
    return subprocess.run(
        ["/bin/bash", *flags, "-c", command], check=False, capture_output=True, text=True, timeout=60, env=environment
    )
