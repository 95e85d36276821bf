"""2,000 node monitors of 8 GPUs at one push every 10 s: what they cost a service, and what they do to its decisions.

The service and the monitors are processes of their own; the library's `FakeResourceManager` fills three quarters of the GPUs, so
monitors tell of processes on them, and then submits one gang after the other and times each from its ask to the decision. Before
the monitors connect, while they push, and after they have gone, in one run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure, Measured
from benchmarks.service import BOUND_S, configured, cpu_s, resident_mb, service, yardstick
from yarn_gpu_sched.client import Client, FakeResourceManager

MONITORS, GPUS, PUSH_S = 2_000, 8, 10.0
HELD_SERVERS = 1_500
QUIET_S = 40.0
GANGS, PAUSE_S = 2_000, 0.01
CPU_PERCENT_MAX, SLOWER_MAX = 20.0, 1.5
READY_S = 300.0
LOAD = Path(__file__).with_name("fleet_load.py")


def measure() -> Measured:
    """Measure on a service that is stopped afterwards."""
    with service(local_monitors=True) as (process, address):
        figures = tuple(_figures(process, address))
    sizes = {
        "monitors": MONITORS,
        "gpus_a_server": GPUS,
        "push_every_s": PUSH_S,
        "gangs_timed": GANGS,
        "pause_s": PAUSE_S,
    }
    return Measured(figures, configured() | sizes)


def _figures(process: subprocess.Popen[bytes], address: str) -> Iterator[Figure]:
    rm = FakeResourceManager(address)
    for number in range(MONITORS):
        rm.add_server(f"gpu-{number:04d}", gpus=GPUS, rack=f"/rack-{number // 32}")
    with rm, Client(address) as client:
        for number in range(HELD_SERVERS):
            rm.submit(f"held-{number}", tags=[f"gang:1x{GPUS}"])
            rm.ask(f"held-{number}", 1, gpus=GPUS)
        rm.wait(lambda: len(rm.decisions) >= HELD_SERVERS, timeout_s=BOUND_S)
        before = _latencies_us(rm, "before")
        alone = _cpu_percent(process)
        with _monitors(address):
            quiet = _cpu_percent(process)
            during = _latencies_us(rm, "during")
            live = sum(server.telemetry == 2 for server in client.gpus())  # noqa: PLR2004 - TELEMETRY_STATE_LIVE
        after = _latencies_us(rm, "after")
        yield from _told(before + after, during, quiet - alone, live, resident_mb(process))
    yield yardstick()


def _told(without: list[float], during: list[float], percent: float, live: int, memory_mb: float) -> Iterator[Figure]:
    yield Figure("monitors that are live", live, "servers", MONITORS, at_least=True)
    messages = MONITORS / PUSH_S
    note = f"beyond what it takes without them; {messages:.0f} messages and {messages * GPUS:.0f} samples a second"
    yield Figure("CPU of the service for the monitors", percent, "% of a core", CPU_PERCENT_MAX, note=note)
    for name, values in (("without monitors", without), ("with monitors", during)):
        yield Figure(f"decision {name}, p50", _percentile(values, 50) / 1e3, "ms", note="from the ask to the decision")
        yield Figure(f"decision {name}, p99", _percentile(values, 99) / 1e3, "ms")
    ratio = _percentile(during, 99) / _percentile(without, 99)
    yield Figure("decisions' p99, with monitors to without", ratio, "x", SLOWER_MAX)
    yield Figure("memory of the service", memory_mb, "MiB")


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def _cpu_percent(process: subprocess.Popen[bytes]) -> float:
    before_s, began_s = cpu_s(process), time.monotonic()
    time.sleep(QUIET_S)
    return 100 * (cpu_s(process) - before_s) / (time.monotonic() - began_s)


def _latencies_us(rm: FakeResourceManager, name: str) -> list[float]:
    """Submit one gang after the other; time each, and end it."""
    taken = []
    for number in range(GANGS):
        job_id, count = f"{name}-{number}", len(rm.decisions)
        rm.submit(job_id, tags=["gang:1x1"])
        began_s = time.perf_counter()
        rm.ask(job_id, 1, gpus=1)
        rm.wait(lambda count=count: len(rm.decisions) > count, timeout_s=BOUND_S)  # type: ignore[misc] # bound here and now
        taken.append((time.perf_counter() - began_s) * 1e6)
        rm.end(job_id)
        time.sleep(PAUSE_S)
    return taken


@contextmanager
def _monitors(address: str) -> Iterator[None]:
    arguments = [sys.executable, str(LOAD), address, str(MONITORS), str(GPUS), str(PUSH_S)]
    environment = {**os.environ, "PYTHONPATH": str(LOAD.parent.parent)}
    load = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert load.stdin is not None
    assert load.stdout is not None
    try:
        if load.stdout.readline() != "ready\n":
            raise RuntimeError("the monitors did not connect")
        time.sleep(2 * PUSH_S)
        yield
        load.stdin.close()
        ended = load.stdout.readline()
        if ended != "0 ended early\n":
            raise RuntimeError(f"monitors: {ended}")
    finally:
        load.kill()
        load.wait(BOUND_S)
