"""What operators say of servers and GPUs, what that would change, and what outlasts a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.engine import cards
from yarn_gpu_sched.engine.gpu_states import acknowledge, needs_ack, quarantine
from yarn_gpu_sched.engine.health import follow
from yarn_gpu_sched.engine.health_book import gpu_of
from yarn_gpu_sched.model.health import (
    Fault,
    GpuRecord,
    HostRecord,
    KeptHost,
    MarkAction,
    Telemetry,
)

if TYPE_CHECKING:
    from yarn_gpu_sched.engine.core import Core
    from yarn_gpu_sched.engine.events import HealthRestored, Marked


def on_marked(core: Core, event: Marked) -> None:
    """Do what an operator says."""
    record = core.health.record(event.host)
    if record is None:
        return
    if event.action is MarkAction.DRAIN:
        record.drained = event.mark
    elif event.action is MarkAction.UNDRAIN:
        record.drained = None
    elif event.action is MarkAction.QUARANTINE:
        assert event.slot is not None
        quarantine(gpu_of(record, event.slot), event.mark, core.now_s, core.settings)
    else:
        _acknowledge(core, record, event.slot)
    follow(core, record)


def _acknowledge(core: Core, record: HostRecord, slot: int | None) -> None:
    if slot is None and record.telemetry is Telemetry.SILENT:
        record.telemetry, record.since_s = Telemetry.NONE, core.now_s  # its monitor is given up
        record.forget_telemetry()
    for gpu in record.gpus:
        if slot in (None, gpu.slot) and needs_ack(gpu):
            acknowledge(gpu, core.now_s, core.settings)


def foretell(core: Core, host: str, action: MarkAction, slot: int | None) -> list[str]:
    """Say what an operator's word would change, one sentence each; nothing if it is so already."""
    record = core.health.hosts.get(host) or HostRecord(host)
    if action is MarkAction.DRAIN:
        return [] if record.drained else [f"nothing new is placed on {host}; what runs there goes on"]
    if action is MarkAction.UNDRAIN:
        return [f"{host} is placed on again"] if record.drained else []
    if action is MarkAction.QUARANTINE:
        gpu = next((one for one in record.gpus if one.slot == slot), GpuRecord(slot or 0))
        if Fault.OPERATOR in gpu.sticky:
            return []
        return [f"GPU {slot} of {host} is given to nobody until it is acknowledged; it is {gpu.health.value} now"]
    return _acknowledged(record, slot)


def _acknowledged(record: HostRecord, slot: int | None) -> list[str]:
    if slot is None and record.telemetry is Telemetry.SILENT:
        return [f"the monitor of {record.host} is given up: its GPUs count as healthy until one speaks again"]
    return [_acknowledged_gpu(record.host, gpu) for gpu in record.gpus if slot in (None, gpu.slot) and needs_ack(gpu)]


def _acknowledged_gpu(host: str, gpu: GpuRecord) -> str:
    faults = ", ".join(fault.value for fault in gpu.sticky)
    if not gpu.present:
        return f"GPU {gpu.slot} of {host}: {faults} is acknowledged; its card is away, so it stays quarantined"
    return f"GPU {gpu.slot} of {host}: {faults} is acknowledged; it recovers once it reads well"


# What outlasts a restart


def kept(core: Core) -> tuple[KeptHost, ...]:
    """List what outlasts a restart, in order of the hosts."""
    found = (_kept_host(record) for _, record in sorted(core.health.hosts.items()))
    return tuple(one for one in found if one.watched or one.drained is not None or one.gpus or one.away)


def _kept_host(record: HostRecord) -> KeptHost:
    gpus = tuple(one for one in map(cards.kept, record.gpus) if one.says_something)
    watched, away = record.telemetry is not Telemetry.NONE, tuple(record.away.values())
    return KeptHost(record.host, watched, record.drained, gpus, away)


def on_health_restored(core: Core, event: HealthRestored) -> None:
    """Take what was kept; a server that had a monitor is unknown until that speaks."""
    for host in event.hosts:
        record = core.health.record(host.host)
        if record is None:
            return
        record.drained = host.drained
        if host.watched and record.telemetry is Telemetry.NONE:
            record.telemetry, record.since_s = Telemetry.SILENT, core.now_s
            record.detail = "not heard since the service started"
        for gpu in host.gpus:
            cards.restore(gpu_of(record, gpu.slot), gpu, core.now_s)
        record.away |= {gpu.uuid: gpu for gpu in host.away}
        follow(core, record)
