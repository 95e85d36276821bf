"""The child that reads GPUs, as a real process: it hangs, dies, writes rubbish; and it does not outlive the monitor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from yarn_gpu_sched.monitor import child as child_module
from yarn_gpu_sched.monitor import frames
from yarn_gpu_sched.monitor.child import ChildReader, reader_argv
from yarn_gpu_sched.monitor.reading import Failure, FailureKind, GpusReading, Xid

REPOSITORY = Path(__file__).resolve().parent.parent.parent
LONG_S = 30.0
SHORT_S = 0.4


class Children:
    """Makes readers, and sees that none leaves a process behind."""

    def __init__(self) -> None:
        self.readers: list[ChildReader] = []
        self.pids: set[int] = set()
        self.now_s = 0.0

    def reader(self, argv: list[str], *, timeout_s: float = LONG_S, start_timeout_s: float = LONG_S) -> ChildReader:
        reader = ChildReader(argv, timeout_s=timeout_s, start_timeout_s=start_timeout_s, clock=lambda: self.now_s)
        self.readers.append(reader)
        return reader

    def script(self, body: str, *, timeout_s: float = LONG_S, start_timeout_s: float = LONG_S) -> ChildReader:
        argv = [
            sys.executable,
            "-c",
            f"import os, signal, sys, time\nfrom yarn_gpu_sched.monitor import frames\n{body}",
        ]
        return self.reader(argv, timeout_s=timeout_s, start_timeout_s=start_timeout_s)

    async def read(self, reader: ChildReader) -> GpusReading:
        reading = await reader.read()
        if reader.pid is not None:
            self.pids.add(reader.pid)
        return reading


@pytest.fixture
async def children(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Children]:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    made = Children()
    yield made
    for reader in made.readers:
        await reader.close()
    assert not [pid for pid in made.pids if psutil.pid_exists(pid)]


def simulated(folder: Path, *events: dict[str, object], spec: str = "2xV100") -> list[str]:
    scenario = folder / "scenario.json"
    scenario.write_text(json.dumps({"events": list(events)}))
    return reader_argv(simulate=spec, scenario=scenario, state_dir=folder / "state", host="s1")


def failure_of(reading: GpusReading) -> Failure:
    assert reading.gpus is None
    assert reading.failure is not None
    return reading.failure


async def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.01)


async def test_child_reads_again_and_again(children: Children, tmp_path: Path) -> None:
    reader = children.reader(simulated(tmp_path))
    readings = [await children.read(reader) for _ in range(3)]
    assert [[gpu.index for gpu in reading.gpus or ()] for reading in readings] == [[0, 1]] * 3
    assert (reader.starts, len(children.pids)) == (1, 1)
    assert os.getsid(reader.pid or 0) == reader.pid  # what a terminal tells the monitor is not for the child


async def test_process_on_a_simulated_gpu_is_told_with_its_container(children: Children, tmp_path: Path) -> None:
    reader = children.reader(simulated(tmp_path))
    (first, second) = (await children.read(reader)).gpus or ()
    container_id = "container_1410901177871_0001_01_000005"
    environment = {"CONTAINER_ID": container_id, "CUDA_VISIBLE_DEVICES": first.uuid, "NM_HOST": "S1"}
    sleeper = await asyncio.create_subprocess_exec("/bin/sleep", "60", env=environment)
    try:
        async with asyncio.timeout(LONG_S):
            while not first.processes:
                (first, second) = (await children.read(reader)).gpus or ()
    finally:
        sleeper.kill()
        await sleeper.wait()
    assert [(process.pid, process.container_id, process.command) for process in first.processes or ()] == [
        (sleeper.pid, container_id, "sleep")
    ]
    assert (first.sm_percent, second.sm_percent, second.processes) == (87, 0, ())


async def test_hang_is_told_within_the_time_out_and_the_child_is_replaced(children: Children, tmp_path: Path) -> None:
    argv = simulated(tmp_path)
    reader = children.reader(argv, timeout_s=LONG_S)
    assert (await children.read(reader)).failure is None
    hung = reader.pid
    simulated(tmp_path, {"what": "hang", "at_s": 0})
    reader._timeout_s = SHORT_S
    async with asyncio.timeout(LONG_S):
        while (reading := await children.read(reader)).failure is None:
            pass
    failure = failure_of(reading)
    assert (failure.kind, failure.detail) == (FailureKind.TIMED_OUT, "the driver did not answer within 0.4 s")
    assert hung is not None
    assert not psutil.pid_exists(hung)
    simulated(tmp_path)
    assert failure_of(await children.read(reader)) == failure
    children.now_s += 1
    reader._timeout_s = LONG_S
    assert (await children.read(reader)).failure is None
    assert reader.starts == 2


async def test_pauses_between_children_grow_to_a_bound(children: Children) -> None:
    reader = children.script("sys.exit(3)")
    starts: list[float] = []
    for _ in range(300):
        failure = failure_of(await children.read(reader))
        assert (failure.kind, "it ended (exit code 3)" in failure.detail) == (FailureKind.UNREADABLE, True)
        if reader.starts > len(starts):
            starts.append(children.now_s)
        children.now_s += 1
        if len(starts) == 8:
            break
    assert [later - earlier for earlier, later in pairwise(starts)] == [1, 2, 4, 8, 16, 30, 30]


async def test_pauses_are_short_again_after_a_good_reading(children: Children) -> None:
    reader = children.script(f"sys.stdin.buffer.read(1)\nos.write(1, {frames.encode(GpusReading(gpus=()))!r})")
    good, reader._argv = reader._argv, (sys.executable, "-c", "raise SystemExit(3)")
    for pause_s in (1, 2, 4):
        failure_of(await children.read(reader))
        children.now_s += pause_s
    reader._argv = good
    assert (await children.read(reader)).gpus == ()
    failure_of(await children.read(reader))
    children.now_s += 1
    assert (await children.read(reader)).gpus == ()
    assert reader.starts == 5


async def test_child_that_ignores_signals_is_ended(children: Children) -> None:
    body = "for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(one, signal.SIG_IGN)\n"
    body += "sys.stdin.buffer.read()\nwhile True: time.sleep(1)"
    reader = children.script(body, timeout_s=SHORT_S, start_timeout_s=0)
    assert failure_of(await children.read(reader)).kind is FailureKind.TIMED_OUT
    assert (reader.pid, reader._held) == (None, None)


async def test_child_that_cannot_be_ended_is_waited_for(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel does not end a process that a driver holds; here it is not told to."""
    reader = children.script("time.sleep(600)", timeout_s=SHORT_S, start_timeout_s=0)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.subprocess.Process, "kill", lambda _self: None)
        patch.setattr(child_module, "_END_S", SHORT_S)
        assert failure_of(await children.read(reader)).kind is FailureKind.TIMED_OUT
        assert reader._held is not None
        held = reader._held.process
        children.now_s += 60
        failure = failure_of(await children.read(reader))
    assert (failure.kind, f"process {held.pid} is held by the driver" in failure.detail) == (
        FailureKind.TIMED_OUT,
        True,
    )
    held.kill()
    await held.wait()
    reader._argv = tuple(simulated(tmp_path))
    reader._timeout_s = LONG_S
    assert (await children.read(reader)).failure is None
    assert reader.starts == 2


async def test_child_that_is_slow_to_start_is_given_time(children: Children, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    body = f"""
while not os.path.exists({str(gate)!r}): time.sleep(0.01)
from yarn_gpu_sched.monitor.reading import GpusReading
while sys.stdin.buffer.read(1):
    sys.stdout.buffer.write(frames.encode(GpusReading(gpus=())))
    sys.stdout.buffer.flush()
"""
    reader = children.script(body, timeout_s=SHORT_S)
    failures = []
    for _ in range(3):
        failures.append(failure_of(await children.read(reader)))
        children.now_s += 1
    assert [(one.kind, one.detail) for one in failures] == [(FailureKind.TIMED_OUT, failures[0].detail)] * 3, "no news"
    gate.touch()
    reader._timeout_s = LONG_S
    assert (await children.read(reader)).gpus == ()
    assert (await children.read(reader)).gpus == ()
    assert reader.starts == 1


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"hello, this is no frame", "a frame of 1751477356 bytes"),
        (b"\0\0\0\0", "a frame of 0 bytes"),
        ((frames.FRAME_BYTES_MAX + 1).to_bytes(4, "big"), f"a frame of {frames.FRAME_BYTES_MAX + 1} bytes"),
        (b"\0\0\0\x03abc", "no reading"),
        (b"\0\0\0\x01\x80", "no reading"),
        (b"\0\0\0\x09ab", "it ended"),
        (b"", "it ended"),
        (frames.encode(GpusReading(gpus=None)), "with neither"),
        (frames.encode(GpusReading(gpus=(), failure=Failure(FailureKind.NO_DRIVER))), "GPUs and a failure"),
    ],
)
async def test_rubbish_is_unreadable(children: Children, written: bytes, said: str) -> None:
    reader = children.script(f"sys.stdin.buffer.read(1)\nos.write(1, {written!r})")
    failure = failure_of(await children.read(reader))
    assert failure.kind is FailureKind.UNREADABLE
    assert said in failure.detail
    assert reader.pid is None


async def test_child_that_is_killed_is_replaced(children: Children, tmp_path: Path) -> None:
    reader = children.reader(simulated(tmp_path))
    await children.read(reader)
    assert reader.pid is not None
    os.kill(reader.pid, signal.SIGKILL)
    assert failure_of(await children.read(reader)).kind is FailureKind.UNREADABLE
    children.now_s += 1
    assert (await children.read(reader)).failure is None


async def test_command_that_cannot_be_run_is_unreadable(children: Children) -> None:
    failure = failure_of(await children.read(children.reader(["/nowhere/python"])))
    assert (failure.kind, "cannot be started" in failure.detail) == (FailureKind.UNREADABLE, True)


async def test_bad_scenario_is_said_by_the_child(
    children: Children, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = children.reader(simulated(tmp_path, {"what": "hang"}))
    assert "exit code 2" in failure_of(await children.read(reader)).detail
    assert "events[0]: Object missing required field `at_s`" in capfd.readouterr().err


async def test_c16_child_is_started_anew_while_its_library_is_of_another_version(
    children: Children, tmp_path: Path
) -> None:
    reader = children.reader(simulated(tmp_path, {"what": "mismatch", "at_s": 0}))
    for _ in range(3):
        assert failure_of(await children.read(reader)).kind is FailureKind.DRIVER_MISMATCH
    assert reader.starts == 1
    children.now_s += 10
    for _ in range(2):
        assert failure_of(await children.read(reader)).kind is FailureKind.DRIVER_MISMATCH
    assert reader.starts == 2


async def test_c16_no_devices_is_a_failure_where_there_were_some_also_for_a_new_child(
    children: Children, tmp_path: Path
) -> None:
    none = {"what": "no_devices", "at_s": 0}
    unknowing = children.reader(simulated(tmp_path, none))
    assert (await children.read(unknowing)).gpus == ()
    told = children.reader(simulated(tmp_path, none))
    told.expects_gpus = True
    assert failure_of(await children.read(told)).kind is FailureKind.NO_DEVICES
    seeing = children.reader(simulated(tmp_path))
    assert (await children.read(seeing)).gpus
    assert seeing.pid is not None
    os.kill(seeing.pid, signal.SIGKILL)
    await children.read(seeing)
    simulated(tmp_path, none)
    children.now_s += 1
    assert failure_of(await children.read(seeing)).kind is FailureKind.NO_DEVICES
    assert seeing.starts == 2


async def test_c20_xids_are_counted_on_by_the_next_child(children: Children) -> None:
    body = (
        f"sys.stdin.buffer.read(1)\nos.write(1, {frames.encode(GpusReading(gpus=(), xids=(Xid('GPU-1', 48, 1),)))!r})"
    )
    reader = children.script(body)
    numbers = []
    for _ in range(3):
        numbers += [xid.number for xid in (await children.read(reader)).xids]
        await children.read(reader)
        children.now_s += 60
    assert numbers == [1, 2, 3]


async def test_nothing_is_read_after_the_end(children: Children, tmp_path: Path) -> None:
    reader = children.reader(simulated(tmp_path))
    await children.read(reader)
    await reader.close()
    assert failure_of(await reader.read()).detail == "closed"
    assert (reader.pid, reader.starts) == (None, 1)


@pytest.mark.parametrize("hangs", [False, True])
async def test_child_ends_when_the_monitor_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    argv = simulated(tmp_path, *([{"what": "hang", "at_s": 0}] if hangs else []))
    del argv[argv.index("--parent") : argv.index("--parent") + 2]
    monitor = f"""
import asyncio, os
from yarn_gpu_sched.monitor.child import ChildReader
async def main():
    reader = ChildReader({argv!r} + ["--parent", str(os.getpid())], timeout_s={SHORT_S if hangs else LONG_S})
    print((await reader.read()).failure, reader.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", monitor, stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    child = int(line.split()[-1])
    assert psutil.pid_exists(child)
    assert ("TIMED_OUT" in line) == hangs
    process.kill()
    await process.wait()
    await until(lambda: not psutil.pid_exists(child))


async def test_reading_that_is_given_up_leaves_the_next_one_whole(children: Children, tmp_path: Path) -> None:
    reader = children.reader(simulated(tmp_path))
    await children.read(reader)
    task = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert len((await children.read(reader)).gpus or ()) == 2
    assert reader.starts == 1
