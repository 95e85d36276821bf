"""Rows of jobs: one an attempt that held GPUs, one a job's end, with where it ran, what it used and why it waited."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.engine.world import ask, server, worker
from tests.service.archive.world import BEGIN_S, ArchiveWorld
from yarn_gpu_sched.archive import Kind
from yarn_gpu_sched.model.job import JobEnd

SUBMITTED_S = BEGIN_S - 100.0


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[ArchiveWorld]:
    one = ArchiveWorld(tmp_path)
    one.cluster.up(server("s1"), server("s2"))
    yield one
    await one.stop()


def start(world: ArchiveWorld, job_id: str = "j", tag: str = "gang:2x2", *, count: int = 2, gpus: int = 2) -> None:
    world.cluster.submit(job_id, tag, user="ada", name="train", submit_time_s=SUBMITTED_S)
    world.cluster.ask(job_id, ask(count, worker(gpus)))
    world.cluster.run()


async def jobs(world: ArchiveWorld) -> list[dict[str, Any]]:
    world.pass_s(0.2)
    await world.written()
    return world.rows(Kind.JOBS)


def time(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(BEGIN_S + seconds, dt.UTC)


async def test_the_end_of_a_job_is_on_the_disk_a_fifth_of_a_second_later(world: ArchiveWorld) -> None:
    world.pass_s(10.0)
    start(world)
    world.pass_s(30.0)
    world.cluster.end("j")
    (row,) = await jobs(world)
    assert (row["job_id"], row["attempt"], row["user"], row["vc"], row["name"]) == ("j", 1, "ada", "root.a", "train")
    assert (row["submitted"], row["started"], row["ended"]) == (time(-100), time(10), time(40))
    assert (row["final"], row["outcome"], row["gpus"], row["gpu_s"]) == (True, "succeeded", 4, 120.0)
    assert row["places"] == [{"server": "s1", "gpus": [0, 1, 2, 3]}]


@pytest.mark.parametrize("end", list(JobEnd))
async def test_how_it_ended(world: ArchiveWorld, end: JobEnd) -> None:
    start(world)
    world.cluster.end("j", end)
    assert [row["outcome"] for row in await jobs(world)] == [end.value]


async def test_an_end_that_is_told_twice_is_one_row(world: ArchiveWorld) -> None:
    start(world)
    for _ in range(2):
        world.cluster.end("j")
        assert len(await jobs(world)) == 1
    world.cluster.up(server("s1"))
    world.cluster.submit("j", "gang:2x2", submit_time_s=SUBMITTED_S)
    world.cluster.end("j")
    assert len(await jobs(world)) == 1


async def test_each_attempt_that_held_gpus_has_a_row_and_the_last_one_is_final(world: ArchiveWorld) -> None:
    start(world)
    world.pass_s(20.0)
    world.cluster.release_all("j")
    world.pass_s(5.0)
    world.cluster.submit("j", "gang:2x2", attempt=2, user="ada", submit_time_s=SUBMITTED_S)
    world.cluster.ask("j", ask(2, worker(2)), attempt=2)
    world.cluster.run()
    world.pass_s(10.0)
    world.cluster.end("j", JobEnd.FAILED)
    rows = [(row["attempt"], row["outcome"], row["final"], row["gpu_s"]) for row in await jobs(world)]
    assert rows == [(1, "restarted", False, 80.0), (2, "failed", True, 40.0)]


async def test_a_job_that_never_started_has_a_row_with_what_it_waited_for(world: ArchiveWorld) -> None:
    start(world, "other", "gang:2x4", gpus=4)
    start(world)
    world.pass_s(60.0)
    world.cluster.end("j", JobEnd.KILLED)
    (row,) = await jobs(world)
    assert (row["started"], row["gpus"], row["places"], row["outcome"]) == (None, 0, [], "killed")
    assert (row["waited_for"], row["capacity_s"]) == (["cluster_full"], 60.0)


async def test_how_long_it_waited_and_why_is_that_of_the_attempt(world: ArchiveWorld) -> None:
    start(world, "first", "gang:2x4", gpus=4)
    start(world, "j", "gang:1x4", count=1, gpus=4)
    world.pass_s(30.0)
    world.cluster.end("first")
    world.cluster.run()
    world.pass_s(7.0)
    world.cluster.end("j")
    row = next(row for row in await jobs(world) if row["job_id"] == "j")
    assert (row["capacity_s"], row["fair_share_s"], row["waited_for"]) == (30.0, 0.0, ["cluster_full"])


async def test_places_are_those_of_the_most_gpus_at_once(world: ArchiveWorld) -> None:
    start(world, tag="gang:2x2")
    world.pass_s(5.0)
    lost = world.cluster.live("j")[0]
    world.cluster.release(lost.container_id, lost=True)
    world.cluster.ask("j", ask(1, worker(2)))
    world.cluster.run()
    world.pass_s(5.0)
    world.cluster.end("j")
    (row,) = await jobs(world)
    assert row["gpus"] == 4
    assert sum(len(place["gpus"]) for place in row["places"]) == 4


async def test_an_attempt_that_takes_its_containers_over_counts_from_its_begin(world: ArchiveWorld) -> None:
    start(world)
    world.pass_s(20.0)
    world.cluster.submit("j", "gang:2x2", attempt=2, keeps_containers=True, user="ada", submit_time_s=SUBMITTED_S)
    world.pass_s(10.0)
    assert world.archiving.book.accounts["j"].gang is not None, "it was looked at"
    world.cluster.end("j")
    rows = [(row["attempt"], row["started"], row["gpus"], row["gpu_s"]) for row in await jobs(world)]
    assert rows == [(1, time(0), 4, 80.0), (2, time(20), 4, 40.0)]


async def test_what_the_resource_manager_does_not_tell_of_any_more_is_unseen(world: ArchiveWorld) -> None:
    start(world)
    world.pass_s(20.0)
    world.cluster.up(server("s1"), server("s2"))
    for _ in range(12):
        world.pass_s(60.0)
    (row,) = await jobs(world)
    assert (row["outcome"], row["final"], row["gpu_s"], row["ended"]) == ("unseen", True, 80.0, time(20))


async def test_what_is_told_again_goes_on_as_if_nothing_had_been(world: ArchiveWorld) -> None:
    start(world)
    held = world.cluster.live("j")
    world.pass_s(20.0)
    world.cluster.up(server("s1"), server("s2"))
    world.cluster.submit("j", "gang:2x2", user="ada", submit_time_s=SUBMITTED_S)
    for one in held:
        world.cluster.seen(one.container_id, "j", one.server_id, one.resource, gpu_indices=one.gpu_indices)
    for _ in range(20):
        world.pass_s(60.0)
    world.cluster.end("j")
    (row,) = await jobs(world)
    assert (row["outcome"], row["gpu_s"], row["started"]) == ("succeeded", 4 * 1_220.0, time(0))


async def test_of_ended_jobs_so_many_are_remembered(world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarn_gpu_sched.service.archive.book.ENDED_MAX", 3)
    for number in range(5):
        start(world, f"j{number}")
        world.cluster.end(f"j{number}")
    assert len(await jobs(world)) == 5
    assert world.archiving.book.remembered == 3
