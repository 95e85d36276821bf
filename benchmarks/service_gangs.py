"""Gangs a second through gRPC: stretches of 3,000 gangs, from the first submission to the last outcome.

The library's `FakeResourceManager` submits and asks them as fast as it can, and commits what a service in a process of its own
decides: 1,500 servers, 20 virtual clusters below four queues, quotas and maxima at both levels. Beside them jobs wait for a virtual
cluster that is at its maximum, and the resource manager is told why. Between stretches all that runs is ended.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import time
from collections.abc import Iterator

from benchmarks.figures import Figure, Measured
from benchmarks.service import BOUND_S, configured, cpu_s, service, yardstick
from yarn_gpu_sched.client import Client, FakeResourceManager
from yarn_gpu_sched.protocol.v1 import decision_pb2

SERVERS, SERVER_GPUS, RACK_SERVERS = 1_500, 8, 32
PARENTS, VCS = 4, 20
WAITING, USERS = 500, 7
GANGS, STRETCHES = 3_000, 5
GANGS_PER_S_MIN = 500.0
# As in a trace: most gangs have one GPU. All gangs of a stretch together use four fifths of the GPUs.
SHAPES = ((1, 1),) * 6 + ((1, 2), (2, 2), (4, 2), (2, 4), (1, 8))
FULL = "root.full"
_COMMITTED = decision_pb2.OUTCOME_CODE_COMMITTED


def vc_name(number: int) -> str:
    """Name a virtual cluster: five of them below each of four queues."""
    return f"root.g{number % PARENTS}.vc{number:02d}"


def furnish(rm: FakeResourceManager) -> None:
    """Give it queues and servers."""
    quota = SERVERS * SERVER_GPUS // VCS
    for number in range(PARENTS):
        total = quota * VCS // PARENTS
        rm.add_virtual_cluster(f"root.g{number}", quota_gpus=total, maximum_gpus=2 * total, parent=True)
    for number in range(VCS):
        maximum = 2 * quota if number % 2 else None
        rm.add_virtual_cluster(vc_name(number), quota_gpus=quota, maximum_gpus=maximum)
    rm.add_virtual_cluster(FULL, quota_gpus=SERVER_GPUS, maximum_gpus=SERVER_GPUS)
    for number in range(SERVERS):
        rm.add_server(f"gpu-{number:04d}", gpus=SERVER_GPUS, rack=f"/rack-{number // RACK_SERVERS}")


def crowd(rm: FakeResourceManager) -> None:
    """Fill the one virtual cluster, let jobs wait for it, and wait until all have been told why."""
    waiting = {f"waiting-{number:03d}" for number in range(1 + WAITING)}
    for job_id in sorted(waiting):
        _submit(rm, job_id, "someone", FULL, 1, SERVER_GPUS)
    rm.wait(lambda: len(rm.decisions) == 1, timeout_s=BOUND_S)
    waiting.remove(rm.decisions[0][0].place_gang.job_id)
    deadline_s = time.monotonic() + BOUND_S
    while not all(map(rm.explanation, waiting)):
        if time.monotonic() > deadline_s:
            raise TimeoutError("not all jobs were told why they wait")
        time.sleep(0.1)


def _submit(rm: FakeResourceManager, job_id: str, user: str, vc: str, containers: int, gpus: int) -> None:
    rm.submit(job_id, vc=vc, tags=[f"gang:{containers}x{gpus}"], user=user)
    rm.ask(job_id, containers, gpus=gpus)


def stretch_s(rm: FakeResourceManager, stretch: int, rng: random.Random) -> float:
    """Submit so many gangs; return the seconds until the last outcome."""
    rm.decisions.clear()
    gangs = [
        (f"job-{stretch}-{number:05d}", f"user{number % USERS}", vc_name(number % VCS), *rng.choice(SHAPES))
        for number in range(GANGS)
    ]
    begun_s = time.perf_counter()
    for gang in gangs:
        _submit(rm, *gang)
    rm.wait(lambda: len(rm.decisions) >= GANGS, timeout_s=BOUND_S)
    taken_s = time.perf_counter() - begun_s
    assert all(outcome.code == _COMMITTED for _, outcome in rm.decisions), "a decision was refused"
    assert {decision.place_gang.job_id for decision, _ in rm.decisions} == {job_id for job_id, *_ in gangs}
    return taken_s


def _end_all(rm: FakeResourceManager, client: Client) -> None:
    for decision, _ in rm.decisions:
        rm.end(decision.place_gang.job_id)
    deadline_s = time.monotonic() + BOUND_S
    while client.cluster().used.gpus > SERVER_GPUS:
        if time.monotonic() > deadline_s:
            raise TimeoutError("what was ended is still in use")
        time.sleep(0.05)


def measure() -> Measured:
    """Measure on a service that is stopped afterwards."""
    with service() as (process, address):
        figures = tuple(_figures(process, address))
    shapes = ", ".join(f"{containers}x{gpus}" for containers, gpus in SHAPES)
    sizes = {"servers": SERVERS, "gpus_a_server": SERVER_GPUS, "vcs": VCS, "parents": PARENTS, "waiting": WAITING}
    return Measured(figures, configured() | sizes | {"gangs_a_stretch": GANGS, "shapes": shapes})


def _figures(process: subprocess.Popen[bytes], address: str) -> Iterator[Figure]:
    rng = random.Random(1)
    rm = FakeResourceManager(address)
    furnish(rm)
    taken, cpu_us = [], []
    with rm, Client(address) as client:
        crowd(rm)
        for stretch in range(STRETCHES):
            before_s = cpu_s(process)
            taken.append(stretch_s(rm, stretch, rng))
            cpu_us.append((cpu_s(process) - before_s) / GANGS * 1e6)
            _end_all(rm, client)
    rates = [GANGS / taken_s for taken_s in taken]
    each = ", ".join(f"{rate:.0f}" for rate in rates)
    note = f"median of {STRETCHES} stretches of {GANGS:,}: {each}"
    yield Figure("gangs through gRPC", statistics.median(rates), "gangs/s", GANGS_PER_S_MIN, at_least=True, note=note)
    yield Figure(
        "CPU of the service a gang", statistics.median(cpu_us), "µs", note="submitted, asked, decided, committed"
    )
    yield yardstick()
