"""The archive as a part of the service: it is off unless it is set, starts without HDFS, and says why it cannot."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from grpc import aio

from tests.service import changes
from tests.service.archive.world import rows_in_spool
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.archive import Kind
from yarn_gpu_sched.protocol.v1 import job_pb2, link_pb2
from yarn_gpu_sched.service import BadSettings, CannotStart, FakeClock, Service, Settings, load_settings
from yarn_gpu_sched.service.log import configure_logging

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, archive_url=NOWHERE, state_dir=str(tmp_path))


async def test_a_job_that_ends_is_in_the_spool_though_hdfs_is_away(
    service: Service, clock: FakeClock, link: Callable[[], RawLink], channel: aio.Channel, tmp_path: Path
) -> None:
    del channel
    one = link()
    await one.open(changes.server(), changes.job(), changes.container())
    await settled(service)
    await one.batch(link_pb2.Change(job_ended=job_pb2.JobEnded(job_id="job-1", end=job_pb2.JOB_END_FAILED)))
    await settled(service)
    clock.advance(0.2)
    await until(lambda: rows_in_spool(tmp_path / "archive", Kind.JOBS))
    (row,) = rows_in_spool(tmp_path / "archive", Kind.JOBS)
    assert (row["job_id"], row["outcome"], row["places"]) == ("job-1", "failed", [{"server": "gpu-1", "gpus": [0]}])


async def test_what_was_written_is_closed_when_the_service_stops(service: Service, tmp_path: Path) -> None:
    assert service.archiving is not None
    service.archiving.writer.put(Kind.USE, 0, [(0, "j", "ada", "v", 1.0, 0.0, 0.0, 0.0, 0.0)])
    await service.stop()
    assert [path.suffix for path in (tmp_path / "archive").glob("use-*")] == [".rows"]


async def test_it_is_off_unless_it_is_set(clock: FakeClock) -> None:
    one = Service(Settings(listen="127.0.0.1:0"), clock)
    assert one.archiving is None
    assert not one.fleet.keeps_means
    await one.stop()


async def test_a_missing_extra_is_said_at_the_start(
    settings: Settings, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hdfs", None)
    monkeypatch.setattr("yarn_gpu_sched.archive.extra.find_spec", lambda name: None if name == "hdfs" else name)
    with pytest.raises(CannotStart, match=r"archive_url: the archive needs hdfs.*yarn-gpu-sched\[archive\]"):
        Service(settings, clock)
    await asyncio.sleep(0)


async def test_a_spool_that_cannot_be_used_is_said_at_the_start(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "file").write_text("x")
    settings = Settings(listen="127.0.0.1:0", archive_url=NOWHERE, archive_spool_dir=str(tmp_path / "file"))
    with pytest.raises(CannotStart, match=r"archive_url: archive_spool_dir: .*/file cannot be used"):
        Service(settings, clock)


async def test_a_spool_of_another_service_is_said_at_the_start(
    service: Service, settings: Settings, clock: FakeClock
) -> None:
    configure_logging("critical")
    with pytest.raises(CannotStart, match="is in use by another service"):
        Service(settings, clock)
    assert service.archiving is not None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"archive_url": "hdfs://nn:8020"}, "must be http://host:port or https://host:port"),
        ({"archive_url": "http://nn:9870/path"}, "without a path"),
        ({"archive_url": "http://u:p@nn:9870"}, "without a path"),
        ({"archive_url": NOWHERE}, "archive_url needs archive_spool_dir, or state_dir"),
        ({"archive_path": "/"}, "an absolute path in HDFS"),
        ({"archive_path": "a/b"}, "an absolute path in HDFS"),
        ({"archive_path": "/a/../b"}, "an absolute path in HDFS"),
        ({"archive_user": "a b"}, "a user name, or empty"),
        ({"archive_spool_mb_max": 1}, "16 to 1048576"),
        ({"archive_retention_days": 0}, "1 to 36500"),
    ],
)
def test_settings_that_are_wrong_are_said_with_what_would_be_right(given: dict[str, object], says: str) -> None:
    with pytest.raises(BadSettings, match=says):
        load_settings(None, **given)
