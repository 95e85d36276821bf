"""Who used how much of each hour: held, borrowed, idle, not read and lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.engine.world import ask, server, worker
from tests.service.archive.test_jobs import start, time
from tests.service.archive.world import BEGIN_S, HOUR_S, ArchiveWorld
from tests.service.played_monitor import card, sample
from yarn_gpu_sched.archive import Kind
from yarn_gpu_sched.engine.views import JobView
from yarn_gpu_sched.model.preemption import Preempted
from yarn_gpu_sched.protocol.v1 import monitor_pb2
from yarn_gpu_sched.service.archive.accounts import AWAY_MAX_S, Account


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[ArchiveWorld]:
    one = ArchiveWorld(tmp_path)
    one.cluster.up(server("s1"), server("s2"))
    yield one
    await one.stop()


async def use(world: ArchiveWorld) -> list[dict[str, Any]]:
    await world.written()
    return sorted(world.rows(Kind.USE), key=lambda row: (row["hour"], row["job_id"]))


def pass_minutes(world: ArchiveWorld, minutes: int) -> None:
    for _ in range(minutes):
        world.pass_s(60.0)


async def test_what_runs_over_a_full_hour_is_counted_in_both(world: ArchiveWorld) -> None:
    world.pass_s(HOUR_S - 600.0)
    start(world)
    pass_minutes(world, 20)
    world.cluster.end("j")
    pass_minutes(world, 60)
    rows = [(row["hour"], row["job_id"], row["user"], row["vc"], row["gpu_s"]) for row in await use(world)]
    assert rows == [
        (time(0), "j", "ada", "root.a", 2_400.0),
        (time(HOUR_S), "j", "ada", "root.a", 2_400.0),
    ]


async def test_nobody_who_held_nothing_has_a_row(world: ArchiveWorld) -> None:
    world.cluster.submit("cpu")
    pass_minutes(world, 61)
    assert await use(world) == []


async def test_what_is_not_given_back_after_the_end_still_counts(world: ArchiveWorld) -> None:
    start(world)
    world.pass_s(60.0)
    world.cluster.end("j", release=False)
    world.pass_s(30.0)
    world.cluster.release_all("j")
    pass_minutes(world, 60)
    (row,) = await use(world)
    assert row["gpu_s"] == 4 * 90.0
    assert [row["gpu_s"] for row in world.rows(Kind.JOBS)] == [4 * 60.0]
    assert world.archiving.book.accounts == {}, "of whom nothing more is to be told is forgotten"


@pytest.mark.parametrize(("quota_gpus", "borrowed"), [(8, 0), (6, 4), (3, 8), (0, 8)])
async def test_what_does_not_fit_into_the_quota_is_borrowed_as_ygs_vcs_shows(
    world: ArchiveWorld, quota_gpus: int, borrowed: int
) -> None:
    world.cluster.configure("root.a", quota_gpus=quota_gpus, maximum_gpus=8)
    for number in range(2):
        start(world, f"j{number}")
        world.cluster.now_s = world.clock.now_s()
        world.pass_s(1.0)
    (shown,) = [one for one in world.engine.virtual_clusters()[0] if one.virtual_cluster.path == "root.a"]
    assert sum(share.borrowed_gpus for share in shown.shares) == borrowed
    pass_minutes(world, 61)
    first_hour = [row for row in await use(world) if row["hour"] == time(0)]
    assert sum(row["borrowed_gpu_s"] for row in first_hour) == borrowed * HOUR_S


def read(world: ArchiveWorld, host: str, *percents: int | None) -> None:
    telemetry, _ = world.fleet.join(host)
    cards = [card(slot, host) for slot in range(len(percents))]
    samples = [sample(slot, sm_percent=percent) for slot, percent in enumerate(percents)]
    telemetry.take(monitor_pb2.Telemetry(cards=cards, gpus=samples), world.clock.now_s(), ())


async def test_what_is_held_and_not_used_is_idle_and_what_nobody_reads_is_not_called_so(world: ArchiveWorld) -> None:
    start(world, tag="gang:1x4", count=1, gpus=4)
    read(world, "s1", 0, 4, 97, None)
    pass_minutes(world, 60)
    (row,) = await use(world)
    assert (row["gpu_s"], row["idle_gpu_s"], row["unread_gpu_s"]) == (4 * HOUR_S, 2 * HOUR_S, HOUR_S)


async def test_a_minute_has_the_mean_of_what_was_read_by_time(world: ArchiveWorld) -> None:
    start(world, tag="gang:1x4", count=1, gpus=4)
    world.pass_s(60.0)
    read(world, "s1", 100, 0, 0, 0)
    world.pass_s(15.0)
    read(world, "s1", 20, 0, 0, 0)
    world.pass_s(45.0)
    await world.written()
    rows = [row for row in world.rows(Kind.GPUS) if row["minute"] == time(60) and row["server"] == "s1"]
    assert [row["sm_percent"] for row in rows] == [40.0, 0.0, 0.0, 0.0]
    assert [row["gpu"] for row in rows] == [0, 1, 2, 3]
    assert {(row["job_id"], row["vc"], row["memory_used_mb"], row["memory_total_mb"]) for row in rows} == {
        ("j", "root.a", 3, 16_384)
    }
    assert [row["idle"] for row in rows] == [False, True, True, True]


async def test_every_gpu_has_a_row_each_minute_also_where_nobody_reads(world: ArchiveWorld) -> None:
    pass_minutes(world, 3)
    world.pass_s(1.0)
    await world.written()
    rows = world.rows(Kind.GPUS)
    assert len(rows) == 3 * 8
    assert {(row["sm_percent"], row["job_id"], row["idle"]) for row in rows} == {(None, "", None)}


async def test_what_a_preemption_cost_is_lost_and_said_of_the_attempt(
    world: ArchiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(world)
    world.pass_s(100.0)
    real = type(world.engine).job

    def job(engine: Any, job_id: str, now_s: float | None = None) -> JobView | None:  # noqa: ANN401 - an engine that tells an archive
        view = real(engine, job_id, now_s)
        assert view is not None
        told = (Preempted(world.clock.now_s(), "other", "root.b", 321.0),)
        return type(view)(**{name: getattr(view, name) for name in view.__struct_fields__} | {"preempted": told})

    monkeypatch.setattr(type(world.engine), "job", job)
    world.cluster.submit("j", "gang:2x2", attempt=2, user="ada")
    world.pass_s(1.0)
    await world.written()
    (row,) = world.rows(Kind.JOBS)
    assert (row["outcome"], row["lost_gpu_s"], row["preempted_by"]) == ("preempted", 321.0, ["other"])
    pass_minutes(world, 60)
    first = (await use(world))[0]
    assert first["lost_gpu_s"] == 321.0, "once, however often it is looked at"


async def test_a_wait_ask_is_no_use(world: ArchiveWorld) -> None:
    world.cluster.submit("j", "gang:3x4")
    world.cluster.ask("j", ask(3, worker(4)))
    pass_minutes(world, 61)
    assert await use(world) == []


def test_a_clock_that_is_wrong_by_years_holds_nobody_up_and_counts_on_when_it_is_right() -> None:
    account = Account(job_id="j")
    account.hold("c", "gpu-1", (0, 1), BEGIN_S)
    account.count(BEGIN_S + 12 * 365 * 86_400)
    assert len(account.hours) <= AWAY_MAX_S / HOUR_S + 1
    account.hours.clear()
    account.count(BEGIN_S + HOUR_S)
    account.count(BEGIN_S + 2 * HOUR_S)
    assert {hour: one.gpu_s for hour, one in account.hours.items()} == {BEGIN_S + HOUR_S: 2 * HOUR_S}


def test_a_clock_that_is_put_back_an_hour_counts_no_hour_twice() -> None:
    account = Account(job_id="j")
    account.hold("c", "gpu-1", (0,), BEGIN_S)
    for until_s in (BEGIN_S + 2 * HOUR_S, BEGIN_S + HOUR_S, BEGIN_S + 3 * HOUR_S):
        account.count(until_s)
    assert account.sums.gpu_s == 3 * HOUR_S
