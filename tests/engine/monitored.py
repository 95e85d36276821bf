"""A world whose servers have monitors."""

from __future__ import annotations

from tests.engine.world import World, ask, server, worker
from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.engine.events import (
    GpusReported,
    HealthRestored,
    IdleReported,
    Marked,
    Pass,
    TelemetryChanged,
    VirtualClusterRemoved,
)
from yarn_gpu_sched.engine.views import GpuView, HostView
from yarn_gpu_sched.model.health import (
    Fault,
    GpuReport,
    Health,
    KeptGpu,
    KeptHost,
    Mark,
    MarkAction,
    Telemetry,
    XidSeen,
)

MARK = Mark("replaced", "ops", 1_000.0)


def xids(*numbers: int, at_s: float = 1e9) -> tuple[XidSeen, ...]:
    """Let these Xid errors have happened; long after anything was acknowledged, unless said otherwise."""
    return tuple(XidSeen(number, at_s) for number in numbers)


class Monitored(World):
    """Servers of 4 GPUs with monitors that say what a test has them say."""

    def __init__(self, *servers: str, settings: EngineSettings | None = None) -> None:
        super().__init__(settings)
        for host in servers:
            self.apply(TelemetryChanged(now_s=self.now_s, host=host, telemetry=Telemetry.LIVE, slots=4))
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


def watched(settings: EngineSettings) -> World:
    """Let monitors tell of all that may be wrong with GPUs, operators of the rest, and a gang miss a member not seen gone."""
    world = Monitored("s1", "s2", settings=settings)
    world.submit("gang", "gang:2x2")
    world.ask("gang", ask(2, worker(2)))
    world.run()
    world.now_s = 5.0
    world.apply(IdleReported(now_s=5.0, job_id="gang", idle=True))
    world.release(world.live("gang")[0].container_id, lost=True)
    away = (KeptGpu(0, "GPU-away", (Fault.XID_79,)),)
    world.apply(HealthRestored(now_s=5.0, hosts=(KeptHost("s9", watched=True, drained=MARK, away=away),)))
    world.mark("s2", MarkAction.DRAIN)
    world.mark("s2", MarkAction.QUARANTINE, 3)
    world.report("s1", GpuReport(3, "GPU-s1-3", ecc_uncorrected=2, xids=xids(79)))
    world.mark("s1", MarkAction.ACK, 3)
    world.report("s2", GpuReport(0, "GPU-s2-0", present=False, faults=(Fault.THROTTLED,), occupants=("?",)))
    for _ in range(3):
        world.telemetry("s2", Telemetry.UNREADABLE, "no answer")
    world.apply(TelemetryChanged(now_s=world.now_s, host="s2", telemetry=Telemetry.LIVE, links=((0, 4), (4, 0))))
    world.configure("root.gone", quota_gpus=1)
    world.apply(VirtualClusterRemoved(now_s=world.now_s, path="root.gone"))
    for seconds in (10.0, 10.0, 10.0, 10.0, 20.0, 30.0, 30.0):
        world.wait(seconds)
    return world
