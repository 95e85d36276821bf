"""A world whose servers have monitors."""

from __future__ import annotations

from tests.engine.world import World, server
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.events import GpusReported, Marked, Pass, TelemetryChanged
from yarn_gpu_sched.engine.views import GpuView, HostView
from yarn_gpu_sched.model.health import Fault, GpuReport, Health, Mark, MarkAction, Telemetry

MARK = Mark("replaced", "ops", 1_000.0)


class Monitored(World):
    """Servers of 4 GPUs with monitors that say what a test has them say."""

    def __init__(self, *servers: str, settings: EngineSettings | None = None) -> None:
        super().__init__(settings)
        for host in servers:
            self.telemetry(host)
        self.up(*(server(host) for host in servers))
        for host in servers:
            self.report(host, *(GpuReport(slot, f"GPU-{host}-{slot}") for slot in range(4)))

    def telemetry(self, host: str, telemetry: Telemetry = Telemetry.LIVE, detail: str = "") -> None:
        self.apply(TelemetryChanged(now_s=self.now_s, host=host, telemetry=telemetry, detail=detail))

    def report(self, host: str, *gpus: GpuReport, released: tuple[str, ...] = ()) -> None:
        self.apply(GpusReported(now_s=self.now_s, host=host, gpus=gpus, released=released))

    def reads(self, host: str, slot: int, *faults: Fault, times: int = 1, every_s: float = 1.0) -> None:
        """Report one GPU as many times."""
        for _ in range(times):
            self.report(host, self.said(host, slot, *faults))
            self.now_s += every_s

    def said(self, host: str, slot: int, *faults: Fault, present: bool = True) -> GpuReport:
        return GpuReport(slot, f"GPU-{host}-{slot}", present=present, faults=faults)

    def mark(self, host: str, action: MarkAction, slot: int | None = None) -> None:
        self.apply(Marked(now_s=self.now_s, host=host, action=action, mark=MARK, slot=slot))

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.apply(Pass(now_s=self.now_s))

    def host(self, host: str) -> HostView:
        (view,) = self.engine.hosts(only=host)[0]
        return view

    def gpu(self, host: str, slot: int) -> GpuView:
        return self.host(host).gpus[slot]

    def health(self, host: str, slot: int) -> Health:
        return self.gpu(host, slot).gpu.health

    def free(self) -> int:
        return self.engine._core.index.partition("").gpus_free if self.refreshed() else 0

    def refreshed(self) -> bool:
        self.engine._core.index.partition("").refresh()
        return True
