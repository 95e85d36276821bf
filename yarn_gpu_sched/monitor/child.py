"""The monitor's end of the child that reads GPUs: it is given a time to answer, ended when it does not, and started again.

One child at most: one that the kernel cannot end, since the driver holds it, is waited for before another is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from yarn_gpu_sched.monitor.frames import ASK, HEADER_BYTES, BadFrame, decode, length_of
from yarn_gpu_sched.monitor.reading import Failure, FailureKind, GpusReading

_END_S: Final = 2.0
"""How long a killed child may take to end before it counts as held by the driver."""
_DOUBLINGS_MAX: Final = 32
EXPECTS_GPUS: Final = "--expects-gpus"
_OWN_END_S: Final = 0.5
"""How long one that has closed its output may take to end by itself."""
_STALE_S: Final = 10.0
"""After so long with a library of the wrong version the child is started again, so that it loads the library again."""


def reader_argv(
    *,
    simulate: str | None = None,
    scenario: Path | None = None,
    state_dir: Path | None = None,
    host: str = "",
    smi_timeout_s: float | None = None,
) -> list[str]:
    """Return the command of a child; with ``smi_timeout_s`` it runs nvidia-smi instead of NVML."""
    argv = [sys.executable, "-P", "-m", "yarn_gpu_sched.monitor.reader", "--parent", str(os.getpid())]
    for name, value in (
        ("--simulate", simulate),
        ("--scenario", scenario),
        ("--state-dir", state_dir),
        ("--host", host),
        ("--smi-timeout-s", smi_timeout_s),
    ):
        argv += [name, str(value)] if value else []
    return argv


class _Child:
    """One child process, and the answer that it owes."""

    def __init__(self, process: asyncio.subprocess.Process, started_s: float) -> None:
        self.process = process
        self.started_s = started_s
        self.answered = False
        self._answer: asyncio.Task[GpusReading] | None = None

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.returncode is not None

    async def answers(self, timeout_s: float) -> bool:
        """Ask, unless an answer is owed still, and wait for it; False if it did not come."""
        if self._answer is None:
            self._answer = asyncio.create_task(self._ask())
        await asyncio.wait({self._answer}, timeout=timeout_s)
        return self._answer.done()

    async def _ask(self) -> GpusReading:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(ConnectionError):  # one that has ended is noticed by the answer that does not come
            stdin.write(ASK)
        header = await stdout.readexactly(HEADER_BYTES)
        return decode(await stdout.readexactly(length_of(header)))

    def take(self) -> GpusReading:
        """Return the answer; `BadFrame` if it was none, or if the child has ended."""
        assert self._answer is not None
        answer, self._answer = self._answer, None
        try:
            reading = answer.result()
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise BadFrame("it ended") from error
        self.answered = True
        return reading

    async def end(self) -> bool:
        """Kill it, whatever it makes of other signals; False if even that does not end it within a bound."""
        if self._answer is not None:
            self._answer.cancel()
        stdout = self.process.stdout
        if stdout is not None and stdout.at_eof():  # it is ending by itself, and how it did is worth knowing
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), _OWN_END_S)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        try:
            await asyncio.wait_for(self.process.wait(), _END_S)
        except TimeoutError:
            return False
        finally:
            if self.process.stdin is not None:
                self.process.stdin.close()
        return True


class ChildReader:
    """Reads GPUs through a child process. One reading at a time."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 5.0,
        start_timeout_s: float = 30.0,
        pause_s: float = 1.0,
        pause_s_max: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make it; the child is started at the first look.

        A child that has not answered yet may take ``start_timeout_s``: a driver may need long to wake its GPUs. The pause before
        another is started is ``pause_s`` at first, and twice as long after each failure, up to ``pause_s_max``.
        """
        self._argv = tuple(argv)
        self._timeout_s, self._start_timeout_s = timeout_s, start_timeout_s
        self._pause_s, self._pause_s_max = pause_s, pause_s_max
        self._clock = clock
        self._child: _Child | None = None
        self._held: _Child | None = None
        """One that was killed and did not end."""
        self._start_at_s = 0.0
        self._failures = 0
        self._failure = Failure(FailureKind.UNREADABLE, "not read yet")
        self._xids = 0
        self._closed = False
        self.starts = 0
        """Children that were started."""
        self.expects_gpus = False
        """Whether none at all is a failure: so once there were some. A child is told so when it is started."""

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        return self._child.process.pid if self._child is not None and not self._child.ended else None

    async def read(self) -> GpusReading:
        """Look once, within the time-out. What goes wrong is said in the reading."""
        if self._child is None:
            failure = await self._start()
            if failure is not None:
                return GpusReading(gpus=None, failure=failure)
        child = self._child
        assert child is not None
        if not await child.answers(self._timeout_s):
            return await self._late(child)
        try:
            reading = child.take()
        except BadFrame as error:
            await self._end(child)
            return self._failed(FailureKind.UNREADABLE, f"the process that reads the GPUs: {error}{_how(child)}")
        return await self._taken(child, reading)

    async def close(self) -> None:
        """End the child."""
        self._closed = True
        if self._child is not None:
            await self._end(self._child)

    async def _start(self) -> Failure | None:
        """Start a child; a failure if there can be none now."""
        if self._closed:
            return Failure(FailureKind.UNREADABLE, "closed")
        if self._held is not None and not self._held.ended:
            return Failure(
                FailureKind.TIMED_OUT, f"process {self._held.process.pid} is held by the driver, and cannot be ended"
            )
        if self._clock() < self._start_at_s:
            return self._failure
        argv = (*self._argv, EXPECTS_GPUS) if self.expects_gpus else self._argv
        pipe = asyncio.subprocess.PIPE
        try:
            # In a session of its own: what a terminal tells the monitor is not for the child.
            process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, start_new_session=True)
        except OSError as error:
            return self._failed(
                FailureKind.UNREADABLE, f"the process that reads the GPUs cannot be started: {error}"
            ).failure
        self.starts += 1
        self._child, self._held = _Child(process, self._clock()), None
        return None

    async def _late(self, child: _Child) -> GpusReading:
        """Say that there was no answer in time; end the child, unless it is still young."""
        detail = f"the driver did not answer within {self._timeout_s:g} s"  # the same each time: it is no news then
        if not child.answered and self._clock() - child.started_s < self._start_timeout_s:
            return GpusReading(gpus=None, failure=Failure(FailureKind.TIMED_OUT, detail))
        await self._end(child)
        return self._failed(FailureKind.TIMED_OUT, detail)

    async def _taken(self, child: _Child, reading: GpusReading) -> GpusReading:
        self._failures = 0
        self.expects_gpus |= bool(reading.gpus)
        mismatch = reading.failure is not None and reading.failure.kind is FailureKind.DRIVER_MISMATCH
        if mismatch and self._clock() - child.started_s >= _STALE_S:
            await self._end(child)
        numbers = range(self._xids + 1, self._xids + 1 + len(reading.xids))
        self._xids += len(reading.xids)
        xids = (msgspec.structs.replace(xid, number=number) for xid, number in zip(reading.xids, numbers, strict=True))
        return msgspec.structs.replace(reading, xids=tuple(xids))

    async def _end(self, child: _Child) -> None:
        self._child = None
        if not await child.end():
            self._held = child

    def _failed(self, kind: FailureKind, detail: str) -> GpusReading:
        """Count a failure: the next child has to wait, longer after each."""
        pause_s = min(self._pause_s * 2.0**self._failures, self._pause_s_max)
        self._failures = min(self._failures + 1, _DOUBLINGS_MAX)
        self._start_at_s = self._clock() + pause_s
        self._failure = Failure(kind, detail)
        return GpusReading(gpus=None, failure=self._failure)


def _how(child: _Child) -> str:
    """Say how a child ended by itself."""
    code = child.process.returncode
    return "" if code is None or code == -signal.SIGKILL else f" (exit code {code})"
