"""What one server's monitor has told, and which of it the engine has to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from yarn_gpu_sched.engine import events
from yarn_gpu_sched.model.health import UNLISTED, Fault, GpuReport, Telemetry, XidSeen
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.protocol.v1 import monitor_pb2
from yarn_gpu_sched.service.monitors.believable import impossible, impossible_host
from yarn_gpu_sched.service.monitors.means import Means

SLOWED_BY_HARDWARE = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"})
"""NVML's reasons for low clocks that speak of broken cooling or power."""

NVLINK_SCORE, BOARD_SCORE = 100, 60
_LINK_SCORES = {
    monitor_pb2.LINK_KIND_NVLINK: NVLINK_SCORE,
    monitor_pb2.LINK_KIND_INTERNAL: BOARD_SCORE,
    monitor_pb2.LINK_KIND_SINGLE: 50,
    monitor_pb2.LINK_KIND_MULTIPLE: 40,
    monitor_pb2.LINK_KIND_HOSTBRIDGE: 30,
    monitor_pb2.LINK_KIND_NODE: 20,
    monitor_pb2.LINK_KIND_SYSTEM: 10,
}
_LANE_SCORE = 10


class Idle(msgspec.Struct, frozen=True):
    """When a GPU counts as not used: under so many percent for so many seconds."""

    below_percent: int
    after_s: float


class Sample(msgspec.Struct, frozen=True, eq=False):
    """The last sample of a GPU, and when it was read by the service's clock."""

    message: monitor_pb2.GpuSample
    read_s: float


class HostTelemetry:
    """What a monitor has told of its server. Times are by the service's clock.

    ``heard_s``: when it last told anything, or was first met. ``unused_since_s``: since when a GPU has not been used, by slot; not
    there: it is used, or nobody can tell. ``lies`` counts samples that were dropped, by field; ``aging`` are the slots whose newest
    one was.
    A bad reading is passed on ``bad_reports`` times in a row: the engine counts them. ``means``: of use, where somebody wants them.
    """

    def __init__(self, host: str, free_memory_mb_max: int, idle_below_percent: int, bad_reports: int = 3) -> None:
        self.host = host
        self.cards: dict[int, monitor_pb2.Card] = {}
        self.samples: dict[int, Sample] = {}
        self.host_sample: monitor_pb2.HostSample | None = None
        self.failure = ""
        self.simulated = False
        self.agent = ""
        self.heard_s = 0.0
        self.read_s: float | None = None
        self.unused_since_s: dict[int, float] = {}
        self.lies: dict[str, int] = {}
        self.aging: set[int] = set()
        self.silent = False
        self.means: Means | None = None
        self._free_memory_mb_max = free_memory_mb_max
        self._idle_below_percent = idle_below_percent
        self._bad_reports = bad_reports
        self._told: dict[int, GpuReport] = {}
        self._bad: dict[int, int] = {}
        self._failed = 0
        self._begins = self._counted = False

    def begin(self, hello: monitor_pb2.Hello) -> None:
        """Take the first message of a monitor: all it tells after this is told anew. Its server is live with its first reading.

        A hello alone is no news of the server: one whose monitor says nothing else, again and again, falls silent.
        """
        self.simulated, self.agent = hello.simulated, one_line(hello.agent)
        self.failure, self._failed = "", 0
        self._told.clear()
        self._bad.clear()
        self._begins, self._counted = True, bool(hello.cards)
        self._take_cards(hello.cards)

    def take(self, telemetry: monitor_pb2.Telemetry, now_s: float, released: tuple[str, ...]) -> list[events.AnyEvent]:
        """Take what has changed; return what the engine has to know. ``released``: containers gone before the newest reading."""
        is_back = self.silent or self._begins
        self._failed = 0 if self.silent else self._failed
        self.heard_s, self.silent = now_s, False
        made = self._take_failure(telemetry, now_s)
        xids: dict[int, list[XidSeen]] = {}
        for event in telemetry.xids:
            xids.setdefault(event.slot, []).append(XidSeen(event.xid, now_s - event.age_s))
        if telemetry.failure.kind:  # events are told once, whatever else cannot be
            return made + self._report(now_s, self._changed_reports(xids, xids), ())
        self.read_s = now_s - telemetry.age_s
        if telemetry.cards or telemetry.no_cards:
            self._counted = True
            self._take_cards(telemetry.cards)
        if telemetry.cards or telemetry.no_cards or is_back:
            made.append(self._live(now_s))
        if telemetry.HasField("host"):
            self._take_host(telemetry.host)
        slots = {sample.slot for sample in telemetry.gpus if self._take_sample(sample)}
        slots |= (
            self._told.keys() | self.cards.keys()
            if telemetry.cards or telemetry.no_cards or self._begins
            else {slot for slot, bad in self._bad.items() if bad < self._bad_reports}
        )
        self._begins = False
        return made + self._report(now_s, self._changed_reports({*slots, *xids}, xids), released)

    def _live(self, now_s: float) -> events.TelemetryChanged:
        slots = max(self.cards, default=-1) + 1 if self._counted else None
        return events.TelemetryChanged(
            now_s=now_s, host=self.host, telemetry=Telemetry.LIVE, slots=slots, links=self._links()
        )

    def _report(self, now_s: float, reports: Sequence[GpuReport], released: tuple[str, ...]) -> list[events.AnyEvent]:
        if not reports and not released:
            return []
        return [events.GpusReported(now_s=now_s, host=self.host, gpus=tuple(reports), released=released)]

    def _take_cards(self, cards: Iterable[monitor_pb2.Card]) -> None:
        before, self.cards = self.cards, {card.slot: card for card in cards}
        for slot in before:
            card = self.cards.get(slot)
            if card is None or card.uuid != before[slot].uuid or not card.HasField("index"):
                self.samples.pop(slot, None)
                self.unused_since_s.pop(slot, None)

    def _take_sample(self, sample: monitor_pb2.GpuSample) -> bool:
        """Take a sample unless it is impossible; that one is counted, and the one before it ages."""
        field = impossible(sample)
        for name in [field] if field else sample.bad_fields:
            self._count_lie(name)
        if field:
            self.aging.add(sample.slot)
            return False
        self.aging.discard(sample.slot)
        assert self.read_s is not None
        self.samples[sample.slot] = Sample(sample, self.read_s)
        if self.means is not None:
            self.means.note(sample.slot, sample.sm_percent if sample.HasField("sm_percent") else None, self.read_s)
        if not sample.HasField("sm_percent") or sample.sm_percent >= self._idle_below_percent:
            self.unused_since_s.pop(sample.slot, None)
        else:
            self.unused_since_s.setdefault(sample.slot, self.read_s)
        return True

    def _take_host(self, sample: monitor_pb2.HostSample) -> None:
        if field := impossible_host(sample):
            self._count_lie(f"host.{field}")
        else:
            self.host_sample = sample

    def _count_lie(self, name: str) -> None:
        if name in self.lies or len(self.lies) < LIES_MAX:
            self.lies[name] = self.lies.get(name, 0) + 1

    def _take_failure(self, telemetry: monitor_pb2.Telemetry, now_s: float) -> list[events.AnyEvent]:
        failure = telemetry.failure
        if not failure.kind:
            if not self._failed:
                return []
            self._failed, self.failure = 0, ""
            return [events.TelemetryChanged(now_s=now_s, host=self.host, telemetry=Telemetry.LIVE)]
        name = monitor_pb2.ReadFailureKind.Name(failure.kind).removeprefix("READ_FAILURE_KIND_").lower()
        detail = one_line(f"{name}: {failure.detail}" if failure.detail else name)
        self._failed = min(self._failed + 1, self._bad_reports + 1)
        if self._failed > self._bad_reports and detail == self.failure:
            return []
        self.failure = detail
        self.unused_since_s.clear()
        return [events.TelemetryChanged(now_s=now_s, host=self.host, telemetry=Telemetry.UNREADABLE, detail=detail)]

    def _changed_reports(self, slots: Iterable[int], xids: Mapping[int, Sequence[XidSeen]]) -> list[GpuReport]:
        """Make the reports that differ from those before, and those of bad readings that are still counted."""
        reports = []
        for slot in sorted(slots):
            card = self.cards.get(slot)
            if card is None and slot not in self._told:
                continue
            report = GpuReport(slot, self._told[slot].uuid, present=False) if card is None else self._report_of(card)
            bad = bool(report.faults) or not report.present
            same = report == self._told.get(slot)
            self._bad[slot] = 0 if not bad else (self._bad.get(slot, 0) + 1 if same else 1)
            if not bad:
                del self._bad[slot]
            self._told[slot] = report
            if not same or slot in xids or self._bad.get(slot, self._bad_reports + 1) <= self._bad_reports:
                reports.append(msgspec.structs.replace(report, xids=tuple(xids.get(slot, ()))))
        return reports

    def _report_of(self, card: monitor_pb2.Card) -> GpuReport:
        sample = self.samples.get(card.slot)
        faults: tuple[Fault, ...] = (Fault.MIG,) if card.mig else ()
        if sample is None:
            return GpuReport(card.slot, card.uuid, present=card.HasField("index"), faults=faults)
        message = sample.message
        if SLOWED_BY_HARDWARE & {*message.throttle_reasons}:
            faults += (Fault.THROTTLED,)
        return GpuReport(
            card.slot,
            card.uuid,
            present=card.HasField("index"),
            faults=faults,
            ecc_uncorrected=message.ecc_uncorrected if message.HasField("ecc_uncorrected") else None,
            occupants=self._occupants(message),
        )

    def _occupants(self, sample: monitor_pb2.GpuSample) -> tuple[str, ...]:
        names = {process.container_id or _stranger(process) for process in sample.processes}
        if not names and sample.HasField("memory_used_mb") and sample.memory_used_mb > self._free_memory_mb_max:
            names = {UNLISTED}
        return tuple(sorted(names))

    def _links(self) -> tuple[tuple[int, ...], ...]:
        """Score how well which two GPUs are connected; nothing where the monitor does not say."""
        if not any(card.links for card in self.cards.values()):
            return ()
        slots = max(self.cards) + 1
        scores = [[0] * slots for _ in range(slots)]
        for slot, card in self.cards.items():
            for link in card.links:
                if link.slot in self.cards and link.slot != slot:
                    scores[slot][link.slot] = _LINK_SCORES.get(link.kind, 0) + _LANE_SCORE * link.lanes
        return tuple(map(tuple, scores))


LIES_MAX = 64
"""Fields by which dropped samples are counted."""


def _stranger(process: monitor_pb2.GpuProcess) -> str:
    """Name a process that is of no container; no container has such a name."""
    by = f" of {one_line(process.user)}" if process.user else ""
    return f"process {process.pid}{by}"
