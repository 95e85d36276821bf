"""A snapshot of 4,096 servers and 10,000 containers, through real gRPC, into a service of its own process.

Counted from the first byte of Register to the first answer that says the snapshot is complete, sender included. Then, at that size,
single containers and gangs of 8 are decided and committed over the same stream by a sender that does nothing else.

`python benchmarks/service_snapshot.py [--json]`
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec
import psutil

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.figures import Figure, Measured
from yarn_gpu_sched.protocol.v1 import (
    ask_pb2,
    cluster_pb2,
    cluster_pb2_grpc,
    container_pb2,
    decision_pb2,
    job_pb2,
    link_pb2,
    link_pb2_grpc,
    resource_pb2,
    server_pb2,
)

SERVERS, SERVER_GPUS, CONTAINERS, JOBS = 4_096, 4, 10_000, 100
CHUNK_CHANGES, ROUNDS = 1_000, 5
STREAM_CONTAINERS, STREAM_GANGS = 4_000, {"gangs of 8": 8, "single containers": 1}
IN_FLIGHT_MAX = 200
BOUND_S = 60.0
CONTAINER = resource_pb2.Resource(memory_mb=1_024, vcores=1, gpus=1)
KEY = ask_pb2.RequestKey(priority=1)


def snapshot() -> list[link_pb2.Change]:
    """Make the state to absorb: one GPU a container, spread over all servers."""
    capacity = resource_pb2.Resource(memory_mb=65_536, vcores=32, gpus=SERVER_GPUS)
    changes = [
        link_pb2.Change(
            server=server_pb2.Server(
                server_id=f"gpu-{number:05}.example:45454",
                host=f"gpu-{number:05}.example",
                rack=f"/rack-{number // 16}",
                capacity=capacity,
                state=server_pb2.SERVER_STATE_RUNNING,
            )
        )
        for number in range(SERVERS)
    ]
    changes += [_job(f"application_1790000000000_{number:04}") for number in range(JOBS)]
    for number in range(CONTAINERS):
        job = number % JOBS
        changes.append(
            link_pb2.Change(
                container=container_pb2.Container(
                    container_id=f"container_e01_1790000000000_{job:04}_01_{number:06}",
                    job_id=f"application_1790000000000_{job:04}",
                    attempt=1,
                    server_id=f"gpu-{number % SERVERS:05}.example:45454",
                    resource=CONTAINER,
                    gpu_indices=[number // SERVERS],
                    key=KEY,
                )
            )
        )
    return changes


def _job(job_id: str, tags: Sequence[str] = ()) -> link_pb2.Change:
    job = job_pb2.Job(
        job_id=job_id, virtual_cluster="root.default", user="ada", name="train", tags=tags, attempt=1, active=True
    )
    job.submit_time.FromSeconds(1_790_000_000)
    return link_pb2.Change(job=job)


class Sender:
    """A resource manager's side of one stream."""

    def __init__(self, channel: grpc.Channel, epoch: int) -> None:
        self._ready = threading.Semaphore(0)
        self._waiting: deque[link_pb2.ConnectRequest | None] = deque()
        self._sequence = 0
        register = link_pb2.Register(protocol_version=1, cluster_id="bench", epoch=epoch, start_time_ms=1)
        self.say(link_pb2.ConnectRequest(register=register))
        stub: link_pb2_grpc.ResourceManagerLinkServiceStub = link_pb2_grpc.ResourceManagerLinkServiceStub(channel)
        self.answers = stub.Connect(self._requests())

    def say(self, request: link_pb2.ConnectRequest | None) -> None:
        """Queue a message; None ends the stream."""
        if request is not None:
            self._sequence += 1
            request.sequence = self._sequence
        self._waiting.append(request)
        self._ready.release()

    def batch(self, changes: Sequence[link_pb2.Change], *, snapshot_end: bool = False) -> None:
        """Queue a batch of changes."""
        self.say(link_pb2.ConnectRequest(batch=link_pb2.Batch(changes=changes, snapshot_end=snapshot_end)))

    def _requests(self) -> Iterator[link_pb2.ConnectRequest]:
        while True:
            self._ready.acquire()
            request = self._waiting.popleft()
            if request is None:
                return
            yield request


@contextmanager
def service() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a service in a process of its own; give it and its address."""
    program = (
        "import sys; from yarn_gpu_sched.service import Settings, run; sys.exit(run(Settings(listen='127.0.0.1:0')))"
    )
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


def _absorb(channel: grpc.Channel, epoch: int, chunks: Sequence[Sequence[link_pb2.Change]]) -> tuple[Sender, float]:
    stub: cluster_pb2_grpc.ClusterServiceStub = cluster_pb2_grpc.ClusterServiceStub(channel)
    begun_s = time.perf_counter()
    sender = Sender(channel, epoch)
    for chunk in chunks:
        sender.batch(chunk)
    sender.batch((), snapshot_end=True)
    while True:
        answer = stub.GetCluster(cluster_pb2.GetClusterRequest(), timeout=BOUND_S)
        if answer.connected and answer.epoch == epoch:
            break
        time.sleep(0.005)
    taken_s = time.perf_counter() - begun_s
    assert (answer.servers, answer.used.gpus) == (SERVERS, CONTAINERS), answer
    return sender, taken_s


def _stream(sender: Sender, gang: int) -> tuple[float, list[float]]:
    """Ask, commit and release gangs one after another; return containers a second, and the seconds from ask to decision."""
    gangs = STREAM_CONTAINERS // gang
    asked_s: dict[str, float] = {}
    latencies_s: list[float] = []
    begun_s = time.perf_counter()
    for number in range(min(IN_FLIGHT_MAX // gang, gangs)):
        _ask(sender, gang, number, asked_s)
    following = len(asked_s)
    for answer in sender.answers:
        now_s = time.perf_counter()
        changes: list[link_pb2.Change] = []
        for decision in answer.decisions.decisions:
            place = decision.place_gang
            latencies_s.append(now_s - asked_s[place.job_id])
            names = [f"container_{place.job_id}_{index}" for index in range(len(place.assignments))]
            changes += _committed(decision.decision_id, place.job_id, names)
            if following < gangs:
                changes += _asking(gang, following, asked_s)
                following += 1
        sender.batch(changes) if changes else sender.say(link_pb2.ConnectRequest(heartbeat=link_pb2.Heartbeat()))
        if len(latencies_s) == gangs:
            break
    return STREAM_CONTAINERS / (time.perf_counter() - begun_s), latencies_s


def _ask(sender: Sender, gang: int, number: int, asked_s: dict[str, float]) -> None:
    sender.batch(_asking(gang, number, asked_s))


def _asking(gang: int, number: int, asked_s: dict[str, float]) -> list[link_pb2.Change]:
    job_id = f"application_{gang}_{number:06}"
    asked_s[job_id] = time.perf_counter()
    asks = ask_pb2.JobAsks(job_id=job_id, attempt=1, asks=[ask_pb2.Ask(key=KEY, count=gang, resource=CONTAINER)])
    return [_job(job_id, [f"gang:{gang}x1"]), link_pb2.Change(asks=asks)]


def _committed(decision_id: int, job_id: str, names: Sequence[str]) -> list[link_pb2.Change]:
    committed = decision_pb2.OUTCOME_CODE_COMMITTED
    outcome = decision_pb2.Outcome(decision_id=decision_id, code=committed, container_ids=names)
    ended = job_pb2.JobEnded(job_id=job_id, end=job_pb2.JOB_END_SUCCEEDED)
    released = [link_pb2.Change(container_released=container_pb2.ContainerReleased(container_id=one)) for one in names]
    asks = ask_pb2.JobAsks(job_id=job_id, attempt=1)
    return [link_pb2.Change(outcome=outcome), link_pb2.Change(asks=asks), *released, link_pb2.Change(job_ended=ended)]


def _percentile_ms(latencies_s: Sequence[float], share: float) -> float:
    ordered = sorted(latencies_s)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1_000


def _stream_figures(process: subprocess.Popen[bytes], sender: Sender) -> Iterator[Figure]:
    for name, gang in STREAM_GANGS.items():
        before_s = _cpu_s(process)
        rate, latencies_s = _stream(sender, gang)
        cpu_us = (_cpu_s(process) - before_s) / STREAM_CONTAINERS * 1e6
        yield Figure(f"{name} decided and committed over the bare stream", rate, "containers/s")
        yield Figure(f"CPU of the service a container, {name}", cpu_us, "µs", note="asked, committed, released, ended")
        for share in (0.5, 0.99, 0.999):
            value_ms = _percentile_ms(latencies_s, share)
            note = f"up to {IN_FLIGHT_MAX} containers in flight"
            yield Figure(f"ask to decision, {name}, p{share * 100:g}", value_ms, "ms", note=note)


def measure() -> Measured:
    """Measure, on a service of its own that is stopped afterwards."""
    changes = snapshot()
    chunks = [changes[start : start + CHUNK_CHANGES] for start in range(0, len(changes), CHUNK_CHANGES)]
    with service() as (process, address), grpc.insecure_channel(address) as channel:
        empty_mb = _resident_mb(process)
        rounds_s, before_s = [], _cpu_s(process)
        for epoch in range(1, ROUNDS + 1):
            sender, taken_s = _absorb(channel, epoch, chunks)
            rounds_s.append(taken_s)
        snapshot_cpu_s = (_cpu_s(process) - before_s) / ROUNDS
        full_mb = _resident_mb(process)
        streams = list(_stream_figures(process, sender))
        sender.say(None)
    each = ", ".join(f"{seconds:.2f}" for seconds in rounds_s)
    figures = (
        Figure(f"snapshot absorbed, slowest of {ROUNDS}", max(rounds_s), "s", 1.0, note=f"each: {each}"),
        Figure("CPU of the service for a snapshot, mean", snapshot_cpu_s, "s"),
        Figure("resident memory of the service, empty", empty_mb, "MiB"),
        Figure("resident memory of the service at that size", full_mb, "MiB", note=f"after {ROUNDS} snapshots"),
        *streams,
    )
    sizes = {"servers": SERVERS, "gpus_per_server": SERVER_GPUS, "containers": CONTAINERS, "jobs": JOBS}
    return Measured(figures, sizes | {"changes_per_batch": CHUNK_CHANGES, "gc": "gc.freeze after each snapshot"})


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def _resident_mb(process: subprocess.Popen[bytes]) -> float:
    return float(psutil.Process(process.pid).memory_info().rss) / (1 << 20)


if __name__ == "__main__":
    measured = measure()
    if "--json" in sys.argv[1:]:
        sys.stdout.write(json.dumps([msgspec.to_builtins(figure) for figure in measured.figures], indent=2) + "\n")
    else:
        for figure in measured.figures:
            print(f"{figure.name}: {figure.value:.4g} {figure.unit} {figure.note}")
