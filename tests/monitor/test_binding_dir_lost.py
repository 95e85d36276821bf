"""Somebody takes the directory of binding files away under a running monitor."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.monitor.server import process, uuid
from tests.monitor.test_bindings import Room, all_, bound, name, order
from yarn_gpu_sched.binding import parse
from yarn_gpu_sched.monitor.checkpoints import Checkpoints


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    made = Room(tmp_path / "bindings")
    yield made
    for each in made.all:
        each.close()


def replace(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def move(directory: Path) -> None:
    directory.rename(directory.with_name("moved"))


def swap(directory: Path) -> None:
    move(directory)
    directory.mkdir()


def link(directory: Path) -> None:
    elsewhere = directory.with_name("elsewhere")
    shutil.rmtree(directory)
    elsewhere.mkdir()
    directory.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "lose", [shutil.rmtree, replace, move, swap, link, lambda directory: shutil.rmtree(directory / "~checkpoints")]
)
async def test_a_directory_that_was_taken_away_is_made_anew_with_all_files(
    room: Room, lose: Callable[[Path], None]
) -> None:
    monitor = room.monitor()
    room.change(3, processes=(process(9),))
    await monitor.carry_out(all_(bound(1, 0), bound(2), bound(3, 3)))
    before = room.files()
    assert before[name(3)].startswith("!")
    assert monitor.files is not None
    checkpoints = Checkpoints(monitor.files.checkpoints)
    lose(room.directory)
    await monitor.carry_out(order(bound(4, 1)))
    await monitor.retry()
    assert room.files() == before | {name(4): f"{uuid(1)}\nYGS_JOB_ID=application_1700000000000_0001\n"}
    (room.directory / "~checkpoints" / name(4)).touch()
    assert checkpoints.news(checkpoints.look([name(4)])) == [name(4)]
    await monitor.carry_out(order(gone=(1,)))
    assert name(1) not in room.files()
    failures = monitor.failures_total
    await monitor.retry()
    assert monitor.failures_total == failures


async def test_one_that_cannot_be_taken_is_tried_again_until_it_can(room: Room) -> None:
    monitor = room.monitor()
    await monitor.carry_out(all_(bound(1, 0)))
    shutil.rmtree(room.directory)
    room.directory.write_text("not a directory")
    await monitor.retry()
    room.directory.unlink()
    room.directory.mkdir()
    (room.directory / "of somebody else").touch()
    await monitor.retry()
    assert not (room.directory / name(1)).exists()
    (room.directory / "of somebody else").unlink()
    await monitor.retry()
    assert name(1) in room.files()


@pytest.mark.parametrize("names", ["uuid", "index"])
async def test_who_is_being_looked_at_is_told_nothing_by_that(room: Room, names: str) -> None:
    """Its GPU may turn out not to be free."""
    monitor = room.monitor(names)
    await monitor.carry_out(all_(bound(1, 0)))
    room.change(2, processes=(process(9),))

    seen: list[bool] = []
    fresh = room.fresh

    async def during() -> object:
        shutil.rmtree(room.directory)
        await monitor.retry()
        await monitor.renumber()
        await monitor.follow({name(1): (0,), name(2): (2,)})
        seen.append(name(2) in room.files())
        return await fresh()

    monitor._fresh = during  # type: ignore[assignment] # a look, with something before it
    await monitor.carry_out(order(bound(2, 2)))
    assert seen == [False, False]
    assert parse(room.files()[name(2)]) is not None
    assert room.files()[name(2)].startswith("!")
