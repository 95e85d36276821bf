"""Simulated cards below the real pynvml, at a time that the test says."""

from __future__ import annotations

import json
from pathlib import Path

from yarn_gpu_sched.monitor.nvml import NvmlSource
from yarn_gpu_sched.monitor.reading import GpuReading, GpusReading
from yarn_gpu_sched.monitor.simulated.library import stand_in
from yarn_gpu_sched.monitor.simulated.server import Scan, SimulatedServer
from yarn_gpu_sched.monitor.simulated.spec import parse


class Simulation:
    """A server, the source that reads it, and the clock of both."""

    def __init__(
        self, folder: Path, spec: str, *events: dict[str, object], scan: Scan | None = None, **more: object
    ) -> None:
        self.now_s = 1_000_000.0
        self.file = folder / "scenario.json"
        self.write(*events, **more)
        self.server = SimulatedServer(parse(spec, "s1"), self.file, folder, scan, clock=lambda: self.now_s)
        self.library = stand_in(self.server)
        self.source = self.new_source()

    def new_source(self, *, expects_gpus: bool = False) -> NvmlSource:
        return NvmlSource(clock=lambda: self.now_s, expects_gpus=expects_gpus)

    def write(self, *events: dict[str, object], **more: object) -> None:
        self.file.write_text(json.dumps({"events": list(events), **more}))

    def at(self, seconds: float) -> GpusReading:
        """Read so many seconds after the scenario began."""
        self.now_s = self.server.began_s + seconds
        return self.source.read()

    def gpus(self, seconds: float) -> tuple[GpuReading, ...]:
        reading = self.at(seconds)
        assert reading.failure is None, reading.failure
        assert reading.gpus is not None
        return reading.gpus

    def uuid(self, number: int) -> str:
        return self.server.cards[number].uuid


def event(what: str, at_s: float = 10.0, **fields: object) -> dict[str, object]:
    return {"what": what, "at_s": at_s, **fields}
