"""GPUs by way of the program nvidia-smi, for servers where NVML cannot be used.

Slower than NVML, and it tells less: no Xid events, no links. It runs with a time-out, and what it writes is read to a bound. One
that cannot be ended, since the driver holds it, is not started again while it is there.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from yarn_gpu_sched.monitor.processes import cleaned_text
from yarn_gpu_sched.monitor.reading import Failure, FailureKind, GpusReading
from yarn_gpu_sched.monitor.smi_xml import Unreadable, read_xml

ARGV = ("nvidia-smi", "-x", "-q")
TIMEOUT_S = 20.0
OUTPUT_BYTES_MAX = 16_777_216
DETAIL_LETTERS_MAX = 200
_END_S_MAX = 1.0
_END_PART = 0.2
"""Of the time-out: how long a program that was ended may take to be gone."""
_CHUNK_BYTES = 65_536
# In whose words the driver fails; on standard output as well as on standard error.
_WORDS = (
    (b"Driver/library version mismatch", FailureKind.DRIVER_MISMATCH),
    (b"No devices were found", FailureKind.NO_DEVICES),
    (b"couldn't communicate with the NVIDIA driver", FailureKind.NO_DRIVER),
    (b"Driver Not Loaded", FailureKind.NO_DRIVER),
)


class SmiSource:
    """A `GpuSource` that runs a program for each look. What it returns is neither judged nor described yet: see `reader`."""

    def __init__(
        self,
        argv: Sequence[str] = ARGV,
        timeout_s: float = TIMEOUT_S,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        parse: Callable[[str], GpusReading] = read_xml,
    ) -> None:
        self._argv = tuple(argv)
        self._timeout_s = timeout_s
        self._output_bytes_max = output_bytes_max
        self._parse = parse
        self._left: subprocess.Popen[bytes] | None = None

    def read(self) -> GpusReading:
        """Look once."""
        if self._left is not None and self._left.poll() is None:
            return _failed(FailureKind.TIMED_OUT, f"process {self._left.pid}, started before, does not end")
        self._left = None
        try:
            started = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return _failed(FailureKind.NO_DRIVER, f"{self._argv[0]} cannot be run: {error}")
        try:
            return self._answer(started)
        finally:
            self._end(started)

    def close(self) -> None:
        """Let go of the driver: nothing is held between two looks."""

    def _answer(self, started: subprocess.Popen[bytes]) -> GpusReading:
        deadline_s = time.monotonic() + self._timeout_s
        written = _written(started, deadline_s, self._output_bytes_max)
        if written is None:
            return _failed(FailureKind.TIMED_OUT, f"no answer after {self._timeout_s:g} s")
        output, errors = written
        if len(output) > self._output_bytes_max:
            return _failed(FailureKind.UNREADABLE, f"more than {self._output_bytes_max} bytes were written")
        try:
            return self._parse(output.decode("utf-8", "replace"))
        except Unreadable as error:
            return _explained(output, errors, str(error))

    def _end(self, started: subprocess.Popen[bytes]) -> None:
        for pipe in (started.stdout, started.stderr):
            if pipe is not None:
                pipe.close()
        # The whole group, while its leader is not waited for: the number is still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(started.pid, signal.SIGKILL)
        try:
            started.wait(min(_END_S_MAX, self._timeout_s * _END_PART))
        except subprocess.TimeoutExpired:
            self._left = started


def _written(started: subprocess.Popen[bytes], deadline_s: float, bytes_max: int) -> tuple[bytes, bytes] | None:
    """Return what a program writes until it closes both outputs, or writes too much; None if that takes too long."""
    parts: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for pipe in (started.stdout, started.stderr):
            if pipe is not None:
                parts[pipe.fileno()] = bytearray()
                selector.register(pipe.fileno(), selectors.EVENT_READ)
        while selector.get_map() and all(len(part) <= bytes_max for part in parts.values()):
            ready = selector.select(max(0.0, deadline_s - time.monotonic()))
            if not ready or time.monotonic() > deadline_s:
                return None
            for key, _events in ready:
                if chunk := os.read(key.fd, _CHUNK_BYTES):
                    parts[key.fd] += chunk
                else:
                    selector.unregister(key.fd)
    output, errors = parts.values()
    return bytes(output), bytes(errors)


def _explained(output: bytes, errors: bytes, why: str) -> GpusReading:
    for words, kind in _WORDS:
        for text in (output, errors):
            if words in text:
                line = next(line for line in text.splitlines() if words in line)
                return _failed(kind, cleaned_text(line, DETAIL_LETTERS_MAX))
    return _failed(FailureKind.UNREADABLE, why)


def _failed(kind: FailureKind, detail: str) -> GpusReading:
    return GpusReading(gpus=None, failure=Failure(kind, cleaned_text(detail.encode(), DETAIL_LETTERS_MAX)))
