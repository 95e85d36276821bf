"""A service that is killed and started again: nothing twice, and nothing is lost that was on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.world import server
from tests.service.archive.test_jobs import SUBMITTED_S, start, time
from tests.service.archive.world import HOUR_S, ArchiveWorld
from yarn_gpu_sched.archive import Kind
from yarn_gpu_sched.service.archive.spool import Spool, SpoolInUseError


def tell_again(world: ArchiveWorld, before: ArchiveWorld, *job_ids: str, attempt: int = 1) -> None:
    world.cluster.up(server("s1"), server("s2"))
    for job_id in job_ids:
        world.cluster.submit(job_id, "gang:2x2", user="ada", submit_time_s=SUBMITTED_S, attempt=attempt)
        for one in before.cluster.live(job_id):
            world.cluster.seen(one.container_id, job_id, one.server_id, one.resource, gpu_indices=one.gpu_indices)


async def killed(world: ArchiveWorld, away_s: float = 0.0) -> ArchiveWorld:
    """End it as by SIGKILL, and begin another one in the same folder, so much later."""
    world.kill()
    return ArchiveWorld(world.folder, begin_s=world.clock.now_s() - 1_000.0 + away_s)


async def test_a_job_that_runs_on_is_counted_through_the_time_without_a_service(tmp_path: Path) -> None:
    first = ArchiveWorld(tmp_path)
    first.cluster.up(server("s1"), server("s2"))
    start(first)
    first.pass_s(120.0)
    await first.written()
    second = await killed(first, away_s=300.0)
    tell_again(second, first, "j")
    second.pass_s(60.0)
    second.cluster.end("j")
    second.pass_s(HOUR_S)
    await second.written()
    (row,) = second.rows(Kind.JOBS)
    assert (row["started"], row["ended"], row["gpu_s"]) == (time(0), time(480), 4 * 480.0)
    assert [row["gpu_s"] for row in second.rows(Kind.USE)] == [4 * 480.0]
    await second.stop()


async def test_a_job_that_ended_while_nobody_looked_is_unseen(tmp_path: Path) -> None:
    first = ArchiveWorld(tmp_path)
    first.cluster.up(server("s1"), server("s2"))
    start(first)
    first.pass_s(120.0)
    await first.written()
    second = await killed(first, away_s=300.0)
    tell_again(second, first)
    for _ in range(11):
        second.pass_s(60.0)
    await second.written()
    (row,) = second.rows(Kind.JOBS)
    assert (row["outcome"], row["ended"], row["gpu_s"]) == ("unseen", time(120), 480.0)
    await second.stop()


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_what_is_on_the_disk_is_not_written_again_however_often_it_is_killed(tmp_path: Path, times: int) -> None:
    """The rows came after what was kept, so only they themselves say that they are there."""
    world = ArchiveWorld(tmp_path)
    world.cluster.up(server("s1"), server("s2"))
    start(world)
    start(world, "k")
    world.pass_s(60.0)
    await world.written()
    world.pass_s(10.0)
    world.cluster.end("j")
    world.pass_s(0.2)
    await world.written()
    for _ in range(times):
        before, world = world, await killed(world)
        tell_again(world, before, "k")
    for _ in range(20):
        world.pass_s(60.0)
    world.cluster.end("k")
    world.pass_s(HOUR_S)
    await world.written()
    rows = {(row["job_id"], row["outcome"], round(row["gpu_s"], 3)) for row in world.rows(Kind.JOBS)}
    assert rows == {("j", "succeeded", 280.0), ("k", "succeeded", 4 * 1_270.2)}
    assert len(world.rows(Kind.JOBS)) == 2
    await world.stop()


async def test_use_that_was_written_after_what_was_kept_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ArchiveWorld(tmp_path)
    first.cluster.up(server("s1"), server("s2"))
    start(first)
    for _ in range(59):
        first.pass_s(60.0)
    await first.written()
    monkeypatch.setattr(first.archiving.writer, "keep", lambda *_, **__: None)  # the end comes before that
    first.pass_s(61.0)
    await first.written()
    assert [row["gpu_s"] for row in first.rows(Kind.USE)] == [4 * HOUR_S]
    second = await killed(first)
    tell_again(second, first, "j")
    second.pass_s(59.0)
    second.cluster.end("j")
    for _ in range(61):
        second.pass_s(60.0)
    await second.written()
    sums: dict[object, float] = {}
    for row in second.rows(Kind.USE):
        sums[row["hour"]] = sums.get(row["hour"], 0.0) + row["gpu_s"]
    assert sums == {time(0): 4 * HOUR_S, time(HOUR_S): pytest.approx(4 * 60.0)}
    await second.stop()


async def test_a_crash_between_what_is_kept_and_the_closing_writes_nothing_twice(tmp_path: Path) -> None:
    """What a run before left open is closed, and may be archived and gone, only once what is kept knows of its rows."""
    first = ArchiveWorld(tmp_path)
    first.cluster.up(server("s1"), server("s2"))
    start(first)
    first.pass_s(60.0)
    await first.written()
    first.cluster.end("j")
    first.pass_s(0.2)
    await first.written()
    second = await killed(first)
    second.archiving.uploader.round()
    assert second.spool.waiting() == []
    third = await killed(second)
    tell_again(third, first)
    for _ in range(12):
        third.pass_s(60.0)
    await third.written()
    assert [(row["job_id"], row["outcome"]) for row in third.rows(Kind.JOBS)] == [("j", "succeeded")]
    await third.stop()


async def test_what_was_torn_by_the_crash_is_passed_over(tmp_path: Path) -> None:
    first = ArchiveWorld(tmp_path)
    first.cluster.up(server("s1"), server("s2"))
    for name in ("j", "k"):
        start(first, name)
        first.cluster.end(name)
        first.pass_s(0.2)
    await first.written()
    first.kill()
    (path,) = (tmp_path / "spool").glob("jobs-*.open")
    path.write_bytes(path.read_bytes()[:-7])
    second = ArchiveWorld(tmp_path, begin_s=10.0)
    second.archiving.uploader.round()
    assert [row["job_id"] for row in second.rows(Kind.JOBS)] == ["j"]
    await second.stop()


async def test_what_is_kept_and_damaged_is_said_and_the_archive_begins_anew(tmp_path: Path) -> None:
    first = ArchiveWorld(tmp_path)
    await first.stop()
    (tmp_path / "spool" / "open.msgpack").write_bytes(b"\xc1")
    second = ArchiveWorld(tmp_path)
    second.cluster.up(server("s1"))
    start(second, tag="gang:1x2", count=1)
    second.cluster.end("j")
    second.pass_s(0.2)
    await second.written()
    assert len(second.rows(Kind.JOBS)) == 1
    await second.stop()


async def test_two_services_do_not_share_a_spool(tmp_path: Path) -> None:
    first = ArchiveWorld(tmp_path)
    with pytest.raises(SpoolInUseError, match="in use by another service"):
        Spool(tmp_path / "spool", 1 << 30)
    await first.stop()
    Spool(tmp_path / "spool", 1 << 30).end()
