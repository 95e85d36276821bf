"""Events are recorded while that works, and scheduling goes on when it does not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service import changes
from tests.service.conftest import settled
from tests.service.raw_link import RawLink
from yarn_gpu_sched.engine import events
from yarn_gpu_sched.journal import Recorder, replay
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.recording import RETRY_S, Recording

Link = Callable[[], RawLink]


class TestService:
    """A service that records."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(listen="127.0.0.1:0", audit_every_events=0, recorder_dir=str(tmp_path / "record"))

    async def test_what_was_recorded_replays_to_the_same_state(
        self, service: Service, link: Link, tmp_path: Path
    ) -> None:
        one = await link().open(changes.server(), changes.job(), changes.asks())
        (decision,) = await one.decisions()
        await one.batch(changes.committed(decision), changes.asks(count=0), changes.job("job-2"))
        engine = await settled(service)
        await one.call.done_writing()
        await one.end()
        assert engine.job("job-2") is not None
        await service.stop()
        assert replay(tmp_path / "record").digest() == engine.digest()

    async def test_what_is_buffered_reaches_the_file_within_a_second(
        self, service: Service, clock: FakeClock, link: Link, tmp_path: Path
    ) -> None:
        await link().open(changes.server(), changes.job())
        engine = await settled(service)
        clock.advance(1.0)
        assert replay(tmp_path / "record").digest() == engine.digest()


class FullDisk:
    """A recorder whose disk may be full."""

    def __init__(self) -> None:
        self.full = False
        self.recorded: list[list[float]] = []

    def make(self) -> Recorder:
        if self.full:
            raise OSError(28, "No space left on device")
        self.recorded.append([])
        return self  # type: ignore[return-value] # stands in for the file alone

    def record(self, event: events.AnyEvent) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.recorded[-1].append(event.now_s)

    def flush(self) -> None:
        pass

    close = flush


def test_a_full_disk_is_counted_and_a_new_file_begins_a_minute_later() -> None:
    clock, metrics, disk = FakeClock(), Metrics(), FullDisk()
    recording = Recording(disk.make, clock, metrics)

    def record(count: int) -> None:
        for _ in range(count):
            recording.record(events.Pass(now_s=clock.now_s()))

    record(2)
    disk.full = True
    record(3)
    assert metrics.recorder_drops._value.get() == 3
    disk.full = False
    record(2)
    assert metrics.recorder_drops._value.get() == 5
    clock.advance(RETRY_S)
    record(2)
    assert disk.recorded == [[0.0, 0.0], [RETRY_S, RETRY_S]]
    recording.close()


def test_a_disk_that_stays_full_is_tried_once_a_minute() -> None:
    clock, metrics, disk = FakeClock(), Metrics(), FullDisk()
    recording = Recording(disk.make, clock, metrics)
    disk.full = True
    for _ in range(600):
        recording.record(events.Pass(now_s=clock.now_s()))
        clock.advance(0.5)
    assert metrics.recorder_drops._value.get() == 600
    recording.close()


def test_a_failing_flush_is_no_failure_of_the_service() -> None:
    clock, metrics, disk = FakeClock(), Metrics(), FullDisk()
    recording = Recording(disk.make, clock, metrics)
    recording.record(events.Pass(now_s=0.0))

    def fail() -> None:
        raise OSError(28, "No space left on device")

    disk.flush = disk.close = fail  # type: ignore[method-assign] # the disk fills up
    clock.advance(1.0)
    recording.record(events.Pass(now_s=1.0))
    assert metrics.recorder_drops._value.get() == 1
