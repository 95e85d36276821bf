"""A snapshot of 4,096 servers and 10,000 containers, through real gRPC, into a service of its own process.

Counted from the first byte of Register to the first answer that says the snapshot is complete, sender included. Then, at that size,
single containers and gangs of 8 are decided and committed over the same stream by a sender that does nothing else.

The service has its defaults. There are queues with quotas and maxima, and jobs that wait while others come and go: for a maximum,
and on the ladder; the resource manager is told why.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence

import grpc

from benchmarks.figures import Figure, Measured
from benchmarks.service import BOUND_S, configured, cpu_s, resident_mb, service, yardstick
from benchmarks.snapshot_world import (
    CONTAINERS,
    JOBS,
    ON_THE_LADDER,
    PARENTS,
    SERVER_GPUS,
    SERVERS,
    VCS,
    WAITING_FOR_MAXIMUM,
    asking,
    chunks,
    snapshot,
    vc_name,
)
from yarn_gpu_sched.protocol.v1 import (
    ask_pb2,
    cluster_pb2,
    cluster_pb2_grpc,
    container_pb2,
    decision_pb2,
    job_pb2,
    link_pb2,
    link_pb2_grpc,
)

CHUNK_CHANGES, ROUNDS = 1_000, 5
STREAM_CONTAINERS, STREAM_GANGS = 4_000, {"gangs of 8": 8, "single containers": 1}
IN_FLIGHT_MAX = 200


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


def _absorb(channel: grpc.Channel, epoch: int, batches: Sequence[Sequence[link_pb2.Change]]) -> tuple[Sender, float]:
    stub: cluster_pb2_grpc.ClusterServiceStub = cluster_pb2_grpc.ClusterServiceStub(channel)
    begun_s = time.perf_counter()
    sender = Sender(channel, epoch)
    for batch in batches:
        sender.batch(batch)
    sender.batch((), snapshot_end=True)
    while True:
        answer = stub.GetCluster(cluster_pb2.GetClusterRequest(), timeout=BOUND_S)
        if answer.connected and answer.epoch == epoch:
            break
        time.sleep(0.005)
    taken_s = time.perf_counter() - begun_s
    assert (answer.servers, answer.used.gpus) == (SERVERS, CONTAINERS), answer
    return sender, taken_s


class Stream:
    """Gangs of a size that are asked, committed and released one after another. ``told``: jobs that were told why they wait."""

    def __init__(self, sender: Sender, gang: int) -> None:
        self.gangs = STREAM_CONTAINERS // gang
        self.latencies_s: list[float] = []
        self.told: set[str] = set()
        self._sender = sender
        self._gang = gang
        self._asked_s: dict[str, float] = {}

    def run(self) -> float:
        """Return containers a second. Raises TimeoutError if not all gangs are decided in time."""
        begun_s = time.perf_counter()
        for _ in range(min(IN_FLIGHT_MAX // self._gang, self.gangs)):
            self._sender.batch(self._next())
        for answer in self._sender.answers:
            now_s = time.perf_counter()
            changes = self._answered(answer, now_s)
            if changes:
                self._sender.batch(changes)
            else:
                self._sender.say(link_pb2.ConnectRequest(heartbeat=link_pb2.Heartbeat()))
            if len(self.latencies_s) == self.gangs:
                return STREAM_CONTAINERS / (time.perf_counter() - begun_s)
            if now_s - begun_s > BOUND_S:
                break
        raise TimeoutError(f"{len(self.latencies_s)} of {self.gangs} gangs of {self._gang} were decided in {BOUND_S} s")

    def _answered(self, answer: link_pb2.ConnectResponse, now_s: float) -> list[link_pb2.Change]:
        self.told.update(each.job_id for each in answer.explanations.explanations)
        changes: list[link_pb2.Change] = []
        for decision in answer.decisions.decisions:
            place = decision.place_gang
            self.latencies_s.append(now_s - self._asked_s[place.job_id])
            names = [f"container_{place.job_id}_{index}" for index in range(len(place.assignments))]
            changes += _committed(decision.decision_id, place.job_id, names)
            changes += self._next()
        return changes

    def _next(self) -> tuple[link_pb2.Change, ...]:
        number = len(self._asked_s)
        if number == self.gangs:
            return ()
        job_id = f"application_{self._gang}_{number:06}"
        self._asked_s[job_id] = time.perf_counter()
        return asking(job_id, vc_name(number), self._gang)


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
        before_s = cpu_s(process)
        stream = Stream(sender, gang)
        rate = stream.run()
        cpu_us = (cpu_s(process) - before_s) / STREAM_CONTAINERS * 1e6
        note = f"{len(stream.told)} jobs told why they wait meanwhile"
        yield Figure(f"{name} decided and committed over the bare stream", rate, "containers/s", note=note)
        yield Figure(f"CPU of the service a container, {name}", cpu_us, "µs", note="asked, committed, released, ended")
        for share in (0.5, 0.99, 0.999):
            value_ms = _percentile_ms(stream.latencies_s, share)
            note = f"up to {IN_FLIGHT_MAX} containers in flight"
            yield Figure(f"ask to decision, {name}, p{share * 100:g}", value_ms, "ms", note=note)


def measure() -> Measured:
    """Measure, on a service of its own that is stopped afterwards."""
    batches = chunks(snapshot(), CHUNK_CHANGES)
    with service() as (process, address), grpc.insecure_channel(address) as channel:
        empty_mb = resident_mb(process)
        rounds_s, before_s = [], cpu_s(process)
        for epoch in range(1, ROUNDS + 1):
            sender, taken_s = _absorb(channel, epoch, batches)
            rounds_s.append(taken_s)
        snapshot_cpu_s = (cpu_s(process) - before_s) / ROUNDS
        full_mb = resident_mb(process)
        streams = list(_stream_figures(process, sender))
        sender.say(None)
    each = ", ".join(f"{seconds:.2f}" for seconds in rounds_s)
    figures = (
        Figure(f"snapshot absorbed, slowest of {ROUNDS}", max(rounds_s), "s", 1.0, note=f"each: {each}"),
        Figure("CPU of the service for a snapshot, mean", snapshot_cpu_s, "s"),
        Figure("resident memory of the service, empty", empty_mb, "MiB"),
        Figure("resident memory of the service at that size", full_mb, "MiB", note=f"after {ROUNDS} snapshots"),
        *streams,
        yardstick(),
    )
    sizes = {"servers": SERVERS, "gpus_per_server": SERVER_GPUS, "containers": CONTAINERS, "jobs": JOBS}
    tenants = {
        "vcs": VCS,
        "parents": PARENTS,
        "wait_for_a_maximum": WAITING_FOR_MAXIMUM,
        "on_the_ladder": ON_THE_LADDER,
    }
    configuration = configured() | sizes | tenants
    return Measured(
        figures, configuration | {"changes_per_batch": CHUNK_CHANGES, "gc": "gc.freeze after each snapshot"}
    )
