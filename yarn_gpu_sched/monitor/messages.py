"""Readings as messages of the protocol. What the protocol cannot carry is left out and named: it never ends a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarn_gpu_sched.monitor.reading import PROCESSES_MAX, Failure, GpuProcess, GpuReading, HostReading
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from yarn_gpu_sched.monitor.slots import Card

TEXT_CHARACTERS_MAX = 256
FIELDS_MAX = 32
PORTS_MAX = 64
COUNTERS_MAX = 128

_GPU_NUMBERS = (
    "memory_used_mb",
    "memory_total_mb",
    "sm_percent",
    "memory_percent",
    "temperature_c",
    "power_w",
    "ecc_corrected",
    "ecc_uncorrected",
)
_HOST_NUMBERS = ("cpu_percent", "memory_used_mb", "memory_total_mb")
_MEMORY_MB_MAX = 2**32 - 1
Numbered = pb.GpuSample | pb.GpuProcess | pb.HostSample | pb.PortSample


def text(value: str | None) -> str:
    """Make a text fit for a message: valid, and not too long."""
    return (value or "")[:TEXT_CHARACTERS_MAX].encode("utf-8", "replace").decode()


def gpu_sample(slot: int, gpu: GpuReading) -> pb.GpuSample:
    """Tell of one GPU as it was read."""
    sample = pb.GpuSample(slot=slot, processes_unknown=gpu.processes is None)
    sample.throttle_reasons.extend(text(reason) for reason in (gpu.throttle_reasons or ())[:FIELDS_MAX])
    bad = list(gpu.bad_fields)
    bad += [name for name in _GPU_NUMBERS if not _set(sample, name, getattr(gpu, name))]
    for process in (gpu.processes or ())[:PROCESSES_MAX]:
        if (told := _process(process)) is None:
            bad.append("processes")
        else:
            sample.processes.append(told)
    sample.bad_fields.extend(text(name) for name in dict.fromkeys(bad[:FIELDS_MAX]))
    return sample


def _set(message: Numbered, name: str, value: float | None) -> bool:
    """Set a number that is there; False if the protocol has no such number."""
    if value is None:
        return True
    try:
        setattr(message, name, round(value))
    except (ValueError, OverflowError, TypeError):
        return False
    return True


def _process(process: GpuProcess) -> pb.GpuProcess | None:
    told = pb.GpuProcess(
        container_id=text(process.container_id), user=text(process.user), command=text(process.command)
    )
    _set(told, "memory_mb", process.memory_mb)
    return told if _set(told, "pid", process.pid) else None


def cards(known: Sequence[Card], now: Mapping[int, GpuReading], slot_of: Callable[[str], int | None]) -> list[pb.Card]:
    """Tell of all cards by slot, as they were when GPUs could last be read; one that had vanished has no index."""
    told = []
    for slot, card in enumerate(known):
        memory_mb = min(max(card.memory_mb, 0), _MEMORY_MB_MAX)
        message = pb.Card(slot=slot, uuid=text(card.uuid), model=text(card.model), memory_mb=memory_mb)
        message.pci_bus_id = text(card.pci_bus_id)
        if card.index is not None:
            message.index = card.index
        if (gpu := now.get(slot)) is not None:
            message.mig = bool(gpu.mig_enabled)
            for link in gpu.links or ():
                if (other := slot_of(link.uuid)) is not None:
                    message.links.add(slot=other, kind=f"LINK_KIND_{link.kind.name}", lanes=max(link.lanes, 0))
        told.append(message)
    return told


def read_failure(failure: Failure) -> pb.ReadFailure:
    """Tell why GPUs could not be read."""
    kind = pb.ReadFailureKind.Value(f"READ_FAILURE_KIND_{failure.kind.name}")
    return pb.ReadFailure(kind=kind, detail=text(failure.detail))


def host_sample(host: HostReading) -> pb.HostSample:
    """Tell of the server beside its GPUs."""
    told = pb.HostSample()
    for name in _HOST_NUMBERS:
        _set(told, name, getattr(host, name))
    for port in host.ports[:PORTS_MAX]:
        message = pb.PortSample(device=text(port.device), infiniband=port.infiniband, rate_gbps=port.rate_gbps)
        if not _set(message, "port", port.port):
            continue
        if port.state is not None:
            message.state = text(port.state)
        if port.physical_state is not None:
            message.physical_state = text(port.physical_state)
        for name, count in sorted(port.counters.items())[:COUNTERS_MAX]:
            if 0 <= count < 1 << 64:
                message.counters[text(name)] = count
        told.ports.append(message)
    return told
