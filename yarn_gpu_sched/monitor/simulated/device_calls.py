"""The functions of NVML that ask one card, over a simulated one: each fills what it is given and returns NVML's code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from yarn_gpu_sched.monitor.simulated.pointers import number_of, put_text, target, whole
from yarn_gpu_sched.monitor.simulated.spec import Card
from yarn_gpu_sched.monitor.simulated.state import GpuState
from yarn_gpu_sched.monitor.simulated.wiring import common_ancestor, far_ends

SUCCESS: Final = 0
INVALID_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NOT_FOUND: Final = 6
INSUFFICIENT_SIZE: Final = 7

_MIB: Final = 1 << 20
_CORRECTED: Final = 0
_SWITCH: Final = 2
_MIG_DEVICES_MAX: Final = 7
_EVENT_XID: Final = 0x8

DeviceCall = Callable[..., int]


def _number(gpu: GpuState, field: str, value: int) -> int:
    """Return the impossible value that the scenario has for a field, else the right one."""
    return int(gpu.impossible.get(field, value))


def _uuid(gpu: GpuState, _cards: Sequence[Card], buffer: Any, size: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    fits = put_text(buffer, str(gpu.impossible.get("uuid", gpu.card.uuid)), size)
    return SUCCESS if fits else INSUFFICIENT_SIZE


def _name(gpu: GpuState, _cards: Sequence[Card], buffer: Any, size: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    fits = put_text(buffer, str(gpu.impossible.get("model", gpu.card.model.name)), size)
    return SUCCESS if fits else INSUFFICIENT_SIZE


def _minor(gpu: GpuState, _cards: Sequence[Card], minor: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    target(minor).value = _number(gpu, "minor", gpu.card.minor)
    return SUCCESS


def _pci(gpu: GpuState, _cards: Sequence[Card], pci: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    _fill_pci(target(pci), gpu.card.pci_bus, str(gpu.impossible.get("pci_bus_id", gpu.card.pci_bus_id)))
    target(pci).pciDeviceId = gpu.card.model.pci_device_id
    return SUCCESS


def _fill_pci(pci: Any, bus: int, bus_id: str) -> None:  # noqa: ANN401 - a structure
    pci.domain, pci.bus, pci.device = 0, bus, 0
    pci.busId = bus_id.encode("latin-1", "replace")[:31]
    pci.busIdLegacy = bus_id[4:].encode("latin-1", "replace")[:15]


def _memory(gpu: GpuState, _cards: Sequence[Card], memory: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    filled = target(memory)
    filled.total = _number(gpu, "memory_total_mb", gpu.card.model.memory_mb * _MIB)
    filled.used = _number(gpu, "memory_used_mb", gpu.memory_used_mb * _MIB)
    filled.free = max(0, filled.total - filled.used)
    return SUCCESS


def _utilisation(gpu: GpuState, _cards: Sequence[Card], rates: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    target(rates).gpu = _number(gpu, "sm_percent", gpu.sm_percent)
    target(rates).memory = _number(gpu, "memory_percent", gpu.memory_percent)
    return SUCCESS


def _temperature(gpu: GpuState, _cards: Sequence[Card], _sensor: Any, celsius: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    target(celsius).value = _number(gpu, "temperature_c", gpu.temperature_c)
    return SUCCESS


def _power(gpu: GpuState, _cards: Sequence[Card], milliwatts: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    target(milliwatts).value = _number(gpu, "power_w", round(gpu.power_w * 1000))
    return SUCCESS


def _reasons(gpu: GpuState, _cards: Sequence[Card], reasons: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    target(reasons).value = _number(gpu, "throttle_reasons", gpu.throttle_bits)
    return SUCCESS


def _ecc(gpu: GpuState, _cards: Sequence[Card], kind: Any, _counter: Any, count: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    corrected = whole(kind) == _CORRECTED
    field = "ecc_corrected" if corrected else "ecc_uncorrected"
    if field in gpu.missing:
        return gpu.missing[field]
    target(count).value = _number(gpu, field, gpu.ecc_corrected if corrected else gpu.ecc_uncorrected)
    return SUCCESS


def _mig_mode(gpu: GpuState, _cards: Sequence[Card], current: Any, pending: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    target(current).value = target(pending).value = _number(gpu, "mig_enabled", int(gpu.mig_devices is not None))
    return SUCCESS


def _mig_count(gpu: GpuState, _cards: Sequence[Card], count: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    target(count).value = 0 if gpu.mig_devices is None else _MIG_DEVICES_MAX
    return SUCCESS


def _mig_device(gpu: GpuState, _cards: Sequence[Card], index: Any, _device: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    return SUCCESS if whole(index) < (gpu.mig_devices or 0) else NOT_FOUND


def _compute(gpu: GpuState, _cards: Sequence[Card], count: Any, processes: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    given = target(count).value
    target(count).value = len(gpu.processes)
    if not gpu.processes:
        return SUCCESS
    if processes is None or given < len(gpu.processes):
        return INSUFFICIENT_SIZE
    for place, (pid, memory_mb) in enumerate(gpu.processes):
        processes[place].pid = _number(gpu, "pid", pid) & 0xFFFFFFFF
        processes[place].usedGpuMemory = memory_mb * _MIB
    return SUCCESS


def _graphics(_gpu: GpuState, _cards: Sequence[Card], count: Any, _processes: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    target(count).value = 0
    return SUCCESS


def _link_state(gpu: GpuState, cards: Sequence[Card], link: Any, active: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    if not gpu.card.model.lanes:
        return NOT_SUPPORTED
    if whole(link) >= gpu.card.model.lanes:
        return INVALID_ARGUMENT
    target(active).value = int(whole(link) < len(far_ends(gpu.card, cards)))
    return SUCCESS


def _link_type(gpu: GpuState, cards: Sequence[Card], link: Any, kind: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    ends = far_ends(gpu.card, cards)
    if whole(link) >= len(ends):
        return INVALID_ARGUMENT
    target(kind).value = _SWITCH if ends[whole(link)][1] else 0
    return SUCCESS


def _link_pci(gpu: GpuState, cards: Sequence[Card], link: Any, pci: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    ends = far_ends(gpu.card, cards)
    if whole(link) >= len(ends):
        return INVALID_ARGUMENT
    bus = ends[whole(link)][0]
    _fill_pci(target(pci), bus, f"00000000:{bus:02X}:00.0")
    return SUCCESS


def _ancestor(gpu: GpuState, cards: Sequence[Card], other: Any, level: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    number = number_of(other)
    if not 0 <= number < len(cards):
        return INVALID_ARGUMENT
    target(level).value = common_ancestor(gpu.card, cards[number])
    return SUCCESS


def _event_types(_gpu: GpuState, _cards: Sequence[Card], types: Any) -> int:  # noqa: ANN401 - as ctypes takes them
    target(types).value = _EVENT_XID
    return SUCCESS


DEVICE_CALLS: Final[dict[str, tuple[tuple[str, ...], DeviceCall]]] = {
    "nvmlDeviceGetUUID": (("uuid",), _uuid),
    "nvmlDeviceGetName": (("model",), _name),
    "nvmlDeviceGetMinorNumber": (("minor",), _minor),
    "nvmlDeviceGetPciInfo_v3": (("pci_bus_id",), _pci),
    "nvmlDeviceGetMemoryInfo": (("memory_used_mb", "memory_total_mb"), _memory),
    "nvmlDeviceGetMemoryInfo_v2": (("memory_used_mb", "memory_total_mb"), _memory),
    "nvmlDeviceGetUtilizationRates": (("sm_percent", "memory_percent"), _utilisation),
    "nvmlDeviceGetTemperature": (("temperature_c",), _temperature),
    "nvmlDeviceGetPowerUsage": (("power_w",), _power),
    "nvmlDeviceGetCurrentClocksEventReasons": (("throttle_reasons",), _reasons),
    "nvmlDeviceGetTotalEccErrors": ((), _ecc),
    "nvmlDeviceGetMigMode": (("mig_enabled",), _mig_mode),
    "nvmlDeviceGetMaxMigDeviceCount": (("mig_enabled",), _mig_count),
    "nvmlDeviceGetMigDeviceHandleByIndex": (("mig_enabled",), _mig_device),
    "nvmlDeviceGetComputeRunningProcesses_v3": (("processes",), _compute),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": (("processes",), _graphics),
    "nvmlDeviceGetNvLinkState": (("links",), _link_state),
    "nvmlDeviceGetNvLinkRemoteDeviceType": (("links",), _link_type),
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": (("links",), _link_pci),
    "nvmlDeviceGetTopologyCommonAncestor": (("links",), _ancestor),
    "nvmlDeviceGetSupportedEventTypes": ((), _event_types),
}
"""Name in C; the fields that fail with it; what it does. It gets the card, all cards, and the call's arguments after the handle."""
