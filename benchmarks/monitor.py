"""What the node monitor and its child cost: memory and processor time, over 8 simulated GPUs that eight containers use.

Each container has two processes on its GPU, and what each GPU does changes every five seconds, so all of them are told with every
message. The real driver's calls cost what its library costs: it is not here. Processes are looked up in `/proc` as on any server.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure, Measured
from yarn_gpu_sched.monitor.fake import FakeService
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb

GPUS = 8
PROCESSES_OF_A_GPU = 2
SETTLE_S, MEASURED_S, BOUND_S = 10.0, 60.0, 60.0
MEMORY_MB_MAX, CPU_PERCENT_MAX = 120.0, 2.0
CHANGE_S = 5
HOST = "gpu1-of-a-benchmark"
MIB = 1 << 20


def measure() -> Measured:
    """Measure one monitor with its defaults."""
    return asyncio.run(_measure(SETTLE_S, MEASURED_S))


async def _measure(settle_s: float, measured_s: float) -> Measured:
    async with FakeService([_binding(slot) for slot in range(GPUS)]) as service:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            monitor = _started(stack, service.target, folder)
            await service.until(lambda: bool(service.streams) and len(service.heard.gpus()) == GPUS, BOUND_S)
            for card in service.heard.cards():
                for _ in range(PROCESSES_OF_A_GPU):
                    _start(stack, ["sleep", "3600"], _container_environment(card))
            held = lambda: all(len(gpu.processes) == PROCESSES_OF_A_GPU for gpu in service.heard.gpus().values())  # noqa: E731 - told once
            await service.until(held, BOUND_S)
            await asyncio.sleep(settle_s)
            told = len(service.heard.told)
            both = [psutil.Process(monitor.pid), *psutil.Process(monitor.pid).children()]
            before_s = [_cpu_s(each) for each in both]
            await asyncio.sleep(measured_s)
            percent = [100 * (_cpu_s(each) - cpu_s) / measured_s for each, cpu_s in zip(both, before_s, strict=True)]
            memory = [each.memory_full_info() for each in both]
            messages = service.heard.told[told:]
    return Measured(
        _figures(percent, memory, messages), {"gpus": GPUS, "seconds": measured_s, "read_every_s": 1, "push_every_s": 5}
    )


def _figures(percent: Sequence[float], memory: Sequence[Any], messages: Sequence[pb.Telemetry]) -> tuple[Figure, ...]:
    pss_mb = [each.pss / MIB for each in memory]
    size_bytes = sum(each.ByteSize() for each in messages) / max(len(messages), 1)
    return (
        Figure("memory (PSS), monitor and child", sum(pss_mb), "MiB", MEMORY_MB_MAX),
        Figure("memory (PSS), monitor", pss_mb[0], "MiB"),
        Figure("memory (PSS), child", pss_mb[1], "MiB"),
        Figure(
            "memory (RSS), monitor and child", sum(each.rss for each in memory) / MIB, "MiB", note="shared pages twice"
        ),
        Figure("processor, monitor and child", sum(percent), "% of a core", CPU_PERCENT_MAX),
        Figure("processor, monitor", percent[0], "% of a core"),
        Figure("processor, child", percent[1], "% of a core", note=f"{len(psutil.pids())} processes on the machine"),
        Figure("messages", len(messages), "messages"),
        Figure("size of a message", size_bytes, "bytes"),
    )


def _binding(slot: int) -> pb.Binding:
    return pb.Binding(container_id=_container_id(slot), job_id=f"application_1700000000000_{slot:04d}", slots=[slot])


def _container_id(slot: int) -> str:
    return f"container_1700000000000_{slot:04d}_01_000002"


def _container_environment(card: pb.Card) -> dict[str, str]:
    return {"CONTAINER_ID": _container_id(card.slot), "CUDA_VISIBLE_DEVICES": card.uuid, "NM_HOST": HOST}


def _started(stack: ExitStack, target: str, folder: Path) -> subprocess.Popen[bytes]:
    scenario = folder / "scenario.json"
    scenario.write_text(
        json.dumps({"events": [_use(gpu, at_s) for at_s in range(0, 150, CHANGE_S) for gpu in range(GPUS)]})
    )
    words = ["--service", target, "--host", HOST, "--state-dir", str(folder / "state"), "--simulate", f"{GPUS}xV100"]
    words += ["--binding-dir", str(folder / "bindings"), "--scenario", str(scenario), "--log-level", "error"]
    return _start(stack, [sys.executable, "-c", "from yarn_gpu_sched.cli import main; main()", "monitor", *words], {})


def _use(gpu: int, at_s: int) -> dict[str, object]:
    """Let a GPU do something else for a while."""
    percent = (at_s * 7 + gpu * 11) % 100
    return {
        "what": "use",
        "gpu": gpu,
        "at_s": at_s,
        "until_s": at_s + CHANGE_S,
        "sm_percent": percent,
        "memory_used_mb": 9_000 + at_s,
    }


def _start(stack: ExitStack, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, env={**os.environ, **environment})
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
