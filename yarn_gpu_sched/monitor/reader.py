"""The child process that looks at GPUs: a driver that hangs, hangs it and nobody else.

    python -m yarn_gpu_sched.monitor.reader [--simulate 4xV100 --scenario FILE --state-dir DIR] [--host NAME] [--expects-gpus]
                                            [--smi-timeout-s S]

Each byte on standard input asks for one reading, which is answered on standard output (`frames.py`). It ends with its input, and
with its parent. It imports as little as it can: it runs on every GPU server.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from yarn_gpu_sched.monitor import frames
from yarn_gpu_sched.monitor.nvml import NvmlSource
from yarn_gpu_sched.monitor.plausible import cleaned
from yarn_gpu_sched.monitor.processes import describe
from yarn_gpu_sched.monitor.reading import GpuProcess, GpuReading, GpuSource, GpusReading

MEMORY_BYTES_MAX: Final = 1 << 30
"""More than this the child cannot take, whatever a driver answers."""
DESCRIBED_MAX: Final = 1024
"""Processes that are looked up in `/proc` for one reading."""
_PR_SET_PDEATHSIG: Final = 1
_WRONG_USAGE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer until nobody asks any more."""
    options = _parser().parse_args(arguments)
    if not _end_with_parent(options.parent):
        return 0
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, hard))
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    try:
        source = _source(options)
    except ValueError as error:
        print(f"reader: {error}", file=sys.stderr)  # noqa: T201 - its own voice
        return _WRONG_USAGE
    serve(source, sys.stdin.fileno(), answers)
    return 0


def serve(source: GpuSource, questions: int, answers: int) -> None:
    """Answer what is asked on one descriptor on the other, until that ends."""
    try:
        while os.read(questions, 1):
            frame = memoryview(frames.encode(completed(source.read())))
            while frame:
                frame = frame[os.write(answers, frame) :]
    except BrokenPipeError:
        pass
    finally:
        source.close()


def completed(reading: GpusReading) -> GpusReading:
    """Drop what cannot be, and say whose the processes are."""
    if reading.gpus is None:
        return reading
    gpus = [cleaned(gpu) for gpu in reading.gpus]
    pids = sorted({process.pid for gpu in gpus for process in gpu.processes or ()})
    known = {pid: describe(pid) for pid in pids[:DESCRIBED_MAX]}
    return msgspec.structs.replace(reading, gpus=tuple(_described(gpu, known) for gpu in gpus))


def _described(gpu: GpuReading, known: dict[int, tuple[str, str, str]]) -> GpuReading:
    if not gpu.processes:
        return gpu
    processes = tuple(
        GpuProcess(process.pid, process.memory_mb, *known.get(process.pid, ("", "", ""))) for process in gpu.processes
    )
    return msgspec.structs.replace(gpu, processes=processes)


def _source(options: argparse.Namespace) -> GpuSource:
    if options.simulate is not None:
        # Only a simulated server pays for it.
        from yarn_gpu_sched.monitor.simulated.library import stand_in  # noqa: PLC0415 - see above
        from yarn_gpu_sched.monitor.simulated.opening import open_server  # noqa: PLC0415 - see above

        stand_in(open_server(options.simulate, options.scenario, options.state_dir, options.host))
    if options.smi_timeout_s is not None:
        # Only a server without NVML pays for it.
        from yarn_gpu_sched.monitor.smi import SmiSource  # noqa: PLC0415 - see above

        return SmiSource(_smi_argv(options), timeout_s=options.smi_timeout_s)
    return NvmlSource(expects_gpus=options.expects_gpus, again_s_max=options.again_s_max)


def _smi_argv(options: argparse.Namespace) -> list[str]:
    if options.simulate is None:
        return ["nvidia-smi", "-x", "-q"]
    simulated = [str(word or "") for word in (options.simulate, options.scenario, options.state_dir, options.host)]
    return [sys.executable, "-P", "-m", "yarn_gpu_sched.monitor.simulated.smi", *simulated, "-x", "-q"]


def _end_with_parent(parent: int | None) -> bool:
    """Have the kernel end this process when its parent ends; False if that has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return parent is None or os.getppid() == parent


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m yarn_gpu_sched.monitor.reader", allow_abbrev=False)
    parser.add_argument("--simulate", metavar="SPEC", help="cards to simulate, such as 4xV100")
    parser.add_argument("--scenario", metavar="FILE", type=Path, help="what happens to them")
    parser.add_argument("--state-dir", metavar="DIR", type=Path, help="where it is kept when a scenario began")
    parser.add_argument("--host", default="", help="the server's name for YARN")
    parser.add_argument("--expects-gpus", action="store_true", help="no GPUs at all are a failure")
    parser.add_argument("--again-s-max", type=float, default=60.0, help="longest pause between looks for a missing GPU")
    parser.add_argument("--smi-timeout-s", type=float, metavar="S", help="run nvidia-smi, for so long, instead of NVML")
    parser.add_argument("--parent", type=int, help="end with this process")
    return parser


if __name__ == "__main__":
    sys.exit(main())
