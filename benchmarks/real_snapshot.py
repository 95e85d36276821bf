"""A snapshot of 4,096 servers and 10,000 containers through the real shim, after the service was killed.

Counted from the registration, as the service logs it, to the first answer that says the snapshot is complete.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil

from benchmarks import generator
from benchmarks.arena import GANG_SCHEDULER, Arena, arena
from benchmarks.figures import Figure, Measured
from benchmarks.real import SHIM, configuration, heap_mb, memory_mb, scratch
from benchmarks.tenant_queues import FULL, LEAF_QUEUES, WAITING, queues
from yarn_gpu_sched.client import Client, ServiceError
from yarn_gpu_sched.protocol.v1 import cluster_pb2

SERVERS = {"servers": 4096, "server_gpus": 4, "beat_ms": 3000, "runs_ms": 3_600_000}
HELD = {"containers": 10_000, "applications": 100}
_ROUNDS, _LOOK_S, _WAIT_S_MAX = 3, 0.005, 120.0


def measure() -> Measured:
    """Measure with one GPU a container."""
    tenants = queues(SERVERS["servers"], SERVERS["server_gpus"])
    with (
        scratch() as folder,
        arena(folder, GANG_SCHEDULER, SERVERS["servers"], settings=tenants) as running,
        generator.Held(
            running.conf, "hold", **SERVERS, **HELD, queues=LEAF_QUEUES, waiting=WAITING, waiting_queue=FULL
        ) as held,
    ):
        held.wait("holding")
        return Measured(_figures(running), configuration(running) | {"servers": SERVERS, "held": HELD})


def _figures(running: Arena) -> tuple[Figure, ...]:
    rounds = [_absorbed(running) for _ in range(_ROUNDS)]
    each = ", ".join(f"{wall_s:.2f}" for wall_s, _ in rounds)
    with Client(running.service) as client:
        cluster = client.cluster()
    return (
        Figure(f"snapshot absorbed, slowest of {_ROUNDS}", max(rounds)[0], "s", 1.0, note=f"each: {each}"),
        Figure(
            "processor of the service meanwhile", max(taken_s for _, taken_s in rounds), "s", note="since it listened"
        ),
        Figure("servers in it", cluster.servers, "servers", SERVERS["servers"], at_least=True),
        Figure("GPUs held in it", cluster.used.gpus, "GPUs", HELD["containers"], at_least=True),
        Figure("resident memory of the service", memory_mb(running, "service"), "MiB"),
        Figure("resident memory of the ResourceManager", memory_mb(running, "rm"), "MiB"),
        Figure("heap used by the ResourceManager", heap_mb(running), "MiB", note="garbage included"),
        Figure("counters of the shim at /jmx", len(running.bean(SHIM)), "values", 10.0, at_least=True),
    )


def _absorbed(running: Arena) -> tuple[float, float]:
    """Kill the service and start it again; return how long its snapshot took, and how much of a processor."""
    log = running.cluster.logs()["service"]
    running.cluster.kill("service")
    written = log.stat().st_size
    running.cluster.start("service")
    with Client(running.service) as client:
        _await(client, lambda _: True)  # it listens
        process = _process(running.service)
        before = process.cpu_times()
        _await(client, lambda cluster: cluster.connected)
        absorbed_s = time.time() - _registered_at_s(log, written)
        after = process.cpu_times()
    return absorbed_s, after.user + after.system - before.user - before.system


def _process(address: str) -> psutil.Process:
    # Not by the cluster's status, which asks the ResourceManager for all its servers: that takes as long as a snapshot.
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("YGS_LISTEN") == address:
                return process
    raise LookupError(f"no process serves {address}")


def _await(client: Client, holds: Callable[[cluster_pb2.GetClusterResponse], bool]) -> None:
    deadline_s = time.monotonic() + _WAIT_S_MAX
    while True:
        with suppress(ServiceError):  # not listening yet
            if holds(client.cluster()):
                return
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no snapshot within {_WAIT_S_MAX} s")
        time.sleep(_LOOK_S)


def _registered_at_s(log: Path, offset: int) -> float:
    with log.open("rb") as lines:
        lines.seek(offset)
        for line in lines:
            found = json.loads(line)
            if found["event"] == "resource_manager_registered":
                return datetime.fromisoformat(found["timestamp"]).timestamp()
    raise LookupError(f"no registration in {log}")
