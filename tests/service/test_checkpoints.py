"""Containers touch a file when they wrote a checkpoint: whose it is, who may touch it, and what is made of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.binding.binding_files import BindingFiles
from yarn_gpu_sched.engine import events
from yarn_gpu_sched.engine.commands import AnyCommand
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.checkpoint_watch import LOOK_S

Link = Callable[[], RawLink]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "bindings"


@pytest.fixture
def settings(directory: Path) -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, binding_dir=str(directory))


@pytest.fixture
def reported(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the jobs of whose checkpoints the engine is told."""
    told: list[str] = []
    apply = service.engine.apply

    def spy(event: events.AnyEvent) -> list[AnyCommand]:
        if isinstance(event, events.CheckpointReported):
            told.append(event.job_id)
        return apply(event)

    monkeypatch.setattr(service.engine, "apply", spy, raising=False)
    return told


async def look(service: Service, clock: FakeClock) -> None:
    """Let the next look go by, and what is told by it."""
    assert service.bindings is not None
    before = service.bindings.checkpoints._looking
    clock.advance(LOOK_S)
    looking = service.bindings.checkpoints._looking
    if looking is not None and looking is not before:
        await looking
    await settled(service)


def file_of(directory: Path, container_id: str) -> Path:
    return directory / "~checkpoints" / container_id


async def two_jobs(service: Service, link: Link, directory: Path) -> RawLink:
    """Let two jobs run, the first with two containers."""
    one = await link().open(
        changes.server(),
        *(changes.job(job_id) for job_id in ("job-1", "job-2")),
        changes.container("c1", "job-1", gpu_indices=(0,)),
        changes.container("c2", "job-1", gpu_indices=(1,)),
        changes.container("c3", "job-2", gpu_indices=(2,)),
    )
    await settled(service)
    await until(lambda: all((directory / name).exists() for name in ("c1", "c2", "c3")))
    return one


async def test_a_touch_is_a_checkpoint_of_the_containers_job_and_counts_once(
    service: Service, clock: FakeClock, link: Link, directory: Path, reported: list[str]
) -> None:
    await two_jobs(service, link, directory)
    await look(service, clock)
    assert reported == [], "what nobody touched says nothing"
    for name in ("c1", "c2"):
        file_of(directory, name).touch()
    await look(service, clock)
    await look(service, clock)
    assert reported == ["job-1"]
    file_of(directory, "c3").touch()
    await look(service, clock)
    assert reported == ["job-1", "job-2"]


async def test_a_touch_before_the_first_look_counts(
    service: Service, clock: FakeClock, link: Link, directory: Path, reported: list[str]
) -> None:
    await two_jobs(service, link, directory)
    file_of(directory, "c3").touch()
    await look(service, clock)
    assert reported == ["job-2"]


async def test_files_are_looked_at_in_turn_so_many_at_a_time(
    service: Service,
    clock: FakeClock,
    link: Link,
    directory: Path,
    reported: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("yarn_gpu_sched.service.checkpoint_watch.FILES_MAX", 1)
    await two_jobs(service, link, directory)
    for name in ("c2", "c3"):
        file_of(directory, name).touch()
    seen = []
    for _ in range(3):
        await look(service, clock)
        seen.append(list(reported))
    assert seen == [[], ["job-1"], ["job-1", "job-2"]]


async def test_what_was_touched_for_a_service_before_is_no_checkpoint_now(
    service: Service, clock: FakeClock, link: Link, directory: Path, reported: list[str]
) -> None:
    assert service.bindings is not None
    file = file_of(directory, "c1")
    file.touch()
    os.utime(file, (1_790_000_000, 1_790_000_000))
    await two_jobs(service, link, directory)
    await look(service, clock)
    assert reported == []
    file.touch()
    await look(service, clock)
    assert reported == ["job-1"]


async def test_the_file_goes_with_the_container(service: Service, link: Link, directory: Path) -> None:
    one = await two_jobs(service, link, directory)
    await one.batch(changes.released("c1"))
    await settled(service)
    await until(lambda: not (directory / "c1").exists())
    assert sorted(path.name for path in (directory / "~checkpoints").iterdir()) == ["c2", "c3"]


async def test_a_snapshot_that_names_the_containers_again_repeats_no_checkpoint(
    service: Service, clock: FakeClock, link: Link, directory: Path, reported: list[str]
) -> None:
    await two_jobs(service, link, directory)
    file_of(directory, "c1").touch()
    await look(service, clock)
    await two_jobs(service, link, directory)
    await look(service, clock)
    assert reported == ["job-1"]


def test_everybody_may_touch_a_file_and_nobody_may_make_one(directory: Path) -> None:
    files = BindingFiles(directory)
    assert files.change({"c1": "0\n"}) == {}
    file = file_of(directory, "c1")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o666, 0o755)
    assert files.checkpoints.touched_ns(["c1", "c2"]) == {}
    file.touch()
    assert files.checkpoints.touched_ns(["c1", "c2"]) == {"c1": file.stat().st_mtime_ns}
    assert files.change({"c1": "1\n"}) == {}
    assert file.stat().st_mtime_ns, "it stays as it was touched when the binding changes"
    assert files.change({"c1": None}) == {}
    assert not file.exists()
    files.close()


def test_a_link_in_place_of_the_directory_is_refused(directory: Path, tmp_path: Path) -> None:
    BindingFiles(directory).close()
    (directory / "~checkpoints").rmdir()
    (directory / "~checkpoints").symlink_to(tmp_path)
    with pytest.raises(ValueError, match=r"binding_dir: .* cannot be written"):
        BindingFiles(directory)
