"""What the archive costs a service with 2,000 servers of 8 GPUs: processor, the longest hold of the event loop, memory and bytes.

An hour on a clock of its own, in this process: an engine whose servers are three quarters held, by gangs of 8, telemetry of every
GPU that changes every 10 s, and the archive's own threads on a real disk. What makes the telemetry is not counted. Garbage is
collected as the service does.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from benchmarks.figures import Figure, Measured
from yarn_gpu_sched.archive import FolderStore, Kind
from yarn_gpu_sched.engine import Engine, events
from yarn_gpu_sched.engine.commands import AnyCommand
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.protocol.v1 import monitor_pb2
from yarn_gpu_sched.service import FakeClock, Settings
from yarn_gpu_sched.service.archive import Archiving, Around
from yarn_gpu_sched.service.archive.spool import Spool
from yarn_gpu_sched.service.clock import Timer
from yarn_gpu_sched.service.garbage import Garbage
from yarn_gpu_sched.service.log import configure_logging
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.monitors.fleet import Fleet

SERVERS, GPUS, HELD_SHARE = 2_000, 8, 0.75
TOLD_S, STEP_S, HOUR_S = 10.0, 0.05, 3_600
BEGIN_S = 1_790_000_000 // HOUR_S * HOUR_S
CPU_PERCENT_MAX, HOLD_MS_MAX, MEMORY_MB_MAX = 5.0, 50.0, 300.0
MIB = 1 << 20


def measure() -> Measured:
    """Measure an hour with its end and upload."""
    configure_logging("critical")
    garbage = Garbage()
    garbage.begin()
    try:
        with tempfile.TemporaryDirectory() as folder:
            hour = _Hour(Path(folder), SERVERS, minutes=60)
            hour.tell()
            garbage.freeze()
            figures = tuple(hour.figures(garbage.when_idle))
    finally:
        garbage.end()
    return Measured(figures, {"servers": SERVERS, "gpus_a_server": GPUS, "told_every_s": TOLD_S, "minutes": 60})


class _TimedClock(FakeClock):
    """Knows how long the callbacks held the event loop, together and at most."""

    held_s = longest_s = 0.0

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        """Call back, and time it."""

        def timed() -> None:
            begin_s = time.thread_time()
            callback()
            took_s = time.thread_time() - begin_s
            self.held_s, self.longest_s = self.held_s + took_s, max(self.longest_s, took_s)

        return super().call_at(when_s, timed)


class _Hour:
    """A cluster, its archive in a folder, and both clocks."""

    def __init__(self, folder: Path, servers: int, minutes: int) -> None:
        self._folder = folder
        self._minutes = minutes
        self._begin_s = BEGIN_S + HOUR_S - minutes * 60  # so that the hour ends with them
        self._clock = _TimedClock()
        self._engine = Engine()
        self._metrics = Metrics()
        self._random = random.Random(1)
        self._hosts = [f"gpu-{number:04d}" for number in range(servers)]
        self._fleet = Fleet(self._engine, self._clock, self._metrics)
        self._before = psutil.Process().memory_info().rss
        around = Around(self._engine, self._clock, self._metrics, self._fleet)
        (folder / "archive").mkdir()
        self._store = FolderStore(folder / "archive")
        spool = Spool(folder / "spool", 1 << 30)
        self._archiving = Archiving(
            around, spool, self._store, Settings(), wall_s=lambda: self._begin_s + self._clock.now_s()
        )
        self._fill()

    def _fill(self) -> None:
        self._apply(events.ResourceManagerRegistered(now_s=0.0, cluster_id="c", epoch=1))
        amount = Resource(262_144, 96, GPUS)
        for number, host in enumerate(self._hosts):
            server = Server(f"{host}:1", host, f"/rack-{number // 32}", amount, "", ServerState.RUNNING)
            self._apply(events.ServerChanged(now_s=0.0, server=server))
        for number in range(int(len(self._hosts) * HELD_SHARE)):
            job = Job(job_id=f"application_1790000000000_{number:04d}", vc=f"root.team-{number % 20}", user="ada")
            self._apply(events.JobChanged(now_s=0.0, job=job))
            held = Container(
                f"container_{number}",
                job.job_id,
                1,
                f"{self._hosts[number]}:1",
                Resource(1_024, 1, GPUS),
                tuple(range(GPUS)),
            )
            self._apply(events.ContainerSeen(now_s=0.0, container=held))
        self._apply(events.SnapshotEnded(now_s=0.0))

    def _apply(self, event: events.AnyEvent) -> None:
        self._archiving.before(event)
        commands: list[AnyCommand] = self._engine.apply(event)
        for command in commands:
            self._archiving.hear(command)

    def tell(self) -> None:
        """Have every monitor tell what its GPUs do."""
        for host in self._hosts:
            telemetry, _ = self._fleet.join(host)
            cards = [] if telemetry.cards else [_card(host, slot) for slot in range(GPUS)]
            telemetry.take(
                monitor_pb2.Telemetry(cards=cards, gpus=[self._sample(slot) for slot in range(GPUS)]),
                self._clock.now_s(),
                (),
            )

    def _sample(self, slot: int) -> monitor_pb2.GpuSample:
        percent, memory_mb = self._random.randrange(101), self._random.randrange(81_920)
        return monitor_pb2.GpuSample(slot=slot, sm_percent=percent, memory_used_mb=memory_mb, memory_total_mb=81_920)

    def figures(self, idle: Callable[[], None] = lambda: None) -> Iterator[Figure]:
        """Let the minutes pass, and then the hour end; ``idle``: what the service does when nothing waits."""
        self._archiving.writer.start()
        self._archiving._wait()  # noqa: SLF001 - the upload is measured by itself
        telling_s = 0.0
        began_s = time.process_time()
        for _ in range(round(self._minutes * 60 / TOLD_S)):
            begin_s = time.process_time()
            self.tell()
            idle()
            telling_s += time.process_time() - begin_s
            for _ in range(round(TOLD_S / STEP_S)):
                self._clock.advance(STEP_S)
        self._clock.advance(10.0)
        self._drain()
        written_s = time.process_time() - began_s - telling_s
        passed_s = self._minutes * 60
        spooled = self._bytes(self._folder / "spool")
        begin_s = time.process_time()
        self._archiving.uploader.round()
        uploaded_s = time.process_time() - begin_s
        memory = psutil.Process().memory_info().rss - self._before
        yield Figure("processor, of one core", 100 * (written_s + uploaded_s) / passed_s, "%", CPU_PERCENT_MAX)
        yield Figure("of it on the event loop", 100 * self._clock.held_s / passed_s, "%")
        yield Figure("longest hold of the event loop", self._clock.longest_s * 1_000, "ms", HOLD_MS_MAX)
        yield Figure(
            "turning an hour into Parquet", uploaded_s, "s", note="on the thread that uploads, at the hour's end"
        )
        yield Figure("memory, with the cluster of the benchmark", memory / MIB, "MiB", MEMORY_MB_MAX)
        yield Figure(
            "spool, an hour", spooled / MIB, "MiB", 40.0, note="below 42 MiB a day without HDFS fits into 1 GiB"
        )
        yield Figure("archive, an hour", self._bytes(self._folder / "archive") / MIB, "MiB")
        yield Figure("rows of telemetry", self._metrics.archive_rows.labels(Kind.GPUS.value)._value.get(), "")  # noqa: SLF001 - a counter has no other door
        self._archiving.uploader.stop()
        self._archiving.writer.stop()

    def _drain(self) -> None:
        while self._archiving.writer.queued:
            time.sleep(0.01)

    def _bytes(self, folder: Path) -> int:
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _card(host: str, slot: int) -> monitor_pb2.Card:
    return monitor_pb2.Card(slot=slot, uuid=f"{host}-{slot}", index=slot)
