"""A service in a process of its own, with its defaults: policy `philly`, 150 s a level of locality, jobs told why they wait."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from benchmarks.figures import Figure
from yarn_gpu_sched.service import Settings

BOUND_S = 60.0
_YARDSTICKS = 2_000


@contextmanager
def service(**settings: object) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a service with its defaults but for these settings; give its process and its address."""
    given = ", ".join(f"{name}={value!r}" for name, value in {"listen": "127.0.0.1:0", **settings}.items())
    program = f"import sys; from yarn_gpu_sched.service import Settings, run; sys.exit(run(Settings({given})))"
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([sys.executable, "-c", program], stderr=log)
        try:
            yield process, _address(log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(BOUND_S)


def _address(log: Any) -> str:  # noqa: ANN401 - a temporary file
    deadline_s = time.monotonic() + BOUND_S
    while time.monotonic() < deadline_s:
        for line in os.pread(log.fileno(), 1 << 16, 0).splitlines():
            entry = json.loads(line)
            if entry["event"] == "listening":
                return str(entry["address"])
        time.sleep(0.02)
    raise TimeoutError("the service does not listen")


def configured() -> dict[str, Any]:
    """Return what is told beside figures of a service of its own."""
    settings = Settings()
    return {"policy": settings.policy, "relax_after_s": settings.relax_after_s, "service": "defaults, no recorder"}


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Return the processor seconds that it has taken."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def resident_mb(process: subprocess.Popen[bytes]) -> float:
    """Return its resident memory."""
    return float(psutil.Process(process.pid).memory_info().rss) / (1 << 20)


def yardstick() -> Figure:
    """Time a loop that has nothing to do with the service: it tells how quick the machine is just now."""
    times = []
    for _ in range(_YARDSTICKS):
        begin = time.thread_time_ns()
        total = 0
        for number in range(1_000):
            total += number
        times.append(time.thread_time_ns() - begin)
    note = "no limit; 23 to 27 µs at full speed"
    return Figure("yardstick: 1,000 additions, median", statistics.median(times) / 1e3, "µs", note=note)
