"""Recorded events replay to the same state, from any suffix of the files (law 11); a torn tail is no error."""

from pathlib import Path

import pytest

from tests.engine.world import AM, World, ask, server, worker
from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import AnyCommand
from yarn_gpu_sched.engine.events import Event, ServerChanged
from yarn_gpu_sched.journal import DivergedError, Recorder, RecordError, replay
from yarn_gpu_sched.journal.entries import files_of


class RecordedWorld(World):
    """A world whose events are recorded before they are applied."""

    def __init__(self, directory: Path, *, file_bytes_max: int = 1 << 20, files_max: int = 100) -> None:
        super().__init__(EngineSettings(ended_jobs_max=5), audited=False)
        self.recorder = Recorder(directory, self.engine, file_bytes_max=file_bytes_max, files_max=files_max)

    def apply(self, event: Event) -> list[AnyCommand]:
        self.recorder.record(event)
        return super().apply(event)


def live(world: World, jobs: int = 30) -> None:
    """Jobs come and go; some are refused, some back off, one decision stays under way."""
    world.up(*(server(f"s{number}", rack=f"/r{number % 3}") for number in range(6)), settle_left_s=2.0)
    for number in range(jobs):
        world.now_s += 0.5
        job_id = f"j{number}"
        world.submit(job_id, *([f"gang:{1 + number % 4}x{1 + number % 3}"] if number % 3 else []))
        world.ask(job_id, ask(1, AM, 0, am=True), ask(1 + number % 4, worker(1 + number % 3)))
        decided = world.decide()
        if number % 5 == 4 and decided:
            world.refuse(decided[0])
            decided = decided[1:]
        world.commit(*decided)
        if number % 2:
            world.end(f"j{number // 2}")
    world.submit("last")
    world.ask("last", ask(1, worker(1)))
    world.decide()


def test_a_record_replays_to_the_same_state(tmp_path: Path) -> None:
    world = RecordedWorld(tmp_path)
    live(world)
    world.recorder.close()
    engine = replay(tmp_path)
    assert engine.digest() == world.engine.digest()
    assert engine.audit() == []


def test_every_suffix_of_the_files_replays_to_the_same_state(tmp_path: Path) -> None:
    world = RecordedWorld(tmp_path, file_bytes_max=4_000)
    live(world)
    world.recorder.close()
    files = len(files_of(tmp_path))
    assert files > 5
    for count in range(1, files + 1):
        assert replay(tmp_path, files_max=count).digest() == world.engine.digest()


def test_old_files_go(tmp_path: Path) -> None:
    world = RecordedWorld(tmp_path, file_bytes_max=2_000, files_max=3)
    live(world)
    world.recorder.close()
    numbers = [number for number, _ in files_of(tmp_path)]
    assert len(numbers) == 3
    assert numbers[0] > 1
    assert replay(tmp_path).digest() == world.engine.digest()


@pytest.mark.parametrize("torn_bytes", [1, 7, 30])
def test_a_torn_tail_ends_the_replay(tmp_path: Path, torn_bytes: int) -> None:
    world = RecordedWorld(tmp_path)
    live(world)
    before_last = world.engine.digest()
    world.submit("one-more")
    world.recorder.close()
    _, path = files_of(tmp_path)[-1]
    path.write_bytes(path.read_bytes()[:-torn_bytes])
    assert replay(tmp_path).digest() == before_last


def test_a_flipped_bit_ends_the_replay_before_it(tmp_path: Path) -> None:
    world = RecordedWorld(tmp_path)
    live(world)
    before_last = world.engine.digest()
    world.submit("one-more")
    world.recorder.close()
    _, path = files_of(tmp_path)[-1]
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    assert replay(tmp_path).digest() == before_last


def test_another_run_begins_anew(tmp_path: Path) -> None:
    first = RecordedWorld(tmp_path)
    live(first, jobs=5)
    first.recorder.close()
    second = RecordedWorld(tmp_path)
    live(second, jobs=9)
    second.recorder.close()
    assert replay(tmp_path).digest() == second.engine.digest()


def test_a_replay_that_comes_to_another_state_says_so(tmp_path: Path) -> None:
    world = RecordedWorld(tmp_path)
    world.up(server("s1"))
    world.engine.apply(ServerChanged(now_s=0.0, server=server("unrecorded")))
    world.recorder._bytes = 1 << 30
    world.submit("j")
    world.recorder.close()
    with pytest.raises(DivergedError, match="begins in another state"):
        replay(tmp_path)


def test_what_is_no_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no record"):
        replay(tmp_path)
    (tmp_path / "events-000000000001.log").write_bytes(b"something else")
    with pytest.raises(RecordError, match="does not begin as a record"):
        replay(tmp_path)


def test_a_file_that_was_torn_in_its_snapshot_is_passed_over(tmp_path: Path) -> None:
    world = RecordedWorld(tmp_path)
    live(world)
    world.recorder.close()
    empty = Recorder(tmp_path, Engine())
    empty.close()
    _, path = files_of(tmp_path)[-1]
    path.write_bytes(path.read_bytes()[:60])
    assert replay(tmp_path).digest() == world.engine.digest()


def test_bounds_must_make_sense(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="files_max 0"):
        Recorder(tmp_path, Engine(), files_max=0)


def test_a_snapshot_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Engine.restore(b"\x00")
