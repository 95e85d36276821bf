"""A snapshot of 4,096 servers and 10,000 containers through the real shim, after the service was killed.

Counted from the registration, as the service logs it, to the first answer that says the snapshot is complete.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path

from benchmarks import generator
from benchmarks.arena import GANG_SCHEDULER, Arena, arena
from benchmarks.figures import Figure, Measured
from benchmarks.real import SHIM, configuration, heap_mb, memory_mb, scratch
from yarn_gpu_sched.client import Client, ServiceError

SERVERS = {"servers": 4096, "server_gpus": 4, "beat_ms": 3000, "runs_ms": 3_600_000}
HELD = {"containers": 10_000, "applications": 100}
_ROUNDS, _LOOK_S, _WAIT_S_MAX = 3, 0.005, 120.0


def measure() -> Measured:
    """Measure with one GPU a container."""
    with (
        scratch() as folder,
        arena(folder, GANG_SCHEDULER, SERVERS["servers"]) as running,
        generator.Held(running.conf, "hold", **SERVERS, **HELD) as held,
    ):
        held.wait("holding")
        return Measured(_figures(running), configuration(running) | {"servers": SERVERS, "held": HELD})


def _figures(running: Arena) -> tuple[Figure, ...]:
    rounds_s = [_absorbed_s(running) for _ in range(_ROUNDS)]
    each = ", ".join(f"{seconds:.2f}" for seconds in rounds_s)
    with Client(running.service) as client:
        cluster = client.cluster()
    return (
        Figure(f"snapshot absorbed, slowest of {_ROUNDS}", max(rounds_s), "s", 1.0, note=f"each: {each}"),
        Figure("servers in it", cluster.servers, "servers", SERVERS["servers"], at_least=True),
        Figure("GPUs held in it", cluster.used.gpus, "GPUs", HELD["containers"], at_least=True),
        Figure("resident memory of the service", memory_mb(running, "service"), "MiB"),
        Figure("resident memory of the ResourceManager", memory_mb(running, "rm"), "MiB"),
        Figure("heap used by the ResourceManager", heap_mb(running), "MiB", note="garbage included"),
        Figure("counters of the shim at /jmx", len(running.bean(SHIM)), "values", 10.0, at_least=True),
    )


def _absorbed_s(running: Arena) -> float:
    """Kill the service, start it again, and return how long its snapshot took."""
    log = running.cluster.logs()["service"]
    running.cluster.kill("service")
    written = log.stat().st_size
    running.cluster.start("service")
    deadline_s = time.monotonic() + _WAIT_S_MAX
    with Client(running.service) as client:
        while not _connected(client):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no snapshot within {_WAIT_S_MAX} s; see {log}")
            time.sleep(_LOOK_S)
    return time.time() - _registered_at_s(log, written)


def _connected(client: Client) -> bool:
    try:
        return client.cluster().connected
    except ServiceError:
        return False  # not listening yet


def _registered_at_s(log: Path, offset: int) -> float:
    with log.open("rb") as lines:
        lines.seek(offset)
        for line in lines:
            found = json.loads(line)
            if found["event"] == "resource_manager_registered":
                return datetime.fromisoformat(found["timestamp"]).timestamp()
    raise LookupError(f"no registration in {log}")
