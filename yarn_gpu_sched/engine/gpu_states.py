"""How the health of a GPU, and of a server's telemetry, follows what is reported and the time (docs/health.md).

Nothing is decided on one sample, except what no good sample takes back: an error that the hardware itself reports. Whatever was not
ok is ok again only after it has read well for a while, so telemetry that flaps does not make the state flap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from yarn_gpu_sched.model.health import (
    AT_ONCE,
    STICKY,
    XID_FAULTS,
    XIDS_KEPT,
    Fault,
    GpuRecord,
    GpuReport,
    Health,
    HostRecord,
    Mark,
    Telemetry,
)

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.settings import EngineSettings


def take(gpu: GpuRecord, report: GpuReport, now_s: float, settings: EngineSettings) -> None:
    """Take what a reading says of a GPU; `cards.move` has seen to it that what is known is of this card."""
    if not gpu.uuid:
        gpu.since_s = now_s
    gpu.uuid = report.uuid or gpu.uuid
    gpu.present = report.present
    gpu.levels = report.faults
    gpu.occupants = report.occupants
    for seen in report.xids:
        gpu.xids = (*gpu.xids, seen)[-XIDS_KEPT:]
        is_new = (
            gpu.acked_s is None or seen.at_s > gpu.acked_s
        )  # a monitor that lost its stream tells its last events again
        if seen.xid in XID_FAULTS and is_new:
            _stick(gpu, XID_FAULTS[seen.xid])
    if report.ecc_uncorrected is not None:
        gpu.ecc = report.ecc_uncorrected
        gpu.ecc_acked = min(gpu.ecc_acked, gpu.ecc)  # the driver was loaded again, and counts from 0
        if gpu.ecc > gpu.ecc_acked:
            _stick(gpu, Fault.ECC_UNCORRECTABLE)
    read(gpu, now_s, settings)


def begin_anew(gpu: GpuRecord, now_s: float) -> None:
    """Forget all that is known of the card in a slot."""
    gpu.uuid, gpu.present, gpu.levels = "", True, ()
    gpu.health, gpu.since_s, gpu.bad, gpu.good_since_s = Health.OK, now_s, 0, None
    gpu.sticky, gpu.xids, gpu.mark, gpu.ecc, gpu.ecc_acked = (), (), None, None, 0
    gpu.acked_s = None


def _stick(gpu: GpuRecord, fault: Fault) -> None:
    if fault not in gpu.sticky:
        gpu.sticky = (*gpu.sticky, fault)


def read(gpu: GpuRecord, now_s: float, settings: EngineSettings) -> None:
    """Follow one reading that was taken."""
    faults = gpu.faults
    if not faults:
        gpu.bad = 0
        _read_well(gpu, now_s)
        return
    gpu.bad = min(gpu.bad + 1, settings.suspect_after_readings)
    gpu.good_since_s = None
    often = gpu.bad >= settings.suspect_after_readings
    if often and not gpu.present:
        _stick(gpu, Fault.VANISHED)
    relapsed = often and gpu.health is Health.RECOVERING
    if relapsed or AT_ONCE & {*faults} or Fault.VANISHED in gpu.sticky:
        _turn(gpu, Health.QUARANTINED, now_s)
    elif gpu.health is Health.OK and (often or not gpu.present or gpu.alarmed):
        _turn(gpu, Health.SUSPECT, now_s)


def _read_well(gpu: GpuRecord, now_s: float) -> None:
    if gpu.health is Health.OK:
        return
    if gpu.good_since_s is None:
        gpu.good_since_s = now_s
    if gpu.health is Health.QUARANTINED:
        _turn(gpu, Health.RECOVERING, now_s)


def _turn(gpu: GpuRecord, health: Health, now_s: float) -> None:
    if gpu.health is not health:
        gpu.health, gpu.since_s = health, now_s


def quarantine(gpu: GpuRecord, mark: Mark, now_s: float, settings: EngineSettings) -> None:
    """Take a GPU out, as an operator says."""
    gpu.mark = mark
    _stick(gpu, Fault.OPERATOR)
    read(gpu, now_s, settings)


def acknowledge(gpu: GpuRecord, now_s: float, settings: EngineSettings) -> None:
    """Let go of what waited for an operator; what is still so stays."""
    gpu.sticky, gpu.mark, gpu.bad, gpu.acked_s = (), None, 0, now_s
    gpu.ecc_acked = gpu.ecc or gpu.ecc_acked
    if not gpu.present:
        _stick(gpu, Fault.VANISHED)
    read(gpu, now_s, settings)


def needs_ack(gpu: GpuRecord) -> bool:
    """Tell whether a GPU waits for an operator; one whose card is away waits for that first."""
    return bool(STICKY & {*gpu.sticky})


def due_s(gpu: GpuRecord, settings: EngineSettings) -> float | None:
    """Say when time alone changes something of a GPU; None if it does not."""
    times = []
    if gpu.good_since_s is not None:
        times.append(gpu.good_since_s + settings.ok_after_s)
    if _stays_bad(gpu, settings):
        times.append(gpu.since_s + settings.quarantine_after_s)
    if gpu.not_free_since_s is not None and not gpu.alarmed:
        times.append(gpu.not_free_since_s + settings.zombie_alarm_s)
    return min(times, default=None)


def _stays_bad(gpu: GpuRecord, settings: EngineSettings) -> bool:
    """Tell whether a suspect GPU reads badly, other than because somebody holds it."""
    return gpu.health is Health.SUSPECT and gpu.bad >= settings.suspect_after_readings and not gpu.alarmed


def pass_time(gpu: GpuRecord, now_s: float, settings: EngineSettings) -> None:
    """Follow the time."""
    if gpu.good_since_s is not None and now_s >= gpu.good_since_s + settings.ok_after_s:
        gpu.good_since_s = None
        _turn(gpu, Health.OK, now_s)
    if _stays_bad(gpu, settings) and now_s >= gpu.since_s + settings.quarantine_after_s:
        _turn(gpu, Health.QUARANTINED, now_s)
    since_s = gpu.not_free_since_s
    if since_s is not None and not gpu.alarmed and now_s >= since_s + settings.zombie_alarm_s:
        gpu.alarmed = True
        read(gpu, now_s, settings)


def occupy(gpu: GpuRecord, *, foreign: bool, now_s: float, settings: EngineSettings) -> None:
    """Take whether somebody else than its holder has it; what is free again after an alarm has to stay so for a while."""
    gpu.foreign = foreign
    if gpu.out:
        gpu.not_free_since_s = now_s if gpu.not_free_since_s is None else gpu.not_free_since_s
        return
    gpu.not_free_since_s = None
    if gpu.alarmed:
        gpu.alarmed = False
        read(gpu, now_s, settings)


def hear(host: HostRecord, telemetry: Telemetry, detail: str, now_s: float, settings: EngineSettings) -> None:
    """Take the state of a server's telemetry: unreadable after some failed readings in a row, until it reads well for a while.

    While it is not live, nothing has read well: what waits for that waits anew.
    """
    if telemetry is Telemetry.UNREADABLE:
        host.bad = min(host.bad + 1, settings.suspect_after_readings)
        never_read = host.telemetry in (Telemetry.NONE, Telemetry.SILENT)  # there is no good reading to trust meanwhile
        host.unreadable = host.unreadable or never_read or host.bad >= settings.suspect_after_readings
        host.good_since_s = None
    elif telemetry is Telemetry.LIVE:
        host.bad = 0
        if host.unreadable and host.good_since_s is None:
            host.good_since_s = now_s
    else:
        host.good_since_s = None
    if telemetry is not host.telemetry:
        host.since_s = now_s
    was_live, host.telemetry, host.detail = host.telemetry is Telemetry.LIVE, telemetry, detail
    for gpu in host.gpus:
        if telemetry is not Telemetry.LIVE:
            gpu.good_since_s = None
        elif not was_live and not gpu.faults and gpu.health is not Health.OK:
            gpu.good_since_s = now_s


def is_unknown(host: HostRecord) -> bool:
    """Tell whether nothing new is placed on a server, because nobody knows how its GPUs are."""
    return host.telemetry is Telemetry.SILENT or host.unreadable


def gpu_faults(gpu: GpuRecord, settings: EngineSettings) -> Iterator[str]:
    """Say what contradicts itself in what is known of a GPU."""
    if gpu.health is Health.OK and (AT_ONCE & {*gpu.faults} or gpu.good_since_s is not None):
        yield f"it is ok, with {gpu.faults}, and reads well since {gpu.good_since_s}"
    if needs_ack(gpu) and gpu.health is not Health.QUARANTINED:
        yield f"it waits for an operator because of {gpu.sticky}, and is {gpu.health.value}"
    if gpu.good_since_s is not None and gpu.faults:
        yield f"it has read well since {gpu.good_since_s}, with {gpu.faults}"
    if gpu.out != (gpu.not_free_since_s is not None) or (gpu.alarmed and not gpu.out):
        yield f"it is not free since {gpu.not_free_since_s}, and {'out' if gpu.out else 'given out'}"
    if gpu.bad > settings.suspect_after_readings:
        yield f"{gpu.bad} bad readings are counted"
