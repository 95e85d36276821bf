"""Servers whose GPUs fall ill where it matters: under who runs, under what is held, under what is to be taken."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import hypothesis.strategies as st
import msgspec
from hypothesis.stateful import rule

from tests.engine.lending import NAMES, SERVERS
from tests.engine.machines import EngineMachine
from tests.engine.monitored import xids
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.events import (
    GpusReported,
    HealthRestored,
    IdleReported,
    Marked,
    Pass,
    ServerChanged,
    TelemetryChanged,
)
from yarn_gpu_sched.model.health import Fault, GpuRecord, GpuReport, KeptGpu, KeptHost, Mark, MarkAction, Telemetry
from yarn_gpu_sched.model.server_use import indices_of

MARK = Mark("because", "somebody", 1.0)
HOSTS = [*SERVERS[:3], "s9"]
Spot = tuple[str, int]
"""A host and a slot."""
ILLS = ["xid", "hot", "hotter", "away", "mig", "stray", "zombie", "seen", "well", "another card", "ack"]


class IllRules(EngineMachine):
    """What monitors and operators may do to an engine whose servers are `SERVERS`, each named by its host."""

    counted: ClassVar[Counter[str]] = Counter()

    @rule(
        several=st.sets(st.sampled_from(HOSTS), min_size=1),
        telemetry=st.sampled_from([*Telemetry, Telemetry.LIVE, Telemetry.LIVE, Telemetry.LIVE]),
        slots=st.sampled_from([None, None, 4, 4, 5, 3]),
    )
    def speak(self, several: set[str], telemetry: Telemetry, slots: int | None) -> None:
        """Have monitors speak, fall silent or go."""
        for host in sorted(several):
            self.world.apply(
                TelemetryChanged(now_s=self.now_s, host=host, telemetry=telemetry, detail="so", slots=slots)
            )

    def spots(self, where: str) -> list[Spot]:
        """List GPUs that are held by containers, held for somebody, to be taken by plans, or anywhere."""
        core = self.engine._core
        hosts = {server_id: use.server.host for server_id, use in core.state.servers.items()}
        live = [(one.server_id, slot) for one in self.live() for slot in one.gpu_indices]
        parts = [(part, one) for one in core.state.decisions.values() for part in one.parts]
        held = [(part.use.server_id, slot) for part, _ in parts for slot in indices_of(part.mask)]
        needs = [need for _, plan in sorted(core.preemption.plans.items()) for need in plan.needs]
        wanted = [(need.server_id, slot) for need in needs for slot in indices_of(need.mask)]
        found = {"live": live, "held": held, "wanted": wanted}.get(where, [])
        spots = [(hosts[server_id], slot) for server_id, slot in found if server_id in hosts]
        return spots or [(host, slot) for host in HOSTS for slot in range(4)]

    @rule(where=st.sampled_from(["live", "held", "wanted", "any"]), pick=st.integers(0, 99), ill=st.sampled_from(ILLS))
    def fall_ill(self, where: str, pick: int, ill: str) -> None:
        """Let something happen to a GPU that matters."""
        spots = self.spots(where)
        host, slot = spots[pick % len(spots)]
        if ill == "ack":
            self.world.apply(Marked(now_s=self.now_s, host=host, action=MarkAction.ACK, mark=MARK))
            return
        record = self.engine._core.health.hosts.get(host)
        if record is None or record.telemetry is Telemetry.NONE:
            self.speak({host}, Telemetry.LIVE, 4)
        known = self.known(host)
        uuid = known[slot].uuid if slot < len(known) else ""
        report = {
            "xid": GpuReport(slot, uuid, xids=xids(79)),
            "hot": GpuReport(slot, uuid, faults=(Fault.THROTTLED,)),
            "hotter": GpuReport(slot, uuid, faults=(Fault.THROTTLED,)),
            "away": GpuReport(slot, uuid, present=False),
            "mig": GpuReport(slot, uuid, faults=(Fault.MIG,)),
            "stray": GpuReport(slot, uuid, occupants=("?",)),
            "zombie": GpuReport(slot, uuid, occupants=(known[slot].released,) if slot < len(known) else ()),
            "another card": GpuReport(slot, f"GPU-{pick}"),
        }.get(ill, GpuReport(slot, uuid))
        gone = tuple(gpu.released for gpu in known if gpu.released) if ill == "seen" else ()
        self.counted["ill"] += where != "any"
        for _ in range(3 if ill in ("hotter", "away") else 1):
            self.world.apply(GpusReported(now_s=self.now_s, host=host, gpus=(report,), released=gone))

    def known(self, host: str) -> list[GpuRecord]:
        record = self.engine._core.health.hosts.get(host)
        return [] if record is None else record.gpus

    @rule(several=st.sets(st.sampled_from(HOSTS), min_size=1), seconds=st.sampled_from([0.0, 0.0, 61.0]))
    def get_well(self, several: set[str], seconds: float) -> None:
        """Let servers come to rest: else little would ever be placed."""
        for host in sorted(several):
            gone = tuple(gpu.released for gpu in self.known(host) if gpu.released)
            well = tuple(GpuReport(gpu.slot, gpu.uuid, ecc_uncorrected=0) for gpu in self.known(host))
            self.world.apply(Marked(now_s=self.now_s, host=host, action=MarkAction.ACK, mark=MARK))
            self.world.apply(GpusReported(now_s=self.now_s, host=host, gpus=well, released=gone))
        self.world.now_s += seconds

    @rule(
        host=st.sampled_from(HOSTS),
        action=st.sampled_from([*MarkAction, MarkAction.UNDRAIN, MarkAction.UNDRAIN]),
        slot=st.integers(0, 4),
    )
    def mark(self, host: str, action: MarkAction, slot: int) -> None:
        of_gpu = slot if action is MarkAction.QUARANTINE or (action is MarkAction.ACK and slot < 4) else None
        self.world.apply(Marked(now_s=self.now_s, host=host, action=action, mark=MARK, slot=of_gpu))

    @rule(host=st.sampled_from(HOSTS), watched=st.booleans(), slot=st.integers(0, 4), drained=st.booleans())
    def restored(self, host: str, watched: bool, slot: int, drained: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        gpus = (KeptGpu(slot, "", (Fault.XID_79,)),) if slot < 4 else ()
        kept = KeptHost(host, watched=watched, drained=MARK if drained else None, gpus=gpus)
        self.world.apply(HealthRestored(now_s=self.now_s, hosts=(kept,)))

    @rule(server_id=st.sampled_from(SERVERS), host=st.sampled_from([None, None, *HOSTS]))
    def move_to(self, server_id: str, host: str | None) -> None:
        """Let a server be told on another host, which it may share, or on its own again."""
        use = self.engine._core.state.servers.get(server_id)
        if use is not None:
            moved = msgspec.structs.replace(use.server, host=host or server_id)
            self.world.apply(ServerChanged(now_s=self.now_s, server=moved))

    @rule(job_id=st.sampled_from(NAMES), idle=st.sampled_from([True, True, False]), all_of_them=st.booleans())
    def idle(self, job_id: str, idle: bool, all_of_them: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        for one in sorted(self.engine._core.running) if all_of_them else [job_id]:
            self.world.apply(IdleReported(now_s=self.now_s, job_id=one, idle=idle))

    def nobody_waits_in_vain(self) -> None:
        """Require that what time alone changes has changed by the end of a pass, too."""
        super().nobody_waits_in_vain()
        next_s = self.engine._core.health.agenda.next_s()
        assert next_s is None or next_s > self.now_s

    @rule()
    def swap(self) -> None:
        """Go on with an engine that was restored; one like it decides in a pass as this one does, and knows of no earlier wake.

        This one may look once more for somebody for whom others would have been stopped, and who may not have that any more.
        """
        twin = Engine.restore(self.engine.snapshot())
        twin.apply(Pass(now_s=self.now_s))
        self.decide()
        assert twin.digest() == self.engine.digest()
        twin_s, wake_s = twin.next_wake_s(), self.engine.next_wake_s()
        looks_s = self.engine._core.preemption.agenda.next_s()
        assert wake_s == twin_s or (wake_s == looks_s and wake_s is not None and (twin_s is None or wake_s < twin_s))
        super().swap()
