"""Binding files follow the engine: written after a commit, gone after a release, right after a snapshot."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import BOUND_S, RawLink
from yarn_gpu_sched.binding.binding_files import BindingFiles
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.bindings import RETRY_S, Bindings
from yarn_gpu_sched.service.metrics import Metrics

Link = Callable[[], RawLink]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "bindings"


@pytest.fixture
def settings(directory: Path) -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, binding_dir=str(directory))


def everything(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


def contents(directory: Path) -> dict[str, str]:
    """Read all files; one that goes meanwhile is none any more."""
    found = {}
    for path in directory.iterdir():
        if "~" not in path.name:
            with suppress(FileNotFoundError):
                found[path.name] = path.read_text()
    return found


async def test_a_committed_gang_is_bound_and_unbound_container_by_container(link: Link, directory: Path) -> None:
    one = await link().open(changes.server(), changes.job(tags=["gang:2x2"]), changes.asks(count=2, gpus=2))
    (decision,) = await one.decisions()
    assert contents(directory) == {}
    await one.batch(changes.committed(decision), changes.asks(count=0))
    await until(lambda: contents(directory) == {"container-1-0": "0,1\n", "container-1-1": "2,3\n"})
    await one.batch(changes.released("container-1-0"))
    await until(lambda: contents(directory) == {"container-1-1": "2,3\n"})


async def test_a_container_without_gpus_gets_an_empty_line(link: Link, directory: Path) -> None:
    await link().open(changes.server(), changes.job(), changes.container(gpu_indices=()))
    await until(lambda: contents(directory) == {"container-1": "\n"})


async def test_a_container_on_a_server_without_gpus_gets_none(service: Service, link: Link, directory: Path) -> None:
    one = await link().open(changes.server(gpus=0), changes.job(), changes.container(gpu_indices=()))
    await one.batch(changes.server("gpu-2:1"), changes.container("container-2", server_id="gpu-2:1"))
    await until(lambda: contents(directory) == {"container-2": "0\n"})
    await settled(service)


async def test_files_of_containers_no_longer_live_go_after_the_snapshot(
    service: Service, clock: FakeClock, link: Link, directory: Path
) -> None:
    (directory / "container-of-before").write_text("0\n")
    await link().open(changes.server(), changes.job(), changes.container(), settle_s=60.0)
    await settled(service)
    await until(lambda: contents(directory) == {"container-1": "0\n", "container-of-before": "0\n"})
    clock.advance(60.0)
    await until(lambda: contents(directory) == {"container-1": "0\n"})


async def test_files_stay_while_the_resource_manager_is_away_and_through_its_next_snapshot(
    service: Service, link: Link, directory: Path
) -> None:
    one = await link().open(
        changes.server(), changes.job(), changes.container(), changes.container("container-2", gpu_indices=(1,))
    )
    await until(lambda: len(contents(directory)) == 2)
    one.call.cancel()
    await until(lambda: service.driver.session is None)
    await settled(service)
    two = link()
    await two.registered()
    await settled(service)
    assert len(contents(directory)) == 2
    await two.batch(changes.server(), changes.job(), changes.container(), snapshot_end=True)
    await until(lambda: contents(directory) == {"container-1": "0\n"})


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/b", "..", "a b", "~new", "a\nb"])
async def test_a_hostile_container_id_reaches_no_file(
    service: Service, link: Link, directory: Path, tmp_path: Path, name: str
) -> None:
    before = everything(tmp_path)
    await link().open(
        changes.server(), changes.job(), changes.container(name), changes.container("good", gpu_indices=(1,))
    )
    await until(lambda: contents(directory) == {"good": "1\n"})
    assert service.metrics.binding_failures._value.get() == 1
    await until(
        lambda: everything(tmp_path) == sorted([*before, directory / "good", directory / "~checkpoints" / "good"])
    )  # the file that becomes it goes last
    await settled(service)


class SlowFiles(BindingFiles):
    """A directory that lists its files when it is let."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.asked, self.let = threading.Event(), threading.Event()

    def names(self) -> set[str]:
        names = super().names()
        self.asked.set()
        assert self.let.wait(BOUND_S)
        return names


async def test_files_stay_when_a_snapshot_begins_while_the_directory_is_compared(
    directory: Path, clock: FakeClock
) -> None:
    files = SlowFiles(directory)
    files.change({"a": "0\n"})
    bindings = Bindings(files, clock, Metrics())
    bindings.begin(0.0)
    bindings.bind("a", (0,), "job-1")
    bindings.end()
    await until(files.asked.is_set)
    bindings.begin(0.0)
    files.let.set()
    await until(lambda: bindings._task is None)
    assert contents(directory) == {"a": "0\n"}
    bindings.end()
    await until(lambda: contents(directory) == {})
    await bindings.close()
    files.close()


async def test_files_stay_when_a_snapshot_begins_while_they_wait_to_be_written(
    directory: Path, clock: FakeClock
) -> None:
    files = BindingFiles(directory)
    files.change({"a": "0\n"})
    bindings = Bindings(files, clock, Metrics())
    bindings.bind("a", (0,), "job-1")
    bindings.begin(0.0)
    await until(lambda: bindings._task is None)
    assert contents(directory) == {"a": "0\n"}
    await bindings.close()
    files.close()


async def test_files_stay_when_the_time_of_the_snapshot_before_is_up_during_the_next(
    directory: Path, clock: FakeClock
) -> None:
    files = BindingFiles(directory)
    files.change({"a": "0\n"})
    bindings = Bindings(files, clock, Metrics())
    bindings.begin(10.0)
    bindings.end()
    clock.advance(9.0)
    bindings.begin(10.0)
    clock.advance(1.0)
    await until(lambda: bindings._task is None)
    assert contents(directory) == {"a": "0\n"}
    bindings.end()
    clock.advance(9.0)
    await until(lambda: contents(directory) == {})
    await bindings.close()
    files.close()


class FailingFiles(BindingFiles):
    """A directory on a disk that is full for a while."""

    failing = True

    def change(self, changes: "dict[str, str | None]") -> dict[str, OSError]:  # type: ignore[override] # narrower is enough here
        if self.failing:
            return {name: OSError(28, "No space left on device") for name in changes}
        return super().change(changes)


async def test_a_failure_is_counted_and_tried_again_with_the_last_state(directory: Path, clock: FakeClock) -> None:
    files, metrics = FailingFiles(directory), Metrics()
    bindings = Bindings(files, clock, metrics)
    bindings.bind("a", (0,), "job-1")
    await until(lambda: metrics.binding_failures._value.get() == 1 and bindings._task is None)
    bindings.bind("a", (1,), "job-1")
    bindings.bind("b", (2,), "job-1")
    bindings.unbind("b")
    files.failing = False
    clock.advance(RETRY_S)
    await until(lambda: contents(directory) == {"a": "1\n"} and not bindings.queued)
    await bindings.close()
    files.close()


@pytest.mark.parametrize("hops", range(4))
async def test_what_is_wanted_just_as_the_writing_ends_is_written_too(
    directory: Path, clock: FakeClock, hops: int
) -> None:
    """At every turn of the event loop around the end, and with a clock that stands still: nothing waits for a retry."""
    bindings = Bindings(BindingFiles(directory), clock, Metrics())
    loop = asyncio.get_running_loop()
    bindings.bind("a", (0,), "job-1")
    writing = next(task for task in asyncio.all_tasks() if task is not asyncio.current_task())

    def when_written(left: int) -> None:
        if not writing.done():
            loop.call_soon(when_written, left)
        elif left:
            loop.call_soon(when_written, left - 1)
        else:
            bindings.bind("b", (1,), "job-1")

    loop.call_soon(when_written, hops)
    await until(lambda: contents(directory) == {"a": "0\n", "b": "1\n"})
    await bindings.close()


async def test_too_many_differences_compare_the_whole_directory(directory: Path, clock: FakeClock) -> None:
    files = FailingFiles(directory)
    bindings = Bindings(files, clock, Metrics(), dirty_max=10)
    for index in range(100):
        bindings.bind(f"container-{index}", (index,), "job-1")
        assert bindings.queued <= 10
    bindings.unbind("container-7")
    files.failing = False
    await until(lambda: bindings._task is None)
    clock.advance(RETRY_S)
    await until(lambda: len(contents(directory)) == 99 and not bindings.queued)
    assert contents(directory)["container-99"] == "99\n"
    await bindings.close()
    files.close()


async def test_stopping_writes_what_is_wanted(service: Service, link: Link, directory: Path) -> None:
    held = [changes.container(f"container-{index}", gpu_indices=()) for index in range(200)]
    await link().open(changes.server(), changes.job(), *held)
    await settled(service)
    await service.stop()
    assert len(contents(directory)) == 200
