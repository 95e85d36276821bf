"""Telemetry and operators that say whatever they like, for the state machines."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import rule

from tests.engine.machines import EngineMachine
from yarn_gpu_sched.engine.events import GpusReported, HealthRestored, Marked, TelemetryChanged
from yarn_gpu_sched.model.health import (
    LEVELS,
    Fault,
    GpuReport,
    KeptGpu,
    KeptHost,
    Mark,
    MarkAction,
    Telemetry,
    XidSeen,
)

HOSTS = ["h1", "h2"]
MARK = Mark("because", "somebody", 1.0)
slots = st.integers(0, 4)
uuids = st.sampled_from(["", "GPU-a", "GPU-b"])
reports = st.builds(
    GpuReport,
    slot=slots,
    uuid=uuids,
    present=st.sampled_from([True, True, True, False]),
    faults=st.lists(st.sampled_from(LEVELS), max_size=1).map(tuple),
    ecc_uncorrected=st.sampled_from([None, None, 0, 2]),
    occupants=st.lists(st.sampled_from(["k1", "k2", "k3", "?"]), max_size=1).map(tuple),
    xids=st.lists(
        st.builds(XidSeen, xid=st.sampled_from([13, 48, 79]), at_s=st.sampled_from([0.0, 1e9])), max_size=1
    ).map(tuple),
)
kept = st.builds(
    KeptGpu,
    slot=slots,
    uuid=uuids,
    sticky=st.lists(st.sampled_from([Fault.XID_79, Fault.OPERATOR]), max_size=1).map(tuple),
    ecc_acked=st.integers(0, 1),
)


class HealthRules(EngineMachine):
    """What monitors and operators may do to any engine."""

    @rule(
        host=st.sampled_from(HOSTS),
        telemetry=st.sampled_from([*Telemetry, Telemetry.LIVE, Telemetry.LIVE]),
        count=st.sampled_from([None, None, 0, 2, 4]),
        links=st.sampled_from([None, None, (), ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0))]),
    )
    def telemetry(
        self, host: str, telemetry: Telemetry, count: int | None, links: tuple[tuple[int, ...], ...] | None
    ) -> None:
        self.world.apply(
            TelemetryChanged(now_s=self.now_s, host=host, telemetry=telemetry, detail="so", slots=count, links=links)
        )

    @rule(
        host=st.sampled_from(HOSTS),
        said=st.lists(reports, max_size=5),
        gone=st.lists(st.sampled_from(["k1", "k2", "k3", "k4"])),
    )
    def gpus(self, host: str, said: list[GpuReport], gone: list[str]) -> None:
        self.world.apply(GpusReported(now_s=self.now_s, host=host, gpus=tuple(said), released=tuple(gone)))

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from([0.0, 1.0, 61.0]))
    def all_is_well(self, host: str, seconds: float) -> None:
        """Let a server come to rest: else little would ever be placed."""
        record = self.engine._core.health.hosts.get(host)
        if record is None or record.telemetry is not Telemetry.LIVE:
            return
        gone = tuple(gpu.released for gpu in record.gpus if gpu.released)
        well = tuple(GpuReport(gpu.slot, gpu.uuid, ecc_uncorrected=0) for gpu in record.gpus)
        self.world.apply(Marked(now_s=self.now_s, host=host, action=MarkAction.ACK, mark=MARK))
        self.world.apply(GpusReported(now_s=self.now_s, host=host, gpus=well, released=gone))
        self.world.now_s += seconds

    @rule(
        host=st.sampled_from(HOSTS),
        action=st.sampled_from([*MarkAction, MarkAction.UNDRAIN]),
        slot=slots,
        whole=st.booleans(),
    )
    def mark(self, host: str, action: MarkAction, slot: int, whole: bool) -> None:  # noqa: FBT001 # hypothesis passes by name
        of_gpu = action is MarkAction.QUARANTINE or (action is MarkAction.ACK and not whole)
        would = self.engine.foretell_mark(host, action, slot if of_gpu else None)
        before = self.engine.hosts(only=host)[0]
        self.world.apply(Marked(now_s=self.now_s, host=host, action=action, mark=MARK, slot=slot if of_gpu else None))
        assert would or action in (MarkAction.DRAIN, MarkAction.QUARANTINE) or self.engine.hosts(only=host)[0] == before

    def nobody_waits_in_vain(self) -> None:
        """Require that what time alone changes has changed by the end of a pass, too."""
        super().nobody_waits_in_vain()
        next_s = self.engine._core.health.agenda.next_s()
        assert next_s is None or next_s > self.now_s

    @rule(host=st.sampled_from(HOSTS), watched=st.booleans(), gpus=st.lists(kept, max_size=2))
    def restored(self, host: str, watched: bool, gpus: list[KeptGpu]) -> None:  # noqa: FBT001 # hypothesis passes by name
        event = HealthRestored(now_s=self.now_s, hosts=(KeptHost(host, watched=watched, gpus=tuple(gpus)),))
        self.world.apply(event)
